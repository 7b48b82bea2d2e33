from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from privgcn.data.corpus import Corpus, canonical_edges, no_edges
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


def test_views_hold_their_documents_and_the_links_among_them() -> None:
    corpus = make()
    assert list(corpus.train.ids) == ["d0", "d1", "d2"]
    assert corpus.train.edges.tolist() == [[0, 1], [1, 2]]
    assert corpus.test.edges.tolist() == [[0], [1]]
    assert len(corpus.validation) == 1
    assert corpus.validation.edges.shape == (2, 0)
    assert corpus.train.texts == ("text 0", "text 1", "text 2")
    assert list(corpus.train.columns["ward"]) == ["a", "a", "b"]
    assert corpus.train is corpus.train


def test_a_view_of_a_view_leads_back_to_the_first_corpus() -> None:
    corpus = make()
    view = corpus.select([5, 4, 2]).select([2, 0])
    assert view.whole is corpus
    assert view.rows is not None
    assert view.rows.tolist() == [2, 5]
    assert view.edges.tolist() == [[0], [1]]


@given(st.data())
def test_select_keeps_exactly_the_links_among_the_chosen(data: st.DataObject) -> None:
    count = data.draw(st.integers(1, 12))
    end = st.integers(0, count - 1)
    pairs = data.draw(st.lists(st.tuples(end, end), max_size=30))
    rows = data.draw(st.permutations(range(count)))[: data.draw(st.integers(0, count))]
    edges = canonical_edges([a for a, _ in pairs], [b for _, b in pairs], count)
    corpus = make(
        count,
        edges=edges,
        split=np.zeros(count, dtype=np.int8),
        columns={},
        texts=("x",) * count,
    )
    view = corpus.select(np.array(rows, dtype=np.int64))
    seen = {frozenset((rows[a], rows[b])) for a, b in view.edges.T}
    expected = {frozenset(pair) for pair in pairs if pair[0] != pair[1]}
    assert seen == {pair for pair in expected if pair <= set(rows)}


def test_canonical_edges_drop_what_carries_no_information() -> None:
    edges = canonical_edges([3, 1, 1, 2], [1, 3, 1, 0], 4)
    assert edges.tolist() == [[0, 1], [2, 3]]
    assert no_edges().shape == (2, 0)
    assert canonical_edges([], [], 0).shape == (2, 0)


def test_owners_cross_splits() -> None:
    names = ("p", "q", "r")
    apart = make(owners=np.array([0, 0, 0, 1, 2, 2]), owner_names=names)
    across = make(owners=np.array([0, 0, 1, 1, 2, 2]), owner_names=names)
    outside = make(
        owners=np.array([0, 0, 0, 1, 2, 0]),
        owner_names=names,
        split=np.array([0, 0, 0, 1, 2, 3], dtype=np.int8),
    )
    assert not apart.owners_cross_splits
    assert across.owners_cross_splits
    assert not outside.owners_cross_splits
    assert not make().owners_cross_splits


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
        ({"edges": np.zeros((3, 1), dtype=np.int64)}, "shape"),
        ({"columns": {"ward": np.array(["a"])}}, "column 'ward'"),
    ],
)
def test_a_corpus_that_does_not_fit_together_is_refused(
    changes: dict[str, object], word: str
) -> None:
    with pytest.raises(DataError, match=word):
        make(**changes)


@pytest.mark.parametrize("rows", [[0, 0], [6], [-1], np.ones(5, dtype=bool)])
def test_select_refuses_rows_that_are_none(rows: object) -> None:
    with pytest.raises(DataError, match=r"'rows' of Corpus\.select"):
        make().select(rows)  # type: ignore[arg-type]


def test_check_trainable() -> None:
    make().check_trainable()
    make(labels=np.array([0, 1, 0, -1, -1, -1])).check_trainable()
    with pytest.raises(DataError, match="'d1' has none"):
        make(labels=np.array([0, -1, 0, 1, 1, 1])).check_trainable()
    with pytest.raises(DataError, match="at least two classes"):
        make(labels=np.zeros(6, dtype=np.int64), classes=("even",)).check_trainable()
    with pytest.raises(DataError, match="must have training documents"):
        make(split=np.full(6, 2, dtype=np.int8)).check_trainable()


def test_repr_says_synthetic() -> None:
    from privgcn.data.corpus import CorpusFacts

    assert "synthetic" in repr(make(facts=CorpusFacts(synthetic=True)))
    assert "synthetic" not in repr(make())
