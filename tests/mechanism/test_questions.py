"""One checker for every question: what it returns is exact, bounded, and each group's own."""

import tempfile
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy.sparse import csr_array, issparse
from threadpoolctl import threadpool_limits
from torch import nn

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
from privgcn.mechanism.fixed_point import (
    Grid,
    directions,
    exact_weights,
    row_squares,
    whole_rows,
)
from privgcn.mechanism.questions import Access, whole_residuals
from privgcn.privacy.plan import PrivacyPlan

Floats = NDArray[np.float64]
WIDTH, CLASSES = 7, 3
QUESTIONS = ["softmax", "statistics", "module"]

HOSTILE = {
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

    def __init__(self):
        super().__init__()
        generator = torch.Generator().manual_seed(1)
        self.first = nn.Parameter(torch.randn(WIDTH, 4, generator=generator))
        self.second = nn.Parameter(torch.randn(4, CLASSES, generator=generator))

    def forward(self, rows, matrix):
        return matrix @ (matrix @ (rows @ self.first)).relu() @ self.second


class Linear(nn.Module):
    """One weight per feature and class, from zero."""

    def __init__(self, classes=2):
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(WIDTH, classes))

    def forward(self, rows, matrix):
        return rows @ self.weight


def tensors_of(graph):
    rows = graph.features.toarray() if issparse(graph.features) else np.asarray(graph.features)
    matrix = torch.from_numpy(graph.propagation.toarray())
    with np.errstate(over="ignore"):
        return torch.from_numpy(rows.astype(np.float32)), matrix


def question_of(kind, seed=0):
    rng = np.random.default_rng(seed)
    if kind == "module":
        return ModuleGradient(Convolution(), tensors_of)
    if kind == "statistics":
        return Statistics()
    return SoftmaxGradient(3.0 * rng.normal(size=(WIDTH, CLASSES)), rng.normal(size=CLASSES))


@dataclass(frozen=True)
class Case:
    """Documents, a plan, and a question about them."""

    graph: DocumentGraph
    plan: PrivacyPlan
    question: Any
    mean: Any = None
    rows: Any = None

    @property
    def count(self):
        return self.plan.partition.groups

    @property
    def grid(self):
        return Grid.of(self.plan.noise_multiplier, self.count)

    @property
    def group(self):
        return partition(self.plan.partition, len(self.graph), self.graph.owners, {})

    def sum(self, sample=None):
        """The clipped sum over a sample, as exact integers."""
        made = Groups.of_plan(self.plan, self.graph, rows=self.rows)
        sample = np.ones(self.count, bool) if sample is None else np.asarray(sample)
        seeds = np.arange(self.count)
        access = Access(made, self.mean, self.plan.clip_norm, self.grid, sample, seeds)
        with np.errstate(all="ignore"):  # as a session does
            return integers(self.question.clipped_sum(access))

    def alone(self, number):
        return self.sum(np.arange(self.count) == number)

    def by_hand(self):
        """The vector of each group from a loop over documents, in whole numbers."""
        facts = self.graph, self.group
        if isinstance(self.question, Statistics):
            return statistics_vectors(*facts, self.grid, self.mean)
        ask, clip = self.question, self.plan.clip_norm
        return softmax_vectors(*facts, ask.weights, ask.bias, clip, self.grid, self.mean)


def stored(rows, form):
    """Rows as an array, a sparse matrix, or one whose entries lie in two pieces each."""
    if form == "dense":
        return rows
    whole = csr_array(rows)
    if form == "sparse":
        return whole
    halves = np.repeat(whole.data / 2, 2), np.repeat(whole.indices, 2), 2 * whole.indptr
    return csr_array(halves, shape=whole.shape)


@st.composite
def cases(draw, kind):
    documents = draw(st.integers(1, 24))
    owners = draw(st.none() | st.integers(1, documents))
    seed, form = (
        draw(st.integers(0, 10**6)),
        draw(st.sampled_from(["dense", "sparse", "pieces"])),
    )
    graph = random_graph(documents, WIDTH, CLASSES, seed=seed, owners=owners)
    rows, labels = graph.features.astype(np.float64), graph.labels.copy()
    if draw(st.booleans()):  # a second half that cancels the first
        half = documents // 2
        rows[half : 2 * half], labels[half : 2 * half] = -rows[:half], labels[:half]
    places = st.integers(0, documents - 1)
    for document, name in draw(
        st.dictionaries(places, st.sampled_from(sorted(HOSTILE)))
    ).items():
        with np.errstate(all="ignore"):
            rows[document] = HOSTILE[name](rows[document])
    for document, label in draw(
        st.dictionaries(places, st.sampled_from([-7, CLASSES, 2**40]), max_size=2)
    ).items():
        labels[document] = label
    mean = 0.1 + np.arange(WIDTH) / 70 if form == "dense" and draw(st.booleans()) else None
    with np.errstate(all="ignore"):
        graph = replace(graph, features=stored(rows, form), labels=labels)
    plan = plan_of(
        graph,
        by="document" if owners is None else "owner",
        noise=draw(st.sampled_from([0.01, 1.0, 20.0, 1e9])),
        clip_norm=draw(st.sampled_from([1e-3, 0.25, 10.0])),
    )
    return Case(graph, plan, question_of(kind, seed), mean)


