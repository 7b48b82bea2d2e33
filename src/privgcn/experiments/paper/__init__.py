"""The experiments of this one paper."""
