from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

HERE = str(Path(__file__).parent)
if HERE not in sys.path:
    # Tests, worker processes and cluster nodes all import the tiny task by its name.
    sys.path.insert(0, HERE)


@pytest.fixture(autouse=True)
def _tiny_task_importable(monkeypatch: pytest.MonkeyPatch) -> None:
    paths = [HERE, *[path for path in sys.path if path]]
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(dict.fromkeys(paths)))
