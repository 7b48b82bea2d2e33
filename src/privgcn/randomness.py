"""Where random numbers come from.

Noise and Poisson samples carry the privacy guarantee: whoever can guess them can subtract
them. They come from one ``RandomSource`` that is keyed by the operating system and never
by a seed the user typed. A seeded source exists for experiments; it marks itself as not
releasable, and the statement of a run repeats that mark.

The generator is AES-256 in counter mode. A new source has a new key, so a resumed run can
not repeat the noise of the run it continues.

Several seeds may train in one pass. Tensors then have a replica dimension, the last but one.
A secret source serves all replicas. Seeded ones are one for each: what a seed draws is its
own, whatever trains beside it.

On a CUDA device words become numbers where they are used. Secret words still come from the
cipher; seeded ones from a counter-based generator on the device, for experiments only.
"""

from __future__ import annotations

import hashlib
import math
import os
from abc import abstractmethod
from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Protocol

import numpy as np
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

from privgcn.errors import ConfigError, PrivacyContractError

if TYPE_CHECKING:
    import numpy.typing as npt
    import torch

    Shape = torch.Size | tuple[int, ...]

_KEY_BYTES = 32
_BLOCK_BYTES = 16
# Words from either end of their range within which 64 bits are too few for a radius.
_NEAR_END = np.uint64(1 << 53)
# Numbers of a replica that a device makes at once, and for how many steps at most.
_NUMBERS_AHEAD, _MOST_STEPS_AHEAD = 2**20, 64
_CHOICES_AHEAD = 512


class UniformBytes(Protocol):
    """Where dropout masks come from."""

    def uniform_bytes(self, shape: Shape) -> npt.NDArray[np.uint8] | torch.Tensor:
        """Independent uniform bytes; a tensor where they were drawn on a device."""


class Draws(UniformBytes, Protocol):
    """Random numbers for tensors with a replica dimension."""

    @property
    def releasable(self) -> bool:
        """Whether they came from a secret source."""

    def normal(self, shapes: Sequence[Shape]) -> list[torch.Tensor]:
        """Independent float64 draws of N(0, 1), one tensor for each shape."""

    def of_replica(self, number: int) -> RandomSource:
        """Where one replica's own choices come from."""


