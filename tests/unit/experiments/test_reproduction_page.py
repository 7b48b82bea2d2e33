"""The page on the reproduction: what it shows of records, and what it says where none are."""

from __future__ import annotations

import csv
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from fake_records import AS_RELEASED, MAJORITY, SEEDS, fill, record, result

from privgcn.errors import ConfigError
from privgcn.experiments.engines import Engine
from privgcn.experiments.paper import ablation, curves, layouts, mnist, released_code
from privgcn.experiments.paper.mapping import claims
from privgcn.experiments.paper.provenance import CALLS, noted_call
from privgcn.experiments.paper.published import published
from privgcn.experiments.paper.reproduce import Reproduction, reproduce
from privgcn.experiments.paper.reproduction_page import _ablation, write_reproduction
from privgcn.experiments.results import Options, Results
from privgcn.experiments.runner import make_engine
from privgcn.experiments.store import RecordStore
from privgcn.report import MeanStd, Table

pytestmark = [
    pytest.mark.dataset,
    pytest.mark.skipif(
        not os.environ.get("PRIVGCN_DATA"),
        reason="set PRIVGCN_DATA to the folder of raw datasets",
    ),
]

NAMES = "table1,experiment-b,experiment-c,mnist,ablation,as-released"
DATASETS = ["cora", "citeseer", "mnist"]


def _shown(folder: Path, names: str = NAMES, **more: Any) -> Reproduction:
    engine: Engine = make_engine()
    more = {"datasets": DATASETS, **more}
    return reproduce(names, folder, engine, seeds=len(SEEDS), only_show=True, **more)


def _fill(folder: Path) -> None:
    with RecordStore(folder) as store:
        for name in ("citeseer", "cora"):
            fill(store, name, sound=0.1, few=0.5, auto=0.7)
        options = Options(("cora",), SEEDS)
        for task in ablation.experiment(options):
            if store.missing(task):
                kept = 0.2 if "clip" in task.settings["sound"] else 0.5
                _add(store, task, kept)
        for task in (*released_code.experiment(options), *curves.experiment_c(options)):
            if store.missing(task):
                _add(store, task, 0.15)
        for row in published()["mnist"]:
            points = (mnist.point(row, Options(mnist.DATASETS, SEEDS)), mnist.auto_point(row))
            for point in points:
                record(store, "train", point, {"alone": 0.6})


