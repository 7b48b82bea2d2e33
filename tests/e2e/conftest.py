from __future__ import annotations

from pathlib import Path

import pytest

from e2e.letters import PRIVATE, call, letters


@pytest.fixture(scope="session")
def shelf(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Letters with owners, a private run on them, its release, and a run without privacy."""
    folder = tmp_path_factory.mktemp("shelf")
    source = letters(folder / "letters", owners=240)
    call("train", source, *PRIVATE, "--out", folder / "run")
    call("release", folder / "run", folder / "released")
    plain = ["--features", "hashing", "--set", "training.epochs=5"]
    call("train", source, *plain, "--out", folder / "plain")
    return folder
