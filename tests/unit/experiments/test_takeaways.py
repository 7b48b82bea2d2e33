"""Verdicts follow the numbers: the same rules on different records give other verdicts."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from privgcn.experiments import table1
from privgcn.experiments.disagreements import disagreements
from privgcn.experiments.grid import Task
from privgcn.experiments.hard_cases import baseline, kept_errors
from privgcn.experiments.packing import pack
from privgcn.experiments.results import Options, Results, cell
from privgcn.experiments.store import RecordStore
from privgcn.experiments.takeaways import (
    FAILS,
    NOT_MEASURED,
    PARTLY,
    SURVIVES,
    takeaways,
    verdict,
)
from privgcn.experiments.tasks import resolve_point
from privgcn.report.figures import Figure

SEEDS = (0, 1)


def _record(store: RecordStore, kind: str, point: dict[str, Any], score: float) -> None:
    truth = np.zeros(100, dtype=np.int64)
    predicted = (np.arange(100) >= round(100 * score)).astype(np.int64)
    result = {
        "scores": {mode: {"micro_f1": score} for mode in ("alone", "own-graph", "full-graph")},
        "majority": 0.3,
        "classes": ["a", "b"],
        "documents": {"train": 100, "test": 100},
        "truth": pack(truth),
        "predicted": {mode: pack(predicted) for mode in ("alone", "own-graph", "full-graph")},
    }
    task = Task(kind, resolve_point(kind, point), SEEDS)
    store.add(task, [result, result], 1.0)


def _fill(store: RecordStore, name: str, *, sound: float, few: float, auto: float) -> None:
    for optimizer in ("sgd", "adam"):
        base = {"dataset": name, "optimizer": optimizer}
        _record(store, "train", {**base, "recipe": "plain"}, 0.8)
        for epsilon in (2, 137):
            point = {**base, "recipe": "paper-full", "epsilon": epsilon}
            _record(store, "train", point, sound)
        point = {**base, "recipe": "paper-full", "epsilon": 2, "fraction": 0.25}
        _record(store, "train", point, sound)
        for epsilon in (1, 2):
            point = {**base, "recipe": "paper-split", "epsilon": epsilon}
            _record(store, "train", point, sound + 0.1)
        _record(store, "as-released", {**base, "epsilon": 2}, 0.4)
    point = {"dataset": name, "recipe": "auto", "epsilon": 2}
    _record(store, "train", point, auto)
    _record(store, "train", {**point, "fraction": 0.25}, few)


@pytest.mark.parametrize(
    ("judged", "expected"),
    [([], NOT_MEASURED), ([True], SURVIVES), ([False], FAILS), ([True, False], PARTLY)],
)
def test_a_verdict_is_the_agreement_of_datasets(judged: list[bool], expected: str) -> None:
    assert verdict(judged) == expected


def test_at_chance_nothing_survives(tmp_path: Path) -> None:
    with RecordStore(tmp_path) as store:
        _fill(store, "cora", sound=0.1, few=0.5, auto=0.7)
        found = takeaways(Results(store, SEEDS), ["cora", "pokec-like"])
    assert [one.verdict for one in found] == [FAILS, FAILS, NOT_MEASURED, FAILS, FAILS]
    assert "0.100 at epsilon 2" in found[0].evidence[0]
    assert "0.500 with 25 % and 0.700 with all data" in found[3].evidence[0]


def test_other_numbers_give_other_verdicts(tmp_path: Path) -> None:
    with RecordStore(tmp_path) as store:
        _fill(store, "cora", sound=0.6, few=0.7, auto=0.7)
        _fill(store, "pubmed", sound=0.1, few=0.5, auto=0.7)
        found = takeaways(Results(store, SEEDS), ["cora", "pubmed"])
    assert [one.verdict for one in found] == [PARTLY, FAILS, NOT_MEASURED, PARTLY, PARTLY]


def test_disagreements_have_a_reason_with_its_evidence(tmp_path: Path) -> None:
    with RecordStore(tmp_path) as store:
        _fill(store, "cora", sound=0.1, few=0.5, auto=0.7)
        table = disagreements(Results(store, SEEDS))
    reasons = {tuple(row[:4]): row[-1] for row in table["rows"]}
    assert len(reasons) == 5 * 9
    assert reasons["cora", "non-private", "sgd", None] == "agrees"
    assert reasons["cora", "non-private", "adam", None].startswith("below: the released code")
    full = reasons["cora", "private, full graph", "sgd", 2]
    assert full.startswith("below: the published score comes from gradients that nothing clips")
    assert full.endswith("gives 0.400, which is within 0.05 of the published score")
    assert reasons["cora", "majority", "-", None] == "agrees"
    assert reasons["reddit", "non-private", "sgd", None].startswith("not run")


def test_hard_cases_are_counted_seed_by_seed(tmp_path: Path) -> None:
    with RecordStore(tmp_path) as store:
        _record(store, "train", baseline("cora"), 0.8)
        noisy = {"dataset": "cora", "optimizer": "sgd", "epsilon": 2}
        _record(store, "as-released", noisy, 0.9)
        results = Results(store, SEEDS)
        # Twenty hard cases, the last twenty documents; the other run errs on the last ten.
        assert kept_errors(results, "cora", "as-released", noisy) == {"mean": 0.5, "std": 0.0}
        missing = {**noisy, "epsilon": 5}
        assert kept_errors(results, "cora", "as-released", missing) is None


def test_one_value_has_no_deviation() -> None:
    assert cell([]) is None
    assert cell([0.5]) == {"mean": 0.5, "std": None}
    assert cell([0.4, 0.6]) == pytest.approx({"mean": 0.5, "std": 0.02**0.5})


def test_table_1_draws_its_four_columns_where_they_are_known(tmp_path: Path) -> None:
    with RecordStore(tmp_path) as store:
        _fill(store, "cora", sound=0.1, few=0.5, auto=0.7)
        made = table1.present(Results(store, SEEDS), Options(("cora", "pokec-like"), SEEDS))
    (drawn,) = made.figures
    bars = {series["name"]: series["points"] for series in drawn["series"]}
    assert bars == {
        "majority class": [["cora", 0.3, None]],
        "published": [["cora", 0.52, None]],
        "as released": [["cora", 0.4, 0.0]],
        "done soundly": [["cora", 0.1, 0.0]],
        "auto": [["cora", 0.7, 0.0]],
    }
    assert Figure.from_dict(drawn).kind == "bar"
