"""Gaussian noise in whole steps, and the secret source that it comes from.

Whoever can guess noise or samples can subtract them. They come from AES-256 in counter mode,
keyed by the operating system. A source keyed by a seed is for experiments, and says so.
"""

from __future__ import annotations

import hashlib
import math
import os
from decimal import Decimal, localcontext

import numpy as np
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from numpy.typing import NDArray

from privgcn.mechanism.fixed_point import Floats, Grid

_AT_ONCE = 1 << 13  # candidates: what a core's own cache holds
# Decisions this close to their border are made again in decimal numbers: of k, and of a.
_CLOSE_TO_WHOLE, _CLOSE_TO_CHANCE = 2.0**-23, 2.0**-32


class RandomSource:
    """An endless stream of random words, each of which is used once, and none after a fork.

    ``releasable`` is true only for a key that came from the operating system. The source is as
    secret as the system's entropy, if AES-256 cannot be told from chance.
    """

    def __init__(self, key: bytes, *, releasable: bool) -> None:
        self.releasable = releasable
        self._process = os.getpid()
        self._stream = Cipher(algorithms.AES256(key), modes.CTR(bytes(16))).encryptor()

    @classmethod
    def secret(cls) -> RandomSource:
        """Keyed by the operating system: the only kind that is fit for a release."""
        return cls(os.urandom(32), releasable=True)

    @classmethod
    def seeded(cls, seed: int, purpose: str) -> RandomSource:
        """Keyed by a seed, for experiments that must not be released."""
        key = hashlib.sha256(f"privgcn {purpose} {seed}".encode()).digest()
        return cls(key, releasable=False)

    def words(self, count: int) -> NDArray[np.uint64]:
        """Independent uniform words of 64 bits."""
        if os.getpid() != self._process:
            raise RuntimeError("After a fork, two processes would draw the same noise.")
        # Encrypted zeros are the key stream itself.
        return np.frombuffer(self._stream.update(bytes(8 * count)), np.uint64)

    def sample(self, groups: int, probability: float) -> NDArray[np.bool_]:
        """Whether each group takes part; the probability is never rounded up."""
        if not 0.0 < probability <= 1.0:
            raise ValueError(f"A sampling probability must be in (0, 1]. Got {probability}.")
        if probability == 1.0:
            return np.ones(groups, bool)
        return self.words(groups) < np.uint64(math.floor(probability * 2.0**64))

    def gaussian_steps(self, count: int, bits: int) -> NDArray[np.int64]:
        """Independent draws of floor(2^bits N) for a real standard Gaussian N.

        Rejection sampling: |N| = s = (k + x) / 8 with k whole, of probability proportional to
        exp(-k/8), and x uniform, accepted with probability a = exp(k/8 - (s^2 + 1)/2), which
        is 1 at most as k/8 <= s. That takes 1.4 candidates a draw, of three words each: k =
        floor(-8 log U) with U = (first + 1/2) 2^-64; x, whose bits go into the result as they
        were drawn; and u: 63 bits decide, by (u + 1/2) 2^-63 < a, and the last is the sign.

        Guarantees:
            A draw is within 2^-59 of the stated law in total variation, whatever a processor
            makes of log and exp, if they are right to 2^-34 (one unit in the last place is
            2^-52). Then -8 log U, 361 at most, is known to 2^-25, and a to 2^-33 of itself
            where it is above 2^-65; below, no u is accepted. Float64 decides only where the
            border is further away, 2^-23 and 2^-32 a; elsewhere 100 decimal digits do, once
            in 2^22 candidates. So k and acceptance are exact functions of the three words,
            and what is left is that words have 64 bits:
            - P(k) is off by 2^-64, a border being off by 2^-65. Candidates with k are accepted
              with probability exp(-(k - 8)^2 / 128) at most, 18 over all k: 18 * 2^-64.
            - a is taken at the lower end of a cell of s, 2^-67 wide: it changes by 2^-66.
            - 63 bits take a to 2^-64. The sign is a bit of its own.
            Less than 20 * 2^-64 of the measure of candidates, of which 0.71 are accepted:
            28 * 2^-64 < 2^-59 after the division.
        """
        drawn, missing = [np.empty(0, np.int64)], count
        while missing > 0:
            candidates = min(_AT_ONCE, 32 + 3 * missing // 2)
            first, x, u = self.words(3 * candidates).reshape(3, candidates)
            logs = np.log((first + 0.5) * 2.0**-64) * -8.0
            k = np.floor(logs)
            for at in np.flatnonzero(np.abs(logs - np.rint(logs)) < _CLOSE_TO_WHOLE):
                k[at] = _floor_of_log(int(first[at]))
            size = (k + x * 2.0**-64) / 8.0
            chance = np.exp(k / 8.0 - (size * size + 1.0) / 2.0)
            decisive = ((u >> np.uint64(1)) + 0.5) * 2.0**-63
            accepted = decisive < chance
            for at in np.flatnonzero(np.abs(decisive - chance) < _CLOSE_TO_CHANCE * chance):
                accepted[at] = _accepts(int(k[at]), int(x[at]), int(u[at]))
            taken = np.flatnonzero(accepted)
            high = k[taken].astype(np.int64) << (bits - 3)
            steps = high + (x[taken] >> np.uint64(67 - bits)).astype(np.int64)
            # floor(-v) is the complement of floor(v).
            drawn.append(np.where(u[taken] & np.uint64(1), ~steps, steps))
            missing -= len(steps)
        return np.concatenate(drawn)[:count]


def _floor_of_log(first: int) -> int:
    with localcontext(prec=100):
        return math.floor(-8 * ((Decimal(first) + Decimal("0.5")) / 2**64).ln())


def _accepts(k: int, x: int, u: int) -> bool:
    with localcontext(prec=100):
        size = (k + Decimal(x) / 2**64) / 8
        chance = (Decimal(k) / 8 - (size * size + 1) / 2).exp()
        return (Decimal(u >> 1) + Decimal("0.5")) / 2**63 < chance


def sampler_error(draws: int) -> float:
    """Total variation t of so many draws from real ones; (1 + e^epsilon) t adds to delta."""
    return draws * 2.0**-59


def noisy(total: Floats, grid: Grid, source: RandomSource) -> Floats:
    """A sum of whole steps plus Gaussian noise, in clip norms. All noise is added here.

    Guarantees:
        Every coordinate gets its own draw, of ``noise_multiplier`` clip norms, also where the
        sum is zero. As the sum S is whole, S + floor(N) = floor(S + N): the real Gaussian
        mechanism, then rounding. Its accounting holds as it is, every whole number is
        possible whatever the data, and no bit tells more (Mironov 2012).
    """
    steps = source.gaussian_steps(total.size, grid.noise_bits).reshape(total.shape)
    return np.asarray((total + steps) / grid.unit)
