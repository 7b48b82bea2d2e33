"""The source of noise and samples: independent draws of the right law, never repeated."""

import math
import os
import warnings
from decimal import Decimal, localcontext
from fractions import Fraction
from functools import partial

import numpy as np
import pytest
from scipy.special import ndtr
from scipy.stats import chi2, norm

from privgcn.mechanism import RandomSource, noise
from privgcn.mechanism.fixed_point import Grid
from privgcn.mechanism.noise import noisy

BITS = 45


# hazard 3
def test_secret_sources_never_repeat_and_seeded_ones_may_not_be_released():
    first, second = RandomSource.secret(), RandomSource.secret()
    assert first.releasable
    assert not np.array_equal(first.words(4), second.words(4))
    assert not np.array_equal(first.words(4), first.words(4))
    words = [RandomSource.seeded(7, "noise").words(8) for _ in range(2)]
    assert np.array_equal(*words)
    for other in (RandomSource.seeded(8, "noise"), RandomSource.seeded(7, "samples")):
        assert not np.array_equal(words[0], other.words(8))
        assert not other.releasable
    assert not RandomSource(bytes(32)).releasable


# hazard 4
def test_a_secret_key_is_what_the_system_gives(monkeypatch):
    asked = []

    def urandom(count):
        asked.append(count)
        return bytes(range(count))

    monkeypatch.setattr(os, "urandom", urandom)
    words = RandomSource.secret().words(4)
    assert asked == [32]
    assert np.array_equal(words, RandomSource(bytes(range(32))).words(4))


def test_the_stream_is_that_of_the_standard():
    """AES-256 in counter mode, NIST SP 800-38A, F.5.5, with a counter that begins at zero."""
    from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

    key = bytes.fromhex("603deb1015ca71be2b73aef0857d77811f352c073b6108d72d9810a30914dff4")
    ecb = Cipher(algorithms.AES256(key), modes.ECB()).encryptor()
    blocks = ecb.update(bytes(16) + (1).to_bytes(16, "big"))
    source = RandomSource(key)
    words = [source.words(count) for count in (1, 2, 1)]
    assert np.concatenate(words).tobytes() == blocks, "no word is drawn twice"


# hazard 4
def test_nothing_is_drawn_after_a_fork():
    source = RandomSource.secret()
    for draw in (lambda: source.words(1), lambda: source.gaussian_steps(1, BITS)):
        reading, writing = os.pipe()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # of forks beside threads
            child = os.fork()
        if child == 0:
            try:
                draw()
                os.write(writing, b"drawn")
            except RuntimeError:
                os.write(writing, b"refused")
            finally:
                os._exit(0)
        os.waitpid(child, 0)
        assert os.read(reading, 10) == b"refused"
        os.close(reading)
        os.close(writing)


# -- samples -----------------------------------------------------------------------------------


# hazard 11
def test_each_group_is_taken_independently():
    source, rounds, count, probability = RandomSource.seeded(1, "test"), 3000, 40, 0.3
    taken = np.stack([source.sample(count, probability) for _ in range(rounds)]) * 1.0
    spread = math.sqrt(probability * (1 - probability))
    assert np.abs(taken.mean(0) - probability).max() < 4.5 * spread / math.sqrt(rounds)
    correlation = np.corrcoef(taken.T) - np.eye(count)
    assert np.abs(correlation).max() < 5 / math.sqrt(rounds)
    consecutive = np.corrcoef(taken[:-1].ravel(), taken[1:].ravel())[0, 1]
    assert abs(consecutive) < 5 / math.sqrt(taken.size)
    expected = count * probability * (1 - probability)
    assert abs(taken.sum(1).var() - expected) < 5 * expected * math.sqrt(2 / rounds)


# hazard 11
def test_a_probability_is_never_rounded_up(monkeypatch):
    source = RandomSource.seeded(1, "test")
    assert not source.sample(100_000, 1e-25).any()
    assert source.sample(5, 1.0).all()
    monkeypatch.setattr(source, "words", lambda count: np.zeros(count, np.uint64))
    assert not source.sample(3, 1e-25).any()
    highest = np.iinfo(np.uint64).max
    monkeypatch.setattr(source, "words", lambda count: np.full(count, highest))
    assert not source.sample(3, math.nextafter(1.0, 0.0)).any()


# -- the law of the noise ----------------------------------------------------------------------


@pytest.fixture(scope="module")
def drawn():
    """Two million draws, once for all tests of their law."""
    return RandomSource.seeded(11, "law of the noise").gaussian_steps(2_000_000, BITS)


# hazard 5
def test_noise_passes_kolmogorov_and_smirnov(drawn):
    below = ndtr(np.sort(drawn) * 2.0**-BITS)
    ranks = np.arange(1, len(below) + 1) / len(below)
    distance = max(np.abs(ranks - below).max(), np.abs(ranks - 1 / len(below) - below).max())
    assert distance * math.sqrt(len(below)) < 2.0  # p = 0.0007


