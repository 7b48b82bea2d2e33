"""The classical audit: many runs with and without one unit, and a guess about each.

A training pass may hold thousands of replicas, each with noise and samples of its own: so
many independent runs of the production engine. Adversaries see all releases (white box) or
predictions only (black box).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from privgcn.config import Settings
from privgcn.evidence.bits import decide
from privgcn.evidence.canaries import Neighbours
from privgcn.evidence.drawn import Drawn
from privgcn.evidence.membership import surety
from privgcn.evidence.one_run import CanaryScores, Counted, can_hold_canaries, canary_scores
from privgcn.evidence.releases import KEPT, KEPT_RUNS, Observer, observing, samples_hide
from privgcn.graph.textgraph import TextGraph
from privgcn.prediction.inference import scores_in_mode
from privgcn.privacy.mechanism.noise_grid import grid_of
from privgcn.privacy.plan import PrivacyPlan
from privgcn.privacy.schedule import steps_per_epoch
from privgcn.training.fit import fit
from privgcn.training.fitted import Fit

# Runs that fix the threshold of a black-box guess before the rest are guessed.
_SET_ASIDE = 5
# Runs that train alone, and canaries with a column each in one run.
_FEW, _CANARIES = 12, 500

Array = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Guesses:
    """Guesses of one adversary about runs of both kinds.

    Attributes:
        adversary: What it looks at, in words.
        runs: Runs of each kind.
        hits: Guesses "present" among runs with the unit.
        false_alarms: Guesses "present" among runs without it.
    """

    adversary: str
    runs: int
    hits: int
    false_alarms: int

    @property
    def correct(self) -> int:
        """Right guesses about runs of both kinds."""
        return self.hits + self.runs - self.false_alarms


@dataclass(eq=False)
class _World:
    """What was seen of the runs of one kind."""

    statistics: dict[str, list[Array]] = field(default_factory=dict)
    margins: list[Array] = field(default_factory=list)
    bits: list[bool | None] = field(default_factory=list)
    largest_move: float = 0.0
    squared_moves: list[float] = field(default_factory=list)
    releases: set[int] = field(default_factory=set)
    foreign: int = 0
    sampled: tuple[int, int] = (0, 0)

    def of(self, name: str) -> Array:
        return np.concatenate(self.statistics[name])


@dataclass(frozen=True, eq=False)
class ManyRuns:
    """What many runs showed.

    Attributes:
        likelihood: Guesses by the likelihood ratio of all releases: the strongest test
            against an engine that does what its plan says.
        others: Guesses that only work against noise that is not what it should be.
        bits: Guesses from the bits of noisy sums, with abstentions; ``None`` under sampling.
        predictions: Guesses from predictions alone.
        largest_move: How far the unit moved a sum at most, in clip norms.
        usual_move: The root of its mean square.
        drawn: The noise by itself.
        releases: How many a run made, where it was not the number that its plan accounts for.
        foreign: Releases of sums that neither neighbour has.
        sampled: Parts that were sampled, and those that could have been.
    """

    likelihood: Guesses
    others: tuple[Guesses, ...]
    bits: Counted | None
    predictions: Guesses
    largest_move: float
    usual_move: float
    drawn: Drawn
    releases: set[int]
    foreign: int
    sampled: tuple[int, int]


def many_runs(pair: Neighbours, plan: PrivacyPlan, runs: int) -> ManyRuns:
    """Trains on both neighbours many times and guesses, of each run, which one it was.

    Replicas that release a centre cannot share a pass, and would take hours. Of them, a few
    are trained, and the likelihood is that of canaries with a column each, many in a run.

    Args:
        pair: The neighbours.
        plan: Of the audited run.
        runs: On each of the two.
    """
    columns = trains_alone(pair.settings, pair.present) and can_hold_canaries(
        pair.settings, plan
    )
    few = min(runs, _FEW) if columns else runs
    short = max(1, math.ceil(KEPT / steps_per_epoch(plan.schedule)))
    brief = pair.settings.changed(
        {"training.epochs": min(short, pair.settings.training.epochs)}
    )
    known: list[Sequence[Tensor]] = []
    drawn = Drawn()
    # A run on documents that the adversary knows all of: its noise is no secret to them.
    for seeds in _passes(pair, few):
        seen = Observer(pair)
        with observing(seen):
            fit(pair.absent, brief, seeds=seeds)
        known.append(seen.noise)
        drawn.add(seen)
    present = _trained(pair.present, pair, few, known, drawn)
    absent = _trained(pair.absent, pair, few, known, drawn)

    def guessed(name: str, words: str) -> Guesses:
        found = [int((world.of(name) > 0.0).sum()) for world in (present, absent)]
        return Guesses(words, few, found[0], found[1])

    likelihood = guessed("likelihood", "all releases")
    margins = [np.concatenate(world.margins) for world in (present, absent)]
    if few < runs:
        scores = _by_columns(pair, plan, runs)
        hits = [
            int((scores.releases[where] > 0.0).sum()) for where in (scores.there, ~scores.there)
        ]
        likelihood = Guesses("all releases", runs, hits[0], hits[1])
        margins = [scores.predictions[where] for where in (scores.there, ~scores.there)]
    return ManyRuns(
        likelihood,
        (
            guessed("repetition", "noise that repeats between steps"),
            guessed("companion", "noise that repeats between runs"),
        ),
        None if samples_hide(plan) else _bit_guesses(present, absent),
        _threshold_guesses(margins[0], margins[1]),
        max(present.largest_move, absent.largest_move),
        math.sqrt(float(np.mean(present.squared_moves))),
        drawn,
        present.releases | absent.releases,
        present.foreign + absent.foreign,
        (present.sampled[0] + absent.sampled[0], present.sampled[1] + absent.sampled[1]),
    )


def trains_alone(settings: Settings, graph: TextGraph) -> bool:
    """Whether each replica releases an outline of its own."""
    training = settings.training
    return training.large_steps and (graph.features.is_dense or training.balanced)


def _by_columns(pair: Neighbours, plan: PrivacyPlan, runs: int) -> CanaryScores:
    """Scores of as many canaries as there would be runs, half of them there."""
    passes = math.ceil(2 * runs / _CANARIES)
    found = []
    for number in range(passes):
        size = 2 * (runs // passes + (number < runs % passes))
        there = np.random.default_rng().permutation(np.arange(size) % 2 == 0)
        found.append(canary_scores(pair.absent, pair.settings, plan, columns={}, there=there))
    return CanaryScores(*(np.concatenate(values) for values in zip(*found, strict=True)))


def _passes(pair: Neighbours, runs: int) -> list[list[int]]:
    """Seeds that train in one pass."""
    seeds = range(runs)
    return (
        [[seed] for seed in seeds]
        if trains_alone(pair.settings, pair.present)
        else [list(seeds)]
    )


def _trained(
    graph: TextGraph,
    pair: Neighbours,
    runs: int,
    noise: Sequence[Sequence[Tensor]],
    drawn: Drawn,
) -> _World:
    world = _World()
    for number, seeds in enumerate(_passes(pair, runs)):
        seen = Observer(pair, known_noise=noise[number])
        with observing(seen):
            fitted = fit(graph, pair.settings, seeds=seeds)
        assert fitted.plan is not None
        drawn.add(seen)
        if seen.releases != fitted.plan.steps:
            world.releases.add(seen.releases)
        for name in ("likelihood", "repetition", "companion"):
            values = np.broadcast_to(getattr(seen, name), (len(seeds),))
            world.statistics.setdefault(name, []).append(values)
        world.margins.append(_margins(fitted, pair))
        world.largest_move = max(world.largest_move, seen.largest_move)
        world.squared_moves.append(seen.squared_moves / seen.releases)
        world.foreign += seen.foreign
        taken, could = world.sampled
        world.sampled = taken + seen.sampled[0], could + seen.sampled[1]
        if len(world.bits) < KEPT_RUNS:
            world.bits += _bit_verdicts(seen, grid_of(fitted.plan).step)
    return world


def _margins(fitted: Fit, pair: Neighbours) -> Array:
    """How sure each run is of the unit's label, asked about one of its documents alone."""
    asked = pair.target[:1]
    scores = scores_in_mode(fitted, pair.present, asked, "alone")[0]
    return surety(scores, pair.present.labels[asked].expand(len(scores)))


def _bit_verdicts(seen: Observer, spacing: float) -> list[bool | None]:
    runs = range(len(seen.kept[0][0]))
    return [
        decide(
            *(torch.cat([release[kind][run] for release in seen.kept]) for kind in range(3)),
            spacing=spacing,
        )
        for run in runs
    ]


def _bit_guesses(present: _World, absent: _World) -> Counted:
    verdicts = [*present.bits, *absent.bits]
    correct = present.bits.count(True) + absent.bits.count(False)
    made = len(verdicts) - verdicts.count(None)
    return Counted("bits of noisy sums", len(verdicts), made, correct)


def _threshold_guesses(present: Array, absent: Array) -> Guesses:
    """Guesses by a threshold that the first runs fixed and the others had no part in."""
    aside = len(present) // _SET_ASIDE
    middles = [float(np.median(values[:aside])) for values in (present, absent)]
    sign = 1.0 if middles[0] >= middles[1] else -1.0
    threshold = sign * sum(middles) / 2.0
    hits, alarms = (int((sign * v[aside:] > threshold).sum()) for v in (present, absent))
    return Guesses("predictions", len(present) - aside, hits, alarms)
