"""What is known of classes before any gradient: how frequent they are, and their names.

    class bias       b_k = (log p_k - mean of log p) / 2,  p = released class priors
                     added to all scores in training, and in part when predicting
    label direction  D = centered vectors of the class names / their length  [features, classes]
                     a step moves by  rate (g + <g, d> d),  d = D sqrt(longer / rate)

Names may say nothing about the documents: codes do not. So they are no first guess but one
direction of the weights in which steps are longer. It is a single number, for all classes
together, that each noisy gradient moves: noise hardly reaches it, names that say nothing leave
it near zero, and a rare class profits from what the others have shown. Names are public, and
priors were released: all of it is post-processing.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

# How much of the logarithm of a class prior training adds to scores, and how much of that bias
# prediction from the weights alone leaves in them. Moment matching has the bias in the match.
# These constants were chosen on development corpora (docs/decisions/0007-recipe-auto.md).
_OF_LOGARITHM = 0.5
_LEFT = 0.5
# How far the noise of all steps may carry the weight of the label direction, and its longest
# step.
_NOISE_SCALE = 1.0
_LONGEST_STEP = 20.0
# Names whose vectors are closer than this tell no class from another.
_ALIKE = 1e-6


def class_bias(priors: Floats, deviation: float) -> Floats:
    """The bias that frequent classes begin with, from the noisy priors of a session.

    Args:
        priors: Of each class, as they were released.
        deviation: Standard deviation of their noise: so much is added, and none is zero.
    """
    positive = np.maximum(priors, 0.0) + deviation
    logarithms = _OF_LOGARITHM * np.log(positive / positive.sum())
    return np.asarray(logarithms - logarithms.mean())


class BiasFactors(NamedTuple):
    """How often predictions add the class bias: to scores of the weights, and to the match's.

    ``balanced`` takes it off both, which divides by the square root of a prior: there macro F1
    is best.
    """

    weights: float
    matched: float

    @classmethod
    def of(cls, *, balanced: bool) -> BiasFactors:
        """Those of a run."""
        return cls(_LEFT - 1.0, -1.0) if balanced else cls(_LEFT, 0.0)


def label_direction(vectors: NDArray[Any], rate: float, noise_scale: float) -> Floats | None:
    """The direction ``[features, classes]`` in which steps are longer.

    Args:
        vectors: A vector for the name of each class, ``[classes, features]``.
        rate: Learning rate of all other directions.
        noise_scale: From which the rate follows.

    Returns:
        As long as its steps ask for; ``None`` where the names tell no class from another.
    """
    rows = vectors.astype(np.float64)
    rows /= np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-12)
    direction = (rows - rows.mean(axis=0)).T
    length = float(np.linalg.norm(direction))
    if length < _ALIKE:
        return None
    longer = min(_NOISE_SCALE * rate / (noise_scale * length), _LONGEST_STEP)
    return np.asarray(direction * math.sqrt(longer / rate))


def along(values: Floats, direction: Floats) -> Floats:
    """What the label direction adds to a gradient."""
    return float((values * direction).sum()) * direction


def undone(moved: Floats, direction: Floats) -> Floats:
    """The gradient that became ``moved`` when ``along`` was added to it."""
    return moved - along(moved, direction) / (1.0 + float(np.square(direction).sum()))