def _add(store: RecordStore, task: Any, score: float) -> None:
    missing = task.with_seeds(store.missing(task))
    store.add(missing, [result(task.kind, score)] * len(missing.seeds), 1.0)


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a page on fabricated records."""
    folder = tmp_path_factory.mktemp("page")
    _fill(folder / "records-of")
    done = _shown(folder / "records-of", command="privgcn reproduce some")
    write_reproduction(folder / "docs" / "page.md", done, "privgcn reproduce some --write-docs")
    return folder / "docs"


def _tables(text: str) -> Iterator[list[list[str]]]:
    for block in re.findall(r"(?:^\|.*\n)+", text, re.MULTILINE):
        lines = block.replace("\u00a0", " ").splitlines()
        yield [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]


def _table(text: str, title: str) -> list[list[str]]:
    after = text[text.index(f"**{title}") :]
    return next(iter(_tables(after)))


def test_the_summary_has_verdicts_with_their_reach(written: Path) -> None:
    text = (written / "page.md").read_text()
    head = text[: text.index("## Contents")]
    first, _, *rows = _table(head, "The paper's five take-aways")
    assert first == ["take-away", "verdict", "reach", "margin", "fragile"]
    assert rows[0][1:] == [
        "does not survive",
        "holds on none of the two datasets that were run",
        "−0.23 to −0.23",  # noqa: RUF001
        "no",
    ]
    assert rows[2][1:] == ["not measured", "", "", ""]
    assert "of its five take-aways four do not survive and one was not measured" in head
    assert "Of the 12 private scores of its table 1 that were run" in head
    assert "87% for Pokec and 90% for Reddit" in head
    assert "Pokec and Reddit were not run here. The full graph reaches epsilon 1" in head
    assert _table(head, "What is left")[-1] == ["Cora", "64%", "–", "25%", "–", "37%"]  # noqa: RUF001


def test_every_page_names_where_its_numbers_come_from(written: Path) -> None:
    head = (written / "page.md").read_text().partition("## Contents")[0]
    assert "Command: privgcn reproduce some. Seeds: 0 to 1. Written on 20" in head
    assert re.search(r"by privgcn \d+\.\d+\.\d+", head)
    assert "All runs are of one code: " in head
    assert re.search(r"There are \d+ of the \d+ runs that are asked for \(\d+ on cpu\)", head)
    assert "MIXTURE" not in head


def test_the_evidence_of_a_take_away_is_a_list_below_it(written: Path) -> None:
    text = (written / "page.md").read_text()
    assert "\n1. **SGD-DP is fairly robust to noise, even at epsilon 1.** It **does not" in text
    assert "\n    - CiteSeer: SGD-DP with clipping at epsilon 2 0.100; " in text
    assert text.count("\n    - Rule: It survives on a dataset ") == 5


def test_the_contents_lead_to_every_part(written: Path) -> None:
    for page in ("page.md", "page-tables.md"):
        text = (written / page).read_text()
        links = re.findall(r"^- \[(.+)\]\(#(.+)\)$", text, re.MULTILINE)
        headings = [h for h in re.findall("^## (.+)$", text, re.MULTILINE) if h != "Contents"]
        assert [words for words, _ in links] == headings
        assert all(re.fullmatch("[a-z0-9-]+", anchor) for _, anchor in links)


def test_figures_are_files_beside_the_page_with_the_majority_in_each(written: Path) -> None:
    images = re.findall(r"!\[.+\]\((.+)\)", (written / "page.md").read_text())
    assert [Path(image).stem for image in images] == [
        "page-table1",
        "page-epsilon",
        "page-parts",
        "page-mnist",
    ]
    for image in images:
        drawing = (written / image).read_text()
        assert ElementTree.fromstring(drawing).tag.endswith("svg")
        assert "majority class" in drawing
        assert "prefers-color-scheme: dark" in drawing
        assert 'class="ground"' in drawing


def test_table_1_has_published_and_ours_in_a_cell(written: Path) -> None:
    text = (written / "page.md").read_text()
    head, _, *rows = _table(text, "Table 1 in the paper's layout")
    assert head[5:] == ["DP SGD", "DP Adam", "DP split SGD", "DP split Adam", "auto"]
    assert [row[0] for row in rows] == ["CiteSeer", "", "Cora", ""], "in the paper's order"
    assert rows[2][:5] == ["Cora", f"0.32 / {MAJORITY:.2f}", "0.77 / 0.80", "0.88 / 0.80", "1"]
    assert rows[3][4:] == ["2", "0.39 / 0.10†", "0.52 / 0.10†", *rows[3][7:9], "0.70"]
    assert rows[3][7] == "0.55 / 0.20†"


def test_what_was_not_run_is_one_sentence(written: Path) -> None:
    text = (written / "page.md").read_text()
    assert "two were run. Without runs are PubMed, Pokec and Reddit" in text
    assert "The table of Pokec's features was not run" in text
    for table in _tables(text):
        assert not any("Pokec" in cell for row in table for cell in row)


def test_mnist_has_its_table(written: Path) -> None:
    _, _, *rows = _table((written / "page.md").read_text(), "MNIST: published")
    told = ["600", "4", "1.26 / 1.26", "0.90 / 0.60", "0.02 / 0.00"]
    assert (rows[0][:5], rows[0][6]) == (told, "0.60")


def test_the_ablation_has_each_switch_alone_and_all_together(written: Path) -> None:
    text = (written / "page.md").read_text()
    head, _, *rows = _table(text, "From the released behaviour")
    assert head[2:] == [
        "full graph, SGD",
        "full graph, Adam",
        "10 parts, SGD",
        "10 parts, Adam",
    ]
    switches = [row[1] for row in rows if row[0] == "Cora"]
    assert switches[0] == "nothing: as released"
    assert switches[-1] == "all together"
    assert all(word.endswith(" alone") for word in switches[1:-1])
    assert rows[-1][2:] == ["0.20"] * 4


def test_all_together_is_the_row_with_all_switches_or_nothing() -> None:
    """Where that row was not run for the last dataset, another one must not stand for it."""
    columns = ("dataset", "parts", "optimiser", "done soundly", "score")
    rows = [
        ("cora", 10, "adam", "nothing: as released", MeanStd(0.6, 0.0)),
        ("cora", 10, "adam", "clip alone", MeanStd(0.3, 0.0)),
        ("cora", 10, "adam", "clip + cut", MeanStd(0.25, 0.0)),
        ("cora", 10, "adam", "clip + cut + sampling", MeanStd(0.2, 0.0)),
        ("pubmed", 10, "adam", "nothing: as released", MeanStd(0.5, 0.0)),
    ]
    made = _ablation(Table(title="", columns=columns, rows=tuple(rows)))
    found = {(row[0], row[1]): row[2] for row in made.rows}
    assert found[("Cora", "all together")] == "0.20"
    assert ("PubMed", "all together") not in found


def test_every_published_number_is_in_the_list_beside_the_page(written: Path) -> None:
    with (written / "page.csv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == len(list(claims()))
    (one,) = (
        row
        for row in rows
        if (row["dataset"], row["setting"], row["optimiser"])
        == ("cora", "private, full graph", "sgd")
    )
    assert (one["published"], one["as released"], one["ours"]) == ("0.39", "0.4", "0.1")


def test_stand_ins_have_a_part_of_their_own(tmp_path: Path) -> None:
    with RecordStore(tmp_path / "out") as store:
        fill(store, "cora", sound=0.1, few=0.5, auto=0.7)
        fill(store, "pokec-like", sound=0.1, few=0.5, auto=0.7)
        for recipe, epsilon in (("auto", 2), ("auto", 10)):
            point = {"dataset": "cora-text", "features": "bow", "recipe": recipe}
            record(store, "train", {**point, "epsilon": epsilon}, 0.6)
        texts = layouts.stand_in_features(Results(store, SEEDS), ("cora-text",))
    assert texts.rows == (("Cora-text", "bow", "0.30", *["–"] * 4, "0.60", "0.60"),)  # noqa: RUF001
    done = _shown(tmp_path / "out", "table1", datasets=["pokec-like", "cora"])
    write_reproduction(tmp_path / "page.md", done, "a command")
    text = (tmp_path / "page.md").read_text()
    before, _, after = text.partition("## Stand-ins")
    assert "Pokec-like" not in before
    assert "| Pokec-like | 0.300 | 0.800 ± 0.000 | 0.100 ± 0.000 |" in after
    assert done.shown[0].presentation.tables[0].rows[0][0] == "cora", "in the paper's order"


def test_a_mixture_of_codes_comes_first(tmp_path: Path) -> None:
    with RecordStore(tmp_path / "out") as store:
        fill(store, "cora", sound=0.1, few=0.5, auto=0.7)
    done = _shown(tmp_path / "out", "table1", datasets=["cora"])
    object.__setattr__(done.provenance, "codes", ("0.1.0+a", "0.1.0+b"))
    write_reproduction(tmp_path / "page.md", done, "a command")
    blocks = (tmp_path / "page.md").read_text().split("\n\n")
    assert blocks[2].startswith("**These numbers are a MIXTURE: their runs are of 2 versions")


def test_without_records_every_part_says_so(tmp_path: Path) -> None:
    with RecordStore(tmp_path / "out"):
        pass  # an experiment that was stopped before its first record
    done = _shown(tmp_path / "out", "table1,ablation", datasets=["cora"])
    done.failures.append({"label": "cora, auto, seed 3", "reason": "no memory"})
    write_reproduction(tmp_path / "page.md", done, "a command")
    text = (tmp_path / "page.md").read_text()
    assert "Nothing was run yet." in text
    assert "of its five take-aways five were not measured" in text
    assert text.count("Nothing of this was run.") >= 4
    assert "- failed: cora, auto, seed 3: no memory" in text.splitlines()
    assert not (tmp_path / "figures").exists()


def test_emulated_runs_count_among_the_released(store: RecordStore) -> None:
    record(store, AS_RELEASED, {"dataset": "cora", "optimizer": "sgd", "epsilon": 2}, 0.4)
    table = layouts.kept_shares(Results(store, SEEDS), ["cora"])
    assert table.rows[0] == ("Cora", "64%", *["–"] * 4)  # noqa: RUF001


def test_a_call_that_cannot_be_noted_ends_with_one_line(tmp_path: Path) -> None:
    """As on a full disk: the note of a call is a file too."""
    (tmp_path / CALLS).mkdir()
    with pytest.raises(ConfigError), noted_call(tmp_path, "cpu", here=True):
        pass
