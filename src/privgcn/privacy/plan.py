"""The plan: the only door to private training.

A plan binds unit, relation, partition, schedule, clip norm and noise to one accounting
event. Epsilon is computed from that event and cannot be set.
"""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BeforeValidator, Field

from privgcn.errors import ConfigError, PrivacyContractError
from privgcn.privacy.accounting.calibration import calibrate_releases
from privgcn.privacy.accounting.epsilon import Accountant, Delta, epsilon_of_releases
from privgcn.privacy.accounting.events import (
    LEAST_NOISE,
    MOST_NOISE,
    GaussianQuery,
    GaussianRelease,
)
from privgcn.privacy.accounting.paid_search import Selection
from privgcn.privacy.accounting.selection import Release
from privgcn.privacy.checks import Count, Real, in_plain_values, read_strictly, strict
from privgcn.privacy.partition import PartitionFacts
from privgcn.privacy.schedule import SCHEDULES, AnySchedule, Composition
from privgcn.privacy.units import Relation, Unit, sensitivity_in_clips

_OWNER = "PrivacyPlan"
#: Above this share of 1/n, delta alone allows publishing some unit outright.
_WEAK_DELTA = 0.1
#: Units of which validation documents are whole units too.
_SCORED_UNITS = ("document", "person")


def _known_schedule(schedule: Any) -> Any:
    """A subclass could sample one way and account another; only the known ones count."""
    if type(schedule) not in (*SCHEDULES.values(), dict):
        raise PrivacyContractError(
            f"The 'schedule' of {_OWNER} must be one of {', '.join(SCHEDULES)}. "
            f"Got {schedule!r}. Build it with make_schedule."
        )
    return schedule