# hazard 5
@pytest.mark.parametrize("limit", [2.0, 3.0, 4.0, 4.75])
def test_noise_has_both_tails(drawn, limit):
    expected = len(drawn) * norm.sf(limit)
    for side in (drawn, -drawn):
        assert abs((side > limit * 2.0**BITS).sum() - expected) < 5 * math.sqrt(expected) + 1


# hazard 5
def test_the_lowest_bits_are_even_and_independent_of_the_rest(drawn):
    for some in (drawn, drawn[np.abs(drawn) < 2.0 ** (BITS - 3)], drawn[drawn > 2.0**46]):
        low = np.bincount((some & 255).astype(int), minlength=256)
        expected = len(some) / 256
        assert ((low - expected) ** 2 / expected).sum() < chi2.isf(1e-6, 255)
        odd = (some & 1) * 2.0 - 1.0
        assert abs((odd * np.sign(some)).mean()) < 5 / math.sqrt(len(some))


# hazard 3
def test_noise_is_independent_along_the_stream(drawn):
    values = drawn[:1_000_000] * 2.0**-BITS
    for lag in (1, 2, 8, 4096, 8192):
        for power in (1, 2, 3):
            first, second = values[:-lag] ** power, values[lag:] ** power
            correlation = np.corrcoef(first, second)[0, 1]
            assert abs(correlation) * math.sqrt(len(first)) < 5, (lag, power)


# hazard 3
def test_no_draw_returns_not_even_negated(drawn):
    """Of 10^7 draws on a grid of 2^45 steps, a thousand pairs or so meet by chance."""
    size = np.where(drawn < 0, ~drawn, drawn)
    meetings = len(size) - len(np.unique(size))
    by_chance = len(size) ** 2 / 2 / (math.sqrt(math.pi) * 2.0**BITS)
    assert meetings < 5 + 2 * by_chance


# -- decisions near their border ---------------------------------------------------------------


def exactly(first, x, u, bits):
    """What three words give, in a hundred digits; ``None`` if they are not accepted."""
    with localcontext(prec=100):
        k = math.floor(-8 * ((2 * Decimal(first) + 1) / 2**65).ln())
        size = (k + Decimal(x) / 2**64) / 8
        chance = (Decimal(k) / 8 - (size * size + 1) / 2).exp()
        if (2 * Decimal(u >> 1) + 1) / 2**64 >= chance:
            return None
        value = math.floor(Fraction(2**bits) * (k + Fraction(x, 2**64)) / 8)
        return -1 - value if u & 1 else value


def given_words(monkeypatch, triples):
    """A source whose next candidates are these, followed by its own."""
    source = RandomSource.seeded(0, "after")
    own, begun = source.words, [False]

    def words(count):
        if begun[0]:
            return own(count)
        begun[0] = True
        drawn = own(count).copy().reshape(3, -1)
        drawn[:, : len(triples)] = np.array(triples, np.uint64).T
        return drawn.ravel()

    monkeypatch.setattr(source, "words", words)
    return source


def beside_k(k):
    """Words beside 2^64 exp(-k/8), where a logarithm in float64 is no help."""
    with localcontext(prec=100):
        border = int((Decimal(-k) / 8).exp() * 2**64)
    return [(border + shift, 5 << 50, 2) for shift in range(-6, 7)]


def beside_acceptance(k, x):
    """Words beside the chance of acceptance of k and x, with both signs."""
    with localcontext(prec=100):
        size = (k + Decimal(x) / 2**64) / 8
        border = int((Decimal(k) / 8 - (size * size + 1) / 2).exp() * 2**63)
        first = int((-(Decimal(k) + Decimal("0.5")) / 8).exp() * 2**64)
    sides = [border + shift for shift in (-3, -2, -1, 1, 2, 3)]
    return [(first, x, 2 * s + sign) for s in sides if 0 <= s < 2**63 for sign in (0, 1)]


RANDOM = RandomSource.seeded(3, "triples").words(3 * 400).reshape(-1, 3).tolist()
ENDS = 0, 2**64 - 1


@pytest.mark.parametrize(
    "triples",
    [
        RANDOM,
        [(word, x, u) for word in ENDS for x in ENDS for u in (0, 1)],
        *(beside_k(k) for k in (1, 2, 7, 8, 9, 40, 100)),
        *(beside_acceptance(k, x) for k, x in ((0, 0), (3, 1 << 60), (20, 7), (30, 1 << 63))),
        *(beside_acceptance(8, x) for x in (0, 1)),
    ],
)
def test_draws_are_what_a_hundred_digits_say_at_any_border(triples, monkeypatch):
    expected = [value for t in triples if (value := exactly(*t, BITS)) is not None]
    made = given_words(monkeypatch, triples).gaussian_steps(1000, BITS)
    assert made[: len(expected)].tolist() == expected


