"""One table says which run answers each published number."""

from __future__ import annotations

import pytest

from privgcn.errors import ConfigError
from privgcn.experiments.paper import emulation
from privgcn.experiments.paper.mapping import claims, claims_of, fitting, rules, table1_claims
from privgcn.experiments.paper.published import leaves
from privgcn.experiments.paper.targets import TARGETS
from privgcn.experiments.results import Options
from privgcn.experiments.tasks import make_task

TRAINED = {"score", "mnist", "hard-cases"}


@pytest.mark.parametrize("leaf", leaves())
def test_every_leaf_is_mapped_exactly_once(leaf: str) -> None:
    ((pattern, fields),) = fitting(leaf)
    for rule in rules()[pattern]:
        ways = [bool(rule.setting), bool(rule.part_of), bool(rule.not_run)]
        assert sum(ways) == 1, "a row of its own, a part of another row, or a reason"
        if rule.part_of:
            other = claims_of(rule.part_of.format(**fields))
            assert any(str(leaves()[leaf]) in f"{c.setting} {c.row}" for c in other)


def test_every_entry_fits_a_leaf() -> None:
    used = {pattern for leaf in leaves() for pattern, _ in fitting(leaf)}
    assert used == set(rules())


def test_every_mapped_run_is_a_point_of_an_experiment() -> None:
    planned = set()
    for target in TARGETS.values():
        datasets = tuple(dict.fromkeys((*target.datasets, "cora")))
        if "mnist" in datasets:
            datasets = ("mnist",)
        planned |= {task.configuration for task in target.plan(Options(datasets, (0,)))}
    missing = set()
    for claim in claims():
        if claim.rule.measure not in TRAINED:
            continue
        if claim.rule.run is None:
            task = make_task(emulation.KIND, claim.emulated(), (0,))
        else:
            task = make_task("train", claim.sound(), (0,))
        if task.configuration not in planned:
            missing.add(claim.leaf)
    assert not missing


def test_a_claim_has_the_coordinates_of_its_leaf() -> None:
    (claim,) = claims_of("table1.cora.dp_split_eps1.adam")
    assert claim.told == 0.56
    assert claim.sound() == {
        "dataset": "cora",
        "optimizer": "adam",
        "epsilon": 1,
        "recipe": "paper-split",
    }
    assert claim.emulated() == {
        "dataset": "cora",
        "optimizer": "adam",
        "epsilon": 1,
        "parts": 10,
    }
    (curve,) = claims_of("text_claims.non_private_pubmed_sgd.at_10_percent")
    assert curve.sound()["fraction"] == 0.1
    assert curve.emulated()["epsilon"] is None
    (split,) = claims_of("text_claims.dp_cora_sgd_splits.splits_10")
    assert split.told == 0.55
    assert split.emulated() == {
        "dataset": "cora",
        "optimizer": "sgd",
        "epsilon": 2,
        "parts": 10,
    }
    (features,) = claims_of("pokec_features.fasttext.dp.eps137.sgd")
    assert features.sound()["features"] == "word-vectors"


def test_hard_cases_come_as_numbers() -> None:
    found = claims_of("text_claims.hard_cases_cora.dp_any_noise_just_over")
    assert [claim.told for claim in found] == [0.70, 0.70]
    assert [claim.rule.run is None for claim in found] == [True, False]


def test_a_dataset_without_published_scores_has_the_same_rows() -> None:
    ours, theirs = table1_claims("pokec-like"), table1_claims("pokec")
    assert [c.setting for c in ours] == [c.setting for c in theirs]
    assert {c.dataset for c in ours} == {"pokec-like"}
    assert {c.told for c in ours} == {None}


def test_an_unmapped_leaf_is_named() -> None:
    with pytest.raises(ConfigError, match=r"Got 0 for 'table9\.cora\.majority'"):
        claims_of("table9.cora.majority")
