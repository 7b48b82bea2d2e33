"""The numbers of recipe ``auto``: its step size, and what moment matching computes with.

    noise         n = noise multiplier / sqrt(steps): of the mean over all steps' sums
    learning rate   = min(noise_scale * expected groups / (n * steps), 2000) / clip norm
    signal          = units / (20 n sqrt(features))
    prior variance  = sqrt(3000 / features) * max(1, log(classes) / log 7)^2, in [0.75, 2.5]

All of them follow from the plan, the settings and the shape of the model. The constants were
chosen on validation documents of Cora and PubMed, and checked on corpora that had no say
(``docs/decisions/0007-recipe-auto.md``).
"""

from __future__ import annotations

import math
from typing import Self

from pydantic import BaseModel, ConfigDict, Field

from privgcn.errors import ConfigError
from privgcn.privacy.plan import PrivacyPlan
from privgcn.released import Released

# Longer steps, with very many documents or little noise, would only throw weights about.
_LONGEST_STEP = 2000.0
_CALM = 20.0
_FEW_CLASSES = 7


def noise_over_steps(plan: PrivacyPlan) -> float:
    """Noise of the mean over all steps' sums, in clip norms."""
    return plan.noise_multiplier / math.sqrt(plan.steps)


def learning_rate(plan: PrivacyPlan, noise_scale: float) -> float:
    """The rate at which the noise of all steps together moves a score by ``noise_scale``."""
    groups = plan.schedule.expected_groups
    step = noise_scale * groups / (noise_over_steps(plan) * plan.steps)
    return min(step, _LONGEST_STEP) / plan.clip_norm


def prior_variance(features: int, classes: int) -> float:
    """Variance of a score before anything is known.

    Less for many thin features, and more for many classes: one of them must stand out from
    all the others.
    """
    crowd = max(1.0, math.log(classes) / math.log(_FEW_CLASSES)) ** 2
    return min(2.5, max(0.75, crowd * math.sqrt(3000 / features)))


class MatchingConstants(BaseModel):
    """Every number that moment matching computes with, beside what training released.

    They are saved with a model, so that another version of this package, with constants of
    its own, predicts with the model as this one does.

    Attributes:
        rate: Learning rate of the training steps.
        signal: How far the documents' sum stands above noise that is spread over all features:
            how much the weights themselves can be trusted.
        clip_norm: To which training shortened the residual of a document.
        prior_variance: Of a score before anything is known.
        bias_variance: Of the bias of a class, in the same units.
        rank: How many main directions are matched.
        oversampling: How many more the randomised decomposition looks for.
        iterations: How often it multiplies by the documents.
        rounds: Iterations of L-BFGS.
        tolerance: At which relative gain it stops.
        most_matched: How many documents, and how many edges, take part in a match.
        axis_power: To which power of its variance each axis of an embedding is stretched.
        sharpening: How much certainty is worth in the last rounds.
        complexity: What half a Laplace evidence counts for when two matches are compared.
        propagated_fraction: How much propagated embeddings count beside text.
        evidence: By how much text beside edges must match better than edges alone; 3 is a
            factor of twenty in likelihood.
        blend: How much the weights' own scores count beside the match.
        blend_power: How fast that grows with signal and agreement.
        most_blend: How much they count at most.
        least_disagreement: Added to how often both disagree.
        sure: Standard errors by which classes must agree along edges beyond chance.
        worth: Of all agreement beyond chance there could be, how much there must be.
        uninformative: Fraction of main directions expected to tell no classes apart.
        uninformative_signal: How much signal such a direction has, of what others have.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, allow_inf_nan=False)

    rate: float = Field(gt=0, le=1e12)
    signal: float = Field(gt=0, le=1e12)
    clip_norm: float = Field(gt=0, le=1e12)
    prior_variance: float = Field(gt=0, le=1e6)
    bias_variance: float = Field(10.0, gt=0, le=1e6)
    rank: int = Field(300, ge=1, le=10_000)
    oversampling: int = Field(20, ge=0, le=10_000)
    iterations: int = Field(3, ge=0, le=100)
    rounds: int = Field(40, ge=1, le=1000)
    tolerance: float = Field(1e-6, ge=0, le=1)
    most_matched: int = Field(4096, ge=1, le=10_000_000)
    axis_power: float = Field(0.25, ge=0, le=10)
    sharpening: float = Field(0.03, ge=0, le=1e6)
    complexity: float = Field(0.5, ge=0, le=1e6)
    propagated_fraction: float = Field(0.75, ge=0, le=1)
    evidence: float = Field(3.0, ge=0, le=1e6)
    blend: float = Field(0.04, ge=0, le=1e6)
    blend_power: float = Field(2 / 3, ge=0, le=10)
    most_blend: float = Field(4.0, ge=0, le=1e6)
    least_disagreement: float = Field(0.02, gt=0, le=1)
    sure: float = Field(3.0, ge=0, le=1e6)
    worth: float = Field(0.15, ge=0, le=1e6)
    uninformative: float = Field(0.02, gt=0, lt=1)
    uninformative_signal: float = Field(0.05, ge=0, le=1)

    @classmethod
    def of(cls, released: Released) -> Self:
        """Those that were saved with a model, else those of this version.

        Raises:
            ConfigError: The model was not trained for moment matching.
        """
        if released.matching is not None:
            return cls.model_validate(dict(released.matching))
        plan, scale = released.plan, released.settings.training.noise_scale
        if plan is None or scale is None or "iterates" not in released.tensors:
            raise ConfigError(
                "Prediction by 'matched' needs a private linear model whose iterates were "
                "released (training.noise_scale). Use prediction.method 'direct'."
            )
        features, classes = released.tensors["weight"].shape
        return cls(
            rate=learning_rate(plan, scale),
            signal=plan.units / (_CALM * noise_over_steps(plan) * math.sqrt(features)),
            clip_norm=plan.clip_norm,
            prior_variance=prior_variance(features, classes),
        )
