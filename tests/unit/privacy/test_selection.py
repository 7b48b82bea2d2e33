"""The price of a search, against the exact law of the best of a random number of runs."""

import math
from itertools import pairwise

import numpy as np
import pytest
from scipy.integrate import trapezoid
from scipy.special import ndtr

from privgcn.errors import ConfigError, PrivacyContractError
from privgcn.privacy.accounting.epsilon import epsilon_of_releases
from privgcn.privacy.accounting.events import GaussianRelease
from privgcn.privacy.accounting.renyi import ORDERS, curve_deltas, renyi_curve
from privgcn.privacy.accounting.selection import LAWS, RunCount, SelectedRelease, composed_curve
from privgcn.randomness import RandomSource

MEANS = (1.3, 3.0, 10.0)
# Orders at which divergences are computed by brute force.
TRIED = [int(np.argmin(np.abs(ORDERS - order))) for order in (1.1, 1.5, 2, 4, 8, 16, 32)]


def slopes(count: RunCount, shares: np.ndarray) -> np.ndarray:
    """The generating function's derivative, from the probabilities themselves."""
    chances = count.probabilities(4000)
    return np.polynomial.polynomial.polyval(shares, np.arange(1, 4001) * chances)


def generating(count: RunCount, shares: np.ndarray) -> np.ndarray:
    return np.polynomial.polynomial.polyval(
        shares, np.concatenate([[0.0], count.probabilities(4000)])
    )


def divergences(first: np.ndarray, second: np.ndarray, grid: np.ndarray) -> np.ndarray:
    logs = np.log(first) - np.log(second)
    return np.array(
        [
            math.log(trapezoid(first * np.exp((ORDERS[i] - 1) * logs), grid)) / (ORDERS[i] - 1)
            for i in TRIED
        ]
    )


def gaussian_winner(count: RunCount, shift: float, ratio: float, order: str):
    """Density of the best of K draws from N(shift, 1/ratio^2), on a grid in noise units."""
    grid = np.linspace(-14.0, 14.0, 20001)
    centred = grid - shift * ratio
    density = np.exp(-0.5 * centred**2) / math.sqrt(2 * math.pi)
    below = {
        "largest": ndtr(centred),
        "smallest": ndtr(-centred),
        "outermost": ndtr(np.abs(grid) - shift * ratio) - ndtr(-np.abs(grid) - shift * ratio),
    }[order]
    return density * slopes(count, np.clip(below, 0.0, 1.0)), grid


@pytest.mark.parametrize("law", LAWS)
@pytest.mark.parametrize("mean", MEANS)
def test_the_number_of_runs_has_the_stated_mean(law: str, mean: float) -> None:
    count = RunCount(law, mean)
    chances = count.probabilities(4000)
    assert chances.sum() == pytest.approx(1.0, abs=1e-9)
    assert (np.arange(1, 4001) * chances).sum() == pytest.approx(mean, rel=1e-6)
    source = RandomSource.reproducible(1, "runs")
    drawn = np.array([count.draw(source) for _ in range(3000)])
    assert drawn.min() >= 1
    spread = math.sqrt((np.arange(1, 4001) ** 2 * chances).sum() - mean**2)
    assert abs(drawn.mean() - mean) < 4 * spread / math.sqrt(3000)
    assert (drawn == 1).mean() == pytest.approx(chances[0], abs=0.04)


@pytest.mark.parametrize("law", LAWS)
@pytest.mark.parametrize("mean", MEANS)
@pytest.mark.parametrize("ratio", [0.2, 1.0])
def test_no_gaussian_winner_exceeds_the_bound(law: str, mean: float, ratio: float) -> None:
    count = RunCount(law, mean)
    claimed = SelectedRelease(((GaussianRelease(1.0 / ratio),),), count).curve()[TRIED]
    worst = np.zeros(len(TRIED))
    for order in ("largest", "smallest", "outermost"):
        here, grid = gaussian_winner(count, 0.0, ratio, order)
        there, _ = gaussian_winner(count, 1.0, ratio, order)
        for pair in ((here, there), (there, here)):
            worst = np.maximum(worst, divergences(*pair, grid))
    assert (worst <= claimed + 1e-9).all()
    # Forgetting the search is noticed: the winner exceeds what one run costs.
    assert (worst > renyi_curve((GaussianRelease(1.0 / ratio),))[TRIED] * 1.05).any()


