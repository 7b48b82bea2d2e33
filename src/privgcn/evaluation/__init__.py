"""Evaluation: metrics, their intervals, baselines and non-private references."""
