"""One checker for every question: what it returns is exact, bounded, and each group's own."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy.sparse import csr_array, issparse
from threadpoolctl import threadpool_limits
from torch import Tensor, nn

from brute_force import (
    integers,
    no_longer_than_a_clip_norm,
    plan_of,
    random_graph,
    softmax_vectors,
    squared_length,
    statistics_vectors,
)
from privgcn.graph import DocumentGraph, partition
from privgcn.mechanism import Groups, ModuleGradient, SoftmaxGradient, Statistics, groups
from privgcn.mechanism.fixed_point import Grid
from privgcn.mechanism.questions import Access
from privgcn.privacy.plan import PrivacyPlan

Floats = NDArray[np.float64]
WIDTH, CLASSES = 7, 3

HOSTILE: dict[str, Callable[[Floats], Floats]] = {
    "infinite": lambda row: row * np.inf,
    "nan": lambda row: row * np.nan,
    "one nan": lambda row: np.where(np.arange(WIDTH) == 3, np.nan, row),
    "huge": lambda row: row * 1e300,
    "large": lambda row: row * 1e150,
    "tiny": lambda row: row * 1e-300,
    "squares that are no normal floats": lambda row: row * 1e-161,
    "one of them": lambda row: np.where(np.arange(WIDTH) == 3, 2.5e-162, 0.0),
    "huge beside tiny": lambda row: row * 10.0 ** np.linspace(-300, 300, WIDTH),
    "large beside small": lambda row: row * 10.0 ** np.linspace(-30, 30, WIDTH),
    "zero": lambda row: row * 0.0,
    "opposite": lambda row: -row,
}


class Convolution(nn.Module):
    """Two layers over a group's own edges."""

    def __init__(self) -> None:
        super().__init__()
        generator = torch.Generator().manual_seed(1)
        self.first = nn.Parameter(torch.randn(WIDTH, 4, generator=generator))
        self.second = nn.Parameter(torch.randn(4, CLASSES, generator=generator))

    def forward(self, rows: Tensor, matrix: Tensor) -> Tensor:
        return matrix @ (matrix @ (rows @ self.first)).relu() @ self.second


def tensors_of(graph: DocumentGraph) -> tuple[Tensor, Tensor]:
    rows = graph.features.toarray() if issparse(graph.features) else np.asarray(graph.features)
    matrix = torch.from_numpy(graph.propagation.toarray())
    with np.errstate(over="ignore"):
        return torch.from_numpy(rows.astype(np.float32)), matrix


def question_of(kind: str, seed: int = 0) -> Any:
    rng = np.random.default_rng(seed)
    if kind == "module":
        return ModuleGradient(Convolution(), tensors_of)
    if kind == "statistics":
        return Statistics()
    return SoftmaxGradient(3.0 * rng.normal(size=(WIDTH, CLASSES)), rng.normal(size=CLASSES))


QUESTIONS = ["softmax", "statistics", "module"]


@dataclass(frozen=True)
class Case:
    """Documents, a plan, and a question about them."""

    graph: DocumentGraph
    plan: PrivacyPlan
    question: Any
    mean: Any = None
    rows: Any = None

    @property
    def count(self) -> int:
        return self.plan.partition.groups

    @property
    def grid(self) -> Grid:
        return Grid.of(self.plan.noise_multiplier, self.count)

    @property
    def group(self) -> NDArray[np.int64]:
        return partition(self.plan.partition, len(self.graph), self.graph.owners, {})

    def sum(self, sample: Any = None) -> NDArray[Any]:
        """The clipped sum over a sample, as exact integers."""
        made = Groups.of_plan(self.plan, self.graph, rows=self.rows)
        sample = np.ones(self.count, bool) if sample is None else np.asarray(sample)
        seeds = np.arange(self.count)
        access = Access(made, self.mean, self.plan.clip_norm, self.grid, sample, seeds)
        return integers(self.question.clipped_sum(access))

    def alone(self, number: int) -> NDArray[Any]:
        return self.sum(np.arange(self.count) == number)

    def reordered(self, order: NDArray[np.int64]) -> Case:
        return replace(self, graph=self.graph.induced(order))


