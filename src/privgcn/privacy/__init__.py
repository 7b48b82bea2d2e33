"""The claim: what a run may say about privacy, and how anyone computes it again."""
