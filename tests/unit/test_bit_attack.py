"""The attack on noisy sums: it decides where noise is a float, and never on one grid."""

import math

import bit_attack
import pytest
import torch
from torch import Tensor

from brute_force import random_graph
from privgcn.evidence.bits import decide, spacing_of
from privgcn.evidence.canaries import without
from privgcn.randomness import RandomSource

TRIALS = 20
H = 2.0**-38


def sums(trial: int, spacing: float = H) -> tuple[Tensor, Tensor]:
    """Sums of 3000 coordinates on a grid; one document touches a hundred of them."""
    random = torch.Generator().manual_seed(trial)
    absent = 3 * torch.randn(3000, dtype=torch.float64, generator=random)
    own = torch.randn(100, dtype=torch.float64, generator=random)
    present = absent.clone()
    present[:100] += own / own.norm()
    return tuple((each / spacing).trunc() * spacing for each in (present, absent))


def gaussian(scale: float, size: torch.Size) -> Tensor:
    return scale * torch.randn(size, dtype=torch.float64)


def rounded_half_up(values: Tensor, spacing: float) -> Tensor:
    return torch.floor(values / spacing + 0.5) * spacing


def as_float32_result(total: Tensor, scale: float) -> Tensor:
    return (gaussian(scale, total.shape).float().double() + total).float()


def as_float32_draw(total: Tensor, scale: float) -> Tensor:
    return gaussian(scale, total.shape).float().double() + total


def as_float32_draw_on_the_grid(total: Tensor, scale: float) -> Tensor:
    return rounded_half_up(gaussian(scale, total.shape).float().double(), H) + total


def as_float64_off_the_grid(total: Tensor, scale: float) -> Tensor:
    return gaussian(scale, total.shape) + total


@pytest.mark.parametrize(
    "noisy",
    [
        as_float32_result,
        as_float32_draw,
        as_float32_draw_on_the_grid,
        as_float64_off_the_grid,
        lambda total, scale: as_float32_result(total, scale).double(),
        lambda total, scale: as_float32_draw_on_the_grid(total, scale).float(),
    ],
)
def test_noise_that_is_no_finer_than_a_float_decides_and_is_never_wrong(noisy) -> None:
    # A sum on a coarse grid hides in float64 noise; a sum as float64 makes it does not.
    spacing = 2.0**-60 if noisy is as_float64_off_the_grid else H
    verdicts = []
    for trial in range(TRIALS):
        pair = sums(trial, spacing)
        there = trial % 2 == 0
        released = noisy(pair[0] if there else pair[1], 4.0)
        verdicts.append((decide(released, *pair), there))
    assert all(found in (None, there) for found, there in verdicts)
    assert sum(found is not None for found, _ in verdicts) >= 0.9 * TRIALS


@pytest.mark.parametrize("scale", [0.01, 4.0, 200.0, 1e9])
@pytest.mark.parametrize("rounded", [False, True])
def test_noise_on_the_grid_of_the_sums_decides_nothing(scale: float, rounded: bool) -> None:
    spacing = max(H, 2.0 ** (math.ceil(math.log2(scale)) - 45))
    for trial in range(TRIALS):
        pair = sums(trial, spacing)
        total = pair[trial % 2]
        released = total + rounded_half_up(gaussian(scale, total.shape), spacing)
        released = released.float() if rounded else released
        assert decide(released, *pair) is None
        assert decide(released, *pair, spacing=spacing) is None


def test_many_noisy_counts_on_the_grid_decide_nothing_and_in_float32_all() -> None:
    present, absent = (torch.full((300,), count, dtype=torch.float64) for count in (57, 56))
    on_grid = present + rounded_half_up(gaussian(4.0, present.shape), H)
    assert decide(on_grid, present, absent) is None
    assert decide(as_float32_draw(present, 4.0), present, absent) is True
    assert decide(as_float32_draw(absent, 4.0), present, absent) is False


def test_a_sum_between_two_grid_values_is_found_out() -> None:
    present, absent = sums(0)
    released = present + rounded_half_up(gaussian(4.0, present.shape), H)
    beside = absent.clone()
    beside[0] += H / 2
    assert decide(released, present, beside, spacing=H) is True
    assert decide(released, beside, present, spacing=H) is False


def test_noise_beyond_its_reach_rules_a_sum_out() -> None:
    present, absent = sums(0)
    released = absent + rounded_half_up(gaussian(0.01, absent.shape), H)
    assert decide(released, present, absent) is None
    assert decide(released, present, absent, reach=0.0866) is False


def test_the_spacing_is_the_largest_power_of_two_that_fits_up_to_one() -> None:
    values = torch.tensor([0.0, -3 * 2.0**-20, 5 * 2.0**-18], dtype=torch.float64)
    assert spacing_of([values, torch.ones(2)]) == 2.0**-20
    assert spacing_of([torch.full((2,), 6.0)]) == 1.0
    assert spacing_of([torch.tensor([-0.1], dtype=torch.float64)]) == 2.0**-55


def test_a_document_that_is_gone_leaves_its_place() -> None:
    for sparse in (True, False):
        graph = random_graph(sparse=sparse, unlabelled=0.0)
        linked = int(graph.edges[0, 0])
        gone = without(graph, linked)
        others = torch.arange(len(graph)) != linked
        assert len(gone) == len(graph)
        assert not gone.features.dense()[linked].any()
        assert gone.labels[linked] == -1
        assert not (gone.edges == linked).any()
        assert torch.equal(gone.features.dense()[others], graph.features.dense()[others])
        assert torch.equal(gone.labels[others], graph.labels[others])
        kept = (graph.edges != linked).all(0)
        assert torch.equal(gone.edges, graph.edges[:, kept])


def test_float32_noise_is_float32_noise_of_the_right_size() -> None:
    source = RandomSource.reproducible(0, "test")
    totals = [torch.full((20_001,), 10.0, dtype=torch.float64) for _ in range(2)]
    first, second = bit_attack.float32_noisy(totals, None, 3.0, source)
    for drawn in (first, second):
        assert torch.equal(drawn.float().double(), drawn)
        assert abs(float(drawn.mean()) - 10.0) < 5 * 3.0 / math.sqrt(20_001)
        assert abs(float(drawn.std()) / 3.0 - 1) < 5 / math.sqrt(2 * 20_001)
    assert not torch.equal(first, second)
