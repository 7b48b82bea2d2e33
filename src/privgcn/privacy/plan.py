"""The plan: the only door to private training.

A plan binds unit, relation, partition, schedule, clip norm, noise and steps to one accounting
event. Epsilon is computed from that event and cannot be set. The schedule that a session
samples with is the one that the event follows from, so a run cannot visit every group and
account for random ones.

    >>> plan = PrivacyPlan.for_epsilon(
    ...     1.0,
    ...     unit="document",
    ...     relation="remove",
    ...     partition=PartitionFacts(kind="each", groups=1208),
    ...     schedule=AllGroups(1208),
    ...     clip_norm=1.0,
    ...     steps=30,
    ...     delta=1e-5,
    ...     units=1208,
    ... )
    >>> plan.epsilon <= 1.0, plan.sensitivity, round(plan.noise_multiplier, 1)
    (True, 1, 20.4)
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray
from pydantic import BeforeValidator, Field

from privgcn.errors import ConfigError, PrivacyContractError
from privgcn.privacy.accounting import (
    LEAST_NOISE,
    MOST_NOISE,
    Accountant,
    Delta,
    Event,
    GaussianEvent,
    Probability,
    calibrate_event,
    epsilon_of_events,
)
from privgcn.privacy.selection import Selection
from privgcn.privacy.values import Count, Real, checked, in_plain_values, read_strictly, strict

if TYPE_CHECKING:
    from privgcn.config import PrivacySettings
    from privgcn.mechanism import RandomSource

Unit = Literal["document", "person", "part", "graph"]
Relation = Literal["remove", "replace"]

_OWNER = "a privacy plan"
_SCHEDULE = "a sampling schedule"
#: Above this fraction of 1/n, delta alone allows publishing some unit outright.
_WEAK_DELTA = 0.1
_COLUMN = "column:"


def sensitivity_in_clips(unit: str, relation: str, *, group_is_unit: bool) -> int:
    """How many clip norms the summed clipped vectors of the groups can move: 1 or 2.

    Replacing a unit exchanges one clipped vector for another: two clip norms apart. Removing
    it takes one clipped vector away, but only where the group vanishes with the unit. A group
    that holds more than the unit keeps a vector, and that may turn around completely.

    Args:
        unit: ``document``, ``person``, ``part`` or ``graph``.
        relation: ``remove`` or ``replace``.
        group_is_unit: Whether every group is exactly one document (unit ``document``) or all
            documents of exactly one owner (unit ``person``). Ignored for ``part`` and
            ``graph``, where it holds by definition.

    Guarantees:
        Never less than the table of the privacy model.
    Assumes:
        One unit lies in one group, and the clip is joint over all tensors.
    """
    checked(unit, Unit, "unit", _OWNER)
    checked(relation, Relation, "relation", _OWNER)
    if relation == "replace":
        return 2
    return 1 if group_is_unit is True or unit in ("part", "graph") else 2


@strict("a partition", kw_only=True)
class PartitionFacts:
    """How the training graph is divided into groups, as far as the guarantee depends on it.

    Attributes:
        kind: ``each`` (every document or owner its own group), ``random`` (balanced, from seed
            and index alone), ``column`` (from a column declared public) or ``single``.
        groups: How many groups there are.
        by: ``owner`` if no group splits the documents of one owner, else ``document``.
        column: The public column of kind ``column``, else ``None``.
        seed: The seed of kind ``random``, else ``None``.
    """

    kind: Literal["each", "random", "column", "single"]
    groups: Count
    by: Literal["document", "owner"] = "document"
    column: Annotated[str, Field(min_length=1, max_length=200)] | None = None
    seed: Annotated[int, Field(ge=0)] | None = None

    def __post_init__(self) -> None:
        if self.kind == "single" and self.groups != 1:
            raise ConfigError(
                f"The 'groups' of a partition of kind 'single' must be 1. Got {self.groups}."
            )
        for name, kind in (("column", "column"), ("seed", "random")):
            value = getattr(self, name)
            if (value is None) == (self.kind == kind):
                raise ConfigError(
                    f"The '{name}' of a partition must be given for kind '{kind}' and for no "
                    f"other. Got {value!r} for kind '{self.kind}'."
                )


# --- schedules: which groups a step uses, and what that costs --------------------------------


@strict("a composition")
class Composition:
    """What is accounted: ``count`` Gaussian releases, each Poisson-sampled at one rate."""

    sampling_probability: Probability
    count: Count


@strict(_SCHEDULE)
class AllGroups:
    """Every step uses every group: the Gaussian mechanism, once for each step.

    As for every schedule, ``sample`` says which groups are in a step, ``composition`` what
    steps cost, and ``expected_groups`` is the divisor of the noisy sum.
    """

    groups: Count
    name: Literal["all"] = "all"
    sampling_probability = 1.0

    @property
    def expected_groups(self) -> float:
        """All of them."""
        return float(self.groups)

    def sample(self, step: int, source: RandomSource | None) -> NDArray[np.bool_]:
        """Always all groups."""
        return np.ones(self.groups, np.bool_)

    def composition(self, steps: int) -> Composition:
        """One unsampled release for each step."""
        return Composition(1.0, steps)


@strict(_SCHEDULE)
class PoissonGroups:
    """Each group joins a step independently with ``sampling_probability``.

    Assumes:
        The source of the samples stays as secret as the noise.
    """

    groups: Count
    sampling_probability: Probability
    name: Literal["poisson"] = "poisson"

    @property
    def expected_groups(self) -> float:
        """The expectation, never the size of a realised sample: that size is private."""
        return self.groups * self.sampling_probability

    def sample(self, step: int, source: RandomSource | None) -> NDArray[np.bool_]:
        """A fresh independent sample, possibly empty; ``step`` has no influence."""
        if source is None:
            raise ValueError("a Poisson sample needs a random source")
        sample: NDArray[np.bool_] = source.sample(self.groups, self.sampling_probability)
        return sample

    def composition(self, steps: int) -> Composition:
        """One Poisson-sampled release for each step."""
        return Composition(self.sampling_probability, steps)


@strict(_SCHEDULE)
class EpochGroups:
    """One group after the other, each once per epoch; no amplification is claimed.

    Groups are disjoint, so a unit is touched once per epoch begun. Given the past, a step on
    another group has the same law on both neighbours, which is why this holds for adaptive
    steps too.
    """

    groups: Count
    name: Literal["epoch"] = "epoch"
    sampling_probability = 1.0

    @property
    def expected_groups(self) -> float:
        """Exactly one."""
        return 1.0

    def sample(self, step: int, source: RandomSource | None) -> NDArray[np.bool_]:
        """Group ``step`` modulo ``groups``."""
        chosen: NDArray[np.bool_] = np.arange(self.groups) == step % self.groups
        return chosen

    def composition(self, steps: int) -> Composition:
        """One unsampled release for each epoch begun."""
        return Composition(1.0, -(-steps // self.groups))


Schedule: TypeAlias = AllGroups | PoissonGroups | EpochGroups
SCHEDULES: dict[str, type[Schedule]] = {
    "all": AllGroups,
    "poisson": PoissonGroups,
    "epoch": EpochGroups,
}


def make_schedule(
    name: str, groups: int, sampling_probability: float | None = None
) -> Schedule:
    """Builds a schedule by name; ``poisson`` by default samples at 1 / groups, as the paper.

    Raises:
        ConfigError: A probability for a schedule that has none, or none for one group, where
            the default would silently mean ``all``.
    """
    if name not in tuple(SCHEDULES):
        raise ConfigError(
            f"The 'sampling' of {_SCHEDULE} must be one of {', '.join(SCHEDULES)}. "
            f"Got {name!r}."
        )
    if name != "poisson" and sampling_probability is not None:
        raise ConfigError(
            f"The 'sampling_probability' of {_SCHEDULE} must be left out for sampling "
            f"'{name}'. Got {sampling_probability!r}. Use sampling 'poisson' for random groups."
        )
    if name != "poisson":
        return AllGroups(groups) if name == "all" else EpochGroups(groups)
    if sampling_probability is None:
        if groups == 1:
            raise ConfigError(
                f"The 'sampling_probability' of {_SCHEDULE} must be given for sampling "
                "'poisson' with one group. Got None. Use sampling 'all' to train on everything."
            )
        sampling_probability = 1.0 / checked(groups, Count, "groups", _SCHEDULE)
    return PoissonGroups(groups, sampling_probability)


def steps_per_epoch(schedule: Schedule) -> int:
    """Steps in which each group is used once, or once in expectation."""
    return max(1, round(schedule.groups / schedule.expected_groups))


def _known_schedule(schedule: Any) -> Any:
    """A subclass could sample one way and account another; only the known ones count."""
    if type(schedule) not in (*SCHEDULES.values(), dict):
        raise PrivacyContractError(
            f"The 'schedule' of {_OWNER} must be one of {', '.join(SCHEDULES)}. "
            f"Got {schedule!r}. Build it with make_schedule."
        )
    return schedule


# --- the plan -------------------------------------------------------------------------------


@strict(_OWNER, kw_only=True)
class PrivacyPlan:
    """Everything that decides the guarantee of a training run.

    Attributes:
        unit: What is protected: ``document``, ``person``, ``part`` or ``graph``.
        relation: How neighbouring data differ: ``remove`` or ``replace``.
        partition: How the training graph is divided into groups.
        schedule: Which groups a step uses.
        clip_norm: The bound on the joint norm of one group's vector.
        noise_multiplier: Noise standard deviation over clip norm.
        steps: How many noisy sums are released.
        delta: The delta of the guarantee.
        units: How many documents train, or owners for unit ``person``.
        accountant: ``pld``, ``rdp`` or ``moments``.
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
    schedule: Annotated[Schedule, Field(discriminator="name"), BeforeValidator(_known_schedule)]
    clip_norm: Annotated[
        Real,
        Field(
            ge=1e-6,
            le=1e6,
            description="It bounds the norm of one group's vector; outside this range "
            "rounding could not be bounded.",
        ),
    ]
    noise_multiplier: Annotated[
        Real,
        Field(
            ge=LEAST_NOISE,
            le=MOST_NOISE,
            description="A private run needs noise; recipe 'plain' trains without privacy.",
        ),
    ]
    steps: Count
    delta: Delta
    units: Count
    accountant: Accountant = "pld"
    selection: Selection | None = None

    def __post_init__(self) -> None:
        self._check_partition()
        self._check_accountant()
        self._check_selection()
        # Whatever an accountant would refuse is refused before any data are touched.
        self._event(self.noise_multiplier)
        if self.delta_times_units > 1.0:
            units = self.protected_units
            raise PrivacyContractError(
                f"The 'delta' of {_OWNER} must be at most one over the number of units, "
                f"1/{units} = {1.0 / units:.3g}. Got {self.delta:g}: that allows publishing "
                f"a unit outright. Use {0.1 / units:.1g} or less."
            )

    @property
    def group_is_unit(self) -> bool:
        """Whether every group is exactly one protected unit."""
        own = {"document": "document", "person": "owner"}
        return self.partition.kind == "each" and own.get(self.unit) == self.partition.by

    @property
    def sensitivity(self) -> int:
        """How many clip norms one unit can move a step's sum: 1 or 2."""
        return sensitivity_in_clips(self.unit, self.relation, group_is_unit=self.group_is_unit)

    @property
    def noise_std(self) -> float:
        """The standard deviation of the noise in every coordinate of a step's sum."""
        return self.noise_multiplier * self.clip_norm

    @property
    def composition(self) -> Composition:
        """What all steps together are accounted as."""
        return self.schedule.composition(self.steps)

    @property
    def protected_units(self) -> int:
        """How many units there are: those that train, and those that score a search."""
        return self.units + (self.selection.validation_units if self.selection else 0)

    @property
    def event(self) -> Event:
        """What is accounted: training by its schedule, or the whole search."""
        return self._event(self.noise_multiplier)

    @property
    def epsilon(self) -> float:
        """The epsilon of the guarantee; computed once, as accounting remembers events."""
        return epsilon_of_events([self.event], delta=self.delta, accountant=self.accountant)

    @property
    def epsilon_without_amplification(self) -> float:
        """The epsilon against someone who knows which groups every step used."""
        event = self.event.without_amplification()
        return epsilon_of_events([event], delta=self.delta, accountant=self.accountant)

    @property
    def delta_times_units(self) -> float:
        """How many units delta alone would allow to be exposed, in expectation."""
        return self.delta * self.protected_units

    @property
    def weak_delta(self) -> bool:
        """Whether delta is so large that the statement must call it weak."""
        return self.delta_times_units > _WEAK_DELTA

    @classmethod
    def for_epsilon(cls, epsilon: float, **fields: Any) -> PrivacyPlan:
        """The plan with the least noise whose epsilon is at most this; the rest is given."""
        if "noise_multiplier" in fields:
            raise ConfigError(
                "The 'noise_multiplier' of PrivacyPlan.for_epsilon must be left out. "
                f"Got {fields['noise_multiplier']!r}. It follows from epsilon."
            )
        # Every rule is checked on a draft before any search begins.
        draft = cls(noise_multiplier=1.0, **fields)
        calibrated = calibrate_event(
            epsilon, draft._event, delta=draft.delta, accountant=draft.accountant
        )
        return cls(noise_multiplier=calibrated.noise_multiplier, **fields)

    def to_dict(self) -> dict[str, Any]:
        """The plan in plain values; :meth:`from_dict` reads it back."""
        record: dict[str, Any] = in_plain_values(self)
        return record

    @classmethod
    def from_dict(cls, record: Any) -> PrivacyPlan:
        """Reads a plan; unknown and missing keys raise ``ConfigError``."""
        return read_strictly(cls, record, _OWNER)

    def _event(self, noise_multiplier: float) -> Event:
        composition = self.composition
        training = GaussianEvent(
            noise_multiplier,
            composition.count,
            composition.sampling_probability,
            self.sensitivity,
        )
        if self.selection is None:
            return training
        if training not in self.selection.candidates:
            raise PrivacyContractError(
                "The training of a plan with a search must be one of the candidates that "
                f"the search is accounted with. Got {training!r}."
            )
        return self.selection.event

    def _check_partition(self) -> None:
        facts = self.partition
        if self.unit == "person" and facts.by != "owner":
            raise PrivacyContractError(
                "The 'partition' of a plan for unit 'person' must keep each owner's documents "
                f"in one group (by 'owner'). Got by '{facts.by}'. Partition by owner, or "
                "protect unit 'document'."
            )
        if self.unit == "graph" and facts.groups != 1:
            raise PrivacyContractError(
                "The 'partition' of a plan for unit 'graph' must have one group. "
                f"Got {facts.groups}. Use unit 'part' to protect one of several groups."
            )
        if facts.groups > self.units:
            raise PrivacyContractError(
                f"The 'partition' of a plan over {self.units} units must have at most as many "
                f"groups. Got {facts.groups}. Use parts 'each' for the finest partition."
            )
        if self.group_is_unit and facts.groups != self.units:
            raise PrivacyContractError(
                "The 'partition' of a plan that makes each unit a group must have as many "
                f"groups as units. Got {facts.groups} groups for {self.units} units."
            )
        if self.schedule.groups != facts.groups:
            raise PrivacyContractError(
                f"The 'schedule' of {_OWNER} must have as many groups as the partition. "
                f"Got {self.schedule.groups} and {facts.groups}."
            )

    def _check_accountant(self) -> None:
        # Two clip norms under sampling are out of the paper's accountant's reach.
        sampled = self.composition.sampling_probability < 1.0
        if self.accountant == "moments" and sampled and self.sensitivity != 1:
            raise PrivacyContractError(
                "The 'accountant' of a plan with Poisson sampling and a sensitivity of two "
                f"clip norms (unit '{self.unit}', relation '{self.relation}') must be pld or "
                "rdp. Got moments, whose bound covers one clip norm only."
            )

    def _check_selection(self) -> None:
        search = self.selection
        if search is None:
            return
        if self.accountant != "rdp":
            raise PrivacyContractError(
                f"The 'accountant' of a plan with a search must be rdp. Got {self.accountant}."
            )
        # Validation documents are whole units for these only.
        if search.score is not None and self.unit not in ("document", "person"):
            raise PrivacyContractError(
                "A search that scores on private validation documents must protect unit "
                f"document or person. Got '{self.unit}', of which validation documents are no "
                "part. Declare them public with --public-validation."
            )


