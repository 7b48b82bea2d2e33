from __future__ import annotations

import os
from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def raw_data() -> Path:
    folder = os.environ.get("PRIVGCN_DATA")
    if not folder:
        pytest.skip("PRIVGCN_DATA is not set: the real datasets are not on this machine")
    return Path(folder)
