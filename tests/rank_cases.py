"""Trainings for tests over several ranks, and the processes that run them.

Rank 0 is a function of this file or the command line; the other ranks are the command line.
All are copies of a process that has imported everything, so that they start at once. That
``tests/conftest.py`` is here makes this file importable for the tests that compare.
"""

from __future__ import annotations

import multiprocessing
import os
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from multiprocessing import forkserver
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch.distributed import TCPStore

from brute_force import random_graph
from privgcn.config import Settings, make_settings
from privgcn.errors import RankLostError
from privgcn.experiments.local import _interrupts_held
from privgcn.graph import DenseRows, TextGraph
from privgcn.training.fit import fit
from privgcn.training.fitted import Fit
from privgcn.training.ranks import Ranks, Team

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


@dataclass(frozen=True)
class Rank:
    """A process, and the files that hold its words."""

    process: BaseProcess
    words: Path

    def signal(self, number: int) -> None:
        assert self.process.pid is not None
        os.kill(self.process.pid, number)

    def ended(self, seconds: float = 300.0) -> tuple[int, str, str]:
        """Exit code, standard output and standard error."""
        self.process.join(seconds)
        assert self.process.exitcode is not None, "the rank goes on and on"
        out, err = (self.words.with_suffix(end).read_text() for end in (".out", ".err"))
        return self.process.exitcode, out, err


@contextmanager
def started(
    size: int, leader: Sequence[str], *, others: int | None = None, seconds: float = 60.0
) -> Iterator[list[Rank]]:
    """Rank 0 with a command of its own, and the others as ``privgcn train``.

    As under torchrun, the place where they meet belongs to none of them.
    """
    store = TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
    commands = [list(leader)] + [["train", "anything"]] * (size - 1)
    meeting = {
        "WORLD_SIZE": str(size),
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(store.port),
        "TORCHELASTIC_USE_AGENT_STORE": "True",
        "PRIVGCN_RANK_TIMEOUT": str(seconds),
    }
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["rank_cases", "privgcn.cli", "privgcn.runs.train"])
    with _interrupts_held():  # other tests may take copies of the same process
        forkserver.ensure_running()
    with tempfile.TemporaryDirectory() as folder:
        ranks = []
        for number, command in enumerate(commands[: size if others is None else 1 + others]):
            words = Path(folder) / str(number)
            given = (command, {**meeting, "RANK": str(number)}, words)
            ranks.append(Rank(context.Process(target=_rank, args=given), words))
            ranks[-1].process.start()
        try:
            yield ranks
        finally:
            for rank in ranks:
                rank.process.kill()
                rank.process.join()


def _rank(command: Sequence[str], environment: Mapping[str, str], words: Path) -> None:
    """The life of a rank, with files in place of a terminal."""
    for descriptor, end in ((1, ".out"), (2, ".err")):
        os.dup2(os.open(words.with_suffix(end), os.O_CREAT | os.O_WRONLY), descriptor)
    os.environ.update(environment)
    if command[0] in _WORK:
        _lead(command[0], Path(command[1]))
        return
    from privgcn.cli import main

    sys.argv = ["privgcn", *command]
    main()


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


_WORK = {"cases": _every_case, "long": _long}


def _lead(work: str, folder: Path) -> None:
    """Rank 0 of a training that is no command."""
    try:
        with Ranks.of_environment().joined() as joined:
            assert joined is not None
            _WORK[work](folder, joined)
    except RankLostError as error:
        print(f"Error: {error}", file=sys.stderr, flush=True)
        os._exit(error.exit_code)