def case_of(
    kind: str,
    documents: int = 40,
    *,
    owners: int | None = None,
    sparse: bool = False,
    noise: float = 1.0,
    clip_norm: float = 0.25,
    seed: int = 0,
    hostile: dict[int, str] | None = None,
    centered: bool = False,
) -> Case:
    graph = random_graph(documents, WIDTH, CLASSES, seed=seed, owners=owners)
    rows = graph.features.astype(np.float64)
    for document, name in (hostile or {}).items():
        with np.errstate(all="ignore"):
            rows[document % documents] = HOSTILE[name](rows[document % documents])
    mean = np.full(WIDTH, 0.1) if centered and not sparse else None
    graph = replace(graph, features=csr_array(rows) if sparse else rows)
    by = "document" if owners is None else "owner"
    plan = plan_of(graph, by=by, noise=noise, clip_norm=clip_norm)
    return Case(graph, plan, question_of(kind, seed), mean)


@st.composite
def cases(draw: st.DrawFn, kind: str) -> Case:
    documents = draw(st.integers(1, 24))
    return case_of(
        kind,
        documents,
        owners=draw(st.none() | st.integers(1, documents)),
        sparse=draw(st.booleans()),
        noise=draw(st.sampled_from([0.01, 1.0, 20.0, 1e9])),
        clip_norm=draw(st.sampled_from([1e-3, 0.25, 10.0])),
        seed=draw(st.integers(0, 10**6)),
        hostile=draw(st.dictionaries(st.integers(0, 23), st.sampled_from(sorted(HOSTILE)))),
        centered=draw(st.booleans()),
    )


# hazard 6, 7, 8, 9
@pytest.mark.parametrize("kind", QUESTIONS)
@settings(max_examples=60)
@given(data=st.data())
def test_every_question_is_exact_bounded_and_each_groups_own(
    kind: str, data: st.DataObject
) -> None:
    case = data.draw(cases(kind))
    alone = [case.alone(number) for number in range(case.count)]
    assert all(no_longer_than_a_clip_norm(vector, case.grid) for vector in alone)
    whole = case.sum()
    assert (sum(alone) == whole).all()
    lists = st.lists(st.booleans(), min_size=case.count, max_size=case.count)
    some = np.array(data.draw(lists))
    expected = sum((alone[n] for n in np.flatnonzero(some)), 0 * whole)
    assert (case.sum(some) == expected).all()


@st.composite
def orders(draw: st.DrawFn, case: Case, *, inside: bool) -> NDArray[np.int64]:
    """A new order of documents; ``inside`` groups too, if asked for."""
    order = np.array(draw(st.permutations(range(len(case.graph)))))
    if not inside and case.graph.owners is not None:
        for number in range(case.count):
            own = case.group[order] == number
            order[own] = np.sort(order[own])
    return order


# hazard 7
@pytest.mark.parametrize("kind", QUESTIONS)
@settings(max_examples=40)
@given(data=st.data())
def test_order_blocks_and_threads_change_no_bit(kind: str, data: st.DataObject) -> None:
    case = data.draw(cases(kind))
    expected = case.sum()
    # A module sees a group as one: its own order of documents may round in its own vector.
    order = data.draw(orders(case, inside=kind != "module"))
    assert (case.reordered(order).sum() == expected).all()
    with pytest.MonkeyPatch.context() as patch:
        size = data.draw(st.sampled_from([1, 2, 7]))
        patch.setattr(groups, "_SPARSE_ROWS", size)
        patch.setattr(groups, "_CELLS", size * WIDTH)
        patch.setattr(groups, "_IN_MEMORY", data.draw(st.sampled_from([0, 1 << 29])))
        with threadpool_limits(data.draw(st.sampled_from([1, 2]))):
            assert (case.sum() == expected).all()


# hazard 9
@pytest.mark.parametrize("kind", ["softmax", "statistics"])
@settings(max_examples=60)
@given(data=st.data())
def test_equal_to_a_loop_in_whole_numbers(kind: str, data: st.DataObject) -> None:
    case = replace(data.draw(cases(kind)), mean=None)
    case = replace(case, plan=replace_noise(case.plan, 1.0))
    vectors = vectors_of(kind, case)
    for number in range(case.count):
        assert (case.alone(number) == vectors[number]).all()
    assert (case.sum() == sum(vectors.values())).all()


