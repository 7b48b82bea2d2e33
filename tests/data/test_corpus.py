from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse import csr_matrix

from privgcn.data import Corpus
from privgcn.data.corpus import MappedRows, Strings
from privgcn.data.edges import canonical_edges
from privgcn.errors import DataError


def make(count: int = 6, **changes: object) -> Corpus:
    values: dict[str, object] = {
        "name": "six",
        "ids": np.array([f"d{row}" for row in range(count)], dtype=object),
        "texts": tuple(f"text {row}" for row in range(count)),
        "labels": np.arange(count, dtype=np.int64) % 2,
        "classes": ("even", "odd"),
        "edges": canonical_edges([0, 1, 2, 4], [1, 2, 5, 5], count),
        "split": np.array([0, 0, 0, 1, 2, 2], dtype=np.int8),
        "columns": {"ward": np.array(list("aabbcc"), dtype=object)},
    }
    return Corpus(**{**values, **changes})  # type: ignore[arg-type]


def test_views_hold_their_documents_and_the_edges_among_them() -> None:
    corpus = make()
    assert list(corpus.train.ids) == ["d0", "d1", "d2"]
    assert corpus.train.edges.tolist() == [[0, 1], [1, 2]]
    assert corpus.test.edges.tolist() == [[0], [1]]
    assert corpus.validation.edges.shape == (2, 0)
    assert corpus.train.texts == ("text 0", "text 1", "text 2")
    assert list(corpus.train.columns["ward"]) == ["a", "a", "b"]
    assert corpus.train is corpus.train
    view = corpus.select([5, 4, 2]).select([2, 0])
    assert view.parent is corpus
    assert view.rows is not None
    assert view.rows.tolist() == [2, 5]
    assert view.edges.tolist() == [[0], [1]]


@settings(max_examples=40)
@given(st.data())
def test_select_keeps_exactly_the_edges_among_the_chosen(data: st.DataObject) -> None:
    count = data.draw(st.integers(1, 12))
    end = st.integers(0, count - 1)
    pairs = data.draw(st.lists(st.tuples(end, end), max_size=30))
    rows = data.draw(st.permutations(range(count)))[: data.draw(st.integers(0, count))]
    edges = canonical_edges([a for a, _ in pairs], [b for _, b in pairs], count)
    corpus = make(count, edges=edges, split=np.zeros(count, dtype=np.int8), columns={})
    view = corpus.select(np.array(rows, dtype=np.int64))
    selected = {frozenset((rows[a], rows[b])) for a, b in view.edges.T}
    expected = {frozenset(pair) for pair in pairs if pair[0] != pair[1]}
    assert selected == {pair for pair in expected if pair <= set(rows)}


@pytest.mark.parametrize("rows", [[0, 0], [5, -1], [6], [0.5], np.ones(5, dtype=bool)])
def test_select_refuses_rows_that_are_none(rows: object) -> None:
    with pytest.raises((ValueError, IndexError), match=r"different|index|arrays used as ind"):
        make().select(rows)  # type: ignore[arg-type]


def test_strings_of_a_frame_are_a_sequence_and_stay_there() -> None:
    column = pl.Series([f"text {row}" for row in range(6)])
    corpus = make(texts=Strings.of([column]))
    assert corpus.texts == tuple(column)
    assert corpus.texts[1] == corpus.texts[-5] == "text 1"
    view = corpus.select([4, 2])
    assert isinstance(view.texts, Strings)
    assert list(view.texts) == np.asarray(view.texts).tolist() == ["text 4", "text 2"]
    assert view.texts != ("text 4",)
    assert "text 3" in corpus.texts
    assert list(corpus.texts[1:3]) == ["text 1", "text 2"]
    with pytest.raises(IndexError):
        corpus.texts[6]


