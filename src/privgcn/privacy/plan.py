"""The plan: everything that decides the guarantee, bound to one accounting event.

Epsilon is computed from that event and cannot be set, and a session samples with the schedule
that the event follows from.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from privgcn.errors import ConfigError, PrivacyContractError
from privgcn.privacy.accounting import (
    Accountant,
    Delta,
    Event,
    GaussianEvent,
    Noise,
    Probability,
    calibrate_event,
    check_accountant,
    epsilon_of_events,
)
from privgcn.privacy.selection import Selection
from privgcn.privacy.values import Count, Real, strict

if TYPE_CHECKING:
    from privgcn.config import PrivacySettings
    from privgcn.mechanism import RandomSource

Unit = Literal["document", "person", "part", "graph"]
Relation = Literal["remove", "replace"]

_OWNER, _SCHEDULE = "a privacy plan", "a sampling schedule"
#: Above this fraction of 1/n, delta alone allows publishing some unit outright.
_WEAK_DELTA = 0.1
_COLUMN = "column:"
_CLIPPED = "It bounds the norm of one group's vector; outside, rounding is not bounded."
_WHOLE_UNITS = {"document": "document", "person": "owner"}


@strict("a partition", kw_only=True)
class PartitionFacts:
    """How the training graph is divided into groups, as far as the guarantee depends on it.

    ``each`` document or owner is a group, or groups are ``random`` (balanced, from ``seed`` and
    index alone), from a ``column`` that was declared public, or a ``single`` one. By ``owner``,
    no group splits the documents of one owner.
    """

    kind: Literal["each", "random", "column", "single"]
    groups: Count
    by: Literal["document", "owner"] = "document"
    column: Annotated[str, Field(min_length=1, max_length=200)] | None = None
    seed: Annotated[int, Field(ge=0)] | None = None

    def __post_init__(self) -> None:
        if self.kind == "single" and self.groups != 1:
            raise ValueError("'groups' must be 1 for kind 'single'")
        if (self.kind == "column") == (self.column is None):
            raise ValueError("'column' is for kind 'column' alone")
        if (self.kind == "random") == (self.seed is None):
            raise ValueError("'seed' is for kind 'random' alone")


@strict(_SCHEDULE)
class Schedule:
    """Which groups a step uses, and with that what all steps cost.

    ``all`` uses every group. ``poisson`` takes each group independently with one probability;
    that the samples stay as secret as the noise is assumed. ``epoch`` uses one group after the
    other. Groups are disjoint, so a unit is touched once per epoch begun; given the past, a
    step on another group has the same law on both neighbours, so this holds for adaptive steps
    too. No amplification is claimed for it.
    """

    name: Annotated[Literal["all", "poisson", "epoch"], Field(title="sampling")]
    groups: Count
    sampling_probability: Probability | None = None

    def __post_init__(self) -> None:
        if (self.name == "poisson") == (self.sampling_probability is None):
            raise ConfigError(
                f"The 'sampling_probability' of {_SCHEDULE} must be given for sampling "
                f"'poisson' and for no other. Got {self.sampling_probability} for sampling "
                f"'{self.name}'."
            )

    @property
    def rate(self) -> float:
        """The rate at which a group joins a release, where amplification is claimed."""
        return 1.0 if self.sampling_probability is None else self.sampling_probability

    @property
    def expected_groups(self) -> float:
        """The divisor of a noisy sum; never the size of a realised sample, which is private."""
        return 1.0 if self.name == "epoch" else self.groups * self.rate

    def releases(self, steps: int) -> int:
        """How many releases about one unit ``steps`` steps are: for ``epoch``, epochs begun."""
        return -(-steps // self.groups) if self.name == "epoch" else steps

    def sample(self, step: int, source: RandomSource | None) -> NDArray[np.bool_]:
        """Which groups are in a step; for ``poisson`` a fresh sample, possibly empty."""
        if self.name == "epoch":
            return np.asarray(np.arange(self.groups) == step % self.groups)
        if self.name == "all":
            return np.ones(self.groups, np.bool_)
        if source is None:
            raise ValueError("a Poisson sample needs a random source")
        return np.asarray(source.sample(self.groups, self.rate))


@strict(_OWNER, kw_only=True)
class PrivacyPlan:
    """Everything that decides the guarantee of a training run.

    Attributes:
        clip_norm: The bound on the joint norm of one group's vector.
        noise_multiplier: Noise standard deviation over clip norm.
        steps: How many noisy sums are released.
        units: How many documents train, or owners for unit ``person``.
        selection: The search that this run won, if any; epsilon is then that of the search.

    Guarantees:
        ``epsilon`` is an upper bound for the mechanism that these fields describe.
    Assumes:
        The session runs exactly this: this partition, ``schedule.sample`` with a secret
        source, joint clipping to ``clip_norm``, noise of ``noise_std`` in every step.

    Raises:
        ConfigError: A field outside its range.
        PrivacyContractError: Fields that together break the guarantee.
    """

    unit: Unit
    relation: Relation
    partition: PartitionFacts
    schedule: Schedule
    clip_norm: Annotated[Real, Field(ge=1e-6, le=1e6, description=_CLIPPED)]
    noise_multiplier: Noise
    steps: Count
    delta: Delta
    units: Count
    accountant: Accountant = "pld"
    selection: Selection | None = None

    def __post_init__(self) -> None:
        unit, groups, units = self.unit, self.partition.groups, self.units
        _require(
            unit != "person" or self.partition.by == "owner",
            "The 'partition' of a plan for unit 'person' must be by 'owner'.",
        )
        _require(
            unit != "graph" or groups == 1,
            "The 'partition' of a plan for unit 'graph' must have one group. "
            f"Got {groups}. Use unit 'part' to protect one of several groups.",
        )
        _require(
            groups == units or (groups < units and not self.group_is_unit),
            f"The 'partition' of a plan over {units} units must have at most as many groups, "
            f"and as many if each unit is a group. Got {groups}.",
        )
        _require(
            self.schedule.groups == groups,
            f"The 'schedule' of {_OWNER} must have as many groups as the partition.",
        )
        scored = self.selection is not None and self.selection.score is not None
        _require(
            not scored or unit in _WHOLE_UNITS,
            "A search that scores on private validation documents must protect unit document "
            f"or person. Got '{unit}', of which validation documents are no part. Declare "
            "them public with --public-validation.",
        )
        most = 1.0 / self.protected_units
        _require(
            self.delta <= most,
            f"The 'delta' of {_OWNER} must be at most one over the number of units, "
            f"1/{self.protected_units} = {most:.3g}. Got {self.delta:g}: that allows "
            f"publishing a unit outright. Use {0.1 * most:.1g} or less.",
        )
        # Whatever an accountant would refuse is refused before any data are touched.
        check_accountant(self.accountant, [self.event])

    @property
    def group_is_unit(self) -> bool:
        """Whether every group is exactly one protected unit."""
        by = self.partition.by
        return self.partition.kind == "each" and _WHOLE_UNITS.get(self.unit) == by

    @property
    def sensitivity(self) -> int:
        """How many clip norms one unit can move the sum of clipped vectors: 1 or 2.

        Replacing a unit exchanges one vector for another. Removing it takes one vector away,
        but only where the group vanishes with the unit: a group that holds more keeps a vector,
        which may turn around completely.
        """
        vanishes = self.group_is_unit or self.unit in ("part", "graph")
        return 1 if self.relation == "remove" and vanishes else 2

    @property
    def noise_std(self) -> float:
        """The standard deviation of the noise in every coordinate of a step's sum."""
        return self.noise_multiplier * self.clip_norm

    @property
    def protected_units(self) -> int:
        """How many units there are: those that train, and those that score a search."""
        return self.units + (self.selection.validation_units if self.selection else 0)

    @property
    def training(self) -> GaussianEvent:
        """What all steps together are accounted as."""
        count, rate = self.schedule.releases(self.steps), self.schedule.rate
        return GaussianEvent(self.noise_multiplier, count, rate, self.sensitivity)

    @property
    def event(self) -> Event:
        """What is accounted: the training, or the whole search."""
        if self.selection is None:
            return self.training
        _require(
            self.training in self.selection.candidates,
            "The training of a plan must be one of the candidates of its search.",
        )
        return self.selection

    @property
    def epsilon(self) -> float:
        """The epsilon of the guarantee."""
        return epsilon_of_events([self.event], delta=self.delta, accountant=self.accountant)

    @property
    def epsilon_without_amplification(self) -> float:
        """The epsilon against someone who knows which groups every step used."""
        known = self.event.without_amplification()
        return epsilon_of_events([known], delta=self.delta, accountant=self.accountant)

    @property
    def weak_delta(self) -> bool:
        """Whether delta is so large that the statement must call it weak."""
        return self.delta * self.protected_units > _WEAK_DELTA

    @classmethod
    def for_epsilon(cls, epsilon: float, **fields: Any) -> PrivacyPlan:
        """The plan with the least noise whose epsilon is at most this; the rest is given."""
        # Every rule is checked on a draft before any search for noise begins.
        draft = cls(noise_multiplier=1.0, **fields)

        def event(noise: float) -> GaussianEvent:
            return replace(draft.training, noise_multiplier=noise)

        by = draft.accountant
        made = calibrate_event(epsilon, event, delta=draft.delta, accountant=by)
        return replace(draft, noise_multiplier=made.noise_multiplier)


