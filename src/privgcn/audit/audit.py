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
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Literal

import numpy as np
from pydantic import BaseModel, ConfigDict

from privgcn.audit.bounds import (
    epsilon_of_advantage,
    least_advantage,
    least_fraction,
    one_run_epsilon,
)
from privgcn.audit.canaries import column_case, holds_columns, single_case
from privgcn.audit.observe import Guesses, Trainings
from privgcn.config import Settings
from privgcn.data import TRAIN, load_corpus, resolved_source
from privgcn.errors import ConfigError
from privgcn.graph import DocumentGraph
from privgcn.privacy.accounting import GaussianEvent
from privgcn.privacy.plan import PrivacyPlan
from privgcn.runs.prepare import PreparedRun, graph_of, prepare
from privgcn.runs.run import Run

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
    trainings = _trainings(settings, plan, dense, runs)
    one = replace(plan, selection=None, accountant="pld")
    small, whole = trainings.case.plan.composition, one.composition
    event = GaussianEvent(
        plan.noise_multiplier, small.count, small.sampling_probability, plan.sensitivity
    )

    def bound(told: Guesses, level: float) -> float:
        if told in canaries:
            return one_run_epsilon(*told[1:], plan.delta, level)
        advantage = least_advantage(told.correct, told.guesses, level)
        return epsilon_of_advantage(advantage, event, plan.delta, whole.count)

    findings, part = [], _MAIN
    for told in (trainings.by_likelihood(), trainings.by_predictions(), *canaries):
        chance = part * (1.0 - confidence)
        part = _BESIDE / (1 + len(canaries))
        findings.append(
            Finding(
                adversary=told.adversary,
                method="one run" if told in canaries else "many runs",
                guesses=told.guesses,
                correct=told.correct,
                epsilon=bound(told, 1.0 - chance),
                surely=bound(told, 1.0 - chance / _ALARM),
            )
        )
    claimed = plan.epsilon if claim is None else claim
    # A claim may leave room for a search or for a looser accountant. What one training
    # reveals must not take it.
    allowed = min(claimed, one.epsilon)
    broken = [
        f"epsilon is at least {finding.surely:.3g}, not {allowed:.3g}, by {finding.adversary}"
        for finding in findings
        if finding.surely > allowed
    ]
    level = 1.0 - _ENGINE / 4.0 * (1.0 - confidence) / _ALARM
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
        runs=sum(map(len, trainings.there)) // 2,
        findings=tuple(findings),
        sensitivity=plan.sensitivity,
        largest_move=trainings.largest_move,
        usual_move=math.sqrt(float(np.mean(trainings.moves))),
        usual_noise=trainings.noise.usual,
        sampled=trainings.sampled / trainings.could if trainings.could else None,
        broken=(*broken, *_defects(trainings, plan, level)),
    )


def _trainings(
    settings: Settings, plan: PrivacyPlan, dense: bool, runs: int | None
) -> Trainings:
    """Half of all targets there, half not, as many as time allows."""
    count, columns = 1, holds_columns(settings, plan)
    if columns:
        count = min(_COLUMNS, 2 * (runs or _USUAL_RUNS), int(0.5 / plan.delta)) // 2 * 2
        case = column_case(settings, plan, dense=dense, count=count)
    else:
        case = single_case(settings, plan, dense=dense)
    if runs is None:
        brief, seconds = replace(case, plan=_shortened(case.plan, 8)), 0.0
        for _ in range(2):  # the first time, much is imported and prepared
            begun = time.perf_counter()
            Trainings(brief).train(np.arange(count) % 2 == 0)
            seconds = time.perf_counter() - begun
        steps = _SECONDS * count / (2.0 * seconds / brief.plan.steps)  # of all runs
        runs = max(_FEWEST_RUNS, min(_USUAL_RUNS, round(steps / case.plan.steps)))
        if steps / runs < case.plan.steps:
            case = replace(case, plan=_shortened(case.plan, int(steps / runs)))
    trainings = Trainings(case)
    for number in range(math.ceil(2 * runs / count)):
        there = np.array([number % 2 == 0])
        if columns:
            there = np.random.default_rng().permutation(np.arange(count) % 2 == 0)
        trainings.train(there)
    return trainings


def _shortened(plan: PrivacyPlan, steps: int) -> PrivacyPlan:
    groups = plan.partition.groups if plan.schedule.name == "epoch" else 1
    return replace(plan, steps=min(plan.steps, groups * max(1, steps // groups)))


def _defects(trainings: Trainings, plan: PrivacyPlan, level: float) -> list[str]:
    """What an auditor sees of the engine that contradicts its plan."""
    reasons = []
    if trainings.largest_move > plan.sensitivity * _ROUNDING:
        reasons.append(
            f"one unit moved a sum by {trainings.largest_move:.3g} clip norms, the plan "
            f"accounts for {plan.sensitivity}"
        )
    if trainings.foreign:
        reasons.append(f"{trainings.foreign} releases were of sums that neither neighbour has")
    reasons += trainings.noise.reasons(level)
    rate = plan.composition.sampling_probability
    least = least_fraction(trainings.sampled, trainings.could, level)
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
    trainings = Trainings(case)
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

    @cached_property
    def graph(self) -> DocumentGraph:
        """All documents with the run's features."""
        prepared = self.prepared
        if self.run is not None:
            return self.run.model().graph(prepared.corpus)
        return graph_of(prepared.corpus, prepared.featurizer, prepared.settings)

    @cached_property
    def plan(self) -> PrivacyPlan:
        """The plan of the run.

        Raises:
            ConfigError: It was trained without privacy.
        """
        plan = self.prepared.plan if self.run is None else self.run.model().released.plan
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
    settings, plan, graph = target.prepared.settings, target.plan, target.graph
    counted: tuple[Guesses, ...] = ()
    if canaries and holds_columns(settings, plan):
        train = graph.induced(np.flatnonzero(graph.split == TRAIN))
        counted = one_run(settings, plan, train, canaries)
    return audit(
        settings,
        plan,
        dense=graph.dense,
        claim=target.claim,
        runs=runs,
        confidence=confidence,
        canaries=counted,
    )
