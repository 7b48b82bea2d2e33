from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

HERE = str(Path(__file__).parent)


@pytest.fixture(autouse=True)
def _tiny_task_importable(monkeypatch: pytest.MonkeyPatch) -> None:
    """Worker processes and cluster nodes import the tiny task by its name."""
    monkeypatch.syspath_prepend(HERE)
    paths = [HERE, *[path for path in sys.path if path]]
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(dict.fromkeys(paths)))
