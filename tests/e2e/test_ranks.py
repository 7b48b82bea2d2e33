"""One model over several processes, started by torchrun as a user starts it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from e2e.letters import PRIVATE

LIMIT = 300
FILES = ("model.safetensors", "scores.json")
TORCHRUN = ["-m", "torch.distributed.run", "--nproc-per-node", "2"]


def started(launcher: list[str], *words: object, **environment: str) -> Any:
    return subprocess.run(
        [sys.executable, *launcher, "-m", "privgcn", *map(str, words)],
        capture_output=True,
        text=True,
        timeout=LIMIT,
        env={**os.environ, **environment},
    )


@pytest.mark.slow
def test_torchrun_leaves_the_tensors_and_scores_of_one_process(
    tmp_path: Path, shelf: Path
) -> None:
    tensors = []
    # In folders of their own: a run beside another of the same documents says so.
    for name, launcher in (("one/run", []), ("two/run", TORCHRUN)):
        words = ["train", shelf / "letters", *PRIVATE, "--features", "static", "--json"]
        done = started(launcher, *words, "--reproducible", "--out", tmp_path / name)
        assert done.returncode == 0, done.stderr
        # One rank prints one object, and speaks on stderr.
        assert json.loads(done.stdout)["run"] == str(tmp_path / name)
        assert done.stderr.count("Each document is protected by itself") == 1
        tensors.append([(tmp_path / name / file).read_bytes() for file in FILES])
    assert tensors[0] == tensors[1]
    assert sorted(path.parent.name for path in tmp_path.glob("*/*")) == ["one", "two"]


@pytest.mark.parametrize("rank", ["0", "1"])
def test_only_train_shares_its_work(rank: str) -> None:
    done = started([], "tune", "clinic", RANK=rank, WORLD_SIZE="2")

    assert done.returncode == 2
    if rank == "1":
        assert (done.stdout, done.stderr) == ("", "")
    else:
        assert done.stderr.startswith("Error: 'privgcn tune' runs in one process")
        assert done.stderr.count("\n") == 1


@pytest.mark.slow
def test_a_mistake_is_told_by_the_first_rank_alone() -> None:
    done = started(TORCHRUN, "train", "clinic", "--features", "hashing")
    errors = [line for line in done.stderr.splitlines() if line.startswith("Error: ")]

    assert done.returncode != 0
    assert len(errors) == 1, done.stderr
    assert "Training without privacy runs in one" in errors[0]