@st.composite
def rearranged(draw, case):
    """The same documents in another order, among others that do not train, and on disk."""
    graph, count = case.graph, len(case.graph)
    order = np.array(draw(st.permutations(range(count))))
    if isinstance(case.question, ModuleGradient):
        # A module sees a group as one: its own order of documents may round in its own vector.
        for number in range(case.count):
            own = np.flatnonzero(case.group[order] == number)
            order[own] = np.sort(order[own])
    graph = graph.induced(order)
    total = count + draw(st.integers(0, 9))
    place = np.sort(draw(st.permutations(range(total)))[:count]).astype(np.int64)

    def among(values, others):
        made = np.full((total, *values.shape[1:]), others, values.dtype)
        made[place] = values
        return made

    def mapped(array):
        if not array.size:
            return array
        with tempfile.TemporaryFile() as file:
            made = np.memmap(file, array.dtype, "w+", shape=array.shape)
        made[...] = array
        return made

    features = graph.features
    if issparse(features):
        lengths = among(np.diff(features.indptr), 0)
        arrays = features.data, features.indices, np.concatenate([[0], np.cumsum(lengths)])
        features = csr_array(tuple(map(mapped, arrays)), shape=(total, WIDTH))
    else:
        features = mapped(among(features, 3.0))
    owners = None if graph.owners is None else among(graph.owners, 0)
    labels, split = among(graph.labels, 1), np.zeros(total, np.int8)
    wide = DocumentGraph(features, place[graph.edges], labels, CLASSES, split, owners)
    return replace(case, graph=wide, rows=place)


# hazards 6, 7, 8, 9, 12
@pytest.mark.parametrize("kind", QUESTIONS)
@settings(max_examples=60)
@given(data=st.data())
def test_every_question_keeps_its_contract(kind, data):
    """On the grid, at most a clip norm, each group's own, in any order, and the right one."""
    case = data.draw(cases(kind))
    alone = [case.alone(number) for number in range(case.count)]
    assert all(no_longer_than_a_clip_norm(vector, case.grid) for vector in alone)
    if kind != "module":
        assert all((alone[number] == one).all() for number, one in case.by_hand().items())
    whole = case.sum()
    assert (sum(alone) == whole).all()
    lists = st.lists(st.booleans(), min_size=case.count, max_size=case.count)
    some = np.array(data.draw(lists))
    assert (case.sum(some) == sum((alone[n] for n in np.flatnonzero(some)), 0 * whole)).all()
    elsewhere, size = data.draw(rearranged(case)), data.draw(st.sampled_from([1, 2, 7, 4096]))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(groups, "_SPARSE_ROWS", size)
        patch.setattr(groups, "_CELLS", size * WIDTH)
        patch.setattr(groups, "_IN_MEMORY", data.draw(st.sampled_from([0, 1 << 29])))
        with threadpool_limits(data.draw(st.sampled_from([1, 2]))):
            assert (elsewhere.sum() == whole).all()


# hazard 8
@pytest.mark.parametrize("name", HOSTILE)
@pytest.mark.parametrize("form", ["dense", "sparse"])
def test_a_hostile_row_adds_what_its_definition_says(name, form):
    graph = random_graph(4, WIDTH, CLASSES, unlabelled=0.0)
    rows = graph.features.astype(np.float64) + 1.0
    with np.errstate(all="ignore"):
        rows[2] = HOSTILE[name](rows[2])
        graph = replace(graph, features=stored(rows, form))
    for kind in ("softmax", "statistics"):
        case = Case(graph, plan_of(graph), question_of(kind))
        assert (case.alone(2) == case.by_hand()[2]).all()


# -- neighbours: the table of sensitivities, on the sums that noise is added to ----------------

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


