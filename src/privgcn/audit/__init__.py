"""Audits, which measure a claim from below, and attacks on released models."""
