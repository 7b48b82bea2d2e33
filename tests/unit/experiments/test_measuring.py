"""The measuring scripts: grids of the same engine, and one meaning of ±."""

from __future__ import annotations

import argparse
import json
import tomllib
from pathlib import Path

import features
import measure_outlook
import outlook_task
import pytest
import recipe_figures
import scores
import tiny_task
from fake_records import record, result
from measuring import measure

from privgcn.experiments.grid import Experiment, Grid
from privgcn.experiments.results import Results
from privgcn.experiments.store import RecordStore
from privgcn.report.formats import NOTHING
from privgcn.training import outlook
from privgcn.training.outlook import Curve, fitted_curve

SEEDS = (0, 1)
SPREAD = "0.500 ± 0.141"
"""Of 0.4 and 0.6, over n - 1; over n it would be 0.100."""


def _filled(folder: Path, grids: list[Grid]) -> Results:
    """Every run of some grids, with the scores 0.4 and 0.6."""
    with RecordStore(folder) as store:
        for task in Experiment("filled", grids, SEEDS):
            made = [result(task.kind, score) for score in (0.4, 0.6)]
            for one in made:
                one["features"] = {"kind": "hashing", "dimension": 4096}
                one["privacy"] = {"units": 800, "noise_multiplier": 12.0, "steps": 9}
            store.add(task, made, 1.0)
        return Results(store, SEEDS)


def test_features_show_the_sample_deviation(tmp_path: Path) -> None:
    results = _filled(tmp_path, features.grids(["cora-text"]))
    page = features.page(results, ["cora-text"])
    assert f"| cora-text | minilm | {' | '.join([SPREAD] * 5)} |" in page
    assert "sample standard deviation over 2 seeds" in page
    assert "`minilm` keeps 100% of its non-private score" in page
    assert "is refuted in mode own-graph" in page


def test_scores_show_the_sample_deviation(tmp_path: Path) -> None:
    rows = ["Cora", "CiteSeer, raw text, MiniLM"]
    results = _filled(tmp_path, scores.grids(rows, splits=True))
    page = scores.page(results, rows, splits=True)
    assert f"| Cora | own-graph | {' | '.join([SPREAD] * 6)} |" in page
    assert f"| Cora | 1 | {' | '.join([SPREAD] * 4)} |" in page
    assert f"| cora | 0.0001 | 1 | 0.317 | {' | '.join([SPREAD] * 3)} |" in page
    assert NOTHING not in page, "every cell has its run"
    short = scores.short_table(results, rows).markdown().splitlines()
    assert short[4] == f"| Cora |{' 0.50 |' * 7} 0.56 |"
    assert short[5].endswith(f"| 0.50 | {NOTHING} |")


def test_the_figures_of_the_recipe_show_the_sample_deviation(tmp_path: Path) -> None:
    drawn = recipe_figures.drawings(_filled(tmp_path, recipe_figures.grids()))
    assert {name: len(one[0].series) for name, one in drawn.items()} == {
        "parts": 1,
        "steps": 3,
        "sight": 3,
    }
    points = [p for one in drawn.values() for line in one[0].series for p in line.points]
    assert {round(point.std or 0.0, 3) for point in points} == {0.141}


def test_the_outlook_is_a_table_that_the_planner_reads(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = [
        {**row.model_dump(), "corpus": f"corpus {number % 4}"}
        for number, row in enumerate(outlook.stored_runs())
    ]
    path = tmp_path / "outlook.toml"
    measure_outlook.write(path, measure_outlook.table(rows, rows[:5], seeds=2))
    read = tomllib.loads(path.read_text())
    monkeypatch.setattr(outlook, "_stored", lambda: read)
    known = outlook.stored_runs()
    assert [row.model_dump() for row in known] == rows
    assert len(outlook.stored_runs("held_out")) == 5
    assert Curve.model_validate(read["curve"]) == fitted_curve(known)
    assert read["provenance"]["made_by"] == "scripts/measure_outlook.py --seeds 2"
    assert 0 <= read["provenance"]["covered_held_out"] <= 1


def test_a_task_of_the_outlook_measures_sizes_and_budgets(tmp_path: Path) -> None:
    folder = tmp_path / "letters"
    folder.mkdir()
    words = ("pulse pressure valve beat", "rash itch cream spot")
    lines = [
        json.dumps({"id": str(i), "text": f"{words[i % 2]} {i}", "label": "ab"[i % 2]})
        for i in range(400)
    ]
    (folder / "documents.jsonl").write_text("\n".join(lines) + "\n")
    points = list(measure_outlook.points([folder]))
    assert [point["features"] for point in points] == ["minilm", "static", "hashing"]
    chosen = argparse.Namespace(seeds=1, workers=1, records=tmp_path / "records")
    results = measure(Grid.of(points[2], kind=outlook_task.KIND), chosen)
    rows = measure_outlook.rows(results, points[2:])
    assert sorted(row["epsilon"] for row in rows) == list(outlook_task.EPSILONS)
    sizes = [row["units"] for row in rows]
    assert sizes[0] == 150
    assert sizes == sorted(sizes)
    assert {row["corpus"] for row in rows} == {"letters"}
    assert all(row["plain"] > 0.9 for row in rows), "two classes of different words"


def test_what_has_a_record_is_not_measured_again(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    chosen = argparse.Namespace(seeds=2, workers=1, records=tmp_path)
    grids = [Grid({"shift": [1.0, 2.0]}, tiny_task.KIND)]
    measure(grids[:1], chosen)
    capsys.readouterr()
    again = measure(grids, argparse.Namespace(seeds=3, workers=1, records=tmp_path))
    assert "6 of 6 runs done, 4 of them earlier" in capsys.readouterr().err
    assert len(again.of(tiny_task.KIND, {"shift": 1.0})) == 3


def test_a_run_that_fails_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    chosen = argparse.Namespace(seeds=1, workers=1, records=tmp_path)
    with pytest.raises(SystemExit):
        measure([Grid({"shift": ["none"]}, tiny_task.KIND)], chosen)
    assert "Failed: rate 0.5, steps 30, shift none, seed 0: " in capsys.readouterr().err


def test_a_random_split_is_a_run_of_its_own(store: RecordStore) -> None:
    point = {"dataset": "cora", "recipe": "auto", "epsilon": 1}
    record(store, "train", {**point, "split": [0.75, 0.1]}, 0.5)
    results = Results(store, SEEDS)
    assert results.train(**point) is None
    assert results.majority("cora") is None, "the majority is that of the usual split"
    assert results.train(**point, split=[0.75, 0.1]) is not None
