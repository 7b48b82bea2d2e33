"""Abstract and conclusion in numbers."""

from __future__ import annotations

import pytest
from fake_records import AS_RELEASED, MAJORITY, SEEDS, record

from privgcn.experiments.paper import headlines
from privgcn.experiments.paper.published import leaves
from privgcn.experiments.results import Options, Results
from privgcn.experiments.store import RecordStore


def _rows(results: Results, *datasets: str) -> dict[str, dict[str, object]]:
    table, *_ = headlines.present(results, Options(datasets, SEEDS))
    named = [dict(zip(table.columns, row, strict=True)) for row in table.rows]
    return {str(row["dataset"]): row for row in named}


def test_what_is_printed_follows_from_the_papers_own_tables(store: RecordStore) -> None:
    rows = _rows(Results(store, SEEDS), "cora")
    assert list(rows) == ["any", "cora", "pokec", "reddit"]
    for name in ("pokec", "reddit"):
        share = rows[name]["of the published table"]
        assert isinstance(share, float)
        assert round(share, 2) == rows[name]["as printed"] == leaves()[f"headlines.kept_{name}"]
    assert rows["any"]["as printed"] == 2.7
    assert rows["any"]["of the published table"] == pytest.approx(2.718, abs=1e-3)
    assert rows["any"]["done soundly"] is None
    assert rows["cora"]["of the published table"] == pytest.approx(0.56 / 0.88)


def test_shares_are_of_each_columns_own_best(store: RecordStore) -> None:
    cora = {"dataset": "cora"}
    for optimizer, plain, split in (("sgd", 0.5, 0.3), ("adam", 0.8, 0.2)):
        base = {**cora, "optimizer": optimizer}
        record(store, "train", {**base, "recipe": "plain"}, plain)
        private = {**base, "recipe": "paper-split", "epsilon": 1}
        record(store, "train", private, split)
        record(store, AS_RELEASED, {**base, "epsilon": None}, plain + 0.1)
        record(store, AS_RELEASED, {**base, "epsilon": 1, "parts": 10}, split + 0.3)
    record(store, "train", {**cora, "recipe": "auto", "epsilon": 1}, 0.6)
    whole = {**cora, "optimizer": "sgd", "recipe": "paper-full", "epsilon": 1}
    record(store, "train", whole, 0.3)
    rows = _rows(Results(store, SEEDS), "cora")
    row = rows["cora"]
    assert row["as released"] == pytest.approx(0.6 / 0.9)
    assert row["done soundly"] == pytest.approx(0.3 / 0.8)
    assert row["auto"] == pytest.approx(0.6 / 0.8)
    assert row["majority class"] == pytest.approx(MAJORITY / 0.8)
    assert rows["any"]["done soundly"] == 1.0, "epsilon 1 was run without splitting"


def test_stand_ins_are_apart(store: RecordStore) -> None:
    real, made = headlines.present(
        Results(store, SEEDS), Options(("cora", "pokec-like"), SEEDS)
    )
    assert [row[1] for row in real.rows] == ["any", "cora", "pokec", "reddit"]
    assert [row[1] for row in made.rows] == ["pokec-like"]