def unit_of(graph, plan):
    """The documents of one protected unit."""
    if plan.unit == "document":
        return np.array([5])
    if plan.unit == "person":
        return np.flatnonzero(graph.owners == graph.owners[5])
    group = partition(plan.partition, len(graph), graph.owners, {})
    return np.flatnonzero(group == group[5])


def neighbour(graph, members, content):
    """The same index set with some documents absent, or with other content, edges included."""
    rows, labels = graph.features.astype(np.float64), graph.labels.copy()
    edges = graph.edges[:, ~np.isin(graph.edges, members).any(0)]
    if content is None:
        rows[members], labels[members] = 0.0, -1
    else:
        rng = np.random.default_rng(len(content))
        other = rng.normal(size=rows[members].shape)
        with np.errstate(all="ignore"):
            rows[members] = np.stack([HOSTILE[content](row) for row in other])
        labels[members] = rng.integers(-1, CLASSES + 1, len(members))
        ends = np.stack([np.repeat(members, 6), rng.integers(0, len(graph), 6 * len(members))])
        ends = np.sort(ends[:, ends[0] != ends[1]], 0)
        edges = np.unique(np.concatenate([edges, ends], 1), axis=1)
    return replace(graph, features=rows, labels=labels, edges=edges)


# hazards 8, 12
@pytest.mark.parametrize(("unit", "relation", "count", "by", "clips"), TABLE)
@pytest.mark.parametrize("kind", QUESTIONS)
def test_neighbours_move_the_sum_by_at_most_the_tables_value(
    unit, relation, count, by, clips, kind
):
    graph = random_graph(24, WIDTH, CLASSES, owners=6)
    plan = plan_of(graph, by=by, groups=count, unit=unit, relation=relation, clip_norm=0.05)
    assert plan.sensitivity == clips
    case, members = Case(graph, plan, question_of(kind)), unit_of(graph, plan)
    others = ~np.isin(np.arange(case.count), case.group[members])
    expected, apart = case.sum(), case.sum(others)
    for content in [None] if relation == "remove" else HOSTILE:
        moved = replace(case, graph=neighbour(graph, members, content))
        assert squared_length(moved.sum() - expected) <= (clips * case.grid.unit) ** 2
        assert (moved.sum(others) == apart).all(), "nobody else's vector moves"


# hazard 12
@pytest.mark.parametrize(("unit", "relation", "count", "by", "clips"), TABLE)
def test_the_worst_case_reaches_the_tables_value(unit, relation, count, by, clips):
    """The unit is loud, and of the other class than the rest of its group."""
    graph = random_graph(24, WIDTH, 2, edges=0, owners=6, unlabelled=0.0)
    plan = plan_of(graph, by=by, groups=count, unit=unit, relation=relation, clip_norm=0.05)
    members = unit_of(graph, plan)
    # The module pulls a group by its sum: one loud document outweighs the others.
    rows, labels = np.zeros((24, WIDTH)), np.ones(24, int)
    rows[:, 0], rows[members, 0], labels[members] = 1.0, 1e4, 0
    here, there = (replace(graph, features=rows.copy(), labels=labels.copy()) for _ in range(2))
    there.labels[members] = 1 if relation == "replace" else -1
    if relation == "remove":
        there.features[members] = 0.0
    question = ModuleGradient(Linear(), tensors_of)
    sums = [Case(own, plan, question).sum() for own in (here, there)]
    unit_length = Grid.of(plan.noise_multiplier, plan.partition.groups).unit
    assert squared_length(sums[0] - sums[1]) > (0.99 * clips * unit_length) ** 2


# hazard 12
@pytest.mark.parametrize("form", ["dense", "sparse", "pieces"])
@pytest.mark.parametrize("by", ["document", "owner"])
def test_a_group_of_one_mind_reaches_the_clip_norm(form, by):
    rows, zeros = np.zeros((4, WIDTH)), np.zeros(4, int)
    rows[:, 0] = 7.0
    graph = DocumentGraph(
        stored(rows, form), np.zeros((2, 0), int), zeros, CLASSES, zeros.astype("i1"), zeros
    )
    plan = plan_of(graph, by=by, clip_norm=0.1)
    zero = SoftmaxGradient(np.zeros((WIDTH, CLASSES)), np.zeros(CLASSES))
    for question in (zero, Statistics(), ModuleGradient(Linear(CLASSES), tensors_of)):
        case = Case(graph, plan, question)
        assert squared_length(case.alone(0)) > (0.999 * case.grid.unit) ** 2
    assert form != "pieces" or graph.features.nnz == 8, "the caller's matrix stays as it is"


