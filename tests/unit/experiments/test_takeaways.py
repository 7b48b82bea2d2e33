"""Verdicts follow the numbers: the same rules on different records give other verdicts."""

from __future__ import annotations

from typing import Any

import pytest
from fake_records import AS_RELEASED, SEEDS, fill, record

from privgcn.experiments.paper import feature_kinds, table1
from privgcn.experiments.paper.takeaways import (
    FAILS,
    PARTLY,
    SURVIVES,
    fragile,
    reach,
    takeaways,
    verdict,
)
from privgcn.experiments.results import Options, Results
from privgcn.experiments.store import RecordStore
from privgcn.report.results import NOT_MEASURED


@pytest.mark.parametrize(
    ("judged", "expected"),
    [([], NOT_MEASURED), ([0.1], SURVIVES), ([-0.1], FAILS), ([0.1, -0.1], PARTLY)],
)
def test_a_verdict_is_the_agreement_of_datasets(judged: list[float], expected: str) -> None:
    assert verdict(judged) == expected


def test_a_verdict_says_its_reach_and_where_it_is_fragile() -> None:
    leads = {"Cora": 0.2, "PubMed": -0.001, "Reddit": -0.2}
    assert reach(leads) == "holds on one of the three datasets that were run (Cora)"
    assert (
        reach({"Cora": 0.2, "PubMed": 0.1}) == "holds on all of the two datasets that were run"
    )
    assert reach({"Cora": 0.2}) == "holds on Cora, the only one that was run"
    assert reach({"Cora": -0.2}) == "does not hold on Cora, the only one that was run"
    assert reach({}) == ""
    assert fragile(leads) == ["PubMed"]


def test_at_chance_nothing_survives(store: RecordStore) -> None:
    fill(store, "cora", sound=0.1, few=0.5, auto=0.7)
    found = takeaways(Results(store, SEEDS), ["cora", "pokec-like"])
    assert [one.verdict for one in found] == [FAILS, FAILS, NOT_MEASURED, FAILS, FAILS]
    assert "at epsilon 2 0.100" in found[0].evidence[0]
    assert "0.500 with 25 % and 0.700 with all data" in found[3].evidence[0]


def test_other_numbers_give_other_verdicts(store: RecordStore) -> None:
    fill(store, "cora", sound=0.6, few=0.7, auto=0.7)
    fill(store, "pubmed", sound=0.1, few=0.5, auto=0.7)
    found = takeaways(Results(store, SEEDS), ["cora", "pubmed"])
    assert [one.verdict for one in found] == [PARTLY, FAILS, NOT_MEASURED, PARTLY, PARTLY]
    assert found[0].reach == "holds on one of the two datasets that were run (Cora)"
    assert found[0].leads == pytest.approx({"Cora": 0.03, "PubMed": -0.23})
    assert found[0].evidence[0].endswith("; holds by 0.030.")


def test_a_leg_that_was_not_measured_is_not_passed(store: RecordStore) -> None:
    """What ``reproduce as-released --quick`` leaves: no plain run and no epsilon 137."""
    for optimizer in ("sgd", "adam"):
        base = {"dataset": "cora", "optimizer": optimizer, "epsilon": 2}
        record(store, AS_RELEASED, base, 0.4)
        record(store, "train", {**base, "recipe": "paper-full"}, 0.5)
    first, second, _, fourth, fifth = takeaways(Results(store, SEEDS), ["cora"])
    assert first.verdict == fourth.verdict == fifth.verdict == NOT_MEASURED
    assert second.verdict == FAILS
    assert "the majority class alone 0.300" in first.evidence[0]
    assert first.evidence[0].endswith(
        "not measured here, so not judged: at epsilon 137, on ten parts at epsilon 1."
    )


@pytest.mark.parametrize("point", [{"epsilon": 137}, {"recipe": "paper-split", "epsilon": 1}])
def test_each_leg_of_robustness_counts(point: dict[str, Any], store: RecordStore) -> None:
    sgd = {"dataset": "cora", "optimizer": "sgd", "recipe": "paper-full"}
    every = [{"epsilon": 2}, {"epsilon": 137}, {"recipe": "paper-split", "epsilon": 1}]
    for one in every:
        if one != point:
            record(store, "train", {**sgd, **one}, 0.6)
    assert takeaways(Results(store, SEEDS), ["cora"])[0].verdict == NOT_MEASURED
    record(store, "train", {**sgd, **point}, 0.6)
    assert takeaways(Results(store, SEEDS), ["cora"])[0].verdict == SURVIVES


