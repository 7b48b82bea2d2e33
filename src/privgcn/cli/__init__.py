"""The command line: parsing only; verbs of one concept share a file.

Nothing is imported before :func:`main` guards it: Ctrl-C ends in one line from the beginning.
"""

from __future__ import annotations

STOPPED = "Stopped. Nothing unfinished was left behind."


def main() -> None:
    """Runs the command line.

    The exit code is 0, 2 (user), 3 (data not available), 4 (a rank was lost), 5 (an audit
    found a claim broken), 130 (stopped) or 1 (bug, or nobody reads what is printed).
    """
    import os
    import signal
    import sys

    if hasattr(signal, "setitimer"):
        # Python drops an interrupt that comes inside a finalizer or a callback of an import:
        # it comes again until somebody has taken it.
        signal.signal(signal.SIGALRM, signal.default_int_handler)
        signal.signal(
            signal.SIGINT,
            lambda *call: (
                signal.setitimer(signal.ITIMER_REAL, 2.0, 2.0),
                signal.default_int_handler(*call),
            ),
        )
    try:
        from privgcn.cli.app import run

        code = run(sys.argv[1:])
        sys.stdout.flush()
    except BrokenPipeError:
        # What is left to print goes nowhere, at the end of the process too.
        code = 1
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except KeyboardInterrupt:
        code = 130
    if hasattr(signal, "setitimer"):
        signal.setitimer(signal.ITIMER_REAL, 0.0)
    if code != 130:
        sys.exit(code)
    from contextlib import suppress

    signal.signal(signal.SIGINT, signal.SIG_IGN)
    with suppress(OSError):
        # Of several ranks the first speaks for all.
        if os.environ.get("RANK", "0") == "0":
            print(STOPPED, file=sys.stderr)
        sys.stdout.flush()
        sys.stderr.flush()
    # Everything is unwound. Where the interrupt met an 'exec', as in the making of a dataclass,
    # Python would end by the signal and not with the exit code.
    os._exit(130)
