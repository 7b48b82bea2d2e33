"""``python -m privgcn`` is the command line."""

from privgcn.cli import main

main()
