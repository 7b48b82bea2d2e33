"""Evaluation: inference modes, metrics and baselines."""
