"""How verbs speak: results on stdout, notes and progress on stderr, JSON with ``--json``."""

from __future__ import annotations

import inspect
import json
import sys
from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from privgcn.errors import ConfigError, one_line

Overwrite = Annotated[
    bool,
    typer.Option(
        "--overwrite", help="Replace the run or release in that folder, and only its own files."
    ),
]
Voice = Literal["quiet", "usual", "verbose"]

STANDARD_OUTPUT = Path("-")
"""The file name that means standard output."""

_Quiet = Annotated[
    bool, typer.Option("--quiet", "-q", help="Print the result only: no notes, no progress.")
]
_Verbose = Annotated[
    bool, typer.Option("--verbose", "-v", help="Print all settings, and where an error arose.")
]
_voice: Voice = "usual"


def voice() -> Voice:
    """How much the verb that is running says."""
    return _voice


def speaking(command: Callable[..., None]) -> Callable[..., None]:
    """The same verb with the options ``--quiet`` and ``--verbose``."""
    own = inspect.signature(command, eval_str=True)
    last = inspect.Parameter.KEYWORD_ONLY
    more = [
        inspect.Parameter("quiet", last, default=False, annotation=_Quiet),
        inspect.Parameter("verbose", last, default=False, annotation=_Verbose),
    ]

    @wraps(command)
    def spoken(
        *arguments: Any, quiet: bool = False, verbose: bool = False, **options: Any
    ) -> None:
        global _voice
        _voice = "quiet" if quiet else "verbose" if verbose else "usual"
        command(*arguments, **options)

    signature = own.replace(parameters=[*own.parameters.values(), *more])
    spoken.__signature__ = signature  # type: ignore[attr-defined]
    spoken.__annotations__ = {name: p.annotation for name, p in own.parameters.items()}
    spoken.__annotations__ |= {"quiet": _Quiet, "verbose": _Verbose}
    return spoken


def note(text: str) -> None:
    """Says something beside the result, on stderr, unless ``--quiet`` was asked for."""
    if _voice != "quiet":
        typer.echo(text, err=True)


def detail(text: str) -> None:
    """Says what only ``--verbose`` asks for."""
    if _voice == "verbose":
        typer.echo(text, err=True)


def print_json(record: dict[str, Any]) -> None:
    """Prints exactly one JSON object to stdout."""
    typer.echo(json.dumps(record, indent=2, allow_nan=False))


def print_error(kind: str, message: str, exit_code: int) -> None:
    """One line on stderr, or one JSON object on stdout where ``--json`` was asked for."""
    line = one_line(message)
    if wants_json():
        print_json({"error": {"kind": kind, "message": line, "exit_code": exit_code}})
    else:
        print(f"Error: {line}", file=sys.stderr)


def wants_json() -> bool:
    """Whether ``--json`` is among the words of the command line."""
    words = sys.argv[1:]
    return "--json" in words[: words.index("--") if "--" in words else None]


def check_json_out(out: Path, *, as_json: bool) -> None:
    """Refuses two things on standard output.

    Raises:
        ConfigError: ``--json`` and ``--out -`` together.
    """
    if as_json and out == STANDARD_OUTPUT:
        raise ConfigError(
            "The options --json and --out - both write to standard output. Leave one of them "
            "out."
        )


def check_out(out: Path, is_ours: Callable[[Path], bool], *, as_json: bool = False) -> None:
    """Refuses a file that must not be written; to be asked before any work.

    Args:
        out: The file, or standard output.
        is_ours: Whether a file that is there already may be replaced.
        as_json: Whether standard output is taken.

    Raises:
        ConfigError: It lies in a run, holds something of the user's, or cannot be written.
    """
    from privgcn.files import check_output
    from privgcn.runs.folder import is_stored

    check_json_out(out, as_json=as_json)
    if out == STANDARD_OUTPUT:
        return
    if is_stored(out.absolute().parent):
        raise ConfigError(
            f"The folder {out.parent} is a run, model or release, which must stay as it is. "
            f"Got {out}. Name a file elsewhere."
        )
    check_output(out, is_ours)


def names_in(text: str | None) -> list[str] | None:
    """The names of a comma-separated list, without the spaces around them."""
    if text is None:
        return None
    return [name.strip() for name in text.split(",") if name.strip()]
