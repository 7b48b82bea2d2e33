"""An audit: a measured lower bound on epsilon beside the claim.

    case -> many trainings with and without the unit -> a guess about each -> right guesses
         -> the least advantage (Clopper-Pearson) -> epsilon, with as much noise as it allows

A bound above the claim shows a defect; one below it proves little. An auditor also observes how
far a unit moves a sum, whether noise and samples are what the plan says, and the model's own
errors (:func:`generalisation`).
"""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from pathlib import Path
from typing import Any, NamedTuple
from unittest.mock import patch

import numpy as np
from numpy.typing import NDArray

from privgcn.audit.bounds import (
    epsilon_of_advantage,
    gaussian_mu,
    least_advantage,
    least_fraction,
)
from privgcn.audit.canaries import Case, column_case, single_case
from privgcn.config import Settings
from privgcn.data import TEST, TRAIN, load_corpus, resolved_source
from privgcn.errors import ConfigError
from privgcn.graph import DocumentGraph
from privgcn.inference import scores_in_mode
from privgcn.mechanism import Groups, RandomSource, Session, SoftmaxGradient, Statistics
from privgcn.mechanism.fixed_point import Floats, Grid
from privgcn.privacy.plan import PrivacyPlan
from privgcn.released import Released
from privgcn.runs.prepare import PreparedRun, graph_of, prepare
from privgcn.runs.run import Run
from privgcn.runs.train import fit

# How the chance of a wrong bound is divided: between guesses and what an auditor observes. A
# false alarm is this many times rarer.
_GUESSES, _ENGINE, _ALARM = 0.95, 0.05, 50.0
# Sums are on a grid and clip norms pay for it: one unit moves a sum by this much at most.
_ROUNDING = 1.0 + 1e-6
# Targets with a column each in one training, and releases of all trainings: those of a network
# take longer. About a minute's.
_COLUMNS, _RELEASES, _RELEASES_OF_NETWORKS = 500, 100_000, 40_000
_MOST_RUNS, _FEWEST_RUNS = 20_000, 100
# Sums that differ by less are the same: answers are divided by the number of groups.
_EQUAL = 1e-6
# Noise lies on a fine grid: some values of millions may be equal by chance. Values of noise
# that an auditor keeps, and of each release those whose law is tested; lowest bits of each.
_BY_CHANCE, _NOISE, _VALUES, _BITS = 2, 1 << 24, 256, 8


class Generalisation(NamedTuple):
    """Errors on training documents (``seen``) and others, each alone, as fractions.

    And the most that ``seen`` and the claim allow, the ``least`` that ``unseen`` leaves open.
    """

    seen: float
    unseen: float
    allowed: float
    least: float


class Audit(NamedTuple):
    """A claim at ``delta`` and what was measured of it.

    ``epsilon`` and ``mu`` (of Gaussian differential privacy) are lower bounds, from ``correct``
    of ``guesses`` about which of two neighbours a run was trained on. The ``largest_move`` is
    how many clip norms one unit moved a sum. ``broken`` says why the claim does not hold.
    """

    claim: float
    claim_mu: float
    delta: float
    unit: str
    relation: str
    sensitivity: int
    confidence: float
    guesses: int
    correct: int
    epsilon: float
    mu: float
    largest_move: float
    broken: tuple[str, ...]
    generalisation: Generalisation | None = None

    @property
    def share(self) -> float:
        """How much of the claim the bound reaches."""
        return self.epsilon / self.claim


def audit(
    settings: Settings,
    plan: PrivacyPlan,
    *,
    dense: bool,
    claim: float | None = None,
    runs: int | None = None,
    confidence: float = 0.95,
) -> Audit:
    """Audits a plan by trainings of the production engine on worst cases.

    The ``claim`` is the plan's epsilon unless another is given. ``runs`` on each of two
    neighbours are about a minute's by default, of networks with fewer steps than the plan has.
    """
    if not 0.5 <= confidence < 1.0:
        raise ConfigError(
            f"The 'confidence' of an audit must be from 0.5 to below 1. Got {confidence}."
        )
    trainings = _trainings(settings, plan, dense, runs)
    one = replace(plan, selection=None, accountant="pld")
    event = replace(plan.training, count=trainings.case.plan.training.count)
    correct, guesses = trainings.guessed()

    def bound(doubt: float) -> float:
        advantage = least_advantage(correct, guesses, 1.0 - doubt)
        return epsilon_of_advantage(advantage, event, plan.delta, plan.training.count)

    doubt = 1.0 - confidence
    epsilon, surely = bound(_GUESSES * doubt), bound(_GUESSES * doubt / _ALARM)
    claimed = plan.epsilon if claim is None else claim
    # A claim may leave room for a search or for a looser accountant. What one training
    # reveals must not take it.
    allowed = min(claimed, one.epsilon)
    broken = _defects(trainings, plan, 1.0 - _ENGINE / 4.0 * doubt / _ALARM)
    if surely > allowed:
        broken.insert(0, f"epsilon is at least {surely:.3g}, not {allowed:.3g}")
    return Audit(
        claim=claimed,
        claim_mu=gaussian_mu(claimed, plan.delta),
        delta=plan.delta,
        unit=plan.unit,
        relation=plan.relation,
        sensitivity=plan.sensitivity,
        confidence=confidence,
        guesses=guesses,
        correct=correct,
        epsilon=epsilon,
        mu=gaussian_mu(epsilon, plan.delta),
        largest_move=trainings.largest_move,
        broken=tuple(broken),
    )


