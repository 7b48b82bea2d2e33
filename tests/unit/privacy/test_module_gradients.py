"""The general path: any module, the same bound."""

import random
from collections.abc import Callable

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from brute_force import FINE, joint_norm, plan_for, random_graph, relative_error
from privgcn.config import TrainingSettings
from privgcn.errors import PrivacyContractError
from privgcn.graph import DenseRows, PartitionedGraph, cut, random_parts
from privgcn.models import make_model
from privgcn.privacy.mechanism.module_gradients import ModuleGradients
from privgcn.privacy.mechanism.noise_grid import Grid
from privgcn.privacy.mechanism.part_gradients import StackGradients
from privgcn.privacy.partition import PartitionFacts
from privgcn.privacy.plan import PrivacyPlan
from privgcn.privacy.schedule import AllParts
from privgcn.randomness import RandomSource
from privgcn.training.private import PrivateTrainer

pytestmark = pytest.mark.filterwarnings("ignore")
FEATURES, CLASSES = 7, 4


class Net(nn.Module):
    """Two graph convolutions, as a user would write them."""

    def __init__(self, *, cached: bool = False, dropout: float = 0.0) -> None:
        from torch_geometric.nn import GCNConv

        super().__init__()
        self.first = GCNConv(FEATURES, 5, cached=cached)
        self.second = GCNConv(5, CLASSES, cached=cached)
        self.drop = nn.Dropout(dropout)

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        return self.second(self.drop(self.first(x, edge_index).relu()), edge_index)


def pieces(parts: int, seed: int = 1) -> PartitionedGraph:
    graph = random_graph(36, FEATURES, CLASSES, links=120, seed=seed)
    return cut(graph, random_parts(36, parts, 0), parts)


def as_stack(gradients: ModuleGradients) -> list[Tensor]:
    """The module's parameters as those of ``gcn``."""
    named = dict(zip(gradients.names, gradients.initial(), strict=True))
    order = ("first.lin.weight", "first.bias", "second.lin.weight", "second.bias")
    return [
        named[name].squeeze(-2).T.contiguous().unsqueeze(1)
        if name.endswith("weight")
        else named[name]
        for name in order
    ]


@pytest.mark.parametrize("parts", [1, 6, 36])
def test_the_fast_path_gives_the_same_sums(parts: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Grid, "of", lambda noise_multiplier, parts: FINE)
    torch.manual_seed(0)
    graph = pieces(parts)
    plan = plan_for(parts, 0.05)
    general = ModuleGradients(Net(), graph, plan)
    model = make_model("gcn", FEATURES, CLASSES, hidden=5, dropout=0.0)
    fast = StackGradients(model, graph, plan, None)
    for sample in (None, [np.arange(0, parts, 2)], [np.array([], dtype=np.int64)]):
        expected = fast.clipped_sum(as_stack(general), sample)
        sums = general.clipped_sum(general.initial(), sample)
        named = dict(zip(general.names, sums, strict=True))
        found = [
            named["first.lin.weight"].squeeze(-2).T.unsqueeze(1),
            named["first.bias"],
            named["second.lin.weight"].squeeze(-2).T.unsqueeze(1),
            named["second.bias"],
        ]
        assert relative_error(found, expected) < 1e-4


def test_each_part_is_clipped_jointly() -> None:
    general = ModuleGradients(Net(), pieces(6), plan_for(6, 0.01))
    for part in range(6):
        sums = general.clipped_sum(general.initial(), [np.array([part])])
        assert joint_norm(sums) == pytest.approx(1.0, rel=1e-5)
        assert joint_norm(sums) <= 1.0


class Summed(nn.Module):
    """Two weights that are added: autograd gives both of them one gradient tensor."""

    def __init__(self, dtype: torch.dtype) -> None:
        super().__init__()
        shape = (FEATURES, CLASSES)
        self.first = nn.Parameter(torch.zeros(shape, dtype=dtype))
        self.second = nn.Parameter(torch.zeros(shape, dtype=dtype))

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        return x.to(self.first.dtype) @ (self.first + self.second)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("share", [0.9, 1.1])
def test_weights_that_share_a_gradient_are_clipped_once(
    dtype: torch.dtype, share: float
) -> None:
    """In place, the one tensor would be divided by the clip norm twice."""
    graph = pieces(6)
    scaled = graph.with_features(DenseRows(graph.features.dense() * 1e-2))
    free = ModuleGradients(Summed(dtype), scaled, plan_for(6, 1.0))
    length = joint_norm(free.clipped_sum(free.initial(), [np.array([2])]))
    assert length < 0.1
    general = ModuleGradients(Summed(dtype), scaled, plan_for(6, length / share))
    sums = general.clipped_sum(general.initial(), [np.array([2])])
    assert joint_norm(sums) == pytest.approx(min(share, 1.0), rel=1e-5)


def test_a_part_that_is_not_finite_counts_as_zero() -> None:
    graph = pieces(6)
    clean = ModuleGradients(Net(), graph, plan_for(6, 0.01))
    rows = graph.features.dense().clone()
    rows[0] = torch.nan
    spoiled = PartitionedGraph(
        DenseRows(rows), graph.matrix, graph.labels, CLASSES, graph.offsets, graph.order
    )
    dirty = ModuleGradients(clean.module, spoiled, plan_for(6, 0.01))
    assert joint_norm(dirty.clipped_sum(clean.initial(), [np.array([0])])) == 0.0
    others = [np.arange(1, 6)]
    expected = clean.clipped_sum(clean.initial(), others)
    for found, wanted in zip(dirty.clipped_sum(clean.initial(), None), expected, strict=True):
        assert torch.equal(found, wanted)


