"""The plan: the only door to private training.

A plan binds unit, relation, partition, schedule, clip norm and noise to one accounting
event. Epsilon is computed from that event and cannot be set.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

from privgcn.errors import ConfigError, PrivacyContractError
from privgcn.privacy.accounting.calibration import calibrate_releases
from privgcn.privacy.accounting.epsilon import (
    ACCOUNTANT_NAMES,
    check_delta,
    epsilon_of_releases,
)
from privgcn.privacy.accounting.events import LEAST_NOISE, GaussianQuery, GaussianRelease
from privgcn.privacy.accounting.paid_search import Selection, check_selection
from privgcn.privacy.accounting.selection import Release
from privgcn.privacy.checks import require_choice, require_count, require_keys, require_real
from privgcn.privacy.partition import PartitionFacts
from privgcn.privacy.schedule import SCHEDULES, Schedule, make_schedule, schedule_to_dict
from privgcn.privacy.units import RELATIONS, UNITS, Relation, Unit, sensitivity_in_clips

if TYPE_CHECKING:
    from privgcn.privacy.mechanism.noise_grid import Grid

_OWNER = "PrivacyPlan"
#: Above this share of 1/n, delta alone allows publishing some unit outright.
_WEAK_DELTA = 0.1


@dataclass(frozen=True, kw_only=True)
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
    schedule: Schedule
    clip_norm: float
    noise_multiplier: float
    steps: int
    delta: float
    units: int
    accountant: str = "pld"
    side_queries: tuple[GaussianQuery, ...] = ()
    selection: Selection | None = None

    def __post_init__(self) -> None:
        require_choice(self.unit, "unit", _OWNER, UNITS)
        require_choice(self.relation, "relation", _OWNER, RELATIONS)
        require_choice(self.accountant, "accountant", _OWNER, ACCOUNTANT_NAMES)
        self._normalise()
        self._check_partition()
        self._check_schedule()
        self._check_accountant()
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
    def grid(self) -> Grid:
        """The grid on which sums and noise of a step lie; it follows from the plan alone."""
        from privgcn.privacy.mechanism.noise_grid import (
            Grid,  # here, as accounting does without torch
        )

        return Grid.of(self.noise_multiplier, self.schedule.parts)

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
    def weak_delta(self) -> bool:
        """Whether delta is so large that the statement must call it weak."""
        return self.delta * self.protected_units > _WEAK_DELTA

    @classmethod
    def for_epsilon(cls, epsilon: float, **fields: Any) -> PrivacyPlan:
        """The plan with the least noise whose epsilon is at most the target.

        Args:
            epsilon: the target.
            **fields: every field of the plan but ``noise_multiplier``.
        """
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
        return {
            "unit": self.unit,
            "relation": self.relation,
            "partition": self.partition.to_dict(),
            "schedule": schedule_to_dict(self.schedule),
            "clip_norm": self.clip_norm,
            "noise_multiplier": self.noise_multiplier,
            "steps": self.steps,
            "delta": self.delta,
            "units": self.units,
            "accountant": self.accountant,
            "side_queries": [vars(query).copy() for query in self.side_queries],
            "selection": None if self.selection is None else self.selection.to_dict(),
        }

    @classmethod
    def from_dict(cls, record: Mapping[str, Any]) -> PrivacyPlan:
        """Reads a plan; unknown and missing keys raise ``ConfigError``."""
        names = tuple(cls.__dataclass_fields__)
        values = dict(require_keys(record, names, _OWNER))
        schedule = dict(values["schedule"]) if isinstance(values["schedule"], Mapping) else {}
        expected = ["name", "parts"]
        if schedule.get("name") == "poisson":
            expected.append("sampling_probability")
        require_keys(schedule, tuple(expected), "a sampling schedule")
        values["schedule"] = make_schedule(**schedule)
        values["partition"] = PartitionFacts.from_dict(values["partition"])
        queries = values["side_queries"]
        if not isinstance(queries, list | tuple):
            raise ConfigError(
                f"The 'side_queries' of {_OWNER} must be a list. Got {queries!r}."
            )
        values["side_queries"] = tuple(
            GaussianQuery(
                **require_keys(
                    query, ("name", "noise_multiplier", "sensitivity"), "GaussianQuery"
                )
            )
            for query in queries
        )
        if values["selection"] is not None:
            values["selection"] = Selection.from_dict(values["selection"])
        return cls(**values)

    def _releases(self, noise_multiplier: float) -> tuple[Release, ...]:
        composition = self.schedule.composition(self.steps)
        training = GaussianRelease(
            noise_multiplier,
            composition.count,
            composition.sampling_probability,
            self.sensitivity,
        )
        if self.selection is not None:
            check_selection(self.selection, training, self)
            return (self.selection.release,)
        return (training, *(query.release for query in self.side_queries))

    def _normalise(self) -> None:
        """Plain numbers only, so that a plan reads back from disk as the same plan."""
        clip_norm = require_real(
            self.clip_norm,
            "clip_norm",
            _OWNER,
            low=1e-6,
            high=1e6,
            remedy="It bounds the norm of one part's gradient; outside of this range float32 "
            "would round noise and gradients.",
        )
        noise = require_real(
            self.noise_multiplier,
            "noise_multiplier",
            _OWNER,
            low=LEAST_NOISE,
            high=1e9,
            remedy="A private run needs noise; train with recipe 'plain' without privacy.",
        )
        object.__setattr__(self, "clip_norm", clip_norm)
        object.__setattr__(self, "noise_multiplier", noise)
        object.__setattr__(self, "steps", require_count(self.steps, "steps", _OWNER))
        object.__setattr__(self, "units", require_count(self.units, "units", _OWNER))
        object.__setattr__(self, "delta", check_delta(self.delta, _OWNER))
        queries = tuple(self.side_queries)
        if any(type(query) is not GaussianQuery for query in queries):
            raise ConfigError(
                f"The 'side_queries' of {_OWNER} must be GaussianQuery objects. "
                f"Got {queries!r}."
            )
        object.__setattr__(self, "side_queries", queries)

    def _check_partition(self) -> None:
        facts = self.partition
        if type(facts) is not PartitionFacts:
            raise ConfigError(
                f"The 'partition' of {_OWNER} must be PartitionFacts. Got {facts!r}."
            )
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

    def _check_schedule(self) -> None:
        name = getattr(type(self.schedule), "name", None)
        # A subclass could sample one way and account another; only the registered ones count.
        if SCHEDULES.get(cast(str, name)) is not type(self.schedule):
            raise PrivacyContractError(
                f"The 'schedule' of {_OWNER} must be one of {', '.join(SCHEDULES)}. "
                f"Got {self.schedule!r}. Build it with make_schedule."
            )
        if self.schedule.parts != self.partition.parts:
            raise PrivacyContractError(
                f"The 'schedule' of {_OWNER} must have as many parts as the partition. "
                f"Got {self.schedule.parts} and {self.partition.parts}."
            )

    def _check_delta(self) -> None:
        units = self.protected_units
        if self.delta * units > 1.0:
            raise PrivacyContractError(
                f"The 'delta' of {_OWNER} must be at most one over the number of units, "
                f"1/{units} = {1.0 / units:.3g}. Got {self.delta:g}: that allows publishing "
                f"a unit outright. Use {0.1 / units:.1g} or less."
            )

    def _check_accountant(self) -> None:
        # Two clip norms under sampling are out of the paper's accountant's reach.
        sampled = self.schedule.composition(self.steps).sampling_probability < 1.0
        if self.accountant == "moments" and sampled and self.sensitivity != 1:
            raise PrivacyContractError(
                "The 'accountant' of a plan with Poisson sampling and a sensitivity of two "
                f"clip norms (unit '{self.unit}', relation '{self.relation}') must be pld or "
                "rdp. Got moments, whose bound covers one clip norm only."
            )
