"""Pages: the report of a run, of several runs side by side, and the privacy card."""