def test_a_layer_that_caches_its_links_does_not_carry_them_to_the_next_part() -> None:
    torch.manual_seed(0)
    graph = pieces(6)
    plain = Net()
    cached = Net(cached=True)
    cached.load_state_dict(plain.state_dict())
    plan = plan_for(6, 0.05)
    sums = [
        ModuleGradients(net, graph, plan).clipped_sum(
            ModuleGradients(plain, graph, plan).initial(), None
        )
        for net in (plain, cached)
    ]
    for one, other in zip(*sums, strict=True):
        assert torch.equal(one, other)


def test_the_masks_of_one_part_do_not_depend_on_which_others_were_sampled() -> None:
    """Under a seed that someone knows, a shift of masks would tell who was sampled."""
    graph = pieces(6)
    torch.manual_seed(1)
    net = Net(dropout=0.5)
    alone = []
    # Few units are active, so two masks may well agree on them; twenty do not.
    for _ in range(20):
        torch.manual_seed(0)
        general = ModuleGradients(net, graph, plan_for(6))
        alone.append(general.clipped_sum(general.initial(), [np.array([3])]))
    differences = [relative_error(alone[0], other) for other in alone[1:]]
    assert max(differences) > 1e-3, "the caller's seed must not decide the masks"
    before = torch.get_rng_state()
    general.clipped_sum(general.initial(), None)
    assert torch.equal(before, torch.get_rng_state()), "the caller's generator stays untouched"


class Drops(nn.Module):
    """Leaves out features by numbers that are not PyTorch's."""

    def __init__(self, draw: Callable[[], float]) -> None:
        super().__init__()
        self.linear = nn.Linear(FEATURES, CLASSES)
        self.draw = draw

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        return self.linear(x * torch.tensor([[self.draw() for _ in row] for row in x]).round())


@pytest.mark.parametrize(
    "draw", [lambda: random.random(), lambda: np.random.random()], ids=["python", "numpy"]
)
def test_what_one_part_draws_from_other_libraries_moves_no_other_part(
    draw: Callable[[], float],
) -> None:
    """After ``np.random.seed(0)`` in a script, a shift would tell who was sampled."""
    graph, net = pieces(6), Drops(draw)
    sums = []
    for sample in ([2, 3], [3]):
        random.seed(0)
        np.random.seed(0)
        first = draw()
        words = RandomSource.reproducible(0, "masks")
        general = ModuleGradients(net, graph, plan_for(6), words)
        if sample == [3]:
            words.words(1)  # what part 2 would have taken
        sums.append(general.clipped_sum(general.initial(), [np.array(sample)]))
        after = draw()
        random.seed(0)
        np.random.seed(0)
        assert [draw(), draw()] == [first, after], "the caller's generators stay untouched"
    words = RandomSource.reproducible(0, "masks")
    alone = ModuleGradients(net, graph, plan_for(6), words)
    second = alone.clipped_sum(alone.initial(), [np.array([2])])
    for both, one, other in zip(*sums, second, strict=True):
        assert torch.equal(both - other, one)


@pytest.mark.parametrize(
    "layer", [nn.BatchNorm1d(5), nn.InstanceNorm1d(5, track_running_stats=True)]
)
def test_statistics_over_several_parts_are_refused(layer: nn.Module) -> None:
    net = Net()
    net.norm = layer
    with pytest.raises(PrivacyContractError, match="norm"):
        ModuleGradients(net, pieces(6), plan_for(6))


def test_the_trainer_takes_a_module() -> None:
    graph = pieces(6)
    plan = PrivacyPlan(
        unit="part",
        relation="remove",
        partition=PartitionFacts(kind="random", parts=6, seed=0),
        schedule=AllParts(6),
        clip_norm=0.5,
        noise_multiplier=1.0,
        steps=3,
        delta=1e-3,
        units=36,
    )
    general = ModuleGradients(Net(), graph, plan)
    settings = TrainingSettings(optimizer="sgd", learning_rate=0.1)
    trainer = PrivateTrainer(general.initial(), general, plan, settings, RandomSource.secret())
    for before, after in zip(general.initial(), trainer.run(), strict=True):
        assert before.shape == after.shape
        assert not torch.equal(before, after)


class Renorms(nn.Module):
    """Shortens a weight in place, and more where a document is long."""

    def __init__(self) -> None:
        super().__init__()
        self.scores = nn.Linear(FEATURES, CLASSES)

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        with torch.no_grad():
            self.scores.weight.mul_(1.0 / (1.0 + float(x.abs().sum())))
        return self.scores(x)


class Remembers(nn.Module):
    """Adds up what it saw in a weight that nobody trains."""

    def __init__(self) -> None:
        super().__init__()
        self.scores = nn.Linear(FEATURES, CLASSES)
        self.seen = nn.Parameter(torch.zeros(1), requires_grad=False)

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        self.seen += float(x.abs().sum())
        return self.scores(x) * self.seen


@pytest.mark.parametrize("kind", [Renorms, Remembers])
def test_a_module_that_changes_weights_changes_nobody_elses(kind: type[nn.Module]) -> None:
    graph = pieces(6)
    gradients = ModuleGradients(kind(), graph, plan_for(6))
    parameters = gradients.initial()
    before = [parameter.clone() for parameter in parameters]
    held = [parameter.clone() for parameter in gradients.module.parameters()]
    one = gradients.clipped_sum(parameters, [np.array([2])])
    gradients.clipped_sum(parameters, None)
    again = gradients.clipped_sum(parameters, [np.array([2])])
    for first, second in zip(one, again, strict=True):
        assert torch.equal(first, second)
    for first, second in zip(before, parameters, strict=True):
        assert torch.equal(first, second)
    for first, second in zip(held, gradients.module.parameters(), strict=True):
        assert torch.equal(first, second)
