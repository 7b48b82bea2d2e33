"""Any PyTorch module: the right gradient, its own randomness, nothing carried over."""

import copy
import random
import warnings
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn.functional import cross_entropy

from brute_force import no_longer_than_a_clip_norm, plan_of, random_graph
from privgcn.graph import partition
from privgcn.mechanism import Groups, ModuleGradient, module_gradient
from privgcn.mechanism.fixed_point import Grid
from privgcn.mechanism.questions import Access

WIDTH, CLASSES, GROUPS = 7, 4, 6
GRAPH = random_graph(36, WIDTH, CLASSES, edges=120, seed=1)


def inputs(graph):
    both = np.concatenate([graph.edges, graph.edges[::-1]], axis=1)
    return torch.from_numpy(np.asarray(graph.features)), torch.from_numpy(both)


class Net(nn.Module):
    """Features and their sums over neighbours, through two layers."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.first, self.second = nn.Linear(WIDTH, 5), nn.Linear(5, CLASSES)

    def forward(self, rows, edges):
        rows = rows.index_add(0, edges[0], rows[edges[1]])
        return self.second(self.first(rows).relu())


class Sums:
    """The clipped sums of a module over samples of the groups of a graph."""

    def __init__(self, module, graph=GRAPH, *, clip_norm=1.0):
        self.plan = plan_of(graph, groups=GROUPS, unit="part", clip_norm=clip_norm)
        self.groups, self.graph = Groups.of_plan(self.plan, graph), graph
        self.question = ModuleGradient(module, inputs)
        self.grid = Grid.of(1.0, GROUPS)

    def __call__(self, *chosen, seeds=None):
        sample = np.isin(np.arange(GROUPS), chosen) if chosen else np.ones(GROUPS, bool)
        seeds = np.arange(GROUPS) if seeds is None else seeds
        access = Access(self.groups, None, self.plan.clip_norm, self.grid, sample, seeds)
        return self.question.clipped_sum(access)


# hazard 8
@pytest.mark.parametrize("clip_norm", [1e-3, 0.2, 1e6])
def test_a_groups_vector_is_its_clipped_gradient_on_its_induced_subgraph(clip_norm):
    sums, module = Sums(Net(), clip_norm=clip_norm), Net().double()
    group = partition(sums.plan.partition, 36, None, {})
    for number in range(GROUPS):
        own = GRAPH.induced(np.flatnonzero(group == number))
        rows, edges = inputs(own)
        known = own.labels >= 0
        scores = module(rows.double(), edges)[torch.from_numpy(known)]
        loss = cross_entropy(scores, torch.from_numpy(own.labels[known]))
        found = torch.autograd.grad(loss, list(module.parameters()))
        gradient = torch.cat([each.flatten() for each in found])
        expected = (gradient / max(float(gradient.norm()), clip_norm)).numpy()
        made = sums(number) / sums.grid.unit
        assert np.allclose(made, expected, rtol=1e-4, atol=1e-6 * np.abs(expected).max())


# hazard 8
@pytest.mark.parametrize("size", [1e300, 1e30, 1.0, 1e-3, 1e-300, 0.0])
@pytest.mark.parametrize("count", [1, 999, 100_000])
def test_a_vector_is_clipped_as_a_whole_and_lies_on_the_grid(size, count):
    grid = Grid.of(4.0, 10)
    vector = torch.randn(count, dtype=torch.float64) * size
    made = module_gradient.clipped(vector, 1.0, grid).numpy()
    assert no_longer_than_a_clip_norm(made, grid)
    assert np.array_equal(made, np.rint(made))
    # Rounding may add more to many coordinates than cutting takes off.
    assert np.linalg.norm(made) < (1 - 2**-31) * grid.unit
    if 1.0 <= size <= 1e30 and count > 1:
        assert np.linalg.norm(made) > 0.999 * grid.unit
    for bad in (np.nan, np.inf, -np.inf):
        vector[0] = bad
        assert not module_gradient.clipped(vector, 1.0, grid).any()


class Scaled(nn.Module):
    """A tied weight and a frozen one."""

    def __init__(self):
        super().__init__()
        self.first = nn.Linear(WIDTH, WIDTH, bias=False)
        self.second = nn.Linear(WIDTH, WIDTH, bias=False)
        self.second.weight = self.first.weight
        self.out, self.scale = nn.Linear(WIDTH, CLASSES), nn.Parameter(torch.ones(1))
        self.frozen = nn.Parameter(torch.ones(3), requires_grad=False)

    def forward(self, rows, edges):
        return self.out(self.second(self.first(rows * self.scale * 9)))


# hazard 8
def test_the_answer_is_about_parameters_that_require_gradients_now_each_once():
    """One number that is left would otherwise be added to every coordinate."""
    module = Scaled()
    sums = Sums(module, clip_norm=1e-3)
    for sizes in ([1, 49, 28, 4], [1]):
        assert [value.numel() for value in sums.question.parameters] == sizes
        assert len(sums()) == sum(sizes)
        assert np.linalg.norm(sums(3)) == pytest.approx(sums.grid.unit, rel=1e-5)
        assert no_longer_than_a_clip_norm(sums(3), sums.grid)
        for part in (module.first, module.out):
            part.requires_grad_(False)


# hazard 8
def test_a_group_that_is_not_finite_counts_as_zero():
    rows = GRAPH.features.copy()
    clean = Sums(Net())
    group = partition(clean.plan.partition, 36, None, {})
    rows[group == 0] = np.nan
    dirty = Sums(Net(), replace(GRAPH, features=rows))
    assert not dirty(0).any()
    assert np.array_equal(dirty(), clean(1, 2, 3, 4, 5))


class Lookup(nn.Module):
    """Knows nothing of a group without edges, and looks up a sparse row elsewhere."""

    def __init__(self):
        super().__init__()
        self.table = nn.Embedding(2, CLASSES, sparse=True)

    def forward(self, rows, edges):
        if not edges.shape[1]:
            return rows.new_zeros(len(rows), CLASSES)
        return self.table(torch.ones(len(rows), dtype=torch.int64))


# hazard 33
def test_groups_without_gradient_label_or_document_add_zero():
    """An error would tell that there is such a group."""
    lonely = Sums(Lookup(), random_graph(36, WIDTH, CLASSES, edges=0))
    assert not lonely().any()
    assert np.linalg.norm(Sums(Lookup(), clip_norm=0.01)(1)) > 0
    unlabelled = Sums(Net(), replace(GRAPH, labels=np.full(36, -1)))
    assert not unlabelled().any()


# -- randomness --------------------------------------------------------------------------------


class Drops(nn.Module):
    """Leaves out features by a mask from somewhere."""

    def __init__(self, draw):
        super().__init__()
        self.linear, self.draw = nn.Linear(WIDTH, CLASSES), draw

    def forward(self, rows, edges):
        return self.linear(rows * torch.as_tensor(self.draw(*rows.shape)).round().float())


MASKS = {
    "torch": torch.rand,
    "numpy": np.random.rand,
    "python": lambda count, width: [[random.random()] * width for _ in range(count)],
}


# hazard 15
@pytest.mark.parametrize("name", MASKS)
def test_masks_are_secret_and_each_groups_own(name):
    """Under a seed that someone knows, a shift of masks would tell who was sampled."""

    def seed():
        torch.manual_seed(0)
        random.seed(0)
        np.random.seed(0)

    sums, draw = Sums(Drops(MASKS[name]), clip_norm=1e3), MASKS[name]
    seed()
    whole, after = sums(), torch.as_tensor(draw(2, 2))
    seed()
    assert torch.equal(torch.as_tensor(draw(2, 2)), after), "the caller's stay untouched"
    assert np.array_equal(whole, sum(sums(number) for number in range(GROUPS)))
    seed()
    other = sums(3, seeds=np.arange(GROUPS) + 100)
    assert not np.array_equal(other, sums(3)), "the caller's seed must not decide the masks"


# -- what a module keeps -----------------------------------------------------------------------


class Keeps(nn.Module):
    """Does something at each call that would reach the scores of the next."""

    def __init__(self, what):
        super().__init__()
        torch.manual_seed(0)
        self.scores, self.what = nn.Linear(WIDTH, CLASSES), what
        self.register_buffer("total", torch.zeros(WIDTH))
        self.last, self.pair = 0.0, ([0.0],)

    def forward(self, rows, edges):
        mean, before = float(rows.detach().mean()), 0.0
        with torch.no_grad():
            match self.what:
                case "a buffer":
                    self.total += mean
                    before = self.total
                case "a weight":
                    self.scores.weight.mul_(1.0 + abs(mean))
                case "an attribute":
                    before, self.last = self.last, mean
                case "a list in a tuple":
                    before, self.pair[0][0] = self.pair[0][0], mean
                case "inputs":
                    rows.mul_(2.0)
        if self.what == "gradient mode":
            torch.set_grad_enabled(False)
        return self.scores(rows) + torch.arange(CLASSES) * torch.as_tensor(before).sum()


KEPT = ["a buffer", "a weight", "an attribute", "a list in a tuple", "inputs", "gradient mode"]


# hazard 15
@pytest.mark.parametrize("what", KEPT)
def test_what_a_module_keeps_of_a_group_reaches_no_other_group(what):
    """Neither in one sum nor in the next, and no tensor of the caller changes."""
    module, graph = Keeps(what), replace(GRAPH, features=GRAPH.features.copy())
    before = copy.deepcopy(module.state_dict())
    sums = Sums(module, graph)
    whole = sums()
    assert np.isfinite(whole).all()
    alone = [Sums(Keeps(what), graph)(number) for number in range(GROUPS)]
    assert np.array_equal(whole, sum(alone))
    assert np.array_equal(sums(), whole)
    assert torch.is_grad_enabled()
    assert np.array_equal(graph.features, GRAPH.features)
    for name, value in module.state_dict().items():
        assert torch.equal(value, before[name])


def test_groups_are_in_training_mode_whatever_mode_the_module_was_in():
    class Doubles(Net):
        def forward(self, rows, edges):
            return super().forward(rows * (1 + self.training), edges)

    assert np.array_equal(Sums(Doubles())(), Sums(Doubles().eval())())


# hazard 33
@pytest.mark.parametrize("shape", ["fewer classes", "one score for all", "too many documents"])
def test_scores_of_another_shape_are_refused_whichever_documents_have_a_label(shape):
    class Wrong(Net):
        def forward(self, rows, edges):
            scores = super().forward(rows, edges)
            wrong = {"fewer classes": scores[:, :-1], "one score for all": scores[:1]}
            return wrong.get(shape, torch.cat([scores, scores]))

    for labelled, label in ((0, 0), (35, CLASSES - 1)):
        labels = np.where(np.arange(36) == labelled, label, -1)
        with pytest.raises(ValueError, match=f"each document {CLASSES} scores"):
            Sums(Wrong(), replace(GRAPH, labels=labels))()


# hazard 33
@pytest.mark.parametrize("bad", [np.nan, np.inf, 3e38])
def test_no_document_decides_about_a_warning_or_an_error(bad, recwarn):
    class Tells(Net):
        def forward(self, rows, edges):
            if not rows.isfinite().all():
                warnings.warn("not finite", stacklevel=1)
            return super().forward(rows, edges)

    rows = GRAPH.features.copy()
    rows[5] = bad
    sums = Sums(Tells(), replace(GRAPH, features=rows))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch tells that this mode is slow
        detecting = torch.autograd.set_detect_anomaly(True)
    with detecting:
        assert np.isfinite(sums()).all()
        assert torch.is_anomaly_enabled(), "the caller's mode stays as it was"
    assert not recwarn.list


def test_inputs_are_made_once_per_group_and_used_again():
    made = []

    def counted(graph):
        made.append(len(graph))
        return inputs(graph)

    sums = Sums(Net())
    sums.question = ModuleGradient(Net(), counted)
    first = sums()
    assert np.array_equal(first, sums())
    assert sorted(made) == [6] * 6
    other = Sums(Net(), replace(GRAPH, features=-GRAPH.features))
    other.question = sums.question
    # hazard 9: what was prepared belongs to its documents and to the question
    assert not np.array_equal(first, other())
    sums.question = ModuleGradient(Net(), lambda graph: (-inputs(graph)[0], inputs(graph)[1]))
    assert not np.array_equal(first, sums())
