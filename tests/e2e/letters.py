"""Letters of a user's own, and the program as a user starts it."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from privgcn.cli.app import app

RUN = [sys.executable, "-m", "privgcn"]
WORDS = {"heart": "pulse pressure valve beat", "skin": "rash itch cream spot"}
SPLITS = ("train", "train", "train", "train", "validation", "test")
PRIVATE = ("--epsilon", "8", "--delta", "1e-4", "--features", "hashing")


def letters(
    folder: Path, numbers: range = range(240), *, split: bool = True, owners: int | None = None
) -> Path:
    """Letters of two kinds, each with a word of its own, and edges within a kind."""
    folder.mkdir(parents=True, exist_ok=True)
    lines, edges = [], ["source,target"]
    for number in numbers:
        kind = ("heart", "skin")[number % 2]
        record: dict[str, Any] = {"id": f"d{number}", "label": kind}
        record["text"] = f"{WORDS[kind]} letter {number % 7} word{number}"
        if split:
            record["split"] = SPLITS[number // 2 % 6]
        if owners is not None:
            record["owner"] = f"p{number % owners}"
        lines.append(json.dumps(record))
        if number - 12 in numbers:
            edges.append(f"d{number},d{number - 12}")
    (folder / "documents.jsonl").write_text("\n".join(lines) + "\n")
    (folder / "edges.csv").write_text("\n".join(edges) + "\n")
    return folder


def call(*words: object) -> str:
    """What a command prints that must succeed."""
    done = CliRunner().invoke(app, list(map(str, words)), catch_exceptions=False)
    assert done.exit_code == 0, done.output
    return done.stdout


def record_of(*words: object) -> dict[str, Any]:
    """What a command prints with ``--json``."""
    return dict(json.loads(call(*words, "--json")))


def notes_of(*words: object) -> str:
    """What a command says on stderr."""
    done = CliRunner().invoke(app, list(map(str, words)), catch_exceptions=False)
    assert done.exit_code == 0, done.output
    return done.stderr


def ended(monkeypatch: pytest.MonkeyPatch, *words: object) -> int:
    """The exit code of the whole program."""
    from privgcn.cli import main

    monkeypatch.setattr(sys, "argv", ["privgcn", *map(str, words)])
    monkeypatch.setattr("os._exit", sys.exit)
    # Once the program is stopped it hears no further signal.
    monkeypatch.setattr("signal.signal", lambda *_: None)
    with pytest.raises(SystemExit) as stopped:
        main()
    return int(stopped.value.code or 0)