def vectors_of(kind: str, case: Case) -> dict[int, NDArray[Any]]:
    if kind == "statistics":
        return statistics_vectors(case.graph, case.group, case.grid)
    question = case.question
    return softmax_vectors(
        case.graph, case.group, question.weights, question.bias, case.plan.clip_norm, case.grid
    )


def replace_noise(plan: PrivacyPlan, noise: float) -> PrivacyPlan:
    return PrivacyPlan.from_dict({**plan.to_dict(), "noise_multiplier": noise})


# hazard 7
@pytest.mark.parametrize("kind", QUESTIONS)
@pytest.mark.parametrize("sparse", [False, True])
def test_rows_that_cancel_have_no_order(kind: str, sparse: bool) -> None:
    graph = random_graph(200, WIDTH, CLASSES, owners=10, unlabelled=0.0, edges=0)
    rows = graph.features.copy()
    rows[100:] = -rows[:100]
    labels = np.concatenate([graph.labels[:100]] * 2)
    graph = replace(graph, features=csr_array(rows) if sparse else rows, labels=labels)
    question = (
        question_of(kind)
        if kind != "softmax"
        else SoftmaxGradient(np.zeros((WIDTH, CLASSES)), np.zeros(CLASSES))
    )
    case = Case(graph, plan_of(graph, by="owner", noise=0.01), question)
    expected = case.sum()
    rng = np.random.default_rng(0)
    for _ in range(5):
        order = rng.permutation(200)
        if kind == "module":
            order = order[np.argsort(rng.permutation(10)[graph.owners[order]], kind="stable")]
            for owner in range(10):
                own = graph.owners[order] == owner
                order[own] = np.sort(order[own])
        assert (case.reordered(order).sum() == expected).all()


# hazard 8
@pytest.mark.parametrize("kind", QUESTIONS)
@pytest.mark.parametrize("owners", [None, 12])
@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_rows_move_nobody_else(kind: str, owners: int | None, name: str) -> None:
    tame = case_of(kind, owners=owners)
    wild = case_of(kind, owners=owners, hostile={5: name})
    own = np.arange(tame.count) == tame.group[5]
    assert (tame.sum(~own) == wild.sum(~own)).all()
    assert no_longer_than_a_clip_norm(wild.sum(own), wild.grid)
    assert (wild.sum() == wild.sum(own) + wild.sum(~own)).all()


# hazard 8
@pytest.mark.parametrize("kind", ["softmax", "statistics"])
@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf, 1e300, 1e-300])
def test_a_bad_row_counts_as_a_row_of_zeros(kind: str, bad: float) -> None:
    graph = random_graph(10, WIDTH, CLASSES, unlabelled=0.0)
    sums = []
    for value in (bad, 0.0):
        rows = graph.features.astype(np.float64)
        rows[4] = value
        own = replace(graph, features=rows)
        sums.append(Case(own, plan_of(graph), question_of(kind)).alone(4))
    assert (sums[0] == sums[1]).all()


# hazard 8
def test_pieces_of_one_entry_count_as_one() -> None:
    """In two pieces, a row's squares would be half of what its products are."""
    pieces = csr_array((np.ones(4), np.array([2, 2, 2, 2]), np.array([0, 4])), shape=(1, WIDTH))
    graph = DocumentGraph(
        pieces, np.zeros((2, 0), int), np.array([1]), CLASSES, np.zeros(1, np.int8)
    )
    case = Case(graph, plan_of(graph, noise=0.01), question_of("softmax"))
    assert no_longer_than_a_clip_norm(case.sum(), case.grid)
    assert pieces.nnz == 4, "the caller's matrix stays as it is"