@strict(_OWNER, kw_only=True)
class PrivacyPlan:
    """Everything that decides the guarantee of a training run.

    Attributes:
        unit: what is protected: ``document``, ``person``, ``part`` or ``graph``.
        relation: how neighbouring data differ: ``remove`` or ``replace``.
        partition: how the training graph is cut into parts.
        schedule: which parts a step uses.
        clip_norm: the bound on the joint norm of one part's gradient.
        noise_multiplier: noise standard deviation over clip norm.
        steps: how many noisy steps are taken.
        delta: the delta of the guarantee.
        units: how many documents train, or owners for unit ``person``.
        accountant: ``pld``, ``rdp`` or ``moments``.
        side_queries: other Gaussian releases about the same units, composed into epsilon.
        selection: the search that this run won, if any; epsilon is then that of the search.

    Guarantees:
        ``epsilon`` is an upper bound for the mechanism that these fields describe.
    Assumes:
        The trainer runs exactly this: this partition, ``schedule.sample`` with a secret
        source, joint clipping to ``clip_norm``, noise of ``noise_std`` in every step.

    Raises:
        ConfigError: a field outside its range.
        PrivacyContractError: fields that together break the guarantee.
    """

    unit: Unit
    relation: Relation
    partition: PartitionFacts
    schedule: Annotated[
        AnySchedule, Field(discriminator="name"), BeforeValidator(_known_schedule)
    ]
    clip_norm: Annotated[
        Real,
        Field(
            ge=1e-6,
            le=1e6,
            description="It bounds the norm of one part's gradient; outside this range "
            "float32 would round noise and gradients.",
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
    side_queries: Annotated[
        tuple[GaussianQuery, ...],
        BeforeValidator(lambda given: tuple(given) if isinstance(given, list) else given),
    ] = ()
    selection: Selection | None = None

    def __post_init__(self) -> None:
        self._check_partition()
        self._check_accountant()
        self._check_selection()
        # Whatever an accountant would refuse is refused before any data are touched.
        self._releases(self.noise_multiplier)
        self._check_delta()

    @property
    def part_is_unit(self) -> bool:
        """Whether every part is exactly one protected unit."""
        own = {"document": "document", "person": "owner"}
        return self.partition.kind == "each" and own.get(self.unit) == self.partition.by

    @property
    def sensitivity(self) -> int:
        """How many clip norms one unit can move a step's sum: 1 or 2."""
        return sensitivity_in_clips(self.unit, self.relation, part_is_unit=self.part_is_unit)

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
    def releases(self) -> tuple[Release, ...]:
        """What is accounted: training by its schedule and side queries, or the search."""
        return self._releases(self.noise_multiplier)

    @property
    def epsilon(self) -> float:
        """The epsilon of the guarantee."""
        return epsilon_of_releases(self.releases, delta=self.delta, accountant=self.accountant)

    @property
    def epsilon_without_amplification(self) -> float:
        """The epsilon against someone who knows which parts every step used."""
        releases = [release.without_amplification() for release in self.releases]
        return epsilon_of_releases(releases, delta=self.delta, accountant=self.accountant)

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
        found = calibrate_releases(
            epsilon, draft._releases, delta=draft.delta, accountant=draft.accountant
        )
        return cls(noise_multiplier=found.noise_multiplier, **fields)

    def to_dict(self) -> dict[str, Any]:
        """The plan in plain values; :meth:`from_dict` reads it back."""
        record: dict[str, Any] = in_plain_values(self)
        return record

    @classmethod
    def from_dict(cls, record: Any) -> PrivacyPlan:
        """Reads a plan; unknown and missing keys raise ``ConfigError``."""
        return read_strictly(cls, record, _OWNER)

    def _releases(self, noise_multiplier: float) -> tuple[Release, ...]:
        composition = self.composition
        training = GaussianRelease(
            noise_multiplier,
            composition.count,
            composition.sampling_probability,
            self.sensitivity,
        )
        if self.selection is not None:
            if training not in self.selection.candidates:
                raise PrivacyContractError(
                    "The training of a plan with a search must be one of the candidates that "
                    f"the search is accounted with. Got {training!r}."
                )
            return (self.selection.release,)
        return (training, *(query.release for query in self.side_queries))

    def _check_partition(self) -> None:
        facts = self.partition
        if self.unit == "person" and facts.by != "owner":
            raise PrivacyContractError(
                "The 'partition' of a plan for unit 'person' must keep each owner's documents "
                f"in one part (by 'owner'). Got by '{facts.by}'. Partition by owner, or "
                "protect unit 'document'."
            )
        if self.unit == "graph" and facts.parts != 1:
            raise PrivacyContractError(
                "The 'partition' of a plan for unit 'graph' must have one part. "
                f"Got {facts.parts}. Use unit 'part' to protect one of several parts."
            )
        if facts.parts > self.units:
            raise PrivacyContractError(
                f"The 'partition' of a plan over {self.units} units must have at most as many "
                f"parts. Got {facts.parts}. Use parts 'each' for the finest partition."
            )
        if self.part_is_unit and facts.parts != self.units:
            raise PrivacyContractError(
                "The 'partition' of a plan that makes each unit a part must have as many parts "
                f"as units. Got {facts.parts} parts for {self.units} units."
            )
        if self.schedule.parts != facts.parts:
            raise PrivacyContractError(
                f"The 'schedule' of {_OWNER} must have as many parts as the partition. "
                f"Got {self.schedule.parts} and {facts.parts}."
            )

    def _check_selection(self) -> None:
        search = self.selection
        if search is None:
            return
        if self.accountant != "rdp":
            raise PrivacyContractError(
                f"The 'accountant' of a plan with a search must be rdp. Got {self.accountant}."
            )
        if self.side_queries:
            raise PrivacyContractError(
                "A plan with a search must not have side queries: each run would make them "
                f"again. Got {self.side_queries!r}."
            )
        if search.score is not None and self.unit not in _SCORED_UNITS:
            raise PrivacyContractError(
                "A search that scores on private validation documents must protect unit "
                f"{' or '.join(_SCORED_UNITS)}. Got '{self.unit}', of which validation "
                "documents are no part. Declare them public with --public-validation."
            )

    def _check_delta(self) -> None:
        units = self.protected_units
        if self.delta_times_units > 1.0:
            raise PrivacyContractError(
                f"The 'delta' of {_OWNER} must be at most one over the number of units, "
                f"1/{units} = {1.0 / units:.3g}. Got {self.delta:g}: that allows publishing "
                f"a unit outright. Use {0.1 / units:.1g} or less."
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
