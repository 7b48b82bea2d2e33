"""How verbs speak: results on stdout, notes and progress on stderr, JSON with ``--json``."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from privgcn.errors import ConfigError, one_line

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import Progress

    from privgcn.report.tables import Table

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


def print_json(record: dict[str, Any]) -> None:
    """Prints exactly one JSON object to stdout."""
    say(json.dumps(record, indent=2, allow_nan=False))


def print_table(table: Table) -> None:
    """Prints a table as wide as the terminal is; in a pipe nothing is cut."""
    from rich.table import Table as Drawn
    from rich.text import Text

    drawn = Drawn(title=Text(table.title), title_justify="left")
    for index, name in enumerate(table.columns):
        numeric = table.numeric(index)
        drawn.add_column(name, justify="right" if numeric else "left", no_wrap=numeric)
    for row in table.texts():
        drawn.add_row(*map(Text, row))
    if leads():
        _console().print(drawn)


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


def watched_by_a_person() -> bool:
    """Whether somebody at a terminal wants to see what goes on."""
    return sys.stderr.isatty() and verbosity() != "quiet" and leads()


@contextmanager
def shown_progress(stage: str = "") -> Iterator[None]:
    """Shows what the block is doing, with the time so far and, where counted, the time left.

    On stderr; nothing where that is no terminal.

    Args:
        stage: What it begins with.
    """
    from privgcn import progress

    if not watched_by_a_person():
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

    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TaskProgressColumn(),
        TimeElapsedColumn(),
        TextColumn("{task.fields[left]}"),
        TimeRemainingColumn(),
    )
    bar = Progress(*columns, console=_console(stderr=True), transient=True)
    with bar, progress.watched(_Bar(bar)):
        progress.begin(stage)
        yield


@dataclass
class _Bar:
    """One line for what runs just now."""

    bar: Progress

    def begin(self, name: str) -> None:
        """The line before gives way; an empty name only takes it away."""
        for task in self.bar.task_ids:
            self.bar.remove_task(task)
        if name:
            self.bar.add_task(name, total=None, left="")

    def advance(self, done: int, total: int) -> None:
        """Moves the bar; until then it only says that something runs."""
        for task in self.bar.task_ids:
            self.bar.update(task, completed=done, total=total, left="left:")
