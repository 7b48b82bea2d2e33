from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from fake_records import AS_RELEASED, MAJORITY, SEEDS, record, result

from privgcn.config import make_settings
from privgcn.experiments.paper import released_code, table1
from privgcn.experiments.paper.emulation import SPLIT_LEARNING_RATES
from privgcn.experiments.paper.mapping import baseline, kept_errors
from privgcn.experiments.paper.targets import TARGETS
from privgcn.experiments.predictions import errors_spread
from privgcn.experiments.results import Options, Results
from privgcn.experiments.store import RecordStore
from privgcn.report import MeanStd

PLAIN = {"dataset": "cora", "optimizer": "sgd", "epsilon": None}
NOISY = {"dataset": "cora", "optimizer": "sgd", "epsilon": 2}


def test_hard_cases_are_counted_seed_by_seed(store: RecordStore) -> None:
    # Emulated runs meet the hard cases of the emulated model, not those of ours.
    record(store, "train", baseline("cora"), 0.1)
    record(store, AS_RELEASED, PLAIN, 0.8)
    record(store, AS_RELEASED, NOISY, 0.9)
    results = Results(store, SEEDS)
    # Twenty hard cases, the last twenty documents; the other run errs on the last ten.
    assert kept_errors(results, AS_RELEASED, NOISY) == MeanStd(0.5, 0.0)
    missing = {**NOISY, "epsilon": 5}
    assert kept_errors(results, AS_RELEASED, missing) is None


def test_hard_cases_of_a_seed_meet_errors_of_that_seed(store: RecordStore) -> None:
    record(store, AS_RELEASED, PLAIN, 0.8, seeds=(0,))
    record(store, AS_RELEASED, PLAIN, 0.6, seeds=(1,))
    record(store, AS_RELEASED, NOISY, 0.8, seeds=(1,))
    found = kept_errors(Results(store, SEEDS), AS_RELEASED, NOISY)
    # Seed 1 has forty hard cases, of which twenty stay; against seed 0 all would.
    assert found == MeanStd(0.5, None)


def test_errors_that_go_one_way_do_not_spread() -> None:
    one_way = np.array([[0.5, 0.5, 0.0], [1.0, 0.0, 0.0], [0.0, 0.0, 1.0]])
    assert errors_spread(one_way) == pytest.approx(1.0)
    both_ways = np.array([[0.5, 0.25, 0.25], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]])
    assert errors_spread(both_ways) == pytest.approx(2.0)
    assert errors_spread(np.eye(3)) == 0.0


@pytest.mark.parametrize(
    ("kind", "point"),
    [
        (AS_RELEASED, NOISY),
        ("train", {**NOISY, "recipe": "paper-full"}),
        ("train", {"dataset": "cora", "recipe": "auto", "epsilon": 1}),
    ],
)
def test_any_run_on_all_data_knows_the_majority(
    kind: str, point: dict[str, Any], store: RecordStore
) -> None:
    results = Results(store, SEEDS)
    record(store, kind, {**point, "fraction": 0.25}, 0.5)
    assert results.majority("cora") is None
    record(store, kind, point, 0.5)
    assert results.majority("cora") == MAJORITY
    assert results.majority("citeseer") is None


def test_settings_with_fewer_seeds_are_counted(store: RecordStore) -> None:
    options = Options(("cora",), (0, 1, 2))
    record(store, "train", {**NOISY, "recipe": "paper-full"}, 0.5, seeds=(0, 1, 2))
    results = Results(store, options.seeds)
    whole = table1.present(results, options).notes
    record(store, AS_RELEASED, NOISY, 0.5, seeds=(0, 2))
    record(store, "train", {"dataset": "cora", "recipe": "auto", "epsilon": 2}, 0.5)
    short = table1.present(results, options).notes
    assert not [note for note in whole if "fewer" in note]
    assert short == [
        *whole,
        "2 settings have fewer than 3 seeds here: each such mean is over the seeds that are "
        "there.",
    ]


@pytest.mark.parametrize("name", sorted(TARGETS))
def test_every_experiment_says_that_seeds_are_missing(name: str, store: RecordStore) -> None:
    own = {"mnist": "mnist", "features": "cora-text"}
    options = Options((own.get(name, "cora"),), (0, 1, 2))
    task = next(iter(TARGETS[name].plan(options)))
    store.add(task.with_seeds((1,)), [result(task.kind, 0.5)], 1.0)
    made = TARGETS[name].present(Results(store, options.seeds), options)
    assert [note for note in made.notes if note.startswith("1 setting has fewer than 3 seeds")]


def test_the_emulation_says_all_that_sound_runs_do_otherwise(store: RecordStore) -> None:
    """The rates, sampling and accounting that the note names are those of the settings."""
    options = Options(("cora",), SEEDS)
    notes = " ".join(released_code.present(Results(store, SEEDS), options).tables[0].notes)
    settings = make_settings("paper-split", epsilon=2, optimizer="adam")
    assert settings.privacy is not None
    assert settings.privacy.sampling == "poisson"
    assert "Poisson samples of parts" in notes
    assert settings.privacy.accountant is None
    assert "exact accounting" in notes
    rates = (settings.training.learning_rate, SPLIT_LEARNING_RATES["adam"])
    assert "learning rate, {:g}, instead of {:g}".format(*rates) in notes
    assert "the same recipe" not in notes


def test_sizes_of_datasets_that_are_not_here_are_shown(store: RecordStore) -> None:
    made = table1.present(Results(store, SEEDS), Options(("cora", "pokec-like"), SEEDS))
    sizes = {row[0]: row[1:4] for table in made.tables[3::4] for row in table.rows}
    assert sizes["pokec"] == (2, 16000, 2000)
    assert sizes["reddit"] == (41, 15252, 5643)
    assert sizes["pokec-like"] == (None, None, None)
