"""The source of noise and samples: independent draws of the right law, never repeated."""

import math
import os
from decimal import Decimal, localcontext
from typing import Any

import numpy as np
import pytest
import torch
from scipy.special import ndtr
from scipy.stats import norm

from privgcn.errors import ConfigError, PrivacyContractError
from privgcn.randomness import (
    DeviceReplicas,
    DeviceSource,
    RandomSource,
    SeededReplicas,
    _gaussians_of_words,
)


def test_only_secret_sources_are_releasable() -> None:
    assert RandomSource.secret().releasable
    assert not RandomSource.reproducible(1, "noise").releasable


def test_secret_sources_never_repeat() -> None:
    first, second = RandomSource.secret(), RandomSource.secret()
    assert not np.array_equal(first.words(4), second.words(4))
    assert not np.array_equal(first.words(4), first.words(4))


def test_reproducible_sources_repeat_for_the_same_seed_and_purpose_only() -> None:
    words = RandomSource.reproducible(7, "noise").words(8)
    assert np.array_equal(words, RandomSource.reproducible(7, "noise").words(8))
    assert not np.array_equal(words, RandomSource.reproducible(8, "noise").words(8))
    assert not np.array_equal(words, RandomSource.reproducible(7, "samples").words(8))


def test_draws_are_cut_from_one_stream_without_overlap() -> None:
    whole = RandomSource.reproducible(0, "test").words(1000)
    source = RandomSource.reproducible(0, "test")
    pieces = [source.words(count) for count in (1, 2, 3, 500, 494)]
    assert np.array_equal(np.concatenate(pieces), whole)
    assert len(np.unique(whole)) == 1000


def test_a_key_has_32_bytes() -> None:
    with pytest.raises(ConfigError, match="32 bytes"):
        RandomSource(b"short", releasable=True)


# -- samples ----------------------------------------------------------------------------


def test_choose_takes_each_index_independently() -> None:
    source = RandomSource.reproducible(1, "test")
    rounds, count, probability = 3000, 40, 0.3
    taken = np.zeros((rounds, count))
    for row in taken:
        row[source.choose(count, probability)] = 1.0
    spread = math.sqrt(probability * (1 - probability))
    frequency = taken.mean(axis=0)
    assert np.abs(frequency - probability).max() < 4.5 * spread / math.sqrt(rounds)
    correlation = np.corrcoef(taken.T) - np.eye(count)
    assert np.abs(correlation).max() < 5 / math.sqrt(rounds)
    one_after_the_other = np.corrcoef(taken[:-1].ravel(), taken[1:].ravel())[0, 1]
    assert abs(one_after_the_other) < 5 / math.sqrt(taken.size)
    expected = count * probability * (1 - probability)
    assert abs(taken.sum(1).var() - expected) < 5 * expected * math.sqrt(2 / rounds)


def test_choose_never_rounds_a_probability_up(monkeypatch: pytest.MonkeyPatch) -> None:
    source = RandomSource.reproducible(1, "test")
    assert len(source.choose(100_000, 1e-25)) == 0
    assert np.array_equal(source.choose(5, 1.0), np.arange(5))
    lowest = np.zeros(3, dtype=np.uint64)
    highest = np.full(3, np.iinfo(np.uint64).max)
    monkeypatch.setattr(source, "words", lambda count: lowest)
    assert len(source.choose(3, 1e-25)) == 0
    monkeypatch.setattr(source, "words", lambda count: highest)
    assert len(source.choose(3, math.nextafter(1.0, 0.0))) == 0


@pytest.mark.parametrize("probability", [0.0, -0.1, 1.1, math.nan])
def test_choose_refuses_what_is_no_probability(probability: float) -> None:
    with pytest.raises(ConfigError, match="probability"):
        RandomSource.secret().choose(3, probability)


# -- noise ------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def draws() -> torch.Tensor:
    """Ten million draws of N(0, 1), once for all tests of their law."""
    return RandomSource.reproducible(11, "law of the noise").normal([(10_000_000,)])[0]


