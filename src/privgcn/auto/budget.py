"""Whether a budget is large enough, said before any document is touched.

    signal   s = units / (classes * noise * sqrt(features)),
             where noise = noise multiplier / sqrt(steps): how far the mean document of a
             class stands above the noise

Runs on many corpora went most of the way from guessing to the score without privacy where the
signal was 0.7, and hardly any of it below 0.2. No score is forecast: how hard a corpus is
decides more of it than the budget does, and nobody knows that beforehand
(``docs/decisions/0015-no-forecast.md``).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Self

from privgcn.auto.recipe import noise_over_steps
from privgcn.config import make_settings, without_none
from privgcn.errors import ConfigError, shown
from privgcn.privacy.accounting import LEAST_NOISE, epsilon_of_events
from privgcn.privacy.plan import PrivacyPlan, plan_for
from privgcn.privacy.wording import round_up

LITTLE, ENOUGH = 0.2, 0.7
"""Signals: below the first, noise costs most of the score; the second is enough."""

FEATURES = {"both": 640, "minilm": 384, "static": 256, "universal": 512, "hashing": 4096}
"""How many features the kinds have that come with the package."""

DEFAULT_KIND = "both"

_ENCODERS = {"both", "minilm", "static", "universal", "transformer", "word-vectors"}
_EPSILONS = (0.5, 1, 1.5, 2, 2.5, 3, 4, 5, 6, 8, 10, 12, 15, 20)
_MOST_TIMES = 1000


@dataclass(frozen=True)
class Budget:
    """What recipe ``auto`` has to learn from; all of it follows from public numbers."""

    plan: PrivacyPlan
    classes: int
    features: int
    kind: str

    @classmethod
    def of(
        cls,
        units: int,
        classes: int,
        epsilon: float,
        *,
        features: int | None = None,
        kind: str | None = None,
        delta: float | None = None,
        unit: str | None = None,
        relation: str | None = None,
    ) -> Self:
        """What the recipe would do with this many documents, or owners for unit ``person``.

        Settings that are ``None`` are the recipe's. Without ``kind`` and ``features`` the usual
        encoder is meant; another number of features stands for vectors of unknown origin.

        Raises:
            ConfigError: A number makes no sense, or the recipe has no such unit.
            PrivacyContractError: The delta is too large for so many units.
        """
        if kind is None:
            kind = DEFAULT_KIND if features in (None, FEATURES[DEFAULT_KIND]) else "given"
        if features is None and kind not in FEATURES:
            raise ConfigError(
                f"The number of 'features' must be given for the kind {shown(kind)}. Known "
                f"without: {', '.join(FEATURES)}."
            )
        if unit not in (None, "document", "person"):
            raise ConfigError(
                "The 'unit' must be document or person, as recipe 'auto' has it. "
                f"Got {shown(unit)}."
            )
        privacy = {"epsilon": epsilon, "delta": delta, "unit": unit, "relation": relation}
        named = {f"privacy.{name}": value for name, value in privacy.items()}
        settings = make_settings(changes=without_none(named))
        if settings.privacy is None:
            raise ValueError("A budget needs an epsilon.")
        epochs = settings.training.epochs
        plan = plan_for(settings.privacy, units, epochs=epochs, seed=settings.seed, columns={})
        return cls(plan, classes, features or FEATURES[kind], kind)

    @property
    def noise_for_each_unit(self) -> float:
        """Noise of the mean gradient over all steps, for each unit that is averaged."""
        return noise_over_steps(self.plan) / self.plan.schedule.expected_groups

    @property
    def signal(self) -> float:
        """How far the mean document of a class stands above the noise."""
        return 1 / (self.classes * self.noise_for_each_unit * math.sqrt(self.features))

    @cached_property
    def advice(self) -> tuple[str, ...]:
        """What to change, in words; empty where nothing needs to change."""
        if self.signal >= ENOUGH:
            return ()
        counted = "people" if self.plan.unit == "person" else "documents"
        cost = "most" if self.signal < LITTLE else "much"
        epsilon = f"{float(round_up(self.plan.epsilon, 3)):g}"
        here = f"{self.plan.units:,} {counted} at epsilon {epsilon}"
        line = f"{here}: expect noise to cost {cost} of the score"
        if remedies := self._remedies(counted):
            line += f"; you need {', or '.join(remedies)}"
        usual = FEATURES[DEFAULT_KIND]
        if self.kind not in _ENCODERS and self.features > usual:
            times = math.sqrt(usual / self.features)
            line += (
                f". Of English texts, a public encoder (--features {DEFAULT_KIND}) needs "
                f"{times:.0%} of that"
            )
        return (f"{line}.",)

    def _remedies(self, counted: str) -> list[str]:
        """How many units, or which epsilon, would do; the signal grows with the units."""
        remedies = []
        if _MOST_TIMES * self.signal > ENOUGH:
            count = math.ceil(self.plan.units * ENOUGH / self.signal)
            digits = 10 ** max(0, len(str(count)) - 2)
            remedies.append(f"about {math.ceil(count / digits) * digits:,} {counted}")
        # Calibration leaves a little of an epsilon unused.
        noise = 0.99 * self.plan.noise_multiplier * self.signal / ENOUGH
        if noise >= LEAST_NOISE:
            event = replace(self.plan.training, noise_multiplier=noise)
            least = epsilon_of_events(
                [event], delta=self.plan.delta, accountant=self.plan.accountant
            )
            remedies += [f"epsilon {each:g}" for each in _EPSILONS if each >= least][:1]
        return remedies