# hazard 21
@pytest.mark.parametrize("kind", QUESTIONS)
@pytest.mark.parametrize("form", ["dense", "sparse"])
def test_how_much_somebody_writes_moves_nobody_else(kind, form):
    sums, base = [], random_graph(60, WIDTH, CLASSES, owners=20, edges=0)
    plan = plan_of(base, by="owner")
    for extra in (0, 1, 2, 5, 500):
        more = random_graph(extra, WIDTH, CLASSES, seed=9, edges=0)
        graph = DocumentGraph(
            stored(np.concatenate([base.features, more.features]), form),
            base.edges,
            np.concatenate([base.labels, more.labels]),
            CLASSES,
            np.zeros(60 + extra, np.int8),
            np.concatenate([base.owners, np.zeros(extra, int)]),
        )
        case = Case(graph, plan, question_of(kind))
        sums.append(case.sum(np.arange(20) != 0))
    assert all((sums[0] == other).all() for other in sums[1:])


# -- the numbers themselves: a last bit would hardly ever reach a whole number -----------------


# hazard 7
@pytest.mark.parametrize("width", [3, 24, 385, 4096, 8193, 20_000])
@pytest.mark.parametrize("order", ["C", "F"])
def test_a_rows_length_and_scores_are_its_own(width, order):
    """Also alone in a block, where others would be added up in another order."""
    rng = np.random.default_rng(width)
    rows = np.array(rng.normal(size=(17, width)), order=order)
    squares, table = row_squares(rows), exact_weights(rng.normal(size=(width, 9)), 14)
    assert np.allclose(squares, np.linalg.norm(rows, axis=1) ** 2, rtol=1e-12)
    whole = whole_rows(directions(rows), 14).astype(np.float64)
    scores, labels = whole @ table, rng.integers(0, 9, 17)
    residuals = whole_residuals(np.ascontiguousarray(scores.T), labels)
    for own in (slice(n, end) for n in range(17) for end in (n + 1, n + 2, None)):
        assert np.array_equal(row_squares(rows[own]), squares[own])
        alone = whole[own] @ table
        assert np.array_equal(alone, scores[own])
        residual = whole_residuals(np.ascontiguousarray(alone.T), labels[own])
        assert np.array_equal(residual, residuals[:, own])
    exact = np.vectorize(lambda value: int(value * 2.0**120), otypes=[object])
    assert (whole[:3].astype(int).astype(object) @ exact(table) == exact(scores[:3])).all()


# hazard 8
def test_a_row_of_which_a_mean_leaves_rounding_alone_has_no_direction():
    rows = np.random.default_rng(0).normal(size=(3, WIDTH))
    own = directions(rows)
    assert not directions(rows, own[1] * (1 + 1e-9))[1].any()
    assert directions(rows, own[1] * (1 + 1e-3))[1].any()


# hazard 7
@pytest.mark.parametrize("kind", ["f2", "f4", "f8", "g", "i1", "i4", "i8", "u8"])
def test_weights_of_every_type_are_cut_alike(kind):
    """Also the smallest integer, whose absolute value is no integer of its type."""
    weights = np.random.default_rng(0).integers(1, 9, (WIDTH, CLASSES)).astype(kind)
    weights[0, 0] = np.iinfo(kind).min if kind[0] in "iu" else -200.0
    made = exact_weights(weights, 14)
    assert np.array_equal(made, exact_weights(weights.astype(np.float64), 14))
    smallest = np.abs(made[made != 0]).min()
    assert WIDTH * 2**14 * np.abs(made).max() / smallest <= 2.0**53


# hazard 6
@pytest.mark.parametrize("noise", [0.01, 1.0, 112.0, 1e9])
@pytest.mark.parametrize("count", [1, 3, 1000, 10**7])
def test_ten_million_groups_fit_on_the_grid(noise, count):
    """The adversarial maximum: all groups add a whole clip norm to one coordinate."""
    grid = Grid.of(noise, count)
    largest = int(grid.unit) * count
    farthest = 46 * 2**grid.noise_bits  # of a draw: see test_noise
    assert largest <= 2**51
    assert largest + farthest < 2**53
    # The finest such grid, up to 2^-45 of the noise, and half of a unit's bits for rows.
    assert grid.noise_bits == 45 or 2 * largest + count > 2**51
    assert grid.unit == 2.0**grid.noise_bits / noise
    assert 2.0 ** (2 * grid.row_bits) <= 2 * grid.unit
    assert grid.row_bits == 14 or 2.0 ** (2 * grid.row_bits + 2) > grid.unit
