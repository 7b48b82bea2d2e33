"""Step sizes that fit the noise, from public numbers alone."""

from __future__ import annotations

import math

from privgcn.config import TrainingSettings
from privgcn.privacy.plan import PrivacyPlan

_CALM = 20.0
_MOST = 4.0
_LONGEST_STEP = 2000.0


def reach_of(settings: TrainingSettings, plan: PrivacyPlan, features: int) -> float | None:
    """How far the noise of all steps together may carry a score, or ``None`` for no rule.

    The settings' own reach, and up to four times that where the signal of ``units``
    documents stands well above noise spread over ``features`` directions.
    """
    if settings.reach is None:
        return None
    return settings.reach * steepness(signal_over_noise(plan, features))


def signal_over_noise(plan: PrivacyPlan, features: int) -> float:
    """How far the documents' sum stands above noise spread over all features; at least 1."""
    return max(1.0, plan.units / (_CALM * one_shot_noise(plan) * math.sqrt(features)))


def steepness(signal: float) -> float:
    """How much further than usual the steps of a run with this much signal reach."""
    return min(_MOST, math.sqrt(signal))


def one_shot_noise(plan: PrivacyPlan) -> float:
    """Noise of the mean over all steps' sums, in units of the clip norm."""
    return plan.noise_multiplier / math.sqrt(plan.steps)


def with_rate(settings: TrainingSettings, plan: PrivacyPlan, features: int) -> TrainingSettings:
    """The same settings with the learning rate that their reach asks for.

    A step moves by the noisy mean over the units, so the learning rate is the one at which
    the noise of all steps adds up to the reach, whatever budget, documents and steps. With
    very many documents, or little noise, it is capped: residuals of length one never shrink,
    so longer steps would only throw the weights about.
    """
    reach = reach_of(settings, plan, features)
    if reach is None:
        return settings
    rate = reach * plan.schedule.expected_parts / (one_shot_noise(plan) * plan.steps)
    step = min(rate, _LONGEST_STEP) / plan.clip_norm
    return settings.model_copy(update={"learning_rate": step})
