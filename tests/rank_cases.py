"""Trainings for tests over several ranks, and the processes that run them.

Rank 0 is this file, run as a program; the other ranks are the command line itself. That
``tests/conftest.py`` is here makes it importable for the tests that compare.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch.distributed import TCPStore

from brute_force import random_graph
from privgcn.config import Settings
from privgcn.errors import RankLostError
from privgcn.graph import DenseRows, TextGraph
from privgcn.training.fit import fit
from privgcn.training.fitted import Fit
from privgcn.training.ranks import Ranks, Team
from privgcn.training.recipes import make_settings

STEPS_BEFORE_THE_LOSS = 6


class Case(NamedTuple):
    """A training: documents, settings and seeds."""

    graph: TextGraph
    settings: Settings
    seeds: Sequence[int] | None = None

    def fit(self, **options: Any) -> Fit:
        columns = {"ward": np.arange(len(self.graph)) % 5}
        return fit(self.graph, self.settings, seeds=self.seeds, columns=columns, **options)


def _settings(recipe: str, **changes: Any) -> Settings:
    usual = {
        "privacy.noise_multiplier": 1.0,
        "privacy.delta": 1e-4,
        "privacy.reproducible": True,
        "training.epochs": 6,
    }
    named = {name.replace("__", "."): value for name, value in changes.items()}
    return make_settings(recipe, changes={**usual, **named})


def _one_way(documents: int = 90) -> TextGraph:
    """Dense rows with much in common, which is taken off them."""
    graph = random_graph(documents, 16, sparse=False, owners=20)
    return replace(graph, features=DenseRows(0.3 * graph.features.dense() + 1.0))


def _silent(features: int, classes: int) -> TextGraph:
    """Documents without labels: every sum is zero, and what is left of a step is noise."""
    graph = random_graph(40, features, classes, unlabelled=1.0)
    return replace(graph, labels=torch.full((40,), -1))


SPARSE = random_graph(101, 12, owners=20)
SECRET = {"privacy__reproducible": False}

CASES: dict[str, Case] = {
    "auto": Case(SPARSE, _settings("auto")),
    "auto, dense": Case(_one_way(), _settings("auto", privacy__noise_multiplier=0.02)),
    "auto, dense, sampled": Case(
        _one_way(),
        _settings(
            "auto",
            privacy__noise_multiplier=0.02,
            privacy__sampling="poisson",
            privacy__sampling_probability=0.3,
        ),
    ),
    "auto, sampled": Case(
        SPARSE,
        _settings("auto", privacy__sampling="poisson", privacy__sampling_probability=0.2),
    ),
    "auto, people": Case(SPARSE, _settings("auto", privacy__unit="person")),
    "auto, dense, people": Case(
        _one_way(), _settings("auto", privacy__unit="person", privacy__noise_multiplier=0.02)
    ),
    "auto, one after the other": Case(
        SPARSE, _settings("auto", privacy__sampling="epoch", training__epochs=1)
    ),
    "paper-full": Case(SPARSE, _settings("paper-full")),
    "paper-split": Case(SPARSE, _settings("paper-split")),
    "paper-split, sgd": Case(
        _one_way(), _settings("paper-split", training__optimizer="sgd", model__hidden=5)
    ),
    "three parts, people, dropout": Case(
        random_graph(240, 12, owners=30),
        _settings("paper-split", privacy__unit="person", privacy__parts=3),
    ),
    "each sampled, dropout": Case(
        SPARSE,
        _settings(
            "paper-split",
            privacy__unit="document",
            privacy__parts="each",
            privacy__sampling_probability=0.3,
            training__epochs=3,
        ),
    ),
    "public parts": Case(
        SPARSE, _settings("paper-split", privacy__parts="column:ward", privacy__sampling="all")
    ),
    "two seeds": Case(
        SPARSE, _settings("paper-split", privacy__sampling="all", privacy__parts=4), [3, 4]
    ),
    "two seeds, one by one": Case(
        _one_way(), _settings("auto", privacy__noise_multiplier=0.02), [3, 4]
    ),
}
"""Must give the same tensors on one rank and on several."""

NOISE = Case(
    _silent(400, 20),
    _settings(
        "paper-split",
        model__kind="linear",
        training__optimizer="sgd",
        training__epochs=1,
        privacy__sampling="all",
        privacy__parts=4,
        **SECRET,
    ),
)
"""One secret step whose sum is zero."""

LONG = Case(SPARSE, _settings("paper-split", training__epochs=40))
"""A training in which a rank gets lost."""


@contextmanager
def started(
    size: int, leader: Sequence[str], *, others: int | None = None, seconds: float = 60.0
) -> Iterator[list[subprocess.Popen[str]]]:
    """Rank 0 with a command of its own, and the others as ``privgcn train``.

    As under torchrun, the place where they meet belongs to none of them.
    """
    store = TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
    commands = [list(leader)] + [["-m", "privgcn", "train", "anything"]] * (size - 1)
    processes = [
        subprocess.Popen(
            [sys.executable, *command],
            env={
                **os.environ,
                "PYTHONPATH": os.pathsep.join([str(Path(__file__).parent), *sys.path]),
                "RANK": str(rank),
                "WORLD_SIZE": str(size),
                "MASTER_ADDR": "127.0.0.1",
                "MASTER_PORT": str(store.port),
                "TORCHELASTIC_USE_AGENT_STORE": "True",
                "OMP_NUM_THREADS": "1",
                "TORCH_CPP_LOG_LEVEL": "ERROR",
                "PRIVGCN_RANK_TIMEOUT": str(seconds),
            },
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for rank, command in enumerate(commands[: 1 + (size - 1 if others is None else others)])
    ]
    try:
        yield processes
    finally:
        for process in processes:
            process.kill()
            process.communicate()


def program(*arguments: str) -> list[str]:
    """The command of rank 0."""
    return [__file__, *arguments]


def _every_case(folder: Path, team: Team) -> None:
    for name, case in CASES.items():
        (folder / name).write_bytes(case.fit(team=team).serialised())
    for number in range(2):
        fitted = NOISE.fit(team=team)
        assert fitted.releasable
        (folder / f"noise {number}").write_bytes(fitted.serialised())


def _long(folder: Path, team: Team) -> None:
    """Says when enough steps were taken, then waits to be shot at."""

    def progress(done: int, total: int) -> None:
        if done == STEPS_BEFORE_THE_LOSS and not (folder / "go").exists():
            (folder / "now").touch()
            while not (folder / "go").exists():
                time.sleep(0.01)

    fitted = LONG.fit(team=team, checkpoint_folder=folder / "state", progress=progress)
    (folder / "model").write_bytes(fitted.serialised())


if __name__ == "__main__":
    work = {"cases": _every_case, "long": _long}[sys.argv[1]]
    try:
        with Ranks.of_environment().joined() as joined:
            assert joined is not None
            work(Path(sys.argv[2]), joined)
    except RankLostError as error:
        print(f"Error: {error}", file=sys.stderr, flush=True)
        os._exit(error.exit_code)
