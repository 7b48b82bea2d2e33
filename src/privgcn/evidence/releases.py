"""What a run releases, step by step, beside what two neighbours would have released.

The engine has no hook that could leak a sum. For the length of an audit, and in its process
only, the three functions that make a release are wrapped: the sum of a step, the centre of
dense rows, and the one function that adds noise.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any
from unittest.mock import patch

import torch
from torch import Tensor

from privgcn.evidence.canaries import Neighbours
from privgcn.graph.parts import PartitionedGraph
from privgcn.privacy.mechanism import noise
from privgcn.privacy.mechanism.centre import Outline, clipped_outline, released_outline
from privgcn.privacy.mechanism.cutting import cut_as_planned
from privgcn.privacy.mechanism.noise_grid import grid_of
from privgcn.privacy.mechanism.part_gradients import StackGradients
from privgcn.privacy.plan import PrivacyPlan
from privgcn.training import fit as training

KEPT = 32
"""Releases that are kept as they are, to be compared with each other and bit by bit."""

KEPT_RUNS = 256
"""Runs of which they are kept."""

# Sums of both neighbours, tensor by tensor.
Pair = tuple[list[Tensor], list[Tensor]]


def samples_hide(plan: PrivacyPlan) -> bool:
    """Whether chance, unknown to an adversary, decides which parts a step uses."""
    return plan.composition.sampling_probability < 1.0


@dataclass(eq=False)
class Observer:
    """An adversary who sees all releases of some runs and knows everything but one unit.

    Guesses are made for each run by the sign of a number: positive for ``present``.

    Attributes:
        likelihood: Logarithm of the likelihood ratio, if noise is as the plan claims.
        repetition: Positive if, supposing the unit, noise repeats from step to step.
        companion: The same for noise that repeats from another run.
        largest_move: How far the unit moved a sum at most, in clip norms.
        squared_moves: Mean square of how far it moved a sum.
        noise: Noise of the first releases, in each run, as it was added.
        squares: Sum of squares of all noise, and how many draws it was.
        beside: Released numbers that are no multiples of the grid's step.
        kept: Of some runs: the releases, and both neighbours' sums.
        releases: Sums that got noise.
        foreign: Sums that got noise and that neither neighbour has.
        sampled: Parts that were sampled, and those that could have been.
    """

    pair: Neighbours
    known_noise: Sequence[Tensor] = ()
    likelihood: Any = 0.0
    repetition: Any = 0.0
    companion: Any = 0.0
    largest_move: float = 0.0
    squared_moves: float = 0.0
    releases: int = 0
    foreign: int = 0
    sampled: tuple[int, int] = (0, 0)
    noise: list[Tensor] = field(default_factory=list)
    squares: tuple[float, int] = (0.0, 0)
    beside: int = 0
    kept: list[tuple[Tensor, Tensor, Tensor]] = field(default_factory=list)
    _plan: PrivacyPlan | None = None
    _centre: Tensor | None = None
    _sums: Pair | None = None
    _before: tuple[list[Tensor], list[Tensor]] | None = None
    _sources: dict[int, tuple[StackGradients, StackGradients]] = field(default_factory=dict)

    def graphs(self, plan: PrivacyPlan) -> list[PartitionedGraph]:
        """Both neighbours, cut as the plan says, less a centre that was released."""
        found = []
        for graph in (self.pair.present, self.pair.absent):
            parts = cut_as_planned(graph, plan, {})
            if self._centre is not None:
                parts = parts.with_features(parts.features.centred(self._centre[:, 0]))
            found.append(parts)
        return found

    def expect(self, plan: PrivacyPlan, sums: Pair) -> None:
        """Says what both neighbours would add up to in the release that comes next."""
        self._plan, self._sums = plan, sums

    def see(self, before: Sequence[Tensor], released: Sequence[Tensor]) -> None:
        """Takes a release into account."""
        self.releases += 1
        if self._plan is None or self._sums is None:
            self.foreign += 1
            return
        present, absent = (_flat(sums) for sums in self._sums)
        if len(present) == 1:
            # One run; an outline has no replica dimension of its own.
            before, released = ([t.reshape(-1, 1, 1) for t in x] for x in (before, released))
        seen, own = _flat(released), _flat(before)
        drawn = seen - own
        total, draws = self.squares
        self.squares = total + float(drawn.square().sum()), draws + drawn.numel()
        self.beside += int((seen.remainder(grid_of(self._plan).step) != 0.0).sum())
        sampled = samples_hide(self._plan)
        # Under sampling, a sum may have nothing of the unit's part, and others are silent.
        possible = [present, absent, *([torch.zeros_like(own)] if sampled else [])]
        known = torch.stack([(own == sums).all(1) for sums in possible]).any(0)
        self.foreign += int((~known).any())
        moves = (present - absent).square().sum(1)
        self.largest_move = max(self.largest_move, math.sqrt(float(moves.max())))
        self.squared_moves += float(moves.mean())
        self.likelihood = self.likelihood + self._ratio(seen, present, absent).numpy()
        # What noise each hypothesis leaves; under sampling, the unit may have been left out.
        left = [[seen - sums, seen] if sampled else [seen - sums] for sums in (present, absent)]
        if self._before is not None:
            self.repetition = self.repetition + _closer(left, self._before).numpy()
        if len(self.noise) < len(self.known_noise):
            known = self.known_noise[len(self.noise)]
            self.companion = self.companion + _closer(left, ([known], [known])).numpy()
        self._before = (left[0], left[1])
        if len(self.noise) < KEPT:
            self.noise.append(drawn)
            some = slice(0, KEPT_RUNS)
            self.kept.append((seen[some].clone(), present[some].clone(), absent[some].clone()))
        self._sums = None

    def _ratio(self, seen: Tensor, present: Tensor, absent: Tensor) -> Tensor:
        if self._plan is None:
            raise ValueError("no release was announced")
        twice = 2.0 * self._plan.noise_multiplier**2
        near, far = ((seen - sums).square().sum(1) / twice for sums in (present, absent))
        if not samples_hide(self._plan):
            return far - near
        rate = self._plan.composition.sampling_probability
        unsampled = math.log1p(-rate) - seen.square().sum(1) / twice
        return torch.logaddexp(unsampled, math.log(rate) - near) - torch.logaddexp(
            unsampled, math.log(rate) - far
        )

    def sources(self, source: StackGradients) -> tuple[StackGradients, StackGradients]:
        """Where both neighbours' sums come from, made like the run's own."""
        if id(source) not in self._sources:
            assert isinstance(source.plan, PrivacyPlan)
            first, second = (
                StackGradients(
                    source.model,
                    graph,
                    source.plan,
                    None,
                    short_residuals=source.longest is not None,
                    bias=source.bias,
                )
                for graph in self.graphs(source.plan)
            )
            self._sources[id(source)] = (first, second)
        return self._sources[id(source)]


@contextmanager
def observing(observer: Observer) -> Iterator[None]:
    """Lets an observer see what is released in this block."""
    clipped_sum, noisy = StackGradients.clipped_sum, noise.noisy

    def summed(self: StackGradients, parameters: Any, samples: Any) -> list[Tensor]:
        assert isinstance(self.plan, PrivacyPlan)
        present, absent = observer.sources(self)
        known = None if samples_hide(self.plan) else samples
        pair = clipped_sum(present, parameters, known), clipped_sum(absent, parameters, known)
        if samples is not None:
            taken, could = observer.sampled
            taken += sum(len(parts) for parts in samples)
            observer.sampled = taken, could + self.parts * len(samples)
        observer.expect(self.plan, pair)
        return clipped_sum(self, parameters, samples)

    def outlined(
        graph: PartitionedGraph, plan: PrivacyPlan, source: Any, *sums: Any
    ) -> Outline:
        first = None if samples_hide(plan) else plan.schedule.sample(0, source)
        known = None if first is None else [first]
        present, absent = (
            [t.reshape(-1, 1, 1) for t in clipped_outline(g, plan, known)]
            for g in observer.graphs(plan)
        )
        observer.expect(plan, (present, absent))
        made = released_outline(graph, plan, source, *sums)
        observer._centre = made.centre
        return made

    def drawn(sums: Sequence[Tensor], *others: Any) -> list[Tensor]:
        before = [each.clone() for each in sums]
        released = noisy(sums, *others)
        observer.see(before, released)
        return released

    with (
        patch.object(StackGradients, "clipped_sum", summed),
        patch.object(noise, "noisy", drawn),
        patch.object(training, "released_outline", outlined),
    ):
        yield


def _flat(tensors: Sequence[Tensor]) -> Tensor:
    """All coordinates of each replica, ``[R, coordinates]``."""
    rows = [t.movedim(-2, 0).reshape(t.shape[-2], -1) for t in tensors]
    return torch.cat(rows, 1).double()


def _closer(left: Sequence[Sequence[Tensor]], other: Sequence[Sequence[Tensor]]) -> Tensor:
    """How much closer the first hypothesis brings noise to other noise than the second."""
    distances = []
    for mine, theirs in zip(left, other, strict=True):
        # An outline has fewer coordinates than a step.
        size = min(mine[0].shape[1], theirs[0].shape[1])
        pairs = [(a[:, :size] - b[:, :size]).square().sum(1) for a in mine for b in theirs]
        distances.append(torch.stack(pairs).amin(0))
    return distances[1] - distances[0]