# hazard 12
@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("owners", [None, 1])
def test_a_worst_case_reaches_the_clip_norm(sparse: bool, owners: int | None) -> None:
    rows = np.zeros((4, WIDTH))
    rows[:, 0] = 7.0
    graph = DocumentGraph(
        csr_array(rows) if sparse else rows,
        np.zeros((2, 0), int),
        np.zeros(4, int),
        CLASSES,
        np.zeros(4, np.int8),
        None if owners is None else np.zeros(4, int),
    )
    plan = plan_of(graph, by="document" if owners is None else "owner", clip_norm=0.1)
    zero = SoftmaxGradient(np.zeros((WIDTH, CLASSES)), np.zeros(CLASSES))
    module = ModuleGradient(Linear(CLASSES), lambda graph: tensors_of(graph)[:1])
    for question in (zero, Statistics(), module):
        case = Case(graph, plan, question)
        assert squared_length(case.alone(0)) > (0.999 * case.grid.unit) ** 2


@pytest.mark.parametrize("label", [-1, CLASSES, 10**6])
@pytest.mark.parametrize("kind", QUESTIONS)
def test_a_label_outside_the_classes_is_none(kind: str, label: int) -> None:
    graph = random_graph(10, WIDTH, CLASSES, unlabelled=0.0)
    labels = graph.labels.copy()
    labels[3] = label
    case = Case(replace(graph, labels=labels), plan_of(graph), question_of(kind))
    vector = case.alone(3)
    assert not vector[-CLASSES:].any() if kind == "statistics" else not vector.any()


# hazard 21
@pytest.mark.parametrize("kind", QUESTIONS)
@pytest.mark.parametrize("sparse", [False, True])
def test_how_much_somebody_writes_moves_nobody_else(kind: str, sparse: bool) -> None:
    base = random_graph(60, WIDTH, CLASSES, owners=20, edges=0)
    sums = []
    for extra in (0, 1, 2, 5, 500):
        more = (
            random_graph(extra, WIDTH, CLASSES, seed=9, edges=0)
            if extra
            else base.induced(np.empty(0, int))
        )
        place = np.random.default_rng(extra).permutation(60 + extra)
        place = np.concatenate([place[place < 60], place[place >= 60]])
        place[place < 60] = np.arange(60)
        owners = np.concatenate([base.owners, np.zeros(extra, int)])
        rows = np.concatenate([base.features, more.features])
        graph = DocumentGraph(
            csr_array(rows) if sparse else rows,
            base.edges,
            np.concatenate([base.labels, more.labels]),
            CLASSES,
            np.zeros(60 + extra, np.int8),
            owners,
        )
        case = Case(graph, plan_of(base, by="owner"), question_of(kind))
        sums.append(case.sum(np.arange(20) != 0))
    assert all((sums[0] == other).all() for other in sums[1:])