def test_noise_has_the_moments_of_a_gaussian(draws: torch.Tensor) -> None:
    assert draws.dtype == torch.float64
    assert bool(torch.isfinite(draws).all())
    count = len(draws)
    for power, moment, variance in ((1, 0, 1), (2, 1, 2), (3, 0, 15), (4, 3, 96)):
        assert abs(float((draws**power).mean()) - moment) < 5 * math.sqrt(variance / count)


def test_noise_passes_kolmogorov_and_smirnov(draws: torch.Tensor) -> None:
    taken = np.sort(draws[:2_000_000].numpy())
    below = ndtr(taken)
    steps = np.arange(1, len(taken) + 1) / len(taken)
    distance = max(np.abs(steps - below).max(), np.abs(steps - 1 / len(taken) - below).max())
    assert distance * math.sqrt(len(taken)) < 2.0  # p = 0.0007


@pytest.mark.parametrize("limit", [2.0, 3.0, 4.0, 4.75])
def test_noise_has_both_tails(draws: torch.Tensor, limit: float) -> None:
    expected = len(draws) * norm.sf(limit)
    for side in (draws, -draws):
        found = int((side > limit).sum())
        assert abs(found - expected) < 5 * math.sqrt(expected) + 1


def test_noise_is_independent_along_the_stream(draws: torch.Tensor) -> None:
    # Box-Muller makes two values of one radius; they must be independent, squares too.
    half, some = len(draws) // 2, 2_000_000
    pairs = {
        "one radius": (draws[:some], draws[half : half + some]),
        "neighbours": (draws[:some], draws[1 : some + 1]),
        "next but seven": (draws[:some], draws[8 : some + 8]),
    }
    for name, (first, second) in pairs.items():
        first, second = first.double(), second.double()
        for power in (1, 2, 3):
            one, other = first**power, second**power
            both = torch.stack([one - one.mean(), other - other.mean()])
            products = (both[0] * both[1]).mean() / (both[0].std() * both[1].std())
            assert abs(float(products)) * math.sqrt(len(first)) < 5, (name, power)


def test_noise_is_finite_at_the_ends_of_the_uniform(monkeypatch: pytest.MonkeyPatch) -> None:
    source = RandomSource.secret()
    for word in (0, 2**64 - 1, 2**11 - 1, 2**63):
        constant = np.uint64(word)
        monkeypatch.setattr(source, "words", lambda count, w=constant: np.full(count, w))
        values = source.normal([(64,)])[0]
        assert bool(torch.isfinite(values).all())
        assert float(values.abs().max()) < 13.4


@pytest.mark.parametrize("shapes", [[(3,), (3,)], [(2, 1, 5), (2, 1, 5), (1,)], [(0,), (1,)]])
def test_tensors_of_one_shape_get_draws_of_their_own(shapes: list[Any]) -> None:
    tensors = RandomSource.secret().normal(shapes)
    assert [tuple(tensor.shape) for tensor in tensors] == shapes
    values = torch.cat([tensor.reshape(-1) for tensor in tensors])
    assert len(torch.unique(values)) == len(values)


def test_radius_and_angle_have_all_their_bits() -> None:
    """With fewer bits only some values could be reached, and which tells the sum below."""
    values = RandomSource.reproducible(2, "test").normal([(400_000,)])[0]
    assert len(torch.unique(values)) == len(values)
    # The last of 53 bits are as often one as zero, for small values and large.
    mantissas = torch.frexp(values)[0].abs() * 2.0**53
    for some in (mantissas, mantissas[values.abs() < 0.1], mantissas[values.abs() > 2]):
        for bit in range(6):
            ones = float(((some.long() >> bit) & 1).double().mean())
            assert abs(ones - 0.5) < 4 * 0.5 / math.sqrt(len(some))


