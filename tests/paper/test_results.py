"""Records, the table of them, and the hard cases."""

from __future__ import annotations

import json

import numpy as np
import pytest

from paper.fake_runs import TRUTH, all_points, fill, record, records
from privgcn.errors import DataError
from privgcn_paper.results import (
    COLUMNS,
    PAPER_MODE,
    Runs,
    errors_of,
    key_of,
    packed,
    read_records,
    runs_in,
    unpacked,
    write_record,
)

POINT = {"dataset": "cora", "recipe": "auto", "epsilon": 2.0}
BASE = {"dataset": "cora", "recipe": "plain", "optimizer": "sgd"}


class TestRecords:
    def test_are_named_by_the_hash_of_run_and_seed(self, tmp_path):
        write_record(tmp_path, record(POINT, 3))
        (path,) = tmp_path.iterdir()
        assert path.name == f"{key_of(POINT, 3)}.json"
        assert key_of(POINT, 3) == key_of(dict(reversed(POINT.items())), 3)
        assert len({key_of(POINT, 3), key_of(POINT, 4), key_of(BASE, 3)}) == 3

    def test_come_back_as_they_were(self, tmp_path):
        write_record(tmp_path, record(POINT))
        assert list(read_records(tmp_path).values()) == [record(POINT)]

    @pytest.mark.parametrize(
        "content",
        [
            b"",
            b'{"point": {"dataset": "co',
            b"\xff\xfe",
            b"[]",
            b"null",
            b'{"point": {}, "seed": 0}',
            json.dumps({"point": POINT, "seed": 0}).encode(),
            json.dumps(record(POINT, 1)).encode(),
        ],
    )
    def test_a_corrupt_or_renamed_one_counts_as_missing(self, tmp_path, content):
        (tmp_path / f"{key_of(POINT, 0)}.json").write_bytes(content)
        assert read_records(tmp_path) == {}

    def test_classes_are_short_text(self):
        classes = np.array([0, 40, -1, 254])
        assert unpacked(packed(classes)).tolist() == [0, 40, -1, 254]


class TestTable:
    def test_has_a_row_for_each_run_and_seed(self):
        made = list(records(all_points(), seeds=2))
        assert len(Runs.of_records(made).rows) == len(made)

    def test_is_read_as_it_was_written_and_written_as_the_same_bytes(self, tmp_path):
        runs = Runs.of_records(records(all_points(quick=True)))
        first, second = tmp_path / "a.csv", tmp_path / "b.csv"
        runs.write(first)
        again = Runs.read(first)
        again.write(second)
        assert first.read_bytes() == second.read_bytes()
        assert len(again.rows) == len(runs.rows)
        for before, after in zip(runs.rows, again.rows, strict=True):
            assert before.keys() == after.keys()
            assert {n: v for n, v in before.items() if not isinstance(v, float)} == {
                n: v for n, v in after.items() if not isinstance(v, float)
            }

    def test_does_not_depend_on_the_order_of_records(self, tmp_path):
        made = list(records(all_points(quick=True)))
        Runs.of_records(made).write(tmp_path / "a.csv")
        Runs.of_records(reversed(made)).write(tmp_path / "b.csv")
        assert (tmp_path / "a.csv").read_bytes() == (tmp_path / "b.csv").read_bytes()

    def test_keeps_lists_and_tables_of_an_axis(self, tmp_path):
        point = {**POINT, "split": [0.6, 0.2], "changes": {"training.epochs": 3}}
        Runs.of_records([record(point)]).write(tmp_path / "a.csv")
        (row,) = Runs.read(tmp_path / "a.csv").rows
        assert {name: row[name] for name in point} == point

    def test_text_stays_text(self, tmp_path):
        point = {"dataset": "2024", "recipe": "plain", "features": "null"}
        Runs.of_records([record(point)]).write(tmp_path / "a.csv")
        (row,) = Runs.read(tmp_path / "a.csv").rows
        assert (row["dataset"], row["features"]) == ("2024", "null")

    def test_a_file_of_other_columns_is_refused(self, tmp_path):
        (tmp_path / "a.csv").write_text("dataset,recipe\n")
        with pytest.raises(DataError, match="no table of runs"):
            Runs.read(tmp_path / "a.csv")

    def test_not_a_number_is_left_out(self, tmp_path):
        Runs.of_records([record(POINT, seconds=float("nan"))]).write(tmp_path / "a.csv")
        (row,) = Runs.read(tmp_path / "a.csv").rows
        assert "seconds" not in row
        assert set(row) <= set(COLUMNS)


