"""The command line: one file per verb, parsing only."""

from privgcn.cli.app import app, main

__all__ = ["app", "main"]
