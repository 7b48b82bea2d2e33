"""Training of recipe ``auto``: one linear model, thirty noisy releases.

    rows        x = text vector / its length;
                dense: minus the released mean, and divided by its length again
    statistics  mean of x and class priors: the first release, for dense rows or ``balanced``
    residual    r = softmax(W^T x + class bias) - label, no longer than the clip norm
    gradient    g = (sum over groups of the mean of x r^T, plus noise) / groups, in clip norms
    first       W = part of the vectors of the class names where these are public, else zero
    step        W <- W - rate (g + what the label direction adds), with the rate at which the
                noise of all steps together moves a score by ``noise_scale``
    result      the mean of the last two W; all of them are released
    prediction  argmax of W^T x + part of the class bias, for a document alone

The session makes rows, residuals, sums and noise, and answers once for each release of its
plan. What stands here sees its answers and public numbers only.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array, issparse

from privgcn.auto.recipe import (
    Floats,
    MatchingConstants,
    along,
    centered_names,
    class_bias,
    first_weights,
    label_direction,
    learning_rate,
)
from privgcn.config import Settings
from privgcn.errors import ConfigError
from privgcn.graph import Features
from privgcn.mechanism import SoftmaxGradient, Statistics
from privgcn.mechanism.fixed_point import directions, exact_weights
from privgcn.progress import advance
from privgcn.released import Released

if TYPE_CHECKING:
    from privgcn.mechanism import Session

# A mean is subtracted if it is longer than this, and 4 standard deviations above noise.
_WORTH_SUBTRACTING, _SURE = 1 / 3, 4.0
# Documents alone are scored in steps of 2^-20 of a row's length.
_ROW_BITS = 20
ROWS_AT_ONCE = 4096
"""Rows that are computed with at once, so that memory does not grow with the documents."""


def train(
    session: Session,
    settings: Settings,
    *,
    label_vectors: NDArray[np.float32] | None = None,
) -> Released:
    """Takes all releases that the plan of a session pays for.

    Args:
        session: Holds the training documents.
        settings: Of recipe ``auto``.
        label_vectors: The public class names as vectors, ``[classes, features]``.

    Raises:
        ConfigError: The settings are not those of this recipe.
    """
    training, plan, classes = settings.training, session.plan, session.classes
    if training.noise_scale is None or settings.model.hops:
        raise ConfigError(
            "Recipe 'auto' needs 'training.noise_scale' and 'model.hops' 0. Got "
            f"{training.noise_scale} and {settings.model.hops}. Use recipe 'paper-split'."
        )
    tensors: dict[str, NDArray[np.float32]] = {}
    bias = np.zeros(classes, np.float32)
    if plan.steps > 1 and (session.dense or training.balanced):
        answer, deviation = session.query(Statistics()), session.deviation
        of_label = Statistics.LABEL if session.dense else 1.0
        priors = answer[-classes:] / of_label
        bias = class_bias(priors, deviation / of_label).astype(np.float32)
        tensors["class_bias"] = bias
        if session.dense:
            mean = shrunk(answer[:-classes] / Statistics.ROW, deviation / Statistics.ROW)
            tensors["mean"] = mean.astype(np.float32)
            session.center(tensors["mean"])

    rate = learning_rate(plan, training.noise_scale)
    weights, direction = np.zeros((session.width, classes), np.float32), None
    names = None if label_vectors is None else centered_names(label_vectors)
    if names is not None:
        weights = first_weights(names)
        direction = label_direction(names, rate, training.noise_scale)
        tensors["label_direction"] = direction.astype(np.float32)
    iterates = [weights]
    while session.remaining:
        advance(plan.steps - session.remaining, plan.steps)
        gradient = plan.clip_norm * session.query(
            SoftmaxGradient(weights, bias.astype(np.float64))
        )
        if direction is not None:
            gradient += along(gradient, direction)
        weights = (weights - rate * gradient).astype(np.float32)
        iterates.append(weights)
    advance(plan.steps, plan.steps)
    tensors["iterates"] = np.stack(iterates)
    # Large steps swing to and fro; the mean of the last two does not.
    tensors["weight"] = tensors["iterates"][-2:].mean(axis=0)
    released = Released("linear", tensors, settings, plan, session.releasable)
    return replace(released, matching=MatchingConstants.of(released).model_dump())


def shrunk(mean: Floats, deviation: float) -> Floats:
    """A noisy mean without the part of its length that noise explains (James and Stein).

    Zero where too little is left to be worth subtracting.
    """
    squares = float(np.square(mean).sum())
    common = squares - mean.size * deviation**2
    by_chance = _SURE * deviation**2 * math.sqrt(2 * mean.size)
    if common < max(_WORTH_SUBTRACTING**2, by_chance):
        return np.zeros_like(mean)
    return mean * (common / squares)


def text_rows(features: Features, mean: NDArray[np.float32] | None) -> Features:
    """Rows of length one without the released mean, as training has them, in float32."""
    return directions(features, mean).astype(np.float32)


def text_scores(released: Released, features: Features) -> Floats:
    """Scores ``[documents, classes]`` of documents alone, the same bits in any company.

    No document may flip what another is predicted: a private score counts right answers. So
    products of rows and weights are exact, as in training.
    """
    weights = exact_weights(released.tensors["weight"].astype(np.float64), _ROW_BITS)
    scores = np.zeros((features.shape[0], weights.shape[1]))
    for own in blocks(len(scores)):
        rows = directions(features[own], released.tensors.get("mean"))
        if issparse(rows):
            whole = np.rint(rows.data * 2.0**_ROW_BITS)
            rows = csr_array((whole, rows.indices, rows.indptr), shape=rows.shape)
        else:
            rows = np.rint(rows * 2.0**_ROW_BITS)
        scores[own] = rows @ weights
    constants = MatchingConstants.of(released)
    if "class_bias" in released.tensors:
        scores += constants.own_bias * released.tensors["class_bias"]
    return scores / constants.own_strength


def blocks(count: int) -> Iterator[slice]:
    """Consecutive rows, so many at once."""
    for begin in range(0, count, ROWS_AT_ONCE):
        yield slice(begin, min(begin + ROWS_AT_ONCE, count))
