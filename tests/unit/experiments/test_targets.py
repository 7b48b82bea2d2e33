from __future__ import annotations

from pathlib import Path

import pytest

from privgcn.data.catalogue import DATASETS
from privgcn.errors import ConfigError, DataNotAvailableError
from privgcn.experiments.paper import emulation
from privgcn.experiments.paper.targets import (
    TARGETS,
    chosen_targets,
    fitting_datasets,
    make_options,
)
from privgcn.experiments.results import Options, Results, split_by_origin
from privgcn.experiments.store import RecordStore

NAMES = {
    "table1",
    "experiment-a",
    "experiment-b",
    "experiment-c",
    "ablation",
    "features",
    "hard-cases",
    "mnist",
    "as-released",
}


def _options(name: str, *, quick: bool) -> Options:
    target = TARGETS[name]
    usual = target.quick_datasets if quick else target.datasets
    return Options(tuple(d for d in usual if d in DATASETS), (0, 1), quick)


def test_every_experiment_of_the_paper_has_a_name() -> None:
    assert set(TARGETS) == NAMES
    assert set(chosen_targets("all")) == NAMES
    assert all(target.question.endswith("?") for target in TARGETS.values())
    with pytest.raises(ConfigError, match="'experiment-d'"):
        chosen_targets("experiment-d")


@pytest.mark.parametrize("name", sorted(NAMES))
def test_the_quick_size_is_a_smaller_grid(name: str) -> None:
    full = list(TARGETS[name].plan(_options(name, quick=False)))
    quick = list(TARGETS[name].plan(_options(name, quick=True)))
    assert 0 < sum(task.weight for task in quick) < sum(task.weight for task in full)


def test_grids_are_the_papers() -> None:
    def count(name: str, *datasets: str) -> int:
        return len(list(TARGETS[name].plan(Options(datasets, (0,)))))

    # 2 plain, 2 full, 4 split, 2 auto, and 4 as released.
    assert count("table1", "cora") == 14
    # The running text names one point of Cora and two of CiteSeer: emulated as released.
    assert count("experiment-a", "cora", "citeseer") == 2 * 2 * 10 + 3
    # 4 epsilons x 4 shares x (SGD, Adam, auto); epsilon 1 with all data, also as released.
    assert count("experiment-b", "cora") == 48 + 3 + 2
    # 8 numbers of parts x (SGD, Adam) x (plain, private at three epsilons).
    assert count("experiment-c", "cora") == 64
    # Five rows soundly, with auto, and as released with and without patience.
    assert count("mnist", "mnist") == 20
    assert count("hard-cases", "cora") == 2 * 10 + 4 + 4 + 4
    # (Released, 3 alone, 2 in a row) x 2 on one part, (released, 5, 4) x 2 on ten, and Adam's
    # rates: 5 x (released, sound) on both, of which two are rows above.
    assert count("ablation", "cora") == 12 + 20 + 20 - 4


@pytest.mark.parametrize("name", sorted(NAMES))
@pytest.mark.parametrize("quick", [True, False])
def test_without_records_tables_are_whole_and_cells_empty(
    name: str, quick: bool, store: RecordStore
) -> None:
    options = _options(name, quick=quick)
    made = TARGETS[name].present(Results(store, options.seeds), options)
    assert made.tables
    for table in made.tables:
        assert table.markdown()
    drawn = {series.name for figure in made.figures for series in figure.series}
    assert drawn <= {"published"}


def test_synthetic_and_real_datasets_are_never_in_one_table() -> None:
    groups = split_by_origin(["cora", "clinic", "pubmed"])
    assert [names for _, names in groups] == [["cora", "pubmed"], ["clinic"]]
    assert "synthetic" in groups[1][0]
    assert "synthetic" not in groups[0][0]


def test_default_datasets_are_those_at_hand(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PRIVGCN_DATA", str(tmp_path))
    with pytest.raises(DataNotAvailableError, match="privgcn fetch citeseer"):
        make_options(TARGETS["as-released"])
    with pytest.raises(DataNotAvailableError, match="'cora' is not on this machine"):
        make_options(TARGETS["table1"], datasets=["cora"])
    options, notes = make_options(TARGETS["table1"], datasets=["clinic", "clinic"], seeds=3)
    assert options == Options(("clinic",), (0, 1, 2))
    assert notes == []


@pytest.mark.parametrize(
    ("name", "datasets"),
    [("table1", ["nowhere"]), ("table1", ["mnist"]), ("mnist", ["clinic"])],
)
def test_datasets_must_fit_the_experiment(name: str, datasets: list[str]) -> None:
    with pytest.raises(ConfigError, match=r"'datasets' of this experiment"):
        make_options(TARGETS[name], datasets=datasets)


@pytest.mark.parametrize("name", ["cora", "reddit-like", "mnist"])
def test_features_need_raw_text(name: str) -> None:
    with pytest.raises(
        ConfigError, match=r"cora-text.*pokec-like, which have raw text"
    ) as told:
        make_options(TARGETS["features"], datasets=[name])
    assert str(told.value).endswith(f"Got '{name}'.")
    options, _ = make_options(TARGETS["features"], datasets=["pokec-like", "clinic"])
    assert options.datasets == ("pokec-like", "clinic")


@pytest.mark.parametrize("targets", ["all", "experiment-b,as-released"])
def test_of_several_experiments_each_takes_its_own_datasets(targets: str) -> None:
    chosen = chosen_targets(targets)
    assert set(fitting_datasets(chosen, None)) == set(chosen)
    taken = fitting_datasets(chosen, ["pubmed", "cora"])
    assert taken["experiment-b"] == ["pubmed", "cora"]
    assert taken["as-released"] == ["pubmed", "cora"]
    assert "mnist" not in taken
    with pytest.raises(ConfigError, match=r"some of cora, .*Got 'typo'\.$"):
        fitting_datasets(chosen, ["cora", "typo"])
    with pytest.raises(ConfigError, match=r"Got 'clinic'\. Run one experiment alone"):
        fitting_datasets(chosen, ["clinic"])


def test_seeds_by_default_and_by_wish() -> None:
    table, released = TARGETS["table1"], TARGETS["as-released"]
    assert len(make_options(table, datasets=["clinic"])[0].seeds) == 5
    assert len(make_options(table, datasets=["clinic"], quick=True)[0].seeds) == 2
    assert len(make_options(released, datasets=["clinic"])[0].seeds) == 10
    assert len(make_options(released, datasets=["clinic"], seeds=3)[0].seeds) == 3
    with pytest.raises(ConfigError, match="'seeds' of an experiment"):
        make_options(table, datasets=["clinic"], seeds=0)


def test_every_known_difference_is_on_a_page(store: RecordStore) -> None:
    options = Options(("cora",), (0,), quick=True)
    made = TARGETS["as-released"].present(Results(store, (0,)), options)
    (table,) = [
        one for one in made.tables if "released code and this reproduction" in one.title
    ]
    assert all(cell for row in table.rows for cell in row)
    told = {row[0]: " ".join(row) for row in table.rows}
    for what, words in {
        "Reddit's sample": "a tenth of the training posts of every class",
        "Pokec's columns": "pets, which is the label",
        "Pokec's users": "fewest empty columns",
        "Pokec's bag of words": "strictly above 15",
        "MNIST's network": "two hidden layers of 512",
        "MNIST's epochs": "patience 20 on the last batch of the test images",
        "shares of the training data": "the same share of every class",
    }.items():
        assert words in told[what]
    for name in emulation.SOUND:
        assert any(row[4] == f"ablation: {name}" for row in table.rows)
