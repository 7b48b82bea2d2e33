"""An audit: a measured lower bound on epsilon beside the claim.

A bound above the claim shows a defect. A bound below it proves nothing but that these
adversaries, with so many runs, found no more.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, NamedTuple

from pydantic import BaseModel, ConfigDict

from privgcn.config import Settings
from privgcn.errors import ConfigError
from privgcn.evidence.bounds import (
    abstaining_epsilon,
    classical_epsilon,
    epsilon_of_advantage,
    least_advantage,
    least_share,
    one_run_epsilon,
)
from privgcn.evidence.canaries import plan_of_training, worst_case
from privgcn.evidence.many_runs import Guesses, ManyRuns, many_runs, trains_alone
from privgcn.evidence.one_run import Counted, can_hold_canaries, one_run
from privgcn.evidence.subject import Subject
from privgcn.privacy.accounting.events import GaussianRelease
from privgcn.privacy.plan import PrivacyPlan

# How the chance of a wrong bound is shared out: most of it to the test that a sound engine
# is measured by, the rest to those that look for noise that is not what it should be, and to
# what an auditor sees of the engine itself.
_MAIN, _BESIDE, _ENGINE = 0.8, 0.15, 0.05
# A false alarm is this many times rarer than a bound above the true epsilon.
_ALARM = 50.0
# Sums are on a grid and clip norms pay for it: one unit moves a sum by this much at most.
_ROUNDING = 1.0 + 1e-9
# Runs on each neighbour, by what about a minute is enough for.
_STEPS_IN_ALL, _FEWEST, _MOST = 400_000, 200, 5_000
_AT_LEAST = 10


class _Record(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Finding(_Record):
    """What one adversary found.

    Attributes:
        adversary: What it saw.
        method: ``many runs`` or ``one run``.
        guesses: Guesses that it made.
        correct: How many were right.
        epsilon: The lower bound that they prove at the audit's confidence.
        surely: The same at the confidence of the alarm.
        classical: What they prove if nothing is known of the mechanism; ``None`` where that
            is the bound itself.
    """

    adversary: str
    method: Literal["many runs", "one run"]
    guesses: int
    correct: int
    epsilon: float
    surely: float
    classical: float | None = None


class Audit(_Record):
    """A claim and what was measured of it.

    Attributes:
        claim: The epsilon that is claimed.
        confidence: With which the bounds hold, all of them together.
        findings: What each adversary found.
        sensitivity: How many clip norms the plan lets one unit move a sum.
        largest_move: How many it did.
        usual_move: The root of the mean square over steps and runs.
        usual_noise: The root of the mean square of noise as it was drawn, in clip norms.
        sampled: The share of parts that steps used; ``None`` where they use all of them.
        broken: Why the claim does not hold, in words; empty where nothing was found.
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
    canaries: Sequence[Counted] = (),
) -> Audit:
    """Audits a plan by runs of the production engine on neighbours that are worst cases.

    Args:
        settings: Of the run.
        plan: Of the run.
        dense: Whether its features are dense.
        claim: The claimed epsilon; default the plan's.
        runs: On each of two neighbours; default as many as a minute allows.
        confidence: With which the bounds hold together.
        canaries: Guesses about canaries in a single run, if that was tried.

    Raises:
        ConfigError: A number is outside its range.
    """
    if not 0.5 <= confidence < 1.0:
        raise ConfigError(
            f"The 'confidence' of an audit must be from 0.5 to below 1. Got {confidence}."
        )
    pair = worst_case(settings, plan, dense=dense)
    if runs is None:
        alone = trains_alone(settings, pair.present) and not can_hold_canaries(settings, plan)
        runs = _FEWEST if alone else usual_runs(plan)
    if runs < _AT_LEAST:
        raise ConfigError(f"The 'runs' of an audit must be at least {_AT_LEAST}. Got {runs}.")
    seen = many_runs(pair, plan, runs)
    (release,) = plan_of_training(plan).releases
    if not isinstance(release, GaussianRelease):
        raise ConfigError("An audit needs a plan of Gaussian releases.")
    findings = _findings(seen, canaries, release, plan.delta, confidence)
    claimed = plan.epsilon if claim is None else claim
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
        sensitivity=plan.sensitivity,
        largest_move=seen.largest_move,
        usual_move=seen.usual_move,
        usual_noise=seen.drawn.usual,
        sampled=seen.sampled[0] / seen.sampled[1] if seen.sampled[1] else None,
        broken=tuple(_reasons(findings, seen, plan, claimed, confidence)),
    )


