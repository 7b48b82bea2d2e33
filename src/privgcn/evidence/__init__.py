"""Evidence: audits that measure a claim from below, and attacks on released models."""