def test_the_lowest_bits_of_radius_and_angle_count(monkeypatch: pytest.MonkeyPatch) -> None:
    """Steps of the smallest uniforms are steps of the largest noise, and of the angle."""
    source = RandomSource.secret()

    def drawn(radius: int, angle: int) -> list[float]:
        words = np.array([radius, angle], dtype=np.uint64)
        monkeypatch.setattr(source, "words", lambda count: words[:count].copy())
        return source.normal([(2,)])[0].tolist()

    tails = [drawn(number, 0)[0] for number in range(64)]
    assert sorted(tails, reverse=True) == tails
    assert len(set(tails)) == 64
    turned = [drawn(0, number << 11)[1] for number in range(64)]
    assert sorted(turned) == turned
    assert len(set(turned)) == 64


def test_the_tail_reaches_as_far_as_it_says(monkeypatch: pytest.MonkeyPatch) -> None:
    source = RandomSource.secret()
    monkeypatch.setattr(source, "words", lambda count: np.zeros(count, dtype=np.uint64))
    assert float(source.normal([(2,)])[0].max()) > 13.3


@pytest.mark.parametrize("word", [5, 2**29, 2**64 - 2**29, 2**64 - 7])
def test_radii_leave_no_gaps_at_the_ends(word: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Both draws of a pair tell its radius: gaps would show what noise was added to."""
    source = RandomSource.secret()
    secret = source.words
    # One radius word and no angle for all pairs, then what the source draws itself.
    first = [np.repeat(np.array([word, 0], dtype=np.uint64), 1000)]
    monkeypatch.setattr(source, "words", lambda count: first.pop() if first else secret(count))
    radii = source.normal([(2000,)])[0][:1000]
    assert len(torch.unique(radii)) > 990
    with localcontext() as context:
        context.prec = 60
        ends = [float((-2 * (Decimal(word + one) / 2**64).ln()).sqrt()) for one in (0, 1)]
    assert ends[1] * (1 - 1e-12) <= float(radii.min()) < float(radii.max())
    assert float(radii.max()) <= ends[0] * (1 + 1e-12)


def test_nothing_is_drawn_after_a_fork() -> None:
    """Parent and child would draw the same noise, and their difference would show the data."""
    source = RandomSource.secret()
    source.words(1)
    child = os.fork()
    if child == 0:
        try:
            source.words(1)
        except PrivacyContractError:
            os._exit(0)
        os._exit(1)
    _, status = os.waitpid(child, 0)
    assert os.waitstatus_to_exitcode(status) == 0
    source.words(1)


def test_a_secret_key_is_what_the_system_gives(monkeypatch: pytest.MonkeyPatch) -> None:
    """32 bytes from the operating system, used as they are."""
    keys: list[bytes] = []

    def urandom(count: int) -> bytes:
        keys.append(bytes((7 * number + len(keys)) % 256 for number in range(count)))
        return keys[-1]

    monkeypatch.setattr(os, "urandom", urandom)
    words = RandomSource.secret().words(4)
    assert [len(key) for key in keys] == [32]
    assert np.array_equal(words, RandomSource(keys[0], releasable=False).words(4))


def test_what_a_seed_draws_is_its_own() -> None:
    alone, beside = SeededReplicas([5], "noise"), SeededReplicas([4, 5, 6], "noise")
    shapes = [(7, 1, 3), (1, 3)]
    wide = [(7, 3, 3), (3, 3)]
    for own, all_three in zip(alone.normal(shapes), beside.normal(wide), strict=True):
        assert torch.equal(own[..., 0, :], all_three[..., 1, :])
        assert not torch.equal(all_three[..., 0, :], all_three[..., 1, :])
    own, all_three = alone.uniform_bytes((9, 1, 4)), beside.uniform_bytes((9, 3, 4))
    assert np.array_equal(own[:, 0], all_three[:, 1])
    assert np.array_equal(alone.of_replica(0).words(4), beside.of_replica(1).words(4))
    assert not beside.releasable


def test_draws_for_another_number_of_replicas_are_refused() -> None:
    with pytest.raises(ConfigError, match="must have 2 replicas"):
        SeededReplicas([1, 2], "noise").normal([(4, 3, 1)])


DEVICES = [
    "cpu",
    pytest.param(
        "cuda",
        marks=[
            pytest.mark.gpu,
            pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device"),
        ],
    ),
]


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("secret", [True, False])
def test_words_become_normal_draws_on_a_device(device: str, secret: bool) -> None:
    place = torch.device(device)
    draws = (
        DeviceSource(RandomSource.secret(), place)
        if secret
        else DeviceReplicas([1, 2], "noise", place)
    )
    assert draws.releasable == secret
    first, second = (t.cpu() for t in draws.normal([(50_000, 2, 5), (50_000, 2, 5)]))
    every = torch.cat([first, second]).flatten()
    assert len(every.unique()) == len(every)
    ordered, size = every.sort().values, len(every)
    law = torch.special.ndtr(ordered)
    steps = torch.arange(1, size + 1, dtype=torch.float64) / size
    assert float((law - steps).abs().max()) < 2.0 / size**0.5
    columns = torch.cat([first.flatten(1), second.flatten(1)], dim=1)
    assert float((torch.corrcoef(columns.T) - torch.eye(20)).abs().max()) < 0.03
    drawn = draws.uniform_bytes((50_000, 2, 4)).cpu()
    counts = torch.bincount(drawn.flatten().long(), minlength=256).double()
    assert float(((counts - counts.mean()) ** 2 / counts.mean()).sum()) < 380


def test_on_a_device_the_uniform_is_exact_near_both_ends() -> None:
    lowest, highest = -(2**63), 2**63 - 1
    first = torch.tensor([[0, 1, highest, lowest, lowest + 1, -1]])
    fine = torch.tensor([[lowest, lowest, highest, lowest, lowest, highest]])
    words = torch.cat([first, fine, torch.zeros_like(fine)], dim=1)
    radius = _gaussians_of_words(words)[0, :6]
    expected = [
        (2 * 129 * math.log(2)) ** 0.5,
        (2 * 64 * math.log(2)) ** 0.5,
        (2 * math.log(2)) ** 0.5,
        (2 * 2.0**-129) ** 0.5,
        (2 * 2.0**-64) ** 0.5,
        (2 * math.log(2)) ** 0.5,
    ]
    assert radius.tolist() == pytest.approx(expected, rel=1e-12)


def test_on_a_device_a_seed_draws_its_own() -> None:
    cpu = torch.device("cpu")
    alone, beside = DeviceReplicas([2], "x", cpu), DeviceReplicas([1, 2, 3], "x", cpu)
    for _ in range(2):
        (one,), (three,) = alone.normal([(9, 1, 4)]), beside.normal([(9, 3, 4)])
        assert torch.equal(one[:, 0], three[:, 1])
        assert not torch.equal(three[:, 0], three[:, 1])
    own, all_three = alone.uniform_bytes((9, 1, 4)), beside.uniform_bytes((9, 3, 4))
    assert torch.equal(own[:, 0], all_three[:, 1])
    with pytest.raises(ConfigError, match="3 replicas"):
        beside.normal([(9, 2, 4)])


@pytest.mark.parametrize("probability", [0.01, 0.3, 1.0])
def test_choices_made_ahead_are_those_that_a_source_makes_one_by_one(probability) -> None:
    """A device's steps wait for no host, and a seed samples the same parts."""
    ahead = DeviceReplicas([7], "sample", torch.device("cpu")).of_replica(0)
    plain = RandomSource.reproducible(7, "sample")
    plain.words(1)  # keys the generator on the device
    for _ in range(1200):
        assert np.array_equal(ahead.choose(9, probability), plain.choose(9, probability))


def test_choices_made_ahead_for_another_number_are_not_used() -> None:
    ahead = DeviceReplicas([7], "sample", torch.device("cpu")).of_replica(0)
    ahead.choose(1000, 0.5)
    assert ahead.choose(3, 0.5).max(initial=0) < 3
    assert len(ahead.choose(1000, 0.01)) < 100
