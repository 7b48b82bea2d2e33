"""Runs: prepared once, trained, scored, written, read, released and searched for."""