class TestLookup:
    @pytest.fixture
    def runs(self):
        return Runs.of_records(records([POINT, BASE, {**POINT, "fraction": 0.5}], seeds=3))

    def test_mean_and_deviation_over_seeds(self, runs):
        values = [row[f"micro {PAPER_MODE}"] for row in runs.of(**POINT)]
        score = runs.score(**POINT)
        assert len(values) == 3
        assert score.mean == pytest.approx(np.mean(values))
        assert score.std == pytest.approx(np.std(values, ddof=1))

    def test_whole_numbers_and_missing_axes_are_the_same_run(self, runs):
        assert runs.of(**{**POINT, "epsilon": 2, "fraction": None}) == runs.of(**POINT)

    def test_another_value_is_another_run(self, runs):
        assert runs.of(**{**POINT, "epsilon": 1}) == []
        assert runs.score(**{**POINT, "epsilon": 1}) is None
        assert runs.score("micro no-mode", **POINT) is None

    def test_facts_are_of_all_training_documents(self):
        rows = [record({**POINT, "fraction": 0.5}, train=6), record(POINT, train=12)]
        runs = Runs.of_records(rows)
        assert runs.fact("cora", "train") == 12
        assert runs.fact("cora", "majority") == 0.375
        assert runs.fact("pubmed", "train") is None


class TestHardCases:
    def with_errors(self, point, wrong, seed=0):
        made = record(point, seed)
        classes = TRUTH.copy()
        classes[wrong] = (classes[wrong] + 1) % 3
        made["predicted"][PAPER_MODE] = packed(classes)
        return made

    def hard(self, *made):
        return [row.get("hard") for row in Runs.of_records(made).rows]

    def test_the_fraction_of_the_base_s_errors_that_stay(self):
        less = {**BASE, "fraction": 0.5}
        made = [self.with_errors(BASE, [0, 1, 2, 3]), self.with_errors(less, [2, 3, 4])]
        assert self.hard(*made) == [1.0, 0.5]

    def test_each_seed_has_its_own(self):
        less = {**BASE, "fraction": 0.5}
        made = [
            self.with_errors(BASE, [0]),
            self.with_errors(BASE, [5], seed=1),
            self.with_errors(less, [5]),
            self.with_errors(less, [5], seed=1),
        ]
        assert self.hard(*made) == [1.0, 1.0, 0.0, 1.0]

    def test_the_released_code_has_its_own(self):
        emulated = {**BASE, "recipe": "as-released"}
        noisy = {**emulated, "epsilon": 2.0}
        made = [
            self.with_errors(BASE, [0]),
            self.with_errors(emulated, [1]),
            self.with_errors(noisy, [1]),
        ]
        assert sorted(self.hard(*made)) == [1.0, 1.0, 1.0]

    def test_without_a_base_there_are_none(self):
        assert self.hard(record(POINT)) == [None]
        assert self.hard(self.with_errors(BASE, [])) == [None]

    def test_documents_without_a_label_are_no_errors(self):
        made = record(POINT)
        made["truth"] = packed(np.full(len(TRUTH), -1))
        assert not errors_of(made).any()
        assert errors_of(record({**POINT, "dataset": "mnist"})) is None


class TestRunsIn:
    def test_a_folder_or_a_table(self, tmp_path):
        runs = runs_in(fill(tmp_path / "records", [POINT]))
        runs.write(tmp_path / "runs.csv")
        assert len(runs_in(tmp_path / "runs.csv").rows) == len(runs.rows) == 2

    @pytest.mark.parametrize("name", ["none", "."])
    def test_one_without_runs_is_refused(self, tmp_path, name):
        with pytest.raises(DataError, match=r"without --only-show first"):
            runs_in(tmp_path / name)
