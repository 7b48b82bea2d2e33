"""Evaluation: metrics and baselines."""
