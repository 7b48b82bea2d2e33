"""The numbers of recipe ``auto``: step size, class priors and names, constants of prediction.

    noise            n = noise multiplier / sqrt(steps): of the mean over all steps' sums
    learning rate    = min(noise_scale * expected groups / (n * steps), 2000) / clip norm
    class bias       b_k = (log p_k - mean of log p) / 2,  p = released class priors
                     added to all scores in training, and in part when predicting
    label direction  D = centered vectors of the class names  [features, classes]
                     first weights are 4 D, and a step moves by  rate (g + <g, d> d),
                     d = D sqrt(longer / rate)
    signal           = units / (20 n sqrt(features))
    own strength     = min(1 + signal / 30, 3): scores of the weights over true log odds
    prior variance   = sqrt(3000 / features) * max(1, log(classes) / log 7)^2, in [0.75, 2.5]

All of them follow from the plan, the settings, the shape of the model and what was released or
is public. The constants were chosen on validation documents of Cora and PubMed, and checked on
corpora that had no say (``docs/decisions/0007-recipe-auto.md``).

Names of classes mostly say something about the documents, but codes do not. So training begins
with less of them than names that mean something deserve, and how much they count is one
direction of the weights in which steps are longer: a single number, for all classes, that each
noisy gradient moves. A rare class profits from what the others have shown.
"""

from __future__ import annotations

import math
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, Field

from privgcn.errors import ConfigError
from privgcn.privacy.plan import PrivacyPlan
from privgcn.released import Released

Floats = NDArray[np.float64]

# Longer steps, with very many documents or little noise, would only throw weights about.
_LONGEST_STEP = 2000.0
_CALM = 20.0
_FEW_CLASSES = 7
# The signal at which scores are twice as large as they should be, and how large they become.
_SURE_SIGNAL, _MOST_STRENGTH = 30.0, 3.0
# How much of the logarithm of a class prior training adds to scores.
_OF_LOGARITHM = 0.5
# What the first weights have of the class names. Names that mean something reach 6 to 17.
_FIRST_STRENGTH = 4.0
# How far the noise of all steps may carry that strength, and the longest step along the names.
_LABEL_NOISE_SCALE = 8.0
_LONGEST_LABEL_STEP = 20.0
# Names whose vectors are closer than this tell no class from another.
_ALIKE = 1e-6


def noise_over_steps(plan: PrivacyPlan) -> float:
    """Noise of the mean over all steps' sums, in clip norms."""
    return plan.noise_multiplier / math.sqrt(plan.steps)


def learning_rate(plan: PrivacyPlan, noise_scale: float) -> float:
    """The rate at which the noise of all steps together moves a score by ``noise_scale``."""
    groups = plan.schedule.expected_groups
    step = noise_scale * groups / (noise_over_steps(plan) * plan.steps)
    return min(step, _LONGEST_STEP) / plan.clip_norm


def class_bias(priors: Floats, deviation: float) -> Floats:
    """The bias that frequent classes begin with, from the noisy priors of a session.

    The standard deviation of their noise is added to each, so that none is zero.
    """
    positive = np.maximum(priors, 0.0) + deviation
    logarithms = _OF_LOGARITHM * np.log(positive / positive.sum())
    return np.asarray(logarithms - logarithms.mean())


def centered_names(vectors: NDArray[Any]) -> Floats | None:
    """Unit vectors of class names minus their mean, as weights ``[features, classes]``.

    None where the names tell no class from another.
    """
    rows = vectors.astype(np.float64)
    rows /= np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-12)
    names = (rows - rows.mean(axis=0)).T
    return names if np.linalg.norm(names) >= _ALIKE else None


def first_weights(names: Floats) -> NDArray[np.float32]:
    """What training begins with where class names are public: a guess, and no secret."""
    return (_FIRST_STRENGTH * names).astype(np.float32)


def label_direction(names: Floats, rate: float, noise_scale: float) -> Floats:
    """The direction in which steps are longer than ``rate``, by as much as its length asks."""
    longer = _LABEL_NOISE_SCALE * rate / (noise_scale * float(np.linalg.norm(names)))
    return names * math.sqrt(min(longer, _LONGEST_LABEL_STEP) / rate)


def along(values: Floats, direction: Floats) -> Floats:
    """What the label direction adds to a gradient."""
    return float((values * direction).sum()) * direction


def undone(moved: Floats, direction: Floats) -> Floats:
    """The gradient that became ``moved`` when ``along`` was added to it."""
    return moved - along(moved, direction) / (1.0 + float(np.square(direction).sum()))


def prior_variance(features: int, classes: int) -> float:
    """Variance of a score before anything is known.

    Less for many thin features, and more for many classes: one of them must stand out from
    all the others.
    """
    crowd = max(1.0, math.log(classes) / math.log(_FEW_CLASSES)) ** 2
    return min(2.5, max(0.75, crowd * math.sqrt(3000 / features)))


def own_strength(signal: float) -> float:
    """How many times larger scores of the weights are than the log odds they stand for.

    Few noisy steps end where scores are about right. With more signal training comes near the
    optimum of the clipped loss, where an error counts no more than a doubt: it is too sure.
    """
    return min(1.0 + signal / _SURE_SIGNAL, _MOST_STRENGTH)


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
        propagated_fraction: How much of the weights' own scores is propagated, at most.
        evidence: By how much these must predict the released sum better once they are; 3 is
            a factor of twenty in likelihood.
        blend: How much the weights' own scores count beside the match.
        blend_power: How fast that grows with signal and agreement.
        most_blend: How much they count at most.
        least_disagreement: Added to how often both disagree.
        sure: Standard errors by which classes must agree along edges beyond chance.
        worth: Of all agreement beyond chance there could be, how much there must be.
        uninformative: Fraction of main directions expected to tell no classes apart.
        uninformative_signal: How much signal such a direction has, of what others have.
        match_strength: Log odds of the match, of what they should be: its prior pulls them
            toward zero.
        own_strength: The same of the weights' own scores.
        own_bias: How often the weights' own scores have the class bias.
        matched_bias: How much more often than once the match has it. ``balanced`` takes it off
            both, which divides by the square root of a prior: there macro F1 is best.
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
    match_strength: float = Field(2 / 3, gt=0, le=1e6)
    own_strength: float = Field(gt=0, le=1e6)
    own_bias: float = Field(0.5, ge=-1, le=1)
    matched_bias: float = Field(0.0, ge=-1, le=1)

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
        balanced = released.settings.training.balanced
        signal = plan.units / (_CALM * noise_over_steps(plan) * math.sqrt(features))
        return cls(
            rate=learning_rate(plan, scale),
            signal=signal,
            clip_norm=plan.clip_norm,
            prior_variance=prior_variance(features, classes),
            own_strength=own_strength(signal),
            own_bias=-0.5 if balanced else 0.5,
            matched_bias=-1.0 if balanced else 0.0,
        )