class RandomSource:
    """An endless stream of random numbers from AES-256 in counter mode.

    Guarantees:
        Every call consumes a fresh stretch of the stream: no two draws overlap. After a fork
        nothing is drawn any more.
        ``releasable`` is true only for a key that came from the operating system.
    Assumes:
        The operating system's entropy is secret.
    """

    def __init__(self, key: bytes, *, releasable: bool) -> None:
        if len(key) != _KEY_BYTES:
            raise ConfigError(
                f"The 'key' of RandomSource must have {_KEY_BYTES} bytes. Got {len(key)}."
            )
        self.releasable = releasable
        self._process = os.getpid()
        counter = modes.CTR(bytes(_BLOCK_BYTES))
        self._stream = Cipher(algorithms.AES(key), counter).encryptor()

    @classmethod
    def secret(cls) -> RandomSource:
        """A source keyed by the operating system; the only kind fit for a release."""
        return cls(os.urandom(_KEY_BYTES), releasable=True)

    @classmethod
    def reproducible(cls, seed: int, purpose: str) -> RandomSource:
        """A source keyed by a seed, for experiments that must not be released."""
        key = hashlib.sha256(f"privgcn {purpose} {seed}".encode()).digest()
        return cls(key, releasable=False)

    def words(self, count: int) -> npt.NDArray[np.uint64]:
        """``count`` independent uniform 64-bit words."""
        if os.getpid() != self._process:
            raise PrivacyContractError(
                "A random source must be used in the process that made it: after a fork, "
                "parent and child would draw the same noise. Make a source in each process."
            )
        # Encrypting zeros yields the key stream itself.
        return np.frombuffer(self._stream.update(bytes(8 * count)), dtype=np.uint64)

    def uniform_bytes(self, shape: Shape) -> npt.NDArray[np.uint8]:
        """Independent uniform bytes."""
        count = math.prod(shape)
        return self.words((count + 7) // 8).view(np.uint8)[:count].reshape(shape)

    def of_replica(self, number: int) -> RandomSource:
        """This source: every draw of it is fresh, whichever replica it is for."""
        return self

    def choose(self, count: int, probability: float) -> npt.NDArray[np.int64]:
        """Indices out of ``range(count)``, each taken independently with ``probability``.

        Guarantees:
            The inclusion probability is exact to 2**-64 and is never rounded up.
        """
        if not 0.0 < probability <= 1.0:
            raise ConfigError(
                "The 'probability' of RandomSource.choose must be in (0, 1]. "
                f"Got {probability}."
            )
        if probability == 1.0:
            return np.arange(count, dtype=np.int64)
        threshold = np.uint64(math.floor(probability * 2.0**64))
        return np.flatnonzero(self.words(count) < threshold).astype(np.int64)

    def normal(self, shapes: Sequence[Shape]) -> list[torch.Tensor]:
        """Independent float64 draws of N(0, 1), one tensor for each shape.

        Box-Muller in float64. The radius comes from a uniform of 64 bits, or 128 near its
        ends, so its tail reaches 13 standard deviations; the angle comes from 53 bits.

        Guarantees:
            Tensors of the same shape are independent: all come from one stretch of the
            stream that is cut into pieces, never drawn twice.
            Radii leave no gaps wider than float64 does: whoever sees both draws of a pair,
            rounded to a grid, can rule out no values that the grid allows.
        """
        import torch

        sizes = [math.prod(shape) for shape in shapes]
        pieces = torch.split(_gaussians([self], sum(sizes))[0], sizes)
        return [piece.view(shape) for piece, shape in zip(pieces, shapes, strict=True)]


def _gaussians(sources: Sequence[RandomSource], count: int) -> torch.Tensor:
    """``count`` draws of N(0, 1) from each source, ``[sources, count]``."""
    import torch

    pairs = (count + 1) // 2
    drawn = [source.words(2 * pairs) for source in sources]
    words = np.stack(drawn) if len(drawn) > 1 else drawn[0][None]
    radial = words[:, :pairs]
    logs = torch.from_numpy(radial.astype(np.float64)).add_(0.5).mul_(2.0**-64).log_()
    # A radius of seven standard deviations has a chance of 2**-35, so 64 bits would leave gaps
    # of 2**-32 standard deviations between such radii, which is the step of a noise grid. One
    # word in a thousand is near an end.
    ends = np.flatnonzero(radial + _NEAR_END < 2 * _NEAR_END)  # unsigned sums wrap
    counts = np.bincount(ends // max(pairs, 1), minlength=len(sources))
    finer = [source.words(int(n)) for source, n in zip(sources, counts, strict=True) if n]
    if finer:
        near = _logs_near_ends(radial[ends // pairs, ends % pairs], np.concatenate(finer))
        logs.view(-1).numpy()[ends] = near
    radius = logs.mul_(-2.0).sqrt_()
    turns = torch.from_numpy((words[:, pairs:] >> np.uint64(11)).astype(np.float64))
    angle = turns.mul_(2.0 * math.pi * 2.0**-53)
    draws = torch.empty(len(sources), 2 * pairs, dtype=torch.float64)
    torch.cos(angle, out=draws[:, :pairs]).mul_(radius)
    torch.sin(angle, out=draws[:, pairs:]).mul_(radius)
    return draws[:, :count]


def _logs_near_ends(
    words: npt.NDArray[np.uint64], finer: npt.NDArray[np.uint64]
) -> npt.NDArray[np.float64]:
    """Logarithms of uniforms near 0 or 1, of which 64 more bits were drawn."""
    low = words < _NEAR_END
    distance = np.where(low, words, ~words).astype(np.float64)
    distance += (finer.astype(np.float64) + 0.5) * 2.0**-64
    distance *= 2.0**-64
    return np.where(low, np.log(distance), np.log1p(-distance))


class SeededReplicas:
    """One reproducible source for each seed; for experiments that must not be released.

    Guarantees:
        What a replica draws depends on its own seed, the purpose and the order of calls,
        never on the other seeds.
    """

    releasable = False

    def __init__(self, seeds: Sequence[int], purpose: str) -> None:
        self._sources = [RandomSource.reproducible(seed, purpose) for seed in seeds]

    def normal(self, shapes: Sequence[Shape]) -> list[torch.Tensor]:
        """Independent float64 draws of N(0, 1), one tensor for each shape."""
        import torch

        own = [self._own_shape(shape) for shape in shapes]
        sizes = [math.prod(shape) for shape in own]
        pieces = torch.split(_gaussians(self._sources, sum(sizes)), sizes, dim=1)
        return [
            piece.reshape(-1, *shape).movedim(0, -2).contiguous()
            for piece, shape in zip(pieces, own, strict=True)
        ]

    def uniform_bytes(self, shape: Shape) -> npt.NDArray[np.uint8]:
        """Independent uniform bytes."""
        own = self._own_shape(shape)
        return np.stack([source.uniform_bytes(own) for source in self._sources], -2)

    def of_replica(self, number: int) -> RandomSource:
        """The source of one seed."""
        return self._sources[number]

    def _own_shape(self, shape: Shape) -> tuple[int, ...]:
        *before, replicas, last = shape
        if replicas != len(self._sources):
            raise ConfigError(
                f"The 'shape' of a draw must have {len(self._sources)} replicas in its last "
                f"dimension but one. Got {tuple(shape)}."
            )
        return (*before, last)


class DeviceDraws(Draws):
    """Numbers made of 64-bit words on the device that uses them.

    A step that is recorded and replayed (``privgcn.training.recording``) draws anew in every
    replay.
    """

    def __init__(self, device: torch.device) -> None:
        self.device = device

    @abstractmethod
    def _words(self, replicas: int, count: int) -> torch.Tensor:
        """``[replicas, count]`` independent uniform words, as signed integers."""

    def before_step(self) -> None:
        """Called before a step that is not recorded."""

    def record_into(self, graph: torch.cuda.CUDAGraph) -> None:
        """Called before a step is recorded, right after one that was not."""

    def before_replay(self, graph: torch.cuda.CUDAGraph) -> None:
        """Called before each replay: puts fresh words where the recorded step reads them."""

    def normal(self, shapes: Sequence[Shape]) -> list[torch.Tensor]:
        """Independent float64 draws of N(0, 1), one tensor for each shape."""
        return [drawn[0] for drawn in self._normals(shapes, 1)]

    def uniform_bytes(self, shape: Shape) -> torch.Tensor:
        """Independent uniform bytes."""
        return self._bytes(shape, 1)[0]

    def _normals(self, shapes: Sequence[Shape], times: int) -> list[torch.Tensor]:
        """Draws for so many calls, ``[times, ...]`` each."""
        import torch

        replicas = shapes[0][-2]
        sizes = [math.prod(shape) // replicas for shape in shapes]
        count = 3 * ((sum(sizes) + 1) // 2)
        words = self._words(replicas, times * count).view(replicas * times, count)
        pieces = torch.split(_gaussians_of_words(words)[:, : sum(sizes)], sizes, dim=1)
        return [_in_shape(p, shape) for p, shape in zip(pieces, shapes, strict=True)]

    def _bytes(self, shape: Shape, times: int) -> torch.Tensor:
        """Uniform bytes for so many calls, ``[times, ...]``."""
        import torch

        replicas, size = shape[-2], math.prod(shape) // shape[-2]
        count = (size + 7) // 8
        words = self._words(replicas, times * count).view(replicas * times, count)
        return _in_shape(words.view(torch.uint8)[:, :size], shape)


def _in_shape(drawn: torch.Tensor, shape: Shape) -> torch.Tensor:
    """What each replica drew for each of some calls, in tensors of this shape."""
    *before, replicas, last = shape
    return drawn.reshape(replicas, -1, *before, last).movedim(0, -2).contiguous()


def _gaussians_of_words(words: torch.Tensor) -> torch.Tensor:
    """Two draws of N(0, 1) from each three words, ``[replicas, 2/3 of the words]``.

    Box-Muller in float64, without a choice that the host would have to wait for. The sign of
    the first word says from which end of (0, 1) the uniform is measured. Its other 63 bits and
    the 64 of the second are the distance: near both ends it is as fine as float64 is.
    """
    import torch

    coarse, fine, angular = words.chunk(3, dim=1)
    distance = (coarse & (2**63 - 1)).double()
    more = fine.double().add_(2.0**63).add_(0.5).mul_(2.0**-64)
    distance.add_(more).mul_(2.0**-64)
    logs = torch.where(coarse >= 0, distance.log(), (-distance).log1p())
    radius = logs.mul_(-2.0).sqrt_()
    angle = (angular >> 11).double().mul_(2.0 * math.pi * 2.0**-53)
    return torch.cat([angle.cos().mul_(radius), angle.sin_().mul_(radius)], dim=1)


class _Stock:
    """What one call draws, for many steps at once; which is next is counted on the device.

    Guarantees:
        No step gets what another one got: the count moves on with every ``next``, recorded or
        not, and a stock that ``times`` steps have used is made anew.
    """

    def __init__(
        self, make: Callable[[int], list[torch.Tensor]], times: int, device: torch.device
    ) -> None:
        import torch

        self._make, self._times = make, times
        self._drawn = make(times)
        self._at = torch.full((1,), -1, dtype=torch.int64, device=device)
        self._steps = 1

    def before_step(self) -> None:
        """Called before every step after the first."""
        if self._steps == self._times:
            for place, fresh in zip(self._drawn, self._make(self._times), strict=True):
                place.copy_(fresh)
            self._at.fill_(-1)
            self._steps = 0
        self._steps += 1

    def next(self) -> list[torch.Tensor]:
        """A step's own draws; at most once in a step."""
        self._at.add_(1)
        return [drawn.index_select(0, self._at)[0] for drawn in self._drawn]


class _ChoicesAhead(RandomSource):
    """A source that makes the choices of many steps at once: what it would choose anyway."""

    _asked: tuple[int, float] | None = None
    _made: Iterator[npt.NDArray[np.int64]] = iter(())

    def choose(self, count: int, probability: float) -> npt.NDArray[np.int64]:
        """Indices out of ``range(count)``, each taken independently with ``probability``."""
        made = next(self._made, None) if self._asked == (count, probability) else None
        if made is None:
            self._asked, self._made = (count, probability), self._ahead(count, probability)
            made = next(self._made)
        return made

    def _ahead(self, count: int, probability: float) -> Iterator[npt.NDArray[np.int64]]:
        flat = super().choose(count * _CHOICES_AHEAD, probability)
        steps = np.searchsorted(flat, count * np.arange(_CHOICES_AHEAD + 1)).tolist()
        flat %= count
        return (flat[begin:end] for begin, end in pairwise(steps))


class DeviceReplicas(DeviceDraws):
    """One counter-based generator on the device for each seed; never for a release.

    Guarantees:
        What a replica draws depends on its own seed, the purpose and the order of calls,
        never on the other seeds. It is not what the same seed draws on a CPU.
        Repeated steps find numbers that were made for many of them at once, which takes far
        fewer kernels. Each is used by one step and no other.
    """

    def __init__(self, seeds: Sequence[int], purpose: str, device: torch.device) -> None:
        import torch

        super().__init__(device)
        self._sources = [_ChoicesAhead.reproducible(seed, purpose) for seed in seeds]
        self._generators = [
            torch.Generator(device).manual_seed(int(source.words(1)[0] >> np.uint64(1)))
            for source in self._sources
        ]
        # What each call of a step draws, in order; ``None`` while no step is repeated.
        self._stocks: dict[tuple[object, ...], _Stock] = {}
        self._call: int | None = None

    @property
    def releasable(self) -> bool:
        """Never."""
        return False

    def _words(self, replicas: int, count: int) -> torch.Tensor:
        import torch

        if replicas != len(self._generators):
            raise ConfigError(
                f"A draw must be for {len(self._generators)} replicas. Got {replicas}."
            )
        words = torch.empty(replicas, count, dtype=torch.int64, device=self.device)
        for row, generator in zip(words, self._generators, strict=True):
            row.random_(-(2**63), None, generator=generator)
        return words

    def normal(self, shapes: Sequence[Shape]) -> list[torch.Tensor]:
        """Independent float64 draws of N(0, 1), one tensor for each shape."""
        if self._call is None:
            return super().normal(shapes)
        size = sum(math.prod(shape) // shape[-2] for shape in shapes)
        return self._next(
            ("normal", *map(tuple, shapes)), size, lambda n: self._normals(shapes, n)
        )

    def uniform_bytes(self, shape: Shape) -> torch.Tensor:
        """Independent uniform bytes."""
        if self._call is None:
            return super().uniform_bytes(shape)
        size = math.prod(shape) // shape[-2]
        return self._next(("bytes", *shape), size, lambda n: [self._bytes(shape, n)])[0]

    def _next(
        self, asked: tuple[object, ...], size: int, make: Callable[[int], list[torch.Tensor]]
    ) -> list[torch.Tensor]:
        """The next draws of this call of a step."""
        key = (self._call, *asked)
        self._call = (self._call or 0) + 1
        if key not in self._stocks:
            # By the size of one replica: what it draws must not depend on how many there are.
            times = min(_MOST_STEPS_AHEAD, max(1, _NUMBERS_AHEAD // size))
            self._stocks[key] = _Stock(make, times, self.device)
        return self._stocks[key].next()

    def before_step(self) -> None:
        """Makes new numbers for the steps to come, if those there are were used."""
        self._call = 0
        for stock in self._stocks.values():
            stock.before_step()

    def record_into(self, graph: torch.cuda.CUDAGraph) -> None:
        """A recorded step makes the same calls, from the first one on."""
        self._call = 0

    def before_replay(self, graph: torch.cuda.CUDAGraph) -> None:
        """As before any step: a replay takes the next numbers."""
        self.before_step()

    def of_replica(self, number: int) -> RandomSource:
        """The source of one seed, for choices of the host."""
        return self._sources[number]


class DeviceSource(DeviceDraws):
    """The words of a source, sent to the device.

    Guarantees:
        Every word is used once: a recorded step reads fixed places of memory, and each replay
        finds new words there.
    """

    def __init__(self, source: RandomSource, device: torch.device) -> None:
        super().__init__(device)
        self._source = source
        self._asked: list[tuple[int, int]] = []
        self._places: dict[torch.cuda.CUDAGraph, list[torch.Tensor]] = {}
        self._free: Iterator[torch.Tensor] = iter(())
        self._read: torch.cuda.Event | None = None

    @property
    def releasable(self) -> bool:
        """Whether the source is secret."""
        return self._source.releasable

    def _words(self, replicas: int, count: int) -> torch.Tensor:
        import torch

        if self.device.type == "cuda" and torch.cuda.is_current_stream_capturing():
            return next(self._free).to(self.device, non_blocking=True)
        self._asked.append((replicas, count))
        words = self._source.words(replicas * count).view(np.int64).copy()
        return torch.from_numpy(words).view(replicas, count).to(self.device)

    def before_step(self) -> None:
        """Forgets what the last step asked for."""
        self._asked.clear()

    def record_into(self, graph: torch.cuda.CUDAGraph) -> None:
        """Makes places for what the last step asked for: the recorded one asks for it too."""
        import torch

        self._places[graph] = [
            torch.empty(asked, dtype=torch.int64, pin_memory=True) for asked in self._asked
        ]
        self._free = iter(self._places[graph])
        self._read = torch.cuda.Event()  # type: ignore[no-untyped-call]

    def before_replay(self, graph: torch.cuda.CUDAGraph) -> None:
        """Fills the places that the recorded step reads with fresh words."""
        import torch

        places = self._places[graph]
        fresh = [self._source.words(place.numel()).view(np.int64).copy() for place in places]
        if self._read is not None:
            # All that was launched before has read its words by then.
            self._read.record()
            self._read.synchronize()
        for place, words in zip(places, fresh, strict=True):
            place.view(-1).copy_(torch.from_numpy(words))

    def of_replica(self, number: int) -> RandomSource:
        """The source itself: every draw of it is fresh, whichever replica it is for."""
        return self._source


def seeded_draws(seeds: Sequence[int], purpose: str, device: torch.device) -> Draws:
    """Reproducible draws for a device; never for a release."""
    if device.type == "cpu":
        return SeededReplicas(seeds, purpose)
    return DeviceReplicas(seeds, purpose, device)


def secret_draws(device: torch.device) -> Draws:
    """Draws for a device that are keyed by the operating system."""
    source = RandomSource.secret()
    return source if device.type == "cpu" else DeviceSource(source, device)
