"""What an import may drag in."""

from __future__ import annotations

import subprocess
import sys

import pytest

HEAVY = {"torch", "torch_geometric", "sklearn", "polars", "matplotlib", "transformers", "ray"}


@pytest.mark.parametrize("imports", ["privgcn, privgcn.cli", "privgcn.graph"])
def test_these_start_without_heavy_imports(imports: str) -> None:
    probe = f"import sys, {imports}; print(*{{m.split('.')[0] for m in sys.modules}})"
    done = subprocess.run(
        [sys.executable, "-c", probe], capture_output=True, text=True, check=True
    )
    assert not HEAVY & set(done.stdout.split())
