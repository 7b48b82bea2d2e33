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
