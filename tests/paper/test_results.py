"""Records, the table of them, and the hard cases."""

import json

import numpy as np
import pytest

from paper.fake_runs import all_points, record, records
from privgcn.errors import DataError
from privgcn_paper.results import PAPER_MODE, Runs, key_of, read_records, write_record

POINT = {"dataset": "cora", "recipe": "auto", "epsilon": 2.0}
BASE = {"dataset": "cora", "recipe": "plain", "optimizer": "sgd"}
EMULATED = {**BASE, "recipe": "as-released"}


class TestRecords:
    def test_come_back_by_the_hash_of_run_and_seed(self, tmp_path):
        write_record(tmp_path, record(POINT, 3))
        assert read_records(tmp_path) == {key_of(POINT, 3): record(POINT, 3)}
        assert key_of(POINT, 3) == key_of(dict(reversed(POINT.items())), 3)
        assert len({key_of(POINT, 3), key_of(POINT, 4), key_of(BASE, 3)}) == 3

    @pytest.mark.parametrize(
        "content",
        [
            *(b"", b'{"point": {"dataset": "co', b"\xff\xfe", b"[]", b"null"),
            json.dumps({"point": POINT, "seed": 0}).encode(),
            json.dumps(record(POINT, 1)).encode(),
        ],
    )
    def test_a_corrupt_or_renamed_one_counts_as_missing(self, tmp_path, content):
        (tmp_path / f"{key_of(POINT, 0)}.json").write_bytes(content)
        assert read_records(tmp_path) == {}


class TestTable:
    def test_is_the_same_bytes_in_any_order_and_read_again(self, tmp_path):
        made = list(records(all_points(quick=True)))
        first, second, third = (tmp_path / name for name in ("a.csv", "b.csv", "c.csv"))
        Runs.of_records(made).write(first)
        Runs.of_records(reversed(made)).write(second)
        again = Runs.read(first)
        again.write(third)
        assert first.read_bytes() == second.read_bytes() == third.read_bytes()
        assert len(again.rows) == len(made)
        line = again.rows[7]["line"]
        assert first.read_text().splitlines()[line - 1].startswith(again.rows[7]["dataset"])

    def test_keeps_every_kind_of_value(self, tmp_path):
        point = {**POINT, "split": [0.6, 0.2], "changes": {"training.epochs": 3}, "clip": True}
        named = {"dataset": "2024", "recipe": "plain", "features": "null"}
        made = [record(point, seconds=float("nan")), record(named)]
        Runs.of_records(made).write(tmp_path / "a.csv")
        rows = {row["dataset"]: row for row in Runs.read(tmp_path / "a.csv").rows}
        assert {name: rows["cora"][name] for name in point} == point
        assert {name: rows["2024"][name] for name in named} == named
        assert "seconds" not in rows["cora"]

    def test_a_file_of_other_columns_is_refused(self, tmp_path):
        (tmp_path / "a.csv").write_text("dataset,recipe\n")
        with pytest.raises(DataError, match="no table of runs"):
            Runs.read(tmp_path / "a.csv")


class TestLookup:
    def test_mean_and_deviation_over_the_seeds_of_a_run(self):
        runs = Runs.of_records(records([POINT, BASE, {**POINT, "fraction": 0.5}], seeds=3))
        values = [row[f"micro {PAPER_MODE}"] for row in runs.of(**POINT)]
        score = runs.score(**POINT)
        assert len(values) == 3
        assert score == pytest.approx((np.mean(values), np.std(values, ddof=1)))
        # Whole numbers and axes that are not named are the same run.
        assert runs.of(**{**POINT, "epsilon": 2, "fraction": None}) == runs.of(**POINT)
        assert runs.of(**{**POINT, "epsilon": 1}) == []
        assert runs.score("micro no-mode", **POINT) is None

    def test_facts_are_of_all_training_documents(self):
        rows = [record({**POINT, "fraction": 0.5}, train=6), record(POINT, train=12)]
        runs = Runs.of_records(rows)
        assert (runs.fact("cora", "train"), runs.fact("pubmed", "train")) == (12, None)


HALF = {**BASE, "fraction": 0.5}


@pytest.mark.parametrize(
    ("made", "last"),
    [
        # The fraction of the errors of SGD without privacy, on all data, that stay errors.
        ([(BASE, 0, [0, 1, 2, 3])], 1.0),
        ([(BASE, 0, [0, 1, 2, 3]), (HALF, 0, [2, 3, 4])], 0.5),
        # Each seed has its own, and so has the released code.
        ([(BASE, 0, [0]), (BASE, 1, [5]), (HALF, 1, [5])], 1.0),
        ([(BASE, 0, [0]), (BASE, 1, [5]), (HALF, 0, [5])], 0.0),
        ([(BASE, 0, [0]), (EMULATED, 0, [1]), ({**EMULATED, "epsilon": 2.0}, 0, [1])], 1.0),
        # Where nothing is hard, there is no fraction.
        ([(POINT, 0, [1])], None),
        ([(BASE, 0, [])], None),
    ],
)
def test_hard_cases(made, last):
    runs = Runs.of_records(record(p, seed, errors=errors) for p, seed, errors in made)
    point, seed, _ = made[-1]
    (row,) = [row for row in runs.of(**point) if row["seed"] == seed]
    assert row.get("hard") == last