def _require(holds: bool, rule: str) -> None:
    if not holds:
        raise PrivacyContractError(rule)


def plan_for(
    privacy: PrivacySettings, units: int, *, epochs: int, seed: int, columns: Mapping[str, Any]
) -> PrivacyPlan:
    """The plan of a run, calibrated to its epsilon or with the noise multiplier given.

    One of the ``columns`` is read, if declared public; ``seed`` is that of a random partition.
    """
    if (privacy.epsilon is None) == (privacy.noise_multiplier is None):
        raise ConfigError(
            "The privacy settings must have either 'epsilon' or 'noise_multiplier'. "
            f"Got {privacy.epsilon} and {privacy.noise_multiplier}."
        )
    parts = privacy.parts
    by: Literal["document", "owner"] = "owner" if privacy.unit == "person" else "document"
    if parts == "each":
        divided: dict[str, Any] = {"kind": "each", "groups": units}
    elif parts == 1:
        divided = {"kind": "single", "groups": 1}
    elif isinstance(parts, int) and 1 < parts <= units:
        divided = {"kind": "random", "groups": parts, "seed": seed}
    elif isinstance(parts, str) and parts.startswith(_COLUMN):
        from privgcn.graph import column_groups

        name = parts.removeprefix(_COLUMN)
        divided = {"kind": "column", "groups": column_groups(columns, name)[1], "column": name}
    else:
        raise ConfigError(
            f"The 'parts' of the privacy settings must be 'each', 'column:NAME' or a number "
            f"between 1 and {units}, the number of training {by}s. Got {parts!r}."
        )
    facts = PartitionFacts(by=by, **divided)
    probability = privacy.sampling_probability
    if privacy.sampling == "poisson" and probability is None:
        probability = 1.0 / facts.groups  # as the paper has it
    schedule = Schedule(privacy.sampling, facts.groups, probability)
    fields: dict[str, Any] = {
        "unit": privacy.unit,
        "relation": privacy.relation,
        "partition": facts,
        "schedule": schedule,
        "clip_norm": privacy.clip_norm,
        # An epoch uses each group once, or once in expectation.
        "steps": epochs * max(1, round(schedule.groups / schedule.expected_groups)),
        "delta": privacy.delta,
        "units": units,
        "accountant": privacy.accountant or "pld",
    }
    if privacy.noise_multiplier is not None:
        return PrivacyPlan(noise_multiplier=privacy.noise_multiplier, **fields)
    return PrivacyPlan.for_epsilon(float(privacy.epsilon or 0), **fields)
