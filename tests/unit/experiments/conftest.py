from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from privgcn.experiments.store import RecordStore

HERE = str(Path(__file__).parent)
if HERE not in sys.path:
    # Tests, worker processes and cluster nodes all import the tiny task by its name.
    sys.path.insert(0, HERE)


@pytest.fixture(autouse=True)
def _tiny_task_importable(monkeypatch: pytest.MonkeyPatch) -> None:
    paths = [HERE, *[path for path in sys.path if path]]
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(dict.fromkeys(paths)))


@pytest.fixture
def store(tmp_path: Path) -> Iterator[RecordStore]:
    """An open store without records."""
    with RecordStore(tmp_path) as opened:
        yield opened


@pytest.fixture(scope="session")
def letters(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A folder of eighty short letters in two classes."""
    folder = tmp_path_factory.mktemp("letters")
    words = (["garden", "rain", "seed"], ["engine", "wheel", "oil"])
    rows = [
        {
            "id": str(number),
            "text": f"letter {number} about {words[number % 2][number % 3]}",
            "label": ["plants", "cars"][number % 2],
            "split": ["train", "train", "validation", "test", "test"][number % 5],
        }
        for number in range(80)
    ]
    lines = "".join(json.dumps(row) + "\n" for row in rows)
    (folder / "documents.jsonl").write_text(lines, encoding="utf-8")
    links = "".join(f"{number},{number + 2}\n" for number in range(78))
    (folder / "edges.csv").write_text(f"source,target\n{links}", encoding="utf-8")
    return str(folder)
