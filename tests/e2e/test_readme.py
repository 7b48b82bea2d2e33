"""Every command and Python snippet of the README runs as it stands."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest
from typer.testing import CliRunner

from privgcn.cli import app

ROOT = Path(__file__).resolve().parents[2]
TEXT = (ROOT / "README.md").read_text(encoding="utf-8")
FENCES = re.findall(r"```(\w+)\n(.*?)```", TEXT, flags=re.DOTALL)
COMMANDS = [
    line.split("#")[0].strip()
    for kind, block in FENCES
    if kind == "sh"
    for line in block.splitlines()
    if line.strip()
]
INLINE = re.findall(r"`(privgcn [a-z]+ --[^`]*)`", TEXT)


def test_the_readme_has_commands_and_snippets() -> None:
    assert [kind for kind, _ in FENCES].count("python") >= 1
    assert any(command.startswith("privgcn train") for command in COMMANDS)
    assert len(INLINE) >= 2


def test_make_targets_exist() -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    for command in COMMANDS:
        if command.startswith("make"):
            assert re.search(rf"^{command.split()[1]}:", makefile, flags=re.MULTILINE)


def test_commands_run_one_after_the_other_and_again(tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    for command in [*COMMANDS, *INLINE, *COMMANDS]:
        program, *arguments = shlex.split(command)
        if program == "privgcn":
            done = CliRunner().invoke(app, arguments, catch_exceptions=False)
            assert done.exit_code == 0, (command, done.output)
    assert (tmp_path / "released" / "card.md").exists()


@pytest.mark.parametrize("code", [block for kind, block in FENCES if kind == "python"])
def test_snippets_run(code: str, tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    for _ in range(2):
        exec(compile(code, "README.md", "exec"), {})
    assert (tmp_path / "model" / "statement.json").exists()


def test_links_lead_somewhere() -> None:
    for target in re.findall(r"\]\(([^)#:]+)\)", TEXT):
        assert (ROOT / target).exists(), target
