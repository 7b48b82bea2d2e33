"""Grids that a user declares run on the same engine as the paper's."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest
from fake_records import SEEDS, record

from privgcn.errors import ConfigError, DataError
from privgcn.experiments.declared import Declared, read_declared
from privgcn.experiments.paper.reproduce import reproduce
from privgcn.experiments.results import Results
from privgcn.experiments.runner import make_engine
from privgcn.experiments.store import RecordStore

FILE = """
title = "Mine"
seeds = 2

[[grid]]
dataset = ["cora", "clinic"]
recipe = "auto"
epsilon = [1, 2]

[[grid]]
dataset = "clinic"
recipe = "plain"
optimizer = ["sgd", "adam"]
"""


def _read(folder: Path, text: str) -> Declared:
    (folder / "grid.toml").write_text(text)
    return read_declared(folder / "grid.toml")


def test_a_grid_is_every_combination(tmp_path: Path) -> None:
    declared = _read(tmp_path, FILE)
    tasks = list(declared.experiment())
    assert len(tasks) == 6
    assert {task.seeds for task in tasks} == {(0, 1)}
    sources = {task.settings["settings"]["data"]["source"] for task in tasks}
    assert sources == {"cora", "clinic"}


def test_its_table_has_a_row_for_each_and_lines_over_epsilon(tmp_path: Path) -> None:
    declared = _read(tmp_path, FILE)
    with RecordStore(tmp_path / "out") as store:
        for epsilon, score in ((1, 0.5), (2, 0.6)):
            point = {"dataset": "cora", "recipe": "auto", "epsilon": epsilon}
            record(store, "train", point, score)
        made = declared.present(Results(store, SEEDS))
    (table,), (drawn,) = made.tables, made.figures
    assert table.title == "Mine"
    assert table.columns[:4] == ("dataset", "recipe", "epsilon", "optimizer")
    assert len(table.rows) == 6
    assert [point.y for point in drawn.series[0].points] == [0.5, 0.6]


def own_folder(tmp_path: Path) -> str:
    folder = tmp_path / "letters"
    folder.mkdir()
    splits = ["train", "train", "train", "validation", "test"]
    rows = [f"d{n},word{n % 2},{'ab'[n % 2]},{splits[n % 5]}" for n in range(40)]
    (folder / "documents.csv").write_text("\n".join(["id,text,label,split", *rows]) + "\n")
    return str(folder)


@pytest.mark.parametrize("dataset", ["clinic", own_folder])
def test_it_runs(tmp_path: Path, dataset: str | Callable[[Path], str]) -> None:
    text = f"""
    seeds = 1
    [[grid]]
    dataset = "{dataset if isinstance(dataset, str) else dataset(tmp_path)}"
    recipe = "auto"
    epsilon = 1
    fraction = 0.2
    features = "hashing"
    modes = [["alone"]]
    """
    declared = _read(tmp_path, text)
    done = reproduce(declared, tmp_path / "out", make_engine("local", workers=1))
    assert done.summary.done == 1
    assert done.summary.failed == 0


@pytest.mark.dataset
def test_datasets_of_pytorch_geometric_run(tmp_path: Path) -> None:
    if not os.environ.get("PRIVGCN_DATA"):
        pytest.skip("set PRIVGCN_DATA to the folder of raw datasets")
    pytest.importorskip("torch_geometric")
    text = """
    seeds = 1
    [[grid]]
    dataset = ["pyg:Planetoid/Cora?split=full", "pyg:Planetoid/None"]
    recipe = "auto"
    epsilon = 1
    modes = [["alone"]]
    """
    declared = _read(tmp_path, text)
    done = reproduce(declared, tmp_path / "out", make_engine("local", workers=1))
    assert done.summary.done == 1
    (failure,) = done.failures
    assert "Missing: ind.none.x" in failure["reason"]
    (table,) = done.shown[0].presentation.tables
    scores = {row[0]: row[table.columns.index("alone")] for row in table.rows}
    assert scores["pyg:Planetoid/Cora?split=full"].mean > 0.4
    assert scores["pyg:Planetoid/None"] is None


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("grid = 3", "'grid' of the experiment"),
        ("seeds = 2", "'grid' of the experiment in .* must be given"),
        ("seeds = 0\n[[grid]]\ndataset='cora'\nrecipe='auto'", "'seeds' .* at least 1"),
        ("[[grid]]\ndataset='cora'", "must have the axes dataset, recipe"),
        ("[[grid]]\ndataset='cora'\nrecipe='best'\nepsilon=1", "recipe"),
        ("[[grid]]\ndataset='cora'\nrecipe='auto'\nepsilon=[]", "'epsilon' of a grid"),
        ("colour = 1\n[[grid]]\ndataset='cora'\nrecipe='plain'", "'colour' .* unknown"),
        ("[[grid", "must be a TOML file"),
        ("a = " + "[" * 10_000, "must be a TOML file"),
        (f"a = {'9' * 5_000}", "must be a TOML file"),
        (
            f"[[grid]]\ndataset={list(map(str, range(200)))}\nrecipe='auto'\nepsilon="
            f"{list(range(1, 200))}",
            "at most 10,000 combinations. Got 39800",
        ),
    ],
)
def test_a_wrong_file_is_refused_in_one_line(text: str, words: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=words) as caught:
        _read(tmp_path, text)
    assert "\n" not in str(caught.value)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"none\.toml does not exist"):
        read_declared(tmp_path / "none.toml")
