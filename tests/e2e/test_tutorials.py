"""The tutorials run from top to bottom, as a reader would."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest
from typer.testing import CliRunner

from privgcn.cli import app
from privgcn.errors import PrivGCNError

ROOT = Path(__file__).resolve().parents[2]
TUTORIALS = sorted((ROOT / "docs" / "tutorials").glob("*.md"))
# What a command prints whatever its noise, the machine and its speed.
CERTAIN = ("Error: ", "Read ", "No column ", "verified: ", "Dry run: ")


def _printed(command: str) -> tuple[int, str]:
    program, *arguments = shlex.split(command)
    assert program == "privgcn"
    try:
        done = CliRunner().invoke(app, arguments, catch_exceptions=False)
    except PrivGCNError as error:
        return error.exit_code, f"Error: {error}"
    return done.exit_code, done.output


def _check_record(block: str) -> None:
    """A session with commands after ``$``: what it shows, as far as it is certain, is true."""
    for session in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
        command, *shown = session.strip().splitlines()
        certain = [line for line in shown if line.startswith(CERTAIN)]
        if not certain:
            continue
        code, output = _printed(command)
        output = " ".join(output.replace(f"{Path.cwd()}/", "").split())
        assert code == (2 if any(line.startswith("Error: ") for line in certain) else 0), output
        for line in certain:
            assert " ".join(line.split()) in output


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning")
@pytest.mark.parametrize("path", TUTORIALS, ids=lambda path: path.stem)
def test_a_tutorial_runs_from_top_to_bottom(path: Path, tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    blocks = re.findall(r"```(\w+)\n(.*?)```", path.read_text(encoding="utf-8"), re.DOTALL)
    assert blocks
    names: dict[str, object] = {}
    for kind, block in blocks:
        if kind == "python":
            exec(compile(block, path.name, "exec"), names)
        elif kind == "console":
            _check_record(block)
        elif kind == "sh":
            for line in block.strip().splitlines():
                code, output = _printed(line)
                assert code == 0, (line, output)
    if path.stem == "your-own-documents":
        rows = Path("predictions.csv").read_text().splitlines()[1:]
        assert [row.split(",")[1] for row in rows] == ["delivery", "billing"]
    if path.stem == "newcomer":
        # A model that is right half of the time; its noise is secret.
        rows = [row.split(",") for row in Path("answers.csv").read_text().splitlines()[1:]]
        assert [row[0] for row in rows] == ["n1", "n2"]
        assert {row[1] for row in rows} <= {"Billing", "Delivery", "Returns", "Account"}