@pytest.mark.parametrize("kind", ["dense", "sparse", "mapped"])
def test_a_view_has_the_rows_of_its_vectors(kind: str, tmp_path: Path) -> None:
    rows = np.arange(18, dtype=np.float32).reshape(6, 3)
    np.save(tmp_path / "rows.npy", rows)
    mapped = np.load(tmp_path / "rows.npy", mmap_mode="c")
    vectors = {"dense": rows, "sparse": csr_matrix(rows), "mapped": mapped}[kind]
    corpus = make(vectors=vectors, texts=None)
    assert corpus.vectors is corpus.with_split(2).vectors is vectors
    for view in (corpus.select([5, 1, 3]).select([2, 0]), corpus.select([3, 5]).with_split(0)):
        got = view.vectors.toarray() if kind == "sparse" else view.vectors
        np.testing.assert_array_equal(got, rows[[3, 5]])
        np.testing.assert_array_equal(got[1:], rows[[5]])
        assert (view.vector_length, got.shape) == (3, (2, 3))
        # Mapped rows are read on access only.
        assert isinstance(view.vectors, MappedRows) == (kind == "mapped")


OWNERS = ("p", "q", "r")


@pytest.mark.parametrize(
    ("owners", "last", "across"),
    [
        ([0, 0, 0, 1, 2, 2], 2, False),
        ([0, 0, 1, 1, 2, 2], 2, True),
        ([0, 0, 0, 1, 2, 0], 3, False),
    ],
)
def test_owners_cross_splits(owners: list[int], last: int, across: bool) -> None:
    split = np.array([0, 0, 0, 1, 2, last], dtype=np.int8)
    corpus = make(owners=np.array(owners), owner_names=OWNERS, split=split)
    assert corpus.owners_cross_splits == across
    assert not make().owners_cross_splits


# hazard 24
def test_owners_of_a_view_are_looked_for_in_the_parent_corpus() -> None:
    across = make(owners=np.array([0, 0, 1, 1, 2, 2]), owner_names=OWNERS)
    assert across.train.owners_cross_splits
    assert across.train.select([2]).owners_cross_splits
    assert not across.train.select([0, 1]).owners_cross_splits
    assert not across.test.owners_cross_splits
    # The same owner is still on two sides when the view gets another split.
    assert across.test.with_split(0).owners_cross_splits is False
    assert across.select([3]).with_split(2).owners_cross_splits
    assert not across.with_split(0).owners_cross_splits


@pytest.mark.parametrize(
    ("changes", "word"),
    [
        ({"labels": np.zeros(5, dtype=np.int64)}, "'labels'"),
        ({"labels": np.full(6, 2)}, "index into its 2 classes"),
        ({"texts": None}, "'texts' or 'vectors'"),
        ({"texts": ("x",)}, "'texts'"),
        ({"vectors": np.zeros((2, 3), dtype=np.float32)}, "'vectors'"),
        ({"owners": np.zeros(3, dtype=np.int64)}, "'owners'"),
        ({"edges": np.array([[1], [0]])}, "smaller first"),
        ({"edges": np.array([[1], [6]])}, "6 documents"),
        ({"edges": np.array([[-1], [3]])}, "6 documents"),
        ({"edges": np.zeros((3, 1), dtype=np.int64)}, "shape"),
        ({"columns": {"ward": np.array(["a"])}}, "'ward'"),
    ],
)
def test_a_corpus_that_does_not_fit_together_is_refused(
    changes: dict[str, object], word: str
) -> None:
    with pytest.raises(DataError, match=word):
        make(6, **changes)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"labels": [0, 1, 0, -1, -1, -1]}, None),
        ({"labels": [0, -1, -1, 1, 1, 1]}, None),
        ({"labels": [-1, -1, -1, 1, 1, 1]}, "'label' for training documents"),
        ({"labels": [0] * 6, "classes": ("even",)}, "at least two classes"),
        ({"split": [2] * 6}, "must have training documents"),
    ],
)
def test_check_trainable(changes: dict[str, object], words: str | None) -> None:
    arrays = {n: np.array(v) if isinstance(v, list) else v for n, v in changes.items()}
    corpus = make(6, **arrays)
    if words is None:
        return corpus.check_trainable()
    with pytest.raises(DataError, match=words):
        corpus.check_trainable()


# hazard 31
def test_names_of_files_reach_no_terminal_as_they_are() -> None:
    assert make(remarks=("\x1b[2J",)).summary.isprintable()
    assert repr(make(name="\x1b[2J")).isprintable()