def test_the_largest_draw_fits_on_the_grid():
    with localcontext(prec=50):
        farthest = math.floor(-8 * (Decimal(1) / 2**65).ln())
    assert (farthest + 1) / 8 < 46, "what test_ten_million_groups_fit_on_the_grid counts on"


@pytest.mark.parametrize("error", [1.0 + 2.0**-35, 1.0 - 2.0**-35])
def test_logarithms_and_exponentials_may_be_wrong(error, monkeypatch):
    """A library that is a hundred thousand times worse than usual changes no draw."""
    expected = RandomSource.seeded(4, "t").gaussian_steps(20_000, BITS)
    log, exp = np.log, np.exp
    with monkeypatch.context() as patch:
        patch.setattr(noise.np, "log", lambda values: log(values) * error)
        patch.setattr(noise.np, "exp", lambda values: exp(values) * error)
        made = RandomSource.seeded(4, "t").gaussian_steps(20_000, BITS)
    assert np.array_equal(made, expected)


def taken_from(given, count):
    return np.array([next(given) for _ in range(count)], np.uint64)


# hazard 5
def test_what_the_first_words_leave_open_further_words_decide(monkeypatch):
    """Further bits of U, x and u are drawn until no bit that follows could matter."""
    lowest, highest, low = [0, 0, 0], [2**64 - 1] * 3, 1 << 50
    with localcontext(prec=100):
        border = int((Decimal(-7) / 8).exp() * 2**64)  # k is 6 above, 7 below
        chance = int((Decimal(-1) / 2).exp() * 2**63)  # of k = 0 and x = 0
        beyond = [int((Decimal(-7) / 8).exp() * 2**128) % 2**64]
        beyond += [int((Decimal(-1) / 2).exp() * 2**127) % 2**64]
    near_one = 2**64 - 2
    for triple, further, expected in (
        ((border, 0, low), [beyond[0] + 1, 0, 0], (6, True)),
        ((border, 0, low), [beyond[0] - 1, 0, 0], (7, True)),
        ((border, 0, low), [beyond[0], 0, 0, *highest], (6, True)),
        ((border, 0, low), [beyond[0], 0, 0, *lowest], (7, True)),
        ((near_one, 0, chance), [0, 0, beyond[1] - 3], (0, True)),
        ((near_one, 0, chance), [0, 0, beyond[1] + 3], (0, False)),
        ((2**63, 0, 0), [], (5, True)),
        ((0, 0, 0), [1 << 63, 0, 1 << 63], (360, False)),
        ((2**64 - 1, 0, low), [2**64 - 1, 0, 0, 5, 0, 0], (0, True)),
    ):
        source, given = RandomSource.seeded(0, "t"), iter(further)
        monkeypatch.setattr(source, "words", partial(taken_from, given))
        assert source._decided(*triple) == expected, (triple, further)
        assert next(given, None) is None, "no more words than it takes"


# hazard 5
def test_no_draw_is_left_to_float64_where_a_further_bit_could_change_it(monkeypatch):
    asked = []

    def decided(*words):
        asked.append(words)
        return 0, False

    with localcontext(prec=100):
        border = int((Decimal(-7) / 8).exp() * 2**64)
        chance = int((Decimal(-1) / 2).exp() * 2**63)
    triples = [(border + shift, 0, 2) for shift in range(-3, 4)]
    triples += [(2**64 - 2**60, 0, 2 * (chance + shift)) for shift in range(-3, 4)]
    triples += [(0, 0, 0), (1, 0, 2), (2**39, 5, 2**63), (2**45, 0, 0), (2**41, 0, 1)]
    source = given_words(monkeypatch, triples)
    monkeypatch.setattr(source, "_decided", decided)
    source.gaussian_steps(1000, BITS)
    assert asked == [(first, x, u >> 1) for first, x, u in triples]


# -- noise on the grid -------------------------------------------------------------------------


# hazard 6
@pytest.mark.parametrize("noise_multiplier", [0.01, 3.73, 1e9])
def test_noise_commutes_with_adding_whole_steps(noise_multiplier):
    """Whatever the sum is, the same draws move it by the same steps: none can be ruled out."""
    grid = Grid.of(noise_multiplier, 1000)
    rng = np.random.default_rng(0)
    sums = np.trunc(rng.normal(size=(2, 500)) * grid.unit * 100)
    made = [noisy(total, grid, RandomSource.seeded(3, "t")) * grid.unit for total in sums]
    moved = [np.rint(one) - total for one, total in zip(made, sums, strict=True)]
    assert np.array_equal(*moved)
    assert max(np.abs(one - np.rint(one)).max() for one in made) <= 0.5