@pytest.mark.parametrize("law", LAWS)
def test_no_pair_of_outcomes_exceeds_the_bound(law: str) -> None:
    # Randomised response with three answers, in every order of preference: the extreme points.
    count, high = RunCount(law, 4.0), 0.5
    here = np.array([high, 0.25, 0.25])
    there = np.array([0.25, high, 0.25])

    def curve(first: np.ndarray, second: np.ndarray) -> np.ndarray:
        powers = ORDERS[:, None]
        logs = powers * np.log(first) + (1 - powers) * np.log(second)
        return np.logaddexp.reduce(logs, axis=1) / (ORDERS - 1)

    single = np.maximum(curve(here, there), curve(there, here))
    factors = ORDERS / (ORDERS - 1.0)
    deltas = np.maximum(here - factors[:, None] * there, 0).sum(axis=1)
    claimed = count.bound(single, deltas)
    worst = np.zeros(len(ORDERS))
    for order in ([0, 1, 2], [0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0]):
        laws = [
            np.diff(generating(count, np.concatenate([[0.0], np.cumsum(law_[order])])))
            for law_ in (here, there)
        ]
        worst = np.maximum(worst, np.maximum(curve(*laws), curve(*laws[::-1])))
    low = ORDERS < 64
    assert (worst[low] <= claimed[low] + 1e-9).all()
    # Wrong on purpose: paying for how many runs there are, but not for what the best shows.
    naive = single + math.log(4.0) / (ORDERS - 1.0)
    assert (worst[low] > naive[low] * 1.05).any()


@pytest.mark.parametrize("law", LAWS)
def test_the_claimed_epsilon_holds_for_the_winner(law: str) -> None:
    count, ratio, delta = RunCount(law, 5.0), 0.5, 1e-3
    release = SelectedRelease(((GaussianRelease(1.0 / ratio),),), count)
    epsilon = epsilon_of_releases([release], delta=delta, accountant="rdp")
    alone = epsilon_of_releases([GaussianRelease(1.0 / ratio)], delta=delta, accountant="rdp")
    here, grid = gaussian_winner(count, 0.0, ratio, "largest")
    there, _ = gaussian_winner(count, 1.0, ratio, "largest")

    def delta_at(value: float) -> float:
        gaps = [here - math.exp(value) * there, there - math.exp(value) * here]
        return max(float(trapezoid(np.maximum(gap, 0.0), grid)) for gap in gaps)

    assert delta_at(epsilon) <= delta
    # Wrong on purpose: the epsilon of one run does not hold for the winner.
    exact_alone = epsilon_of_releases([GaussianRelease(2.0)], delta=delta, accountant="pld")
    assert delta_at(exact_alone) > delta
    assert epsilon > alone


@pytest.mark.parametrize(("law", "shape"), [("logarithmic", 0), ("geometric", 1)])
@pytest.mark.parametrize("mean", MEANS)
def test_it_agrees_with_the_library(law: str, shape: int, mean: float) -> None:
    from dp_accounting.rdp import rdp_privacy_accountant as library

    curve = renyi_curve((GaussianRelease(4.0, 3),))
    ours = RunCount(law, mean).bound(curve, np.zeros(len(ORDERS)))
    theirs = library._compute_rdp_repeat_and_select(ORDERS, curve, mean, shape)
    assert ours == pytest.approx(theirs, rel=1e-6)


