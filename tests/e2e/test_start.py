"""How the program starts: by name or as a module, with help for every verb."""

from __future__ import annotations

import subprocess
import sys

import pytest
from typer.main import get_command
from typer.testing import CliRunner

from privgcn import __version__
from privgcn.cli import app

VERBS = list(get_command(app).commands)  # type: ignore[attr-defined]


@pytest.mark.parametrize("verb", [None, *VERBS])
def test_help_has_two_names(verb: str | None) -> None:
    words = [] if verb is None else [verb]
    short, long = (CliRunner().invoke(app, [*words, flag]) for flag in ("-h", "--help"))
    assert short.exit_code == long.exit_code == 0
    assert short.stdout == long.stdout
    assert "Usage" in short.stdout


def test_help_imports_little() -> None:
    words = [sys.executable, "-X", "importtime", "-m", "privgcn", "--help"]
    done = subprocess.run(words, capture_output=True, text=True)
    imported = {line.rpartition("|")[2].strip() for line in done.stderr.splitlines()}
    assert "privgcn.cli.app" in imported
    assert not imported & {"numpy", "pydantic", "torch"}


def test_the_package_runs_as_a_module() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "privgcn", "--version"], capture_output=True, text=True
    )
    assert done.stdout == f"privgcn {__version__}\n"
    assert done.returncode == 0


HELP = """
import sys
from privgcn.cli import main
sys.argv = ["privgcn", *{words}]
try:
    main()
except SystemExit as stopped:
    assert stopped.code in (0, 2)
slow = {{"markdown_it", "pygments", "rich.markdown", "rich.traceback", "numpy", "torch"}}
assert slow.isdisjoint(sys.modules), slow & set(sys.modules)

import typer.rich_utils
from rich.markdown import Markdown
from rich.traceback import Traceback

assert isinstance(typer.rich_utils.Markdown("*a*"), Markdown)
try:
    raise ValueError("wrong")
except ValueError as error:
    made = typer.rich_utils.Traceback.from_exception(type(error), error, error.__traceback__)
assert isinstance(made, Traceback)
"""


@pytest.mark.parametrize("words", [["--help"], ["train", "-h"], []])
def test_help_imports_nothing_slow_and_leaves_all_as_it_was(words: list[str]) -> None:
    code = HELP.format(words=words)
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert "╭─ Options ─" in done.stdout