# --- from settings --------------------------------------------------------------------------


def member_of(privacy: PrivacySettings | None) -> str:
    """What is counted: owners where persons are protected, else documents."""
    return "owner" if privacy is not None and privacy.unit == "person" else "document"


def plan_for(
    privacy: PrivacySettings,
    units: int,
    *,
    epochs: int,
    seed: int,
    columns: Mapping[str, Any],
) -> PrivacyPlan:
    """The plan of a run, calibrated to its epsilon or with the noise multiplier given.

    Args:
        privacy: What is protected, and how strongly.
        units: How many documents train, or owners: see :func:`member_of`.
        epochs: Passes over the training documents.
        seed: Of the random partition.
        columns: Further columns of the training documents; one is read, if declared public.
    """
    if (privacy.epsilon is None) == (privacy.noise_multiplier is None):
        raise ConfigError(
            "The privacy settings must have either 'epsilon' or 'noise_multiplier'. "
            f"Got {privacy.epsilon} and {privacy.noise_multiplier}."
        )
    facts = _partition_facts(privacy, units, seed, columns)
    schedule = make_schedule(privacy.sampling, facts.groups, privacy.sampling_probability)
    fields: dict[str, Any] = {
        "unit": privacy.unit,
        "relation": privacy.relation,
        "partition": facts,
        "schedule": schedule,
        "clip_norm": privacy.clip_norm,
        "steps": epochs * steps_per_epoch(schedule),
        "delta": privacy.delta,
        "units": units,
        "accountant": privacy.accountant or "pld",
    }
    if privacy.noise_multiplier is not None:
        return PrivacyPlan(noise_multiplier=privacy.noise_multiplier, **fields)
    return PrivacyPlan.for_epsilon(float(privacy.epsilon or 0), **fields)


def _partition_facts(
    privacy: PrivacySettings, units: int, seed: int, columns: Mapping[str, Any]
) -> PartitionFacts:
    parts, by = privacy.parts, member_of(privacy)
    values: dict[str, Any] = {"by": by}
    if isinstance(parts, str) and parts.startswith(_COLUMN):
        from privgcn.graph import column_groups

        name = parts.removeprefix(_COLUMN)
        values |= {"kind": "column", "groups": column_groups(columns, name)[1], "column": name}
    elif parts == "each":
        values |= {"kind": "each", "groups": units}
    elif isinstance(parts, int):
        if parts < 1 or parts > units:
            raise PrivacyContractError(
                f"The 'parts' of the privacy settings must be between 1 and {units}, the "
                f"number of training {'owners' if by == 'owner' else 'documents'}. Got {parts}."
            )
        single = parts == 1
        values |= {"kind": "single" if single else "random", "groups": parts}
        values |= {} if single else {"seed": seed}
    else:
        raise ConfigError(
            "The 'parts' of the privacy settings must be a number, 'each' or "
            f"'column:NAME'. Got {parts!r}."
        )
    return PartitionFacts(**values)