def _trainings(
    settings: Settings, plan: PrivacyPlan, dense: bool, runs: int | None
) -> Trainings:
    count, linear = 1, settings.model.kind == "linear"
    if plan.group_is_unit and plan.schedule.name != "epoch" and linear:
        count = min(_COLUMNS, 2 * (runs or _MOST_RUNS), int(0.5 / plan.delta)) // 2 * 2
        case = column_case(settings, plan, dense=dense, count=count)
    else:
        case = single_case(settings, plan, dense=dense)
    if runs is None:
        releases = (_RELEASES if linear else _RELEASES_OF_NETWORKS) * count // 2
        runs = max(_FEWEST_RUNS, min(_MOST_RUNS, releases // case.plan.steps))
        groups = case.plan.partition.groups if plan.schedule.name == "epoch" else 1
        steps = groups * max(1, releases // runs // groups)
        case = replace(case, plan=replace(case.plan, steps=min(case.plan.steps, steps)))
    trainings, random = Trainings(case), np.random.default_rng()
    for number in range(math.ceil(2 * runs / count)):
        half = np.arange(number, number + count) % 2 == 0
        trainings.train(random.permutation(half))
    return trainings


def _defects(trainings: Trainings, plan: PrivacyPlan, level: float) -> list[str]:
    reasons, moved, paid = [], trainings.largest_move, plan.sensitivity
    if moved > paid * _ROUNDING:
        words = f"one unit moved a sum by {moved:.3g} clip norms, the plan accounts for {paid}"
        reasons.append(words)
    if trainings.foreign:
        reasons.append(f"{trainings.foreign} releases were of sums that neither neighbour has")
    grid = Grid.of(plan.noise_multiplier, trainings.case.plan.partition.groups)
    reasons += noise_defects(trainings.noise, plan.noise_multiplier, grid, level)
    rate = plan.training.sampling_probability
    least = least_fraction(trainings.sampled, trainings.could, level)
    if least > rate:
        words = f"steps used a group with a probability of at least {least:.3g}"
        reasons.append(f"{words}, the plan accounts for {rate:.3g}")
    return reasons


def generalisation(
    released: Released, graph: DocumentGraph, epsilon: float, delta: float, confidence: float
) -> Generalisation | None:
    """Whether a private model errs no more on unseen documents than its claim allows.

    Over documents of one kind, and models, the error on unseen ones is at most e^epsilon times
    that on seen ones, plus delta. ``allowed`` and ``least`` hold together with ``confidence``;
    without labels of either kind there is no answer.
    """
    wrong = []
    for code in (TRAIN, TEST):
        rows = np.flatnonzero((graph.split == code) & (graph.labels >= 0))
        if not len(rows):
            return None
        predicted = scores_in_mode(released, graph, rows, "alone").argmax(-1)
        wrong.append((int((predicted != graph.labels[rows]).sum()), len(rows)))
    (seen, of), (unseen, others) = wrong
    level = (1.0 + confidence) / 2.0
    most = 1.0 - least_fraction(of - seen, of, level)
    return Generalisation(
        seen=seen / of,
        unseen=unseen / others,
        allowed=min(1.0, math.exp(min(epsilon, 700.0)) * most + delta),
        least=least_fraction(unseen, others, level),
    )


@dataclass(frozen=True, eq=False)
class Target:
    """A finished run, or a corpus with settings for one: then ``run`` is ``None``."""

    prepared: PreparedRun
    run: Run | None = None

    @classmethod
    def of_run(cls, folder: Path) -> Target:
        """The documents and settings of a run, loaded again from their source."""
        run = Run(folder)
        return cls(prepare(run.corpus(labelled=False), run.settings), run)

    @classmethod
    def of_corpus(cls, settings: Settings) -> Target:
        """Documents that a run with these settings would train on."""
        source = resolved_source(str(settings.data.source))
        corpus = load_corpus(source, seed=settings.seed, **settings.data.reading)
        return cls(prepare(corpus, settings.changed({"data.source": source})))

    @cached_property
    def graph(self) -> DocumentGraph:
        """All documents with the run's features."""
        prepared = self.prepared
        if self.run is not None:
            return self.run.model().graph(prepared.corpus)
        return graph_of(prepared.corpus, prepared.featurizer, prepared.settings)

    @cached_property
    def released(self) -> Released:
        """The run's model; of a corpus, one that is trained now."""
        return fit(self.prepared, self.graph) if self.run is None else self.run.model().released

    @cached_property
    def plan(self) -> PrivacyPlan:
        """The plan of the run; a ``ConfigError`` without privacy."""
        plan = self.prepared.plan if self.run is None else self.released.plan
        if plan is None:
            raise ConfigError(
                "An audit needs a private run. Got one without privacy. Add --epsilon 1."
            )
        return plan

    @property
    def claim(self) -> float:
        """The epsilon that the statement claims, or the plan where there is none yet."""
        statement = None if self.run is None else self.run.statement
        return self.plan.epsilon if statement is None else statement.epsilon


def audit_target(target: Target, *, runs: int | None = None, confidence: float = 0.95) -> Audit:
    """Audits a run or a corpus: worst cases in many runs, and the errors of its own model."""
    plan, graph = target.plan, target.graph
    own = partial(audit, target.prepared.settings, plan, dense=graph.dense, claim=target.claim)
    made = own(runs=runs, confidence=confidence)
    sure = 1.0 - (1.0 - confidence) / _ALARM
    errors = generalisation(target.released, graph, target.claim, plan.delta, sure)
    broken = made.broken
    # Whoever splits by kind or time compares two kinds of documents.
    alike = target.prepared.corpus.facts.split_origin == "random"
    if errors is not None and alike and errors.least > errors.allowed:
        least, most = f"{errors.least:.1%}", f"{errors.allowed:.1%}"
        broken += (f"the model errs on at least {least} of others, the claim allows {most}",)
    return made._replace(generalisation=errors, broken=broken)


# The engine has no hook that could leak a sum. Sessions with the same key draw the same noise.
# So beside the session that trains, others are asked the same questions: one without any
# document, whose answers are the noise, and, with a key of their own, those of the worlds that
# an adversary compares.


@dataclass(eq=False)
class Trainings:
    """What an adversary sees of many trainings who knows everything but who was there.

    ``releases`` has, of each target, the logarithm of the likelihood ratio of all releases if
    noise is as claimed, positive for present. ``foreign`` ones are of sums that no world has.
    The group of a target was ``sampled`` as often, of the times that it ``could`` have been.
    """

    case: Case
    there: list[NDArray[np.bool_]] = field(default_factory=list)
    releases: list[Floats] = field(default_factory=list)
    noise: list[Floats] = field(default_factory=list)
    largest_move: float = 0.0
    foreign: int = 0
    sampled: int = 0
    could: int = 0

    def train(self, there: NDArray[np.bool_]) -> None:
        """Trains once, with some of the targets."""
        self.there.append(there)
        self.releases.append(np.zeros(len(there)))
        session = _WatchedSession(self)
        trained(session, self.case.settings)
        if session.remaining:
            raise RuntimeError(f"A training left {session.remaining} releases of its plan.")

    def guessed(self) -> tuple[int, int]:
        """Right guesses and all of them, by the strongest test of an engine as planned."""
        right = np.concatenate(self.there) == (np.concatenate(self.releases) > 0.0)
        return int(right.sum()), len(right)


class _WatchedSession(Session):
    def __init__(self, trainings: Trainings) -> None:
        case, there = trainings.case, trainings.there[-1]
        first, second = twin_sources(2)
        super().__init__(case.plan, Groups.of_plan(case.plan, case.graph(there)), first)
        self._trainings, self._case, self._there = trainings, case, there
        *worlds, silence = case.worlds
        self._silence = Session(case.plan, silence, second)
        self._worlds = [
            Session(case.always, groups, source)
            for groups, source in zip(worlds, twin_sources(3), strict=True)
        ]

    def center(self, mean: NDArray[Any] | None) -> None:
        super().center(mean)
        for session in (self._silence, *self._worlds):
            session.center(mean)

    def query(self, question: Any) -> Floats:
        answer = super().query(question)
        expected = self.plan.schedule.expected_groups
        noise = self._silence.query(question) * expected
        always = self._case.always.schedule.expected_groups
        present, absent, silent = (each.query(question) * always for each in self._worlds)
        if len(self._trainings.noise) * noise.size < _NOISE:
            self._trainings.noise.append(noise.ravel())
        vectors = answer * expected, noise, present - silent, absent - silent
        self._see(*(self._own(question, vector) for vector in vectors))
        return answer

    def _own(self, question: Any, vector: Floats) -> Floats:
        # About each target ``[targets, coordinates]``.
        count = len(self._there)
        if self._case.target_of is None:
            return vector.reshape(1, -1)
        if isinstance(question, Statistics):
            # The class priors are about all of them together.
            return vector[: -self.classes][-count:].reshape(count, -1)
        if not isinstance(question, SoftmaxGradient):
            raise ValueError(f"Targets have no columns in {question!r}.")
        return vector[-count:]

    def _see(self, released: Floats, noise: Floats, present: Floats, absent: Floats) -> None:
        seen, used = self._trainings, released - noise
        moves = np.square(present - absent).sum(1)
        seen.largest_move = max(seen.largest_move, math.sqrt(float(moves.max(initial=0.0))))
        twice = 2.0 * self.plan.noise_multiplier**2
        # Logarithms of the likelihoods, up to a number that is common to all of them.
        worlds = present, absent, 0.0
        near, far, off = (-np.square(released - each).sum(1) / twice for each in worlds)
        own = np.where(self._there[:, None], present, absent)
        equal = (np.abs(used - own) < _EQUAL).all(1)
        rate = self.plan.training.sampling_probability
        if rate < 1.0:
            # A sum may have nothing of the target's group, and the others are silent.
            told = (np.abs(own) >= _EQUAL).any(1)
            seen.sampled += int((equal & told).sum())
            seen.could += int(told.sum())
            equal |= (np.abs(used) < _EQUAL).all(1)
            near, far = (
                np.logaddexp(math.log1p(-rate) + off, math.log(rate) + each)
                for each in (near, far)
            )
        seen.foreign += int((~equal).any())
        seen.releases[-1] += near - far


def twin_sources(count: int) -> list[RandomSource]:
    """Secret sources with the same key, made as every training makes its own."""
    key = os.urandom(32)
    with patch.object(os, "urandom", lambda size: key):
        return [RandomSource.secret() for _ in range(count)]


def trained(session: Session, settings: Settings) -> Released:
    """The model of a training through a session, by the recipe that the settings name."""
    if settings.training.large_steps:
        from privgcn.auto.train import train

        return train(session, settings)
    from privgcn.sgd.train import train_private

    return train_private(session, settings)


def noise_defects(
    noises: Sequence[Floats], noise_multiplier: float, grid: Grid, confidence: float
) -> list[str]:
    """Why noise is not fresh, Gaussian, as large as planned and on the grid of the sums."""
    from scipy.stats import binomtest, chi2, kstest

    whole = [np.rint(noise * grid.unit) for noise in noises]
    again = len(whole) - len({hash(np.abs(each).tobytes()) for each in whole})
    alike = sum(each.size - len(np.unique(np.abs(each))) for each in whole)
    off_grid = sum(
        int((np.abs(noise * grid.unit - each) > 0.25).sum())
        for noise, each in zip(noises, whole, strict=True)
    )
    samples = sum(each.size for each in noises)
    squares = sum(float(np.square(each).sum()) for each in noises)
    # The largest standard deviation that the samples leave plausible.
    most = math.sqrt(squares / float(chi2.ppf(1.0 - confidence, samples)))
    reasons = {
        f"{again} releases had noise that was sampled before": again > 0,
        f"{alike} coordinates got the noise of another one": alike > _BY_CHANCE,
        f"{off_grid} released numbers do not lie on the grid": off_grid > 0,
        f"noise has a standard deviation of at most {most:.4g} clip norms, the plan accounts "
        f"for {noise_multiplier:.4g}": most < noise_multiplier,
    }
    if not any(reasons.values()):
        low = (each.astype(np.int64) & ((1 << _BITS) - 1) for each in whole)
        ones = sum(int(np.bitwise_count(bits).sum()) for bits in low)
        coins = binomtest(ones, _BITS * samples).pvalue
        values = np.concatenate([each[:_VALUES] for each in noises])
        # By its own deviation: too much noise breaks no claim.
        gaussian = kstest(values / math.sqrt(float(np.square(values).mean())), "norm").pvalue
        reasons = {
            "the lowest bits of noise are no coins": coins < 1.0 - confidence,
            "noise is not Gaussian": gaussian < 1.0 - confidence,
        }
    return [words for words, true in reasons.items() if true]
