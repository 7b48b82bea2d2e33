"""An audit: a measured lower bound on epsilon beside the claim.

    case -> many trainings with and without the unit -> a guess about each -> right guesses
         -> the least advantage (Clopper-Pearson) -> epsilon, with as much noise as it allows

A bound above the claim shows a defect. A bound below it proves nothing but that these
adversaries, with so many runs, learned no more. Beside guesses, an auditor sees the engine
itself: how far a unit moves a sum, and whether noise and samples are what the plan says.
"""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict
from scipy.special import logsumexp

from privgcn.audit.bounds import (
    epsilon_of_advantage,
    least_advantage,
    least_fraction,
    one_run_epsilon,
)
from privgcn.audit.canaries import Case, column_case, holds_columns, single_case
from privgcn.audit.noise_tests import NoiseTests
from privgcn.audit.observe import WatchedSession
from privgcn.config import Settings
from privgcn.data import TRAIN, Corpus, load_corpus, resolved_source
from privgcn.errors import ConfigError
from privgcn.graph import DocumentGraph
from privgcn.inference import scores_in_mode
from privgcn.mechanism import Session
from privgcn.mechanism.fixed_point import Grid
from privgcn.privacy.accounting import GaussianEvent
from privgcn.privacy.plan import PrivacyPlan
from privgcn.released import Released
from privgcn.runs.prepare import PreparedRun, graph_of, prepare
from privgcn.runs.run import Run

Array = NDArray[np.float64]

# How the chance of a wrong bound is divided: most of it to the test that a sound engine is
# measured by, the rest to other adversaries, and to what an auditor sees of the engine.
_MAIN, _BESIDE, _ENGINE = 0.8, 0.15, 0.05
# A false alarm is this many times rarer than a bound above the true epsilon.
_ALARM = 50.0
# Sums are on a grid and clip norms pay for it: one unit moves a sum by this much at most.
_ROUNDING = 1.0 + 1e-6
# Targets with a column each in one training, and seconds that all trainings may take.
_COLUMNS, _SECONDS = 500, 40.0
_USUAL_RUNS, _FEWEST_RUNS, _AT_LEAST = 20_000, 100, 10
# Runs that fix the threshold of a guess by predictions, before the rest are guessed.
_SET_ASIDE = 5
# One canary of a corpus in ten is guessed about: the more extreme, the surer.
_ABSTAINED = 10