# hazard 7
@pytest.mark.parametrize("kind", ["softmax", "statistics"])
@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("held", [0, 1 << 29])
def test_rows_on_disk_and_chosen_rows_give_the_same_bits(
    kind: str, sparse: bool, held: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(groups, "_IN_MEMORY", held)
    monkeypatch.setattr(groups, "_SPARSE_ROWS", 16)
    monkeypatch.setattr(groups, "_CELLS", 16 * WIDTH)
    case = case_of(kind, 100, sparse=sparse)
    expected = case.sum()
    order = np.random.default_rng(0).permutation(300)
    position = np.argsort(order)[:100]  # where the documents lie among others
    rows = case.graph.features.toarray() if sparse else case.graph.features
    wide = np.concatenate([rows, np.full((200, WIDTH), 3.0)])[order]
    stored = csr_array(wide) if sparse else wide
    arrays = [stored.data, stored.indices, stored.indptr] if sparse else [stored]
    mapped = []
    for number, array in enumerate(arrays):
        np.save(tmp_path / f"{number}.npy", array)
        mapped.append(np.load(tmp_path / f"{number}.npy", mmap_mode="r"))
    labels = np.concatenate([case.graph.labels, np.zeros(200, int)])[order]
    graph = DocumentGraph(
        csr_array(tuple(mapped), shape=wide.shape) if sparse else mapped[0],
        np.zeros((2, 0), int),
        labels,
        CLASSES,
        np.zeros(300, np.int8),
    )
    assert (replace(case, graph=graph, rows=position).sum() == expected).all()


@pytest.mark.parametrize("width", [24, 385, 4096])
def test_a_rows_length_and_scores_are_its_own(width: int) -> None:
    """Asked directly: a difference in the last bit would hardly ever reach a whole number."""
    from privgcn.mechanism.fixed_point import directions, exact_weights, row_squares, whole_rows
    from privgcn.mechanism.questions import whole_residuals

    rng = np.random.default_rng(width)
    rows = rng.normal(size=(61, width))
    squares, whole = row_squares(rows), whole_rows(directions(rows), 14)
    table = exact_weights(rng.normal(size=(width, 9)), 14)
    scores = whole.astype(np.float64) @ table
    labels = rng.integers(0, 9, 61)
    residuals = whole_residuals(np.ascontiguousarray(scores.T), labels)
    for number in range(61):
        own = slice(number, number + 1)
        assert row_squares(rows[own])[0] == squares[number]
        alone = whole[own].astype(np.float64) @ table
        assert np.array_equal(alone[0], scores[number])
        residual = whole_residuals(np.ascontiguousarray(alone.T), labels[own])
        assert np.array_equal(residual[:, 0], residuals[:, number])
    exact = np.vectorize(lambda value: int(value * 2.0**120), otypes=[object])
    assert (whole.astype(object) @ exact(table) == exact(scores)).all()


# hazard 7
@pytest.mark.parametrize("kind", ["f2", "f4", "f8", "g", "i1", "i4", "i8", "u8"])
def test_weights_of_every_type_are_cut_alike(kind: str) -> None:
    """Also the smallest integer, whose absolute value is no integer of its type."""
    from privgcn.mechanism.fixed_point import exact_weights

    rng, limits = np.random.default_rng(0), np.iinfo if kind[0] in "iu" else np.finfo
    weights = rng.integers(1, 9, (WIDTH, CLASSES)).astype(kind)
    weights[0, 0] = limits(kind).min if kind[0] in "iu" else -200.0
    expected = exact_weights(weights.astype(np.float64), 14)
    made = exact_weights(weights, 14)
    assert np.array_equal(made, expected)
    smallest = np.abs(made[made != 0]).min()
    assert WIDTH * 2**14 * np.abs(made).max() / smallest <= 2.0**53


# hazard 7
@pytest.mark.parametrize("width", [3, 100, 385, 8193, 20_000])
@pytest.mark.parametrize("order", ["C", "F"])
def test_a_rows_length_is_its_own_however_blocks_lie_in_memory(width: int, order: Any) -> None:
    """Also alone in a block, where others would be added up in another order."""
    from privgcn.mechanism.fixed_point import row_squares

    rows = np.array(np.random.default_rng(width).normal(size=(9, width)), order=order)
    squares = row_squares(np.ascontiguousarray(rows))
    for number in range(9):
        for own in (slice(number, number + 1), slice(number, number + 2), slice(number, None)):
            assert np.array_equal(row_squares(rows[own]), squares[own])
    assert np.allclose(squares, np.linalg.norm(rows, axis=1) ** 2, rtol=1e-12)


# hazard 6
@pytest.mark.parametrize("noise", [0.01, 1.0, 112.0, 1e9])
@pytest.mark.parametrize("count", [1, 3, 1000, 10**7])
def test_ten_million_groups_fit_on_the_grid(noise: float, count: int) -> None:
    """The adversarial maximum: all groups add a whole clip norm to one coordinate."""
    grid = Grid.of(noise, count)
    largest = int(grid.unit) * count
    farthest = 46 * 2**grid.noise_bits  # of a draw: see test_noise
    assert largest + farthest < 2**53
    assert float(largest + farthest) + 1.0 == largest + farthest + 1
    assert grid.noise_bits >= 3
    assert 2**grid.row_bits <= 2**14


# hazard 6
def test_the_grid_follows_from_public_numbers() -> None:
    tame, wild = (case_of("softmax", owners=8, hostile=h) for h in (None, {3: "huge"}))
    assert tame.grid == wild.grid == Grid.of(1.0, 8)


# hazard 12: the table of sensitivities, on the sums that noise is added to
TABLE = [
    ("document", "remove", None, "document", 1),
    ("document", "remove", 4, "document", 2),
    ("document", "replace", None, "document", 2),
    ("document", "replace", 4, "document", 2),
    ("person", "remove", None, "owner", 1),
    ("person", "remove", 4, "owner", 2),
    ("person", "replace", None, "owner", 2),
    ("person", "replace", 4, "owner", 2),
    ("part", "remove", 4, "document", 1),
    ("part", "replace", 4, "document", 2),
    ("graph", "remove", 1, "document", 1),
    ("graph", "replace", 1, "document", 2),
]


def unit_of(case: Case) -> NDArray[np.int64]:
    """The documents of one protected unit."""
    graph, group = case.graph, case.group
    if case.plan.unit == "document":
        return np.array([5])
    if case.plan.unit == "person":
        return np.flatnonzero(graph.owners == graph.owners[5])
    return np.flatnonzero(group == group[5])


def neighbour(graph: DocumentGraph, members: NDArray[np.int64], seed: int | None) -> Any:
    """The same index set with some documents absent, or with other content, edges included."""
    rows, labels = graph.features.copy(), graph.labels.copy()
    rows[members], labels[members] = 0.0, -1
    edges = graph.edges[:, ~np.isin(graph.edges, members).any(0)]
    if seed is not None:
        rng = np.random.default_rng(seed)
        scale = 10.0 ** rng.integers(-2, 4, (len(members), 1))
        rows[members] = scale * rng.normal(size=rows[members].shape)
        labels[members] = rng.integers(-1, CLASSES, len(members))
        ends = np.stack([np.repeat(members, 6), rng.integers(0, len(graph), 6 * len(members))])
        edges = np.unique(
            np.concatenate([edges, np.sort(ends[:, ends[0] != ends[1]], 0)], 1), axis=1
        )
    return replace(graph, features=rows, labels=labels, edges=edges)


@pytest.mark.parametrize(("unit", "relation", "count", "by", "clips"), TABLE)
@pytest.mark.parametrize("kind", QUESTIONS)
def test_neighbours_move_the_sum_by_at_most_the_tables_value(
    unit: str, relation: str, count: int | None, by: str, clips: int, kind: str
) -> None:
    graph = random_graph(24, WIDTH, CLASSES, owners=6)
    plan = plan_of(graph, by=by, groups=count, unit=unit, relation=relation, clip_norm=0.05)
    assert plan.sensitivity == clips
    case = Case(graph, plan, question_of(kind))
    members, expected = unit_of(case), case.sum()
    for seed in range(6):
        other = neighbour(graph, members, None if relation == "remove" else seed)
        apart = replace(case, graph=other).sum() - expected
        assert squared_length(apart) <= (clips * case.grid.unit) ** 2


@pytest.mark.parametrize(("unit", "relation", "count", "by", "clips"), TABLE)
def test_the_worst_case_reaches_the_tables_value(
    unit: str, relation: str, count: int | None, by: str, clips: int
) -> None:
    """The unit is loud, and of the other class than the rest of its group."""
    graph = random_graph(24, WIDTH, 2, edges=0, owners=6, unlabelled=0.0)
    rows = np.zeros((24, WIDTH))
    rows[:, 0] = 1.0
    plan = plan_of(graph, by=by, groups=count, unit=unit, relation=relation, clip_norm=0.05)
    first = Case(replace(graph, features=rows), plan, None)
    members = unit_of(first)
    labels = np.ones(24, int)
    labels[members] = 0
    # The module pulls a group by its sum: one loud document outweighs the others.
    loud = rows.copy()
    loud[members] *= 1e4
    module = ModuleGradient(Linear(), lambda graph: tensors_of(graph)[:1])
    here = replace(graph, features=loud, labels=labels)
    gone = loud.copy()
    gone[members] = 0.0
    other = labels.copy()
    other[members] = -1
    if relation == "replace":
        gone, other = loud, np.where(labels == 0, 1, labels)
    there = replace(graph, features=gone, labels=other)
    sums = [Case(own, plan, module).sum() for own in (here, there)]
    assert squared_length(sums[0] - sums[1]) > (0.99 * clips * first.grid.unit) ** 2


class Linear(nn.Module):
    """One weight per feature and class, from zero."""

    def __init__(self, classes: int = 2) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(WIDTH, classes))

    def forward(self, rows: Tensor) -> Tensor:
        return rows @ self.weight
