"""How verbs speak: results on stdout, notes and progress on stderr, JSON with ``--json``."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeAlias

from privgcn.errors import ConfigError, one_line

if TYPE_CHECKING:
    from rich.progress import Progress

    from privgcn.report.tables import Table

Verbosity = Literal["quiet", "usual", "verbose"]
# A table, or a sentence; nothing where there is nothing to say.
Line: TypeAlias = "str | Table | None"
#: The file name that means standard output.
STANDARD_OUTPUT = Path("-")
# Wider than any table: where nobody watches, nothing is wrapped.
_WIDE = 1_000

_verbosity: Verbosity = "usual"
_as_json = False


class Answer(NamedTuple):
    """What a verb says: one object for ``--json``, or lines for people, but for empty ones."""

    record: dict[str, Any]
    lines: Sequence[Line]
    code: int = 0

    def show(self) -> None:
        """Prints one or the other."""
        record = json.dumps(self.record, indent=2, allow_nan=False)
        for line in [record] if _as_json else self.lines:
            if isinstance(line, str) and line:
                say(line)
            elif line:
                print_table(line)


def verbosity() -> Verbosity:
    """How much the verb that is running says."""
    return _verbosity


def wants_json() -> bool:
    """Whether ``--json`` was typed, as far as words were read at all."""
    words = sys.argv[1:]
    return _as_json or "--json" in words[: words.index("--") if "--" in words else None]


def set_manner(chosen: Verbosity = "usual", *, as_json: bool = False) -> None:
    """Says how the verb that is about to run will speak."""
    global _verbosity, _as_json
    _verbosity, _as_json = chosen, as_json


def leads() -> bool:
    """Whether this process speaks: of the ranks that torchrun starts, the first one alone."""
    return os.environ.get("RANK", "0") == "0"


def say(text: str) -> None:
    """Prints a result."""
    if leads():
        print(text)


def note(text: str) -> None:
    """Says something beside the result, on stderr, unless ``--quiet`` was given."""
    if text and _verbosity != "quiet" and leads():
        print(text, file=sys.stderr)


def print_table(table: Table) -> None:
    """Prints a table; on a terminal, texts are wrapped within their columns."""
    from rich.box import SIMPLE_HEAD
    from rich.console import Console
    from rich.table import Table as Drawn
    from rich.text import Text

    if not leads():
        return
    drawn = Drawn(box=SIMPLE_HEAD, header_style="", show_edge=False, pad_edge=False)
    for index, name in enumerate(table.columns):
        drawn.add_column(Text(name), justify="right" if table.numeric(index) else "left")
    for row in table.texts():
        drawn.add_row(*map(Text, row))
    print(table.title)
    Console(width=None if sys.stdout.isatty() else _WIDE).print(drawn)
    print(*table.notes, sep="\n", end="\n" if table.notes else "")


def print_error(kind: str, message: str, exit_code: int) -> None:
    """One line on stderr, or one JSON object on stdout where ``--json`` was given."""
    line = one_line(message)
    if wants_json():
        error = {"kind": kind, "message": line, "exit_code": exit_code}
        print(json.dumps({"error": error}, indent=2))
    else:
        print(f"Error: {line}", file=sys.stderr)


def check_out(out: Path, *, overwrite: bool) -> None:
    """Refuses, before any work, a file that must not or cannot be written."""
    from privgcn.files import check_room, writing
    from privgcn.runs.folder import is_stored

    if out == STANDARD_OUTPUT:
        if wants_json():
            raise ConfigError("--json and --out - both write to standard output. Use one.")
        return
    with writing(out):
        path = Path(os.path.realpath(out))
        if is_stored(path.parent):
            rule = "is in a run, model or release, which must stay as it is. Name another"
        elif path.exists() and not path.is_file():
            rule = "must be a regular file, or - for standard output. Name another"
        elif path.exists() and not overwrite:
            rule = "exists already. Add --overwrite to replace it, or name another"
        else:
            check_room(path)
            return
    raise ConfigError(f"The output file {out} {rule}.")


@contextmanager
def shown_progress(stage: str = "") -> Iterator[None]:
    """Shows on stderr what the block is doing, with the time left where it is counted.

    At a terminal a bar moves; elsewhere a long stage prints a line now and then.
    """
    from privgcn import progress

    watcher: progress.Watcher | None = None
    with ExitStack() as shown:
        if _verbosity == "quiet" or not leads():
            pass
        elif sys.stderr.isatty():
            from rich.console import Console
            from rich.progress import Progress

            bar = Progress(console=Console(stderr=True), transient=True)
            watcher = _Bar(shown.enter_context(bar))
        else:
            watcher = progress.Printed(30.0, sys.stderr, stages=False)
        with progress.watched(watcher):
            progress.begin(stage)
            yield


class _Bar(NamedTuple):
    """One line for what runs just now."""

    bar: Progress

    def begin(self, name: str) -> None:
        for task in self.bar.task_ids:
            self.bar.remove_task(task)
        if name:
            self.bar.add_task(name, total=None)

    def advance(self, done: int, total: int) -> None:
        for task in self.bar.task_ids:
            self.bar.update(task, completed=done, total=total)