def usual_runs(plan: PrivacyPlan) -> int:
    """Runs on each neighbour that take about a minute."""
    return max(_FEWEST, min(_MOST, _STEPS_IN_ALL // plan.composition.count))


class _Levels(NamedTuple):
    """The chance that one bound may be wrong with, as reported and for the alarm."""

    reported: float
    alarm: float

    @classmethod
    def of(cls, confidence: float, share: float) -> _Levels:
        chance = share * (1.0 - confidence)
        return cls(1.0 - chance, 1.0 - chance / _ALARM)


def _findings(
    seen: ManyRuns,
    canaries: Sequence[Counted],
    release: GaussianRelease,
    delta: float,
    confidence: float,
) -> list[Finding]:
    beside = [*seen.others, seen.predictions]
    counted = [*([] if seen.bits is None else [seen.bits]), *canaries]
    rest = _Levels.of(confidence, _BESIDE / (len(beside) + len(counted)))
    tried = [
        (seen.likelihood, _Levels.of(confidence, _MAIN)),
        *((each, rest) for each in beside),
    ]
    return [
        *(_by_advantage(guesses, levels, release, delta) for guesses, levels in tried),
        *(_by_counts(each, rest, delta, in_one_run=each is not seen.bits) for each in counted),
    ]


def _by_advantage(
    guesses: Guesses, levels: _Levels, release: GaussianRelease, delta: float
) -> Finding:
    """What guesses about every run prove of a release."""
    runs = 2 * guesses.runs
    epsilon, surely = (
        epsilon_of_advantage(least_advantage(guesses.correct, runs, level), release, delta)
        for level in levels
    )
    return Finding(
        adversary=guesses.adversary,
        method="many runs",
        guesses=runs,
        correct=guesses.correct,
        epsilon=epsilon,
        surely=surely,
        classical=classical_epsilon(
            guesses.hits, guesses.false_alarms, guesses.runs, delta, levels.reported
        ),
    )


def _by_counts(counted: Counted, levels: _Levels, delta: float, *, in_one_run: bool) -> Finding:
    """What guesses about some of many canaries prove, which joined one run or a run each."""
    _, canaries, guesses, correct = counted
    epsilon, surely = (
        one_run_epsilon(canaries, guesses, correct, delta, level)
        if in_one_run
        else abstaining_epsilon(correct, guesses - correct, canaries, delta, level)
        for level in levels
    )
    return Finding(
        adversary=counted.adversary,
        method="one run" if in_one_run else "many runs",
        guesses=guesses,
        correct=correct,
        epsilon=epsilon,
        surely=surely,
    )


def _reasons(
    findings: Sequence[Finding],
    seen: ManyRuns,
    plan: PrivacyPlan,
    claim: float,
    confidence: float,
) -> list[str]:
    # A claim may leave room for a search, for other queries or for a looser accountant. What
    # one training reveals must not take it.
    allowed = min(claim, plan_of_training(plan).epsilon)
    reasons = [
        f"epsilon is at least {finding.surely:.3g}, not {allowed:.3g}, by {finding.adversary}"
        for finding in findings
        if finding.surely > allowed
    ]
    if seen.largest_move > plan.sensitivity * _ROUNDING:
        reasons.append(
            f"one unit moved a sum by {seen.largest_move:.3g} clip norms, the plan accounts "
            f"for {plan.sensitivity}"
        )
    for made in sorted(seen.releases):
        reasons.append(f"a run made {made} noisy releases, which is not what its plan says")
    if seen.foreign:
        reasons.append(f"{seen.foreign} noisy releases were of sums that neither neighbour has")
    level = _Levels.of(confidence, _ENGINE / 3.0).alarm
    reasons += seen.drawn.reasons(plan.noise_multiplier, level)
    rate = plan.composition.sampling_probability
    least = least_share(*seen.sampled, level)
    if least > rate:
        reasons.append(
            f"steps used a part with a probability of at least {least:.3g}, the plan accounts "
            f"for {rate:.3g}"
        )
    return reasons


def audit_subject(
    subject: Subject,
    *,
    runs: int | None = None,
    canaries: int = 2_000,
    confidence: float = 0.95,
) -> Audit:
    """Audits a run or a corpus: worst cases in many runs, and canaries among its documents.

    Args:
        subject: What is audited.
        runs: On each of two neighbours; default as many as a minute allows.
        canaries: Documents or persons that may join the subject's own in one more training;
            0, or parts that hold more than one unit: none.
        confidence: With which the bounds hold together.
    """
    settings, plan = subject.settings, subject.plan
    counted: Sequence[Counted] = ()
    if canaries and can_hold_canaries(settings, plan):
        counted = one_run(
            subject.ready.train,
            settings,
            plan,
            columns=subject.corpus.train.columns,
            canaries=canaries,
        )
    return audit(
        settings,
        plan,
        dense=subject.dense,
        claim=subject.claim,
        runs=runs,
        confidence=confidence,
        canaries=counted,
    )