def test_without_the_majority_nothing_is_judged(store: RecordStore) -> None:
    for optimizer, score in (("sgd", 0.5), ("adam", 0.6)):
        point = {"dataset": "cora", "optimizer": optimizer, "recipe": "paper-full"}
        record(store, "train", {**point, "epsilon": 2}, score)
    for one in store:
        del one["result"]["majority"]
    second = takeaways(Results(store, SEEDS), ["cora"])[1]
    assert second.verdict == NOT_MEASURED


def test_more_data_is_judged_over_every_method(store: RecordStore) -> None:
    point = {"dataset": "cora", "recipe": "auto", "epsilon": 2}
    for share in (0.25, 1.0):
        record(store, "train", {**point, "fraction": share}, 0.6)
    fourth = takeaways(Results(store, SEEDS), ["cora"])[3]
    assert fourth.verdict == NOT_MEASURED
    assert "not judged: paper, sound, SGD, paper, sound, Adam" in fourth.evidence[0]


def test_splitting_compares_an_optimiser_with_itself(store: RecordStore) -> None:
    """The quick size splits with Adam only: a better full-graph SGD is no rival of it."""
    for optimizer, score in (("sgd", 0.9), ("adam", 0.5)):
        point = {"dataset": "cora", "optimizer": optimizer, "epsilon": 2}
        record(store, "train", {**point, "recipe": "paper-full"}, score)
    split = {"dataset": "cora", "recipe": "paper-split", "optimizer": "adam"}
    record(store, "train", {**split, "epsilon": 1}, 0.6)
    assert takeaways(Results(store, SEEDS), ["cora"])[4].verdict == NOT_MEASURED
    record(store, "train", {**split, "epsilon": 2}, 0.6)
    fifth = takeaways(Results(store, SEEDS), ["cora"])[4]
    assert fifth.verdict == SURVIVES
    assert fifth.evidence[0].startswith("Cora, Adam only: full graph at epsilon 2 0.500")


def test_one_rate_alone_is_said_to_be_one(store: RecordStore) -> None:
    fill(store, "cora", sound=0.1, few=0.5, auto=0.7)
    alone = takeaways(Results(store, SEEDS), ["cora"])[1]
    changes = {"training.learning_rate": 0.1}
    point = {"dataset": "cora", "optimizer": "adam", "recipe": "paper-full", "epsilon": 2}
    record(store, "train", {**point, "changes": changes}, 0.6)
    tuned = takeaways(Results(store, SEEDS), ["cora"])[1]
    assert "Adam was run at the one rate 10" in alone.evidence[0]
    assert alone.verdict == FAILS
    assert "Adam is the best of its rates 0.1, 10" in tuned.evidence[0]
    assert tuned.verdict == SURVIVES


def test_features_are_judged_in_both_modes(
    store: RecordStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        feature_kinds, "kinds", lambda name: ["bow", "tfidf"] if name == "cora-text" else []
    )
    for kind, covered in (("bow", 0.5), ("tfidf", 0.7)):
        point = {"dataset": "cora-text", "features": kind}
        record(store, "train", {**point, "recipe": "plain", "optimizer": "adam"}, 0.8)
        scores = {"alone": 0.4, "own-graph": covered, "full-graph": 0.7}
        record(store, "train", {**point, "recipe": "auto", "epsilon": 2}, scores)
    third = takeaways(Results(store, SEEDS), [])[2]
    assert len(third.evidence) == 2
    sound = {**point, "recipe": "paper-full", "optimizer": "sgd", "epsilon": 2}
    record(store, "train", sound, 0.31)
    more = takeaways(Results(store, SEEDS), [])[2]
    assert third.verdict == f"{PARTLY} (own-graph: {SURVIVES}; full-graph: {FAILS})"
    assert more.verdict == third.verdict
    assert more.evidence[2] == (
        "Cora-text, full-graph: the paper's own method with clipping at epsilon 2 scores tfidf "
        "with SGD 0.310; the majority class alone 0.300."
    )


def test_table_1_draws_its_four_columns_where_they_are_known(store: RecordStore) -> None:
    fill(store, "cora", sound=0.1, few=0.5, auto=0.7)
    made = table1.present(Results(store, SEEDS), Options(("cora", "pokec-like"), SEEDS))
    (drawn,) = made.figures
    bars = {series.name: series.points for series in drawn.series}
    assert bars == {
        "majority class": (("Cora", 0.3, None),),
        "published": (("Cora", 0.52, None),),
        "as released": (("Cora", 0.4, 0.0),),
        "done soundly": (("Cora", 0.1, 0.0),),
        "auto": (("Cora", 0.7, 0.0),),
    }
    assert drawn.kind == "bar"
