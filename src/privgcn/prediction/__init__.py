"""Prediction: inference modes, and prediction by matching."""
