"""The constants of prediction by matching, and the numbers that are saved with a model."""

from __future__ import annotations

import math

from pydantic import BaseModel, ConfigDict, Field

from privgcn.prediction import spectrum

# They were chosen on validation documents of Cora and PubMed, and checked on
# corpora that had no say (docs/decisions/0007-recipe-auto.md).
RANK = 300
STRETCH = 0.25
BIAS_VARIANCE = 10.0
SHARPENING = 0.03
COMPLEXITY = 0.5
ROUNDS = 40
TOLERANCE = 1e-6
LINKED_SHARE = 0.75
EVIDENCE = 3.0
BLEND, BLEND_POWER = 0.04, 2 / 3
LEAST_APART = 0.02
MOST_BLEND = 4.0
MOST_MATCHED = 4096
SURE, WORTH = 3.0, 0.15
SILENT, SILENCE = 0.02, 0.05
_FEW_CLASSES = 7


def prior_variance(features: int, classes: int) -> float:
    """Variance of a score before anything is known.

    Less for many thin features, and more for many classes: one of them must stand out from
    all the others.
    """
    crowd = max(1.0, math.log(classes) / math.log(_FEW_CLASSES)) ** 2
    return min(2.5, max(0.75, crowd * math.sqrt(3000 / features)))


class Numbers(BaseModel):
    """Every number that matching computes with, beside what training released.

    They are saved with a model, so that another version of this package, with constants of
    its own, predicts with the model as this one does.

    Attributes:
        rate: Learning rate of the training steps.
        signal: How far the documents' sum stands above the noise: how much the weights
            themselves can be trusted.
        longest: To which length training shortened the residual of a document.
        prior: Variance of a score before anything is known.
        evidence: By how much text beside links must match better than links alone; 3 is a
            factor of twenty in likelihood.
        own_travels: Whether the trained weights' own scores may travel along the links; not in
            models that were saved before they could.
        silent: Which share of the main directions is expected to tell no classes apart; none
            in models that were saved before they were looked for.
        silence: How much signal such a direction has, as a share of what others have.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, allow_inf_nan=False)

    rate: float = Field(gt=0, le=1e12)
    signal: float = Field(gt=0, le=1e12)
    longest: float = Field(gt=0, le=1e12)
    prior: float = Field(gt=0, le=1e6)
    rank: int = Field(ge=1, le=10_000)
    oversampling: int = Field(ge=0, le=10_000)
    iterations: int = Field(ge=0, le=100)
    rounds: int = Field(ge=1, le=1000)
    tolerance: float = Field(ge=0, le=1)
    most_matched: int = Field(ge=1, le=10_000_000)
    stretch: float = Field(ge=0, le=10)
    bias_variance: float = Field(gt=0, le=1e6)
    sharpening: float = Field(ge=0, le=1e6)
    complexity: float = Field(ge=0, le=1e6)
    linked_share: float = Field(ge=0, le=1)
    evidence: float = Field(ge=0, le=1e6)
    blend: float = Field(ge=0, le=1e6)
    blend_power: float = Field(ge=0, le=10)
    least_apart: float = Field(gt=0, le=1)
    most_blend: float = Field(ge=0, le=1e6)
    sure: float = Field(ge=0, le=1e6)
    worth: float = Field(ge=0, le=1e6)
    own_travels: bool = False
    silent: float = Field(default=0.0, ge=0, lt=1)
    silence: float = Field(default=0.0, ge=0, le=1)

    @classmethod
    def of_this_version(
        cls, *, rate: float, signal: float, longest: float, features: int, classes: int
    ) -> Numbers:
        """The constants of this package beside the numbers of one training run."""
        return cls(
            rate=rate,
            signal=signal,
            longest=longest,
            prior=prior_variance(features, classes),
            rank=RANK,
            oversampling=spectrum.OVERSAMPLING,
            iterations=spectrum.ITERATIONS,
            rounds=ROUNDS,
            tolerance=TOLERANCE,
            most_matched=MOST_MATCHED,
            stretch=STRETCH,
            bias_variance=BIAS_VARIANCE,
            sharpening=SHARPENING,
            complexity=COMPLEXITY,
            linked_share=LINKED_SHARE,
            evidence=EVIDENCE,
            blend=BLEND,
            blend_power=BLEND_POWER,
            least_apart=LEAST_APART,
            most_blend=MOST_BLEND,
            sure=SURE,
            worth=WORTH,
            own_travels=True,
            silent=SILENT,
            silence=SILENCE,
        )
