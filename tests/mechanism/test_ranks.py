"""Several processes train what one would, to the bit; a lost one ends them all."""

import os
import signal
import subprocess
import sys
import time
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from brute_force import plan_of, random_graph
from privgcn.errors import ConfigError, RankLostError
from privgcn.graph import partition
from privgcn.mechanism import Groups, RandomSource, Ranks, Session, SoftmaxGradient, Statistics
from privgcn.mechanism.ranks import TIMEOUT

NAMES = ("RANK", "WORLD_SIZE", "MASTER_ADDR")


# -- what the ranks do -------------------------------------------------------------------------

CASES = {
    "documents": {},
    "sampled": {"probability": 0.3},
    "people": {"by": "owner"},
    "random groups": {"groups": 7, "probability": 0.5},
    "one after the other": {"groups": 5, "sampling": "epoch"},
}


def session_of(ranks, graph, *, secret=False, **fields):
    plan = plan_of(graph, **fields)
    source = RandomSource.secret() if secret else RandomSource.seeded(1, "ranks")
    groups = Groups.of_plan(plan, graph, ranks=ranks)
    return Session(plan, groups, source if ranks.leads else None)


def linear(ranks, sparse, fields):
    """A few steps of a linear model; each rank has its own documents' features only."""
    graph = random_graph(101, 9, 3, sparse=sparse, owners=20)
    fields = {"noise": 0.05, "steps": 5, **fields}
    if not sparse:
        group = partition(plan_of(graph, **fields).partition, 101, graph.owners, {})
        rows = np.where(ranks.holds(group)[:, None], graph.features, np.nan)
        graph = replace(graph, features=rows)
    session = session_of(ranks, graph, **fields)
    assert not session.releasable
    made, weights = [session.query(Statistics())], np.zeros((9, 3))
    if session.dense:
        session.center(made[0][:9] / Statistics.ROW)
    while session.remaining:
        made.append(session.query(SoftmaxGradient(weights, np.zeros(3))))
        weights = weights - made[-1]
    return made


def network(ranks, fields):
    """A few steps of a network with dropout."""
    import torch
    from torch import nn

    from privgcn.mechanism import ModuleGradient

    torch.set_num_threads(1)
    torch.manual_seed(0)
    module = nn.Sequential(nn.Linear(9, 8), nn.ReLU(), nn.Dropout(), nn.Linear(8, 3))
    graph = random_graph(101, 9, 3, owners=20)
    session = session_of(ranks, graph, noise=0.05, steps=4, **fields)
    question = ModuleGradient(module, lambda own: (torch.from_numpy(own.features),))
    return [session.query(question) for _ in range(4)]


def everything(ranks):
    made = {}
    for name, fields in CASES.items():
        made[f"{name}, dense"] = linear(ranks, False, fields)
        made[f"{name}, sparse"] = linear(ranks, True, fields)
        if name != "documents":
            made[f"{name}, network"] = network(ranks, fields)
    return {name: np.concatenate([a.ravel() for a in own]) for name, own in made.items()}


def secret(ranks):
    """Secret noise is one for all ranks, and another in every run."""
    session = session_of(ranks, random_graph(20, 9, 3), secret=True)
    assert session.releasable, "all ranks know"
    return {"secret": session.query(Statistics())}


def work(task, folder):
    """The life of a rank."""
    try:
        with Ranks.of_environment() as ranks:
            if task == "everything":
                made = everything(ranks) | secret(ranks)
                np.savez(folder / f"{ranks.number}.npz", **made)
            if task == "lose one":
                ranks.share(np.zeros(1))
                (folder / f"ready {ranks.number}").touch()
                if ranks.number == 1:
                    time.sleep(600)
                ranks.sum(np.zeros(1))
    except RankLostError as error:
        print(f"Error: {error}", file=sys.stderr)
        sys.exit(error.exit_code)


@contextmanager
def started(task, size, folder, seconds=120):
    """The processes, with the place where they meet held by none of them."""
    from torch.distributed import TCPStore

    store = TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
    here = Path(__file__).parents[1]
    code = (
        f"import sys; sys.path[:0] = [{str(here)!r}, {str(here / 'mechanism')!r}];"
        f"import test_ranks; from pathlib import Path;"
        f"test_ranks.work({task!r}, Path({str(folder)!r}))"
    )
    environment = {
        **os.environ,
        "WORLD_SIZE": str(size),
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(store.port),
        "TORCHELASTIC_USE_AGENT_STORE": "True",
        "OMP_NUM_THREADS": "1",
        TIMEOUT: str(seconds),
    }
    ranks = [
        subprocess.Popen(
            [sys.executable, "-c", code],
            env={**environment, "RANK": str(number)},
            stderr=subprocess.PIPE,
            text=True,
        )
        for number in range(size)
    ]
    try:
        yield ranks
    finally:
        for rank in ranks:
            rank.kill()
            rank.communicate()


