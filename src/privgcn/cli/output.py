"""How verbs speak: results on stdout, notes and progress on stderr, JSON with ``--json``."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from privgcn.errors import ConfigError, one_line

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import Progress, TaskID

Verbosity = Literal["quiet", "usual", "verbose"]

STANDARD_OUTPUT = Path("-")
"""The file name that means standard output."""

_verbosity: Verbosity = "usual"


def verbosity() -> Verbosity:
    """How much the verb that is running says."""
    return _verbosity


def set_verbosity(chosen: Verbosity) -> None:
    """Says how much the verb that is about to run will say."""
    global _verbosity
    _verbosity = chosen


def leads() -> bool:
    """Whether this process speaks: of the ranks that torchrun starts, the first one alone."""
    return os.environ.get("RANK", "0") == "0"


def say(text: str = "") -> None:
    """Prints a result."""
    if leads():
        print(text)


def note(text: str) -> None:
    """Says something beside the result, on stderr, unless ``--quiet`` was given."""
    if _verbosity != "quiet" and leads():
        print(text, file=sys.stderr)


def detail(text: str) -> None:
    """Says what only ``--verbose`` asks for."""
    if _verbosity == "verbose":
        note(text)


def print_json(record: dict[str, Any]) -> None:
    """Prints exactly one JSON object to stdout."""
    say(json.dumps(record, indent=2, allow_nan=False))


def print_table(
    title: str | None, columns: dict[str, bool], rows: list[tuple[str, ...]], *, after: int = -1
) -> None:
    """Prints a table as wide as the terminal is; in a pipe nothing is cut.

    Args:
        title: Above the table.
        columns: Their names, and whether they hold numbers.
        rows: The cells, as plain text.
        after: The row before which a line is drawn, if any.
    """
    from rich.table import Table
    from rich.text import Text

    table = Table(title=None if title is None else Text(title), title_justify="left")
    for name, numeric in columns.items():
        table.add_column(name, justify="right" if numeric else "left", no_wrap=numeric)
    for number, row in enumerate(rows):
        if number == after:
            table.add_section()
        table.add_row(*map(Text, row))
    if leads():
        _console().print(table)


def _console(*, stderr: bool = False) -> Console:
    from rich.console import Console

    console = Console(stderr=stderr)
    return console if console.is_terminal else Console(stderr=stderr, width=160)


def print_error(kind: str, message: str, exit_code: int) -> None:
    """One line on stderr, or one JSON object on stdout where ``--json`` was given."""
    line = one_line(message)
    if wants_json():
        error = {"kind": kind, "message": line, "exit_code": exit_code}
        print(json.dumps({"error": error}, indent=2))
    else:
        print(f"Error: {line}", file=sys.stderr)


def wants_json() -> bool:
    """Whether ``--json`` is among the words of the command line."""
    words = sys.argv[1:]
    return "--json" in words[: words.index("--") if "--" in words else None]


def check_out(out: Path, is_ours: Callable[[Path], bool], *, as_json: bool = False) -> None:
    """Refuses a file that must not be written; to be called before any work.

    Args:
        out: The file, or standard output.
        is_ours: Whether a file that is there already may be replaced.
        as_json: Whether standard output is taken.

    Raises:
        ConfigError: It lies in a run, holds something of the user's, or cannot be written.
    """
    from privgcn.files import check_output
    from privgcn.runs.folder import is_stored

    if out == STANDARD_OUTPUT:
        if as_json:
            raise ConfigError(
                "The options --json and --out - both write to standard output. Leave one of "
                "them out."
            )
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


@contextmanager
def shown_progress() -> Iterator[None]:
    """Shows what the block is doing, with the time so far and, where counted, the time left.

    On stderr; nothing where that is no terminal.
    """
    if not sys.stderr.isatty() or verbosity() == "quiet" or not leads():
        yield
        return
    from rich.progress import (
        BarColumn,
        Progress,
        TaskProgressColumn,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )

    from privgcn.progress import watched

    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TaskProgressColumn(),
        TimeElapsedColumn(),
        TextColumn("{task.fields[left]}"),
        TimeRemainingColumn(),
    )
    bar = Progress(*columns, console=_console(stderr=True), transient=True)
    with bar, watched(_Bar(bar)):
        yield


class _Bar:
    """One line for what runs just now."""

    def __init__(self, bar: Progress) -> None:
        self._bar = bar
        self._task: TaskID | None = None

    def begin(self, name: str) -> None:
        """The line before gives way; an empty name only takes it away."""
        if self._task is not None:
            self._bar.remove_task(self._task)
        self._task = self._bar.add_task(name, total=None, left="") if name else None

    def advance(self, done: int, total: int) -> None:
        """Moves the bar; until then it only says that something runs."""
        if self._task is not None:
            self._bar.update(self._task, completed=done, total=total, left="left:")
