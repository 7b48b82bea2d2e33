"""Every rule about documents and edges, for files and frames alike."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from data.ways import FILES, WAYS, Columns, place, read, refused
from privgcn.data import Corpus
from privgcn.data.corpus import random_split
from privgcn.data.documents import label_set
from privgcn.errors import DataError, shown

GOOD: Columns = {
    "id": ["007", "8", "ä", "10"],
    "text": ["one, two", 'say "hi"', "drei", "vier"],
    "label": ["a", "b", "a", "b"],
    "owner": ["p", "p", "q", "r"],
}

every_way = pytest.mark.parametrize("way", WAYS)


@every_way
def test_all_ways_give_the_same_corpus(way: str, tmp_path: Path) -> None:
    columns = {**GOOD, "ward": ["x", None, "y", "x"]}
    edges = {"source": ["007", "8", "8", "ä"], "target": ["8", "007", "8", "10"]}
    corpus = read(way, tmp_path / "letters", columns, {**edges, "kind": ["x"] * 4})
    assert list(corpus.ids) == GOOD["id"]
    assert corpus.texts == tuple(GOOD["text"])
    assert (corpus.classes, corpus.labels.tolist()) == (("a", "b"), [0, 1, 0, 1])
    assert corpus.edges.tolist() == [[0, 2], [1, 3]]
    assert corpus.owners is not None
    assert corpus.owners.tolist() == [0, 0, 1, 2]
    assert corpus.owner_names == ("p", "q", "r")
    assert list(corpus.columns["ward"]) == ["x", "", "y", "x"]
    assert not corpus.owners_cross_splits
    assert corpus.facts.split_origin == "random"
    assert not corpus.facts.classes_declared
    assert corpus.labels.flags.writeable
    assert corpus.summary == (
        "Read 4 documents of 3 owners in 2 classes and 2 edges. Edges that were left out, "
        "repeated or of a document with itself: 2."
    )
    assert corpus.train.remarks is None
    assert read(way, tmp_path, GOOD, {"source": [], "target": []}).edges.shape == (2, 0)


# What is wrong, the row with the mistake (None for the whole table), words of the message.
BAD: dict[str, tuple[Columns, int | None, str]] = {
    "id twice": ({"id": ["1", "2", "1"]}, 2, "'1'|again|rename"),
    "id missing": ({"id": ["1", None, "3"]}, 1, "'id'|empty"),
    "text missing": ({"text": ["a", None, None]}, 1, "'text'|'2'|2 in all"),
    "split unknown": ({"split": ["train", "dev", "test"]}, 1, "'split'|'dev'|'2'|lower case"),
    "owner missing": ({"owner": ["p", None, None]}, 1, "'owner'|'2'|2 in all"),
    "label NaN": ({"label": ["x", "y", "nan"]}, None, "'nan'|missing value|declare"),
    "label with spaces": ({"label": ["x", "y", "x "]}, None, "'x' and 'x '|by spaces"),
    "label in capitals": ({"label": ["x", "y", "X"]}, None, "'X' and 'x'|declare"),
    "two owners": ({"Owner": list("xyx"), "OWNER": list("xyx")}, None, "one column 'owner'"),
    "no text": ({"text": [], "texts": ["a"] * 3}, None, "'texts'"),
    "nothing like a text": ({"text": [], "body": ["a"] * 3}, None, "'text'|'body'"),
    "edge to nobody": ({"source": ["3"], "target": ["7"]}, 0, "'target'|'7'|remove the edge"),
    "half an edge": ({"source": ["1", "2"], "target": ["3", None]}, 1, "'target'|nothing in"),
    "spaces": ({"source": ["1"], "target": ["3 "]}, 0, "'3 '|the same way"),
    "floats": ({"source": ["3.0"], "target": ["1"]}, 0, "'3.0'|the same way"),
    "one column": ({"source": ["3"]}, None, "'source' and 'target'|Got 'source'"),
    "weight": ({"source": ["1"], "target": ["2"], "weight": ["1"]}, None, "weight|remove"),
}


@every_way
@pytest.mark.parametrize("case", BAD)
def test_a_broken_rule_is_one_clear_error(way: str, case: str, tmp_path: Path) -> None:
    changes, row, words = BAD[case]
    columns = {"id": ["1", "2", "3"], "text": ["a", "b", "c"]}
    edges = changes if "source" in changes else None
    if edges is None:
        columns = {n: values for n, values in {**columns, **changes}.items() if values}
    where = [] if row is None else [place(way, row)]
    refused(way, tmp_path, *words.split("|"), *where, columns=columns, edges=edges)


@every_way
def test_declared_classes(way: str, tmp_path: Path) -> None:
    corpus = read(way, tmp_path, GOOD, classes=["b", "a", "c"])
    assert corpus.classes == ("b", "a", "c")
    assert corpus.labels.tolist() == [1, 0, 1, 0]
    assert corpus.facts.classes_declared
    words = ["'label'", "declared classes", "'b'", "'8'", place(way, 1)]
    refused(way, tmp_path, *words, columns=GOOD, classes=["a", "c"])
    refused(way, tmp_path, "two different", columns=GOOD, classes=["a", "a"])
    refused(way, tmp_path, "'classes'", columns=GOOD, classes="ab")
    odd = {**GOOD, "label": ["x", "nan", "x", "x"]}
    assert read(way, tmp_path, odd, classes=["nan", "x"]).labels.tolist() == [1, 0, 1, 1]


@every_way
def test_a_given_split_stays_and_test_documents_need_no_label(way: str, tmp_path: Path) -> None:
    split = ["train", "train", "test", "validation"]
    corpus = read(way, tmp_path, {**GOOD, "label": ["x", "y", None, "y"], "split": split})
    assert corpus.split.tolist() == [0, 0, 2, 1]
    assert corpus.labels.tolist() == [0, 1, -1, 1]
    assert corpus.facts.split_origin == "given"
    corpus.check_trainable()


# hazard 25
@pytest.mark.parametrize("name", ["split", "Split"])
@pytest.mark.parametrize("way", FILES)
def test_a_random_split_is_drawn_whatever_a_column_says(
    way: str, name: str, tmp_path: Path
) -> None:
    corpus = read(way, tmp_path, {**GOOD, name: ["test"] * 4}, split="random")
    assert corpus.split.tolist() == random_split(4, 0, corpus.owners).tolist()
    assert corpus.facts.split_origin == "random"


# hazard 22
@every_way
def test_content_moves_no_split_and_no_owner_number(way: str, tmp_path: Path) -> None:
    """With one letter less, the first owner would come last by order of appearance."""
    owners = ["zoe", *(f"person {number}" for number in range(40)), "zoe"]
    letters = {"id": [str(row) for row in range(42)], "text": ["x"] * 42, "owner": owners}
    sides = []
    for number, own in enumerate((slice(None), slice(1, None), slice(None, -1))):
        columns = {name: values[own] for name, values in letters.items()}
        edges = {"source": [columns["id"][number]], "target": [columns["id"][-1]]}
        columns["label"] = ["abc"[row % (number + 1)] for row in range(len(columns["id"]))]
        columns["text"] = [f"{number} {row}" for row in range(len(columns["id"]))]
        corpus = read(way, tmp_path / str(number), columns, edges)
        assert corpus.owners is not None
        assert corpus.owner_names is not None
        pairs = zip(corpus.owners.tolist(), corpus.split.tolist(), strict=True)
        sides.append((list(corpus.owner_names), dict(pairs)))
    assert sides[0] == sides[1] == sides[2]
    assert sides[0][0] == sorted(sides[0][0])


# hazard 23
@every_way
def test_owner_names_are_normalised(way: str, tmp_path: Path) -> None:
    spellings = ["Jane Doe", " Jane  Doe ", "Rene\u0301", "Ren\u00e9"]
    corpus = read(way, tmp_path, {**GOOD, "owner": spellings})
    assert corpus.owner_names == ("Jane Doe", "Ren\u00e9")
    assert corpus.owners is not None
    assert corpus.owners.tolist() == [0, 0, 1, 1]
    plain = read(way, tmp_path, {**GOOD, "owner": ["b  c", "a", " b c", "a"]})
    assert plain.owner_names == ("a", "b c")


ALIKE = "Jane Doe|jane doe ,René|RENÉ,Straße|STRASSE,17|17.0,Jane|Jane\u200b,\ufeffJane|Jane"


# hazard 23
@every_way
@pytest.mark.parametrize("names", [*ALIKE.split(","), "Ja\u00adne|Jane", "7|\uff17"])
def test_owner_names_that_read_alike_are_refused(way: str, names: str, tmp_path: Path) -> None:
    first, second = names.split("|")
    columns = {**GOOD, "owner": ["other", first, second, first]}
    words = [shown(first), shown(second), place(way, 1), place(way, 2), "one person"]
    refused(way, tmp_path, *words, columns=columns)


def test_how_often_a_class_occurs_does_not_order_the_classes() -> None:
    for labels in ("aaab", "abbb", "baaa", "bbba"):
        assert Corpus.from_texts(GOOD["text"], list(labels)).classes == ("a", "b")


def test_labels_keep_the_order_of_their_type() -> None:
    corpus = Corpus.from_texts(GOOD["text"], np.array([10, 9, 10, 9]))
    assert (corpus.classes, corpus.labels.tolist()) == (("9", "10"), [1, 0, 1, 0])
    assert label_set([10, 9, 10]).dtype.kind == "i"
    # Numbers that are written as texts have the same order, as they have in files.
    assert label_set(["10", "9"]).tolist() == ["9", "10"]
    with pytest.raises(DataError, match="must be of one type"):
        label_set(["a", 1, "b", 2])
    missing = Corpus.from_texts(GOOD["text"], ["a", None, float("nan"), "b"])
    assert missing.labels.tolist() == [0, -1, -1, 1]
    assert Corpus.from_texts(GOOD["text"]).classes == ()


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"texts": "one text"}, "single text"),
        ({"texts": []}, "at least one document"),
        ({"texts": ["a", 5]}, "Got 5, of type int, in row 1"),
        ({"texts": ["a", "\ud800"]}, "half a character"),
        ({"labels": ["a", "b"]}, "each of the 4 documents, one entry for each. Got 2"),
        ({"owners": ["a"]}, "'owner' must be given for each of the 4 documents"),
        ({"labels": [["a"], ["b"], ["a"], ["b"]]}, "single value"),
        ({"ids": [1.0, 2.0, 3.0, 4.5]}, "'id' must be a string or a whole number"),
    ],
)
def test_values_in_memory_have_a_type(arguments: dict[str, Any], words: str) -> None:
    with pytest.raises(DataError, match=words):
        Corpus.from_texts(**{"texts": GOOD["text"], **arguments})


def test_labels_and_owners_of_their_own_count_more_than_columns() -> None:
    corpus = Corpus.from_frame(GOOD, labels=[1, 2, 1, 2], owners=[3, 3, 4, 4])
    assert corpus.classes == ("1", "2")
    assert corpus.owner_names == ("3", "4")


@pytest.mark.parametrize("count", [1, 2, 3, 10, 1000])
def test_random_splits_hold_out_a_tenth_each(count: int) -> None:
    sizes = np.bincount(random_split(count, 3), minlength=3)
    held_out = max(1, round(count / 10)) if count >= 3 else 0
    assert sizes[1:].tolist() == [held_out, held_out]
    assert (random_split(count, 3) == random_split(count, 3)).all()
    if count == 1000:
        assert (random_split(count, 3) != random_split(count, 4)).any()


def test_numbers_and_categories_of_a_frame_are_strings() -> None:
    frame = pl.DataFrame(
        {"id": [7, 8], "text": ["a", "b"], "label": [True, False], "ward": [1.5, float("nan")]}
    ).with_columns(pl.col("text").cast(pl.Categorical))
    corpus = Corpus.from_frame(frame)
    assert list(corpus.ids) == ["7", "8"]
    assert corpus.classes == ("False", "True")
    assert list(corpus.columns["ward"]) == ["1.5", ""]
    assert corpus.texts == ("a", "b")