def test_deltas_of_a_curve_agree_with_the_library() -> None:
    from dp_accounting.rdp import rdp_privacy_accountant as library

    curve = renyi_curve((GaussianRelease(2.0, 10, 0.1),))
    epsilons = np.array([0.01, 0.5, 2.0])
    theirs = [library.compute_delta(ORDERS, curve, epsilon)[0] for epsilon in epsilons]
    # The library may also use a second bound; ours is never smaller.
    assert (curve_deltas(curve, epsilons) >= np.array(theirs) - 1e-15).all()
    assert curve_deltas(curve, epsilons)[1:] == pytest.approx(theirs[1:])


def test_poisson_with_sampling_is_dearer_than_without_noise_but_cheaper_than_unsampled() -> (
    None
):
    count = RunCount("poisson", 5.0)
    release = SelectedRelease(((GaussianRelease(4.0, 100, 0.1),),), count)
    sampled = epsilon_of_releases([release], delta=1e-5, accountant="rdp")
    plain = epsilon_of_releases([release.without_amplification()], delta=1e-5, accountant="rdp")
    alone = epsilon_of_releases([GaussianRelease(4.0, 100, 0.1)], delta=1e-5, accountant="rdp")
    assert alone < sampled < plain


def test_the_worst_alternative_counts() -> None:
    count = RunCount("poisson", 5.0)
    weak, strong = (GaussianRelease(2.0),), (GaussianRelease(20.0),)
    alone = SelectedRelease((weak,), count).curve()
    for groups in ((weak, strong), (strong, weak), (strong, weak, strong)):
        assert SelectedRelease(groups, count).curve() == pytest.approx(alone)


@pytest.mark.parametrize("law", LAWS)
def test_no_alternative_costs_more_than_the_search_at_any_order(law: str) -> None:
    """Rare releases are dear at high orders, frequent ones at low orders."""
    rare, frequent = (GaussianRelease(1.0, 1, 1e-4),), (GaussianRelease(8.0),)
    curves = [renyi_curve(one) for one in (rare, frequent)]
    assert curves[0][0] < curves[1][0]
    assert curves[0][-1] > curves[1][-1]
    count = RunCount(law, 5.0)
    both = SelectedRelease((rare, frequent), count).curve()
    for one in (rare, frequent):
        assert (both >= SelectedRelease((one,), count).curve() - 1e-12).all()


def test_equal_searches_cost_as_often_as_they_were_made() -> None:
    """Two searches with the same settings, in one ledger, are two."""
    one = SelectedRelease(((GaussianRelease(5.0, 10),),), RunCount("poisson", 4.0))
    for count in (1, 2, 3):
        assert composed_curve([one] * count) == pytest.approx(count * one.curve())
    training = GaussianRelease(5.0, 10)
    mixed = composed_curve([one, training, one, training])
    assert mixed == pytest.approx(2 * one.curve() + renyi_curve((GaussianRelease(5.0, 20),)))


def test_more_runs_cost_more() -> None:
    for law in LAWS:
        costs = [
            epsilon_of_releases(
                [SelectedRelease(((GaussianRelease(5.0),),), RunCount(law, mean))],
                delta=1e-5,
                accountant="rdp",
            )
            for mean in (1.5, 3.0, 10.0, 100.0)
        ]
        assert all(less < more for less, more in pairwise(costs))


@pytest.mark.parametrize("accountant", ["pld", "moments"])
def test_other_accountants_refuse_a_search(accountant: str) -> None:
    release = SelectedRelease(((GaussianRelease(5.0),),), RunCount("poisson", 2.0))
    with pytest.raises(PrivacyContractError, match="must be rdp"):
        epsilon_of_releases([release], delta=1e-5, accountant=accountant)


@pytest.mark.parametrize(
    ("law", "mean"), [("fixed", 3.0), ("poisson", 1.0), ("poisson", math.nan), ("poisson", 1e4)]
)
def test_a_fixed_number_of_runs_cannot_be_had(law: str, mean: float) -> None:
    with pytest.raises(ConfigError):
        RunCount(law, mean)


def test_a_search_without_training_is_refused() -> None:
    for alternatives in ((), ((),), ((GaussianRelease(5.0),), ())):
        with pytest.raises(ConfigError, match="alternatives"):
            SelectedRelease(alternatives, RunCount("poisson", 2.0))
