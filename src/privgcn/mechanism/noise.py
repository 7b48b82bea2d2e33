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
# Float64 decides only further away from a border than this: of k, and of a.
_CLOSE_TO_WHOLE, _CLOSE_TO_CHANCE = 2.0**-23, 2.0**-32


class RandomSource:
    """An endless stream of random words, each of which is used once, and none after a fork.

    It is ``releasable`` without a key of the caller's: then it is as secret as the entropy of
    the operating system, if AES-256 cannot be told from chance.
    """

    def __init__(self, key: bytes | None = None) -> None:
        self.releasable, self._process = key is None, os.getpid()
        key = os.urandom(32) if key is None else key
        self._stream = Cipher(algorithms.AES256(key), modes.CTR(bytes(16))).encryptor()

    @classmethod
    def secret(cls) -> RandomSource:
        """Keyed by the operating system: the only kind that is fit for a release."""
        return cls()

    @classmethod
    def seeded(cls, seed: int, purpose: str) -> RandomSource:
        """Keyed by a seed, for experiments that must not be released."""
        return cls(hashlib.sha256(f"privgcn {purpose} {seed}".encode()).digest())

    def words(self, count: int) -> NDArray[np.uint64]:
        """Independent uniform words of 64 bits."""
        if os.getpid() != self._process:
            raise RuntimeError("After a fork, two processes would draw the same noise.")
        # Encrypted zeros are the key stream itself.
        return np.frombuffer(self._stream.update(bytes(8 * count)), np.uint64)

    def sample(self, groups: int, probability: float) -> NDArray[np.bool_]:
        """Whether each group takes part; a plan's probability is never rounded up."""
        if probability == 1.0:
            return np.ones(groups, bool)
        return self.words(groups) < np.uint64(math.floor(probability * 2.0**64))

    def gaussian_steps(self, count: int, bits: int) -> NDArray[np.int64]:
        """Independent draws of floor(2^bits N) for a real standard Gaussian N.

        Rejection sampling: |N| = s = (k + x) / 8 with k whole, of probability proportional to
        exp(-k/8), and x uniform, accepted with probability a = exp(k/8 - (s^2 + 1)/2), which
        is 1 at most as k/8 <= s. That takes 1.4 candidates a draw, of three words each: k =
        floor(-8 log U) for a uniform U; x, whose bits go into the result as they were drawn;
        and u: 63 bits decide, by u < a, and the last is the sign.

        Guarantees:
            The law is exact if words are independent and uniform, whatever a processor makes
            of log and exp, if they are right to 2^-34 (one unit in the last place is 2^-52).
            Words are the first bits of the real numbers U, x and u. Float64 decides where no
            further bits could change k or acceptance. It knows -8 log U, 361 at most, to 2^-25;
            a to 2^-33 of itself, or 2^-65; further bits move -8 log U by 2^-37 for words from
            2^40 on, a by 2^-66 and u by 2^-64 from its middle. Borders closer than 2^-23, and
            than 2^-32 a + 2^-62, are left to ``_decided``, once in 2^21 candidates.
        """
        drawn, missing = [np.empty(0, np.int64)], count
        while missing > 0:
            candidates = min(_AT_ONCE, 32 + 3 * missing // 2)
            first, x, u = self.words(3 * candidates).reshape(3, candidates)
            logs = np.log((first + 0.5) * 2.0**-64) * -8.0
            k = np.floor(logs)
            size = (k + x * 2.0**-64) / 8.0
            chance = np.exp(k / 8.0 - (size * size + 1.0) / 2.0)
            decisive = ((u >> np.uint64(1)) + 0.5) * 2.0**-63
            accepted = decisive < chance
            close = np.abs(decisive - chance) < _CLOSE_TO_CHANCE * chance + 2.0**-62
            close |= (np.abs(logs - np.rint(logs)) < _CLOSE_TO_WHOLE) | (first < 2**40)
            for at in np.flatnonzero(close):
                k[at], accepted[at] = self._decided(int(first[at]), int(x[at]), int(u[at]) >> 1)
            taken = np.flatnonzero(accepted)
            high = k[taken].astype(np.int64) << (bits - 3)
            steps = high + (x[taken] >> np.uint64(67 - bits)).astype(np.int64)
            # floor(-v) is the complement of floor(v).
            drawn.append(np.where(u[taken] & np.uint64(1), ~steps, steps))
            missing -= len(steps)
        return np.concatenate(drawn)[:count]

    def _decided(self, first: int, x: int, u: int) -> tuple[int, bool]:
        """What k and acceptance are, by as many further words as decide, in decimal numbers."""
        bits = 64
        while True:
            with localcontext(prec=bits):
                unit = Decimal(2) ** -bits
                rounding = unit / 256  # much more than that of so many digits
                k = math.floor(-8 * ((first + 1) * unit).ln() - rounding)
                if first and k == math.floor(-8 * (first * unit).ln() + rounding):
                    sizes = ((k + end * unit) / 8 for end in (x, x + 1))
                    most, least = ((Decimal(k) / 8 - (s * s + 1) / 2).exp() for s in sizes)
                    if (u + 1) * 2 * unit < least - rounding:
                        return k, True
                    if u * 2 * unit > most + rounding:
                        return k, False
            further = zip((first, x, u), self.words(3).tolist(), strict=True)
            first, x, u = ((known << 64) + word for known, word in further)
            bits += 64


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