# hazard 7
def test_a_session_sums_over_the_ranks_that_its_groups_were_made_for():
    """Two sources of this fact could differ, and each document would be added twice."""
    graph = random_graph(20, 9, 3)
    plan = plan_of(graph)
    with pytest.raises(TypeError, match="ranks"):
        Session(plan, Groups.of_plan(plan, graph), None, ranks=Ranks(1, 2))
    with pytest.raises(ValueError, match="Rank 0 must have a random source"):
        Session(plan, Groups.of_plan(plan, graph), None)
    groups = Groups.of_plan(plan, graph, ranks=Ranks(1, 2))
    assert len(groups.private.labels) == 10
    with pytest.raises(ValueError, match="and no other rank"):
        Session(plan, groups, RandomSource.secret())


# hazard 7
@pytest.mark.parametrize("size", [2, pytest.param(3, marks=pytest.mark.slow)])
def test_ranks_give_the_bits_of_one_process(size, tmp_path):
    with started("everything", size, tmp_path) as ranks:
        for rank in ranks:
            assert rank.communicate(timeout=300)[1] == ""
            assert rank.returncode == 0
    expected = everything(Ranks())
    made = [dict(np.load(tmp_path / f"{number}.npz")) for number in range(size)]
    for own in made:
        for name, values in expected.items():
            assert np.array_equal(own[name], values), name
        assert np.array_equal(own["secret"], made[0]["secret"])
    assert not np.array_equal(made[0]["secret"], secret(Ranks())["secret"])


SLOW = [pytest.param(way, marks=pytest.mark.slow) for way in ("silent", "told to end")]


@pytest.mark.parametrize("way", ["killed", *SLOW])
def test_a_lost_rank_ends_the_run_with_one_clear_line(way, tmp_path):
    seconds = 3 if way == "silent" else 120
    with started("lose one", 2, tmp_path, seconds) as (leader, other):
        while not all((tmp_path / f"ready {number}").exists() for number in (0, 1)):
            time.sleep(0.05)
            assert leader.poll() is None
        if way == "killed":
            other.kill()
        if way == "told to end":
            other.terminate()
            assert other.communicate(timeout=60)[1].startswith("Error: A rank was lost")
            assert other.returncode == 1
        words = leader.communicate(timeout=100)[1]
    assert leader.returncode == 1
    assert words.startswith("Error: A rank was lost: its process ended or was told to end")
    assert len(words.splitlines()) == 1


# -- what the environment says -----------------------------------------------------------------


@pytest.fixture
def environment(monkeypatch):
    for name in (*NAMES, TIMEOUT):
        monkeypatch.delenv(name, raising=False)
    return monkeypatch


def say(environment, *values):
    for name, value in zip(NAMES, values, strict=False):
        environment.setenv(name, value)


@pytest.mark.parametrize("values", [(), ("1", "2"), ("0", "1", "here")])
def test_without_all_of_torchruns_words_or_with_one_process_nobody_joins(environment, values):
    say(environment, *values)
    with Ranks.of_environment() as ranks:
        assert (ranks.number, ranks.size, ranks.leads) == (0, 1, True)
        assert ranks.holds(np.arange(5)).all()
        assert ranks.sum(np.ones(2)).tolist() == [1.0, 1.0]
    assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL


def test_torchruns_words_are_taken_and_ranks_hold_whole_groups(environment):
    say(environment, "3", "4", "here")
    ranks = Ranks.of_environment()
    assert (ranks.number, ranks.size, ranks.leads) == (3, 4, False)
    group = np.random.default_rng(0).integers(0, 30, 500)
    held = [set(group[Ranks(number, 4).holds(group)]) for number in range(4)]
    assert sum(map(len, held)) == len(set.union(*held)) == 30


@pytest.mark.parametrize("text", ["0", "-1", "nan", "1.5", "100000"])
def test_the_time_to_wait_is_checked_before_anything_is_joined(environment, text):
    say(environment, "1", "2", "here")
    environment.setenv(TIMEOUT, text)
    with pytest.raises(ConfigError, match=TIMEOUT), Ranks.of_environment():
        pass
