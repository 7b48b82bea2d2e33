"""The tutorials run from top to bottom, as a reader would."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest
from typer.testing import CliRunner

from privgcn.cli import app

ROOT = Path(__file__).resolve().parents[2]
TUTORIALS = sorted((ROOT / "docs" / "tutorials").glob("*.md"))


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
        elif kind == "sh":
            for line in block.strip().splitlines():
                program, *arguments = shlex.split(line)
                assert program == "privgcn"
                done = CliRunner().invoke(app, arguments, catch_exceptions=False)
                assert done.exit_code == 0, (line, done.output)
    if path.stem == "your-own-documents":
        rows = Path("predictions.csv").read_text().splitlines()[1:]
        assert [row.split(",")[1] for row in rows] == ["delivery", "billing"]