class _Record(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Finding(_Record):
    """What one adversary learned.

    Attributes:
        adversary: What it saw.
        method: ``many runs`` or ``one run``.
        guesses: Guesses that it made.
        correct: How many were right.
        epsilon: The lower bound that they prove at the audit's confidence.
        surely: The same at the confidence of the alarm.
    """

    adversary: str
    method: Literal["many runs", "one run"]
    guesses: int
    correct: int
    epsilon: float
    surely: float


class Audit(_Record):
    """A claim and what was measured of it.

    Attributes:
        claim: The epsilon that is claimed.
        confidence: With which the bounds hold, all of them together.
        runs: On each of two neighbours.
        findings: What each adversary learned.
        mu: By how many standard deviations the two neighbours differ, as measured.
        claimed_mu: The same as claimed; ``None`` under sampling, which has no such number.
        sensitivity: How many clip norms the plan lets one unit move a sum.
        largest_move: How many it did.
        usual_move: The root of the mean square over steps and runs.
        usual_noise: The root of the mean square of noise, in clip norms.
        sampled: The fraction of groups that steps used; ``None`` where they use all of them.
        broken: Why the claim does not hold, in words; empty where nothing contradicts it.
    """

    recipe: str
    unit: str
    relation: str
    sampling: str
    steps: int
    noise_multiplier: float
    delta: float
    dense: bool
    claim: float
    confidence: float
    runs: int
    findings: tuple[Finding, ...]
    mu: float
    claimed_mu: float | None
    sensitivity: int
    largest_move: float
    usual_move: float
    usual_noise: float
    sampled: float | None
    broken: tuple[str, ...]

    @property
    def epsilon(self) -> float:
        """The largest bound."""
        return max(finding.epsilon for finding in self.findings)

    @property
    def share(self) -> float:
        """How much of the claim the bound reaches."""
        return self.epsilon / self.claim


class Guesses(NamedTuple):
    """Guesses of one adversary, who may abstain.

    Attributes:
        adversary: What it looked at.
        targets: How many runs or canaries there were to guess about.
        guesses: How many guesses it made.
        correct: How many of these were right.
    """

    adversary: str
    targets: int
    guesses: int
    correct: int


@dataclass(eq=False)
class Trainings:
    """What many trainings showed.

    Attributes:
        case: What was trained.
        noise: All noise.
        there: Whether each target was there.
        releases: Logarithm of the likelihood ratio of all releases about it.
        predictions: How sure the model is of its label.
        largest_move: How far a target moved a sum at most, in clip norms.
        moves: Mean squares of how far they moved sums.
        foreign: Releases of sums that no world has.
        sampled: How often the group of a target was used, and could have been.
    """

    case: Case
    noise: NoiseTests
    there: list[NDArray[np.bool_]] = field(default_factory=list)
    releases: list[Array] = field(default_factory=list)
    predictions: list[Array] = field(default_factory=list)
    largest_move: float = 0.0
    moves: list[float] = field(default_factory=list)
    foreign: int = 0
    sampled: tuple[int, int] = (0, 0)

    @classmethod
    def of(cls, case: Case) -> Trainings:
        """None yet."""
        grid = Grid.of(case.plan.noise_multiplier, case.plan.partition.groups)
        return cls(case, NoiseTests(case.plan.noise_multiplier, grid))

    def train(self, there: NDArray[np.bool_]) -> None:
        """Trains once, with some of the targets."""
        case = self.case
        session = WatchedSession(case, there)
        released = trained(session, case.settings)
        if session.remaining:
            raise RuntimeError(f"A training left {session.remaining} releases of its plan.")
        seen, labels = session.seen, case.present.labels[case.targets]
        scores = scores_in_mode(released, case.present, case.targets, "alone")
        self.there.append(there)
        self.releases.append(seen.likelihood)
        self.predictions.append(sureness(scores, labels))
        self.largest_move = max(self.largest_move, seen.largest_move)
        self.moves += seen.moves
        self.foreign += seen.foreign
        self.sampled = self.sampled[0] + seen.sampled[0], self.sampled[1] + seen.sampled[1]
        for noise in seen.noise:
            self.noise.add(noise)

    def split(self, scores: Sequence[Array]) -> tuple[Array, Array]:
        """Scores of targets that were there, and of those that were not."""
        there, values = np.concatenate(self.there), np.concatenate(scores)
        return values[there], values[~there]

    @property
    def mu(self) -> float:
        """By how many standard deviations the scores of releases differ."""
        first, second = self.split(self.releases)
        spread = math.sqrt((float(first.var()) + float(second.var())) / 2.0)
        return float(first.mean() - second.mean()) / spread if spread > 0.0 else 0.0

    def by_likelihood(self) -> Guesses:
        """The strongest test against an engine that does what its plan says."""
        first, second = self.split(self.releases)
        correct = int((first > 0.0).sum() + (second <= 0.0).sum())
        count = len(first) + len(second)
        return Guesses("all releases", count, count, correct)

    def by_predictions(self) -> Guesses:
        """By a threshold that the first runs fixed and the others had no part in."""
        first, second = self.split(self.predictions)
        aside = min(len(first), len(second)) // _SET_ASIDE
        middles = [float(np.median(values[:aside])) for values in (first, second)]
        sign = 1.0 if middles[0] >= middles[1] else -1.0
        threshold = sign * sum(middles) / 2.0
        hits = int((sign * first[aside:] > threshold).sum())
        rest = int((sign * second[aside:] <= threshold).sum())
        count = len(first) + len(second) - 2 * aside
        return Guesses("predictions", count, count, hits + rest)


def audit(
    settings: Settings,
    plan: PrivacyPlan,
    *,
    dense: bool,
    claim: float | None = None,
    runs: int | None = None,
    confidence: float = 0.95,
    canaries: Sequence[Guesses] = (),
) -> Audit:
    """Audits a plan by trainings of the production engine on worst cases.

    Args:
        settings: Of the run.
        plan: Of the run.
        dense: Whether its features are dense.
        claim: The claimed epsilon; default the plan's.
        runs: On each of two neighbours; default as many as a minute allows, of networks with
            fewer steps than the plan has.
        confidence: With which the bounds hold together.
        canaries: Guesses about canaries in a single run, if that was tried.

    Raises:
        ConfigError: A number is outside its range.
    """
    if not 0.5 <= confidence < 1.0:
        raise ConfigError(
            f"The 'confidence' of an audit must be from 0.5 to below 1. Got {confidence}."
        )
    if runs is not None and runs < _AT_LEAST:
        raise ConfigError(f"The 'runs' of an audit must be at least {_AT_LEAST}. Got {runs}.")
    trainings, runs = _trainings(settings, plan, dense, runs)
    one = replace(plan, selection=None, accountant="pld")
    small, whole = trainings.case.plan.composition, one.composition
    event = GaussianEvent(
        plan.noise_multiplier, small.count, small.sampling_probability, plan.sensitivity
    )
    claimed = plan.epsilon if claim is None else claim
    told = (trainings.by_likelihood(), trainings.by_predictions())
    rest = _Levels.of(confidence, _BESIDE / (1 + len(canaries)))
    levels = (_Levels.of(confidence, _MAIN), rest)
    findings = [
        *(
            _by_advantage(guesses, own, event, plan.delta, whole.count)
            for guesses, own in zip(told, levels, strict=True)
        ),
        *(_by_counts(guesses, rest, plan.delta) for guesses in canaries),
    ]
    claimed_mu = None
    if whole.sampling_probability == 1.0:
        claimed_mu = plan.sensitivity * math.sqrt(whole.count) / plan.noise_multiplier
    times, could = trainings.sampled
    return Audit(
        recipe=settings.recipe,
        unit=plan.unit,
        relation=plan.relation,
        sampling=plan.schedule.name,
        steps=plan.steps,
        noise_multiplier=plan.noise_multiplier,
        delta=plan.delta,
        dense=dense,
        claim=claimed,
        confidence=confidence,
        runs=runs,
        findings=tuple(findings),
        mu=trainings.mu * math.sqrt(whole.count / small.count),
        claimed_mu=claimed_mu,
        sensitivity=plan.sensitivity,
        largest_move=trainings.largest_move,
        usual_move=math.sqrt(float(np.mean(trainings.moves))),
        usual_noise=trainings.noise.usual,
        sampled=times / could if could else None,
        # A claim may leave room for a search or for a looser accountant. What one training
        # reveals must not take it.
        broken=tuple(
            _reasons(findings, trainings, plan, min(claimed, one.epsilon), confidence)
        ),
    )


def _trainings(
    settings: Settings, plan: PrivacyPlan, dense: bool, runs: int | None
) -> tuple[Trainings, int]:
    """Half of all targets there, half not, as many as time allows."""
    columns = holds_columns(settings, plan)
    count = 1
    if columns:
        count = min(_COLUMNS, 2 * (runs or _USUAL_RUNS), int(0.5 / plan.delta))
        case = column_case(settings, plan, dense=dense, count=count - count % 2)
        count = len(case.targets)
    else:
        case = single_case(settings, plan, dense=dense)
    if runs is None:
        each = _seconds_of_a_step(case)
        affordable = round(_SECONDS * count / (2.0 * each * case.plan.steps))
        runs = max(_FEWEST_RUNS, min(_USUAL_RUNS, affordable))
        steps = int(_SECONDS * count / (2.0 * each * runs))
        if steps < case.plan.steps:
            case = replace(case, plan=_shortened(case.plan, steps))
    trainings = Trainings.of(case)
    for number in range(math.ceil(2 * runs / count)):
        if columns:
            there = np.random.default_rng().permutation(np.arange(count) % 2 == 0)
        else:
            there = np.array([number % 2 == 0])
        trainings.train(there)
    return trainings, math.ceil(2 * runs / count) * count // 2


def _seconds_of_a_step(case: Case) -> float:
    brief = replace(case, plan=_shortened(case.plan, 8))
    there = np.arange(len(case.targets)) % 2 == 0
    # The first time, much is imported and prepared.
    Trainings.of(brief).train(there)
    begun = time.perf_counter()
    Trainings.of(brief).train(there)
    return (time.perf_counter() - begun) / brief.plan.steps


def _shortened(plan: PrivacyPlan, steps: int) -> PrivacyPlan:
    groups = plan.partition.groups if plan.schedule.name == "epoch" else 1
    return replace(plan, steps=min(plan.steps, groups * max(1, steps // groups)))


def trained(session: Session, settings: Settings) -> Released:
    """Trains through a session, by the recipe that the settings name."""
    if settings.training.large_steps:
        from privgcn.auto.train import train

        return train(session, settings)
    from privgcn.sgd.train import train_private

    return train_private(session, settings)


def sureness(scores: NDArray[Any], labels: NDArray[np.int64]) -> Array:
    """How sure a model is of labels: the logarithm of their odds, one for each row."""
    rows, own = np.arange(len(labels)), scores.astype(np.float64)
    right = own[rows, labels]
    own[rows, labels] = -np.inf
    return np.asarray(right - logsumexp(own, axis=1))


class _Levels(NamedTuple):
    """The chance that one bound may be wrong with, as reported and for the alarm."""

    reported: float
    alarm: float

    @classmethod
    def of(cls, confidence: float, fraction: float) -> _Levels:
        chance = fraction * (1.0 - confidence)
        return cls(1.0 - chance, 1.0 - chance / _ALARM)


def _by_advantage(
    told: Guesses, levels: _Levels, event: GaussianEvent, delta: float, count: int
) -> Finding:
    """What guesses about every run prove of the claim."""
    epsilon, surely = (
        epsilon_of_advantage(
            least_advantage(told.correct, told.guesses, level), event, delta, count
        )
        for level in levels
    )
    return _finding(told, "many runs", epsilon, surely)


def _by_counts(told: Guesses, levels: _Levels, delta: float) -> Finding:
    """What guesses about some of many canaries in one run prove."""
    epsilon, surely = (
        one_run_epsilon(told.targets, told.guesses, told.correct, delta, level)
        for level in levels
    )
    return _finding(told, "one run", epsilon, surely)


def _finding(
    told: Guesses, method: Literal["many runs", "one run"], epsilon: float, surely: float
) -> Finding:
    return Finding(
        adversary=told.adversary,
        method=method,
        guesses=told.guesses,
        correct=told.correct,
        epsilon=epsilon,
        surely=surely,
    )


def _reasons(
    findings: Sequence[Finding],
    trainings: Trainings,
    plan: PrivacyPlan,
    allowed: float,
    confidence: float,
) -> list[str]:
    reasons = [
        f"epsilon is at least {finding.surely:.3g}, not {allowed:.3g}, by {finding.adversary}"
        for finding in findings
        if finding.surely > allowed
    ]
    if trainings.largest_move > plan.sensitivity * _ROUNDING:
        reasons.append(
            f"one unit moved a sum by {trainings.largest_move:.3g} clip norms, the plan "
            f"accounts for {plan.sensitivity}"
        )
    if trainings.foreign:
        reasons.append(f"{trainings.foreign} releases were of sums that neither neighbour has")
    level = _Levels.of(confidence, _ENGINE / 4.0).alarm
    reasons += trainings.noise.reasons(level)
    rate = plan.composition.sampling_probability
    least = least_fraction(*trainings.sampled, level)
    if least > rate:
        reasons.append(
            f"steps used a group with a probability of at least {least:.3g}, the plan accounts "
            f"for {rate:.3g}"
        )
    return reasons


# -- canaries among the documents of a corpus -------------------------------------------------


def one_run(
    settings: Settings, plan: PrivacyPlan, train: DocumentGraph, canaries: int
) -> tuple[Guesses, ...]:
    """Trains once on documents and canaries, and guesses which canaries were there.

    Steinke, Nasr and Jagielski (2023): each canary is there by the toss of its own coin. Of
    those that look most and least present the adversary says whether they were there, and
    abstains about the rest.

    Args:
        settings: Of the audited run.
        plan: Of the audited run; it ``holds_columns``.
        train: The training documents.
        canaries: How many documents, or persons, may join.
    """
    case = column_case(settings, plan, dense=train.dense, count=canaries, others=train)
    there = np.random.default_rng().random(canaries) < 0.5
    trainings = Trainings.of(case)
    trainings.train(there)
    half = max(1, canaries // (2 * _ABSTAINED))
    told = []
    for name, (scores,) in (
        ("canaries in all releases", trainings.releases),
        ("canaries in predictions", trainings.predictions),
    ):
        order = np.argsort(scores, kind="stable")
        correct = int(there[order[-half:]].sum() + (~there[order[:half]]).sum())
        told.append(Guesses(name, canaries, 2 * half, correct))
    return tuple(told)


# -- what is audited or attacked ---------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Target:
    """A finished run, or a corpus with settings for one.

    Attributes:
        prepared: Documents, settings and plan.
        run: The finished run; ``None`` where there is none yet.
    """

    prepared: PreparedRun
    run: Run | None = None

    @classmethod
    def of_run(cls, folder: Path) -> Target:
        """The documents and settings of a run, loaded again from their source."""
        run = Run(folder)
        return cls(prepare(run.corpus(), run.settings), run)

    @classmethod
    def of_corpus(cls, settings: Settings) -> Target:
        """Documents that a run with these settings would train on."""
        source = resolved_source(str(settings.data.source))
        corpus = load_corpus(source, classes=settings.data.classes, seed=settings.seed)
        return cls(prepare(corpus, settings.changed({"data.source": source})))

    @property
    def settings(self) -> Settings:
        """Of the run."""
        return self.prepared.settings

    @property
    def corpus(self) -> Corpus:
        """Documents with their split."""
        return self.prepared.corpus

    @cached_property
    def released(self) -> Released | None:
        """The model of the run, if there is one."""
        return None if self.run is None else self.run.model().released

    @cached_property
    def graph(self) -> DocumentGraph:
        """All documents with the run's features."""
        if self.run is not None:
            return self.run.model().graph(self.corpus)
        return graph_of(self.corpus, self.prepared.featurizer, self.settings)

    @property
    def train(self) -> DocumentGraph:
        """The training documents and the edges among them."""
        return self.graph.induced(np.flatnonzero(self.graph.split == TRAIN))

    @property
    def plan(self) -> PrivacyPlan:
        """The plan of the run.

        Raises:
            ConfigError: It was trained without privacy.
        """
        plan = self.prepared.plan if self.released is None else self.released.plan
        if plan is None:
            raise ConfigError(
                "An audit needs a private run: without a claim there is nothing to hold it "
                "to. Got one without privacy. Add --epsilon 1."
            )
        return plan

    @property
    def claim(self) -> float:
        """The epsilon that the statement claims, or the plan where there is none yet."""
        statement = None if self.run is None else self.run.statement
        return self.plan.epsilon if statement is None else statement.epsilon


def audit_target(
    target: Target,
    *,
    runs: int | None = None,
    canaries: int = 2_000,
    confidence: float = 0.95,
) -> Audit:
    """Audits a run or a corpus: worst cases in many runs, and canaries among its documents.

    Args:
        target: What is audited.
        runs: On each of two neighbours; default as many as a minute allows.
        canaries: Documents or persons that may join the target's own in one more training;
            0, or groups that hold more than one unit: none.
        confidence: With which the bounds hold together.
    """
    settings, plan = target.settings, target.plan
    counted: Sequence[Guesses] = ()
    if canaries and holds_columns(settings, plan):
        counted = one_run(settings, plan, target.train, canaries)
    return audit(
        settings,
        plan,
        dense=target.graph.dense,
        claim=target.claim,
        runs=runs,
        confidence=confidence,
        canaries=counted,
    )
