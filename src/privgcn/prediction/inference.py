"""Scores of documents in an inference mode (``privgcn.modes`` has the table).

``full-graph``, the paper's protocol, lets texts of and links to training documents flow into
predictions without noise: it is **not** covered by the guarantee.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from privgcn.config import Mode
from privgcn.errors import ConfigError
from privgcn.graph.textgraph import TextGraph
from privgcn.prediction.matching import Released, matched_scores
from privgcn.prediction.matching_numbers import Numbers
from privgcn.training.fitted import Fit
from privgcn.training.names import along_names, unpulled
from privgcn.training.planning import signal_over_noise, with_rate


def scores_in_mode(fitted: Fit, graph: TextGraph, rows: Tensor, mode: Mode) -> Tensor:
    """Class scores ``[rows, R, classes]`` of some documents.

    Args:
        fitted: The trained model.
        graph: The whole graph the documents are part of.
        rows: The documents to score; in ``own-graph`` they are all that is seen.
        mode: What else may be seen.
    """
    if mode != "full-graph":
        graph, rows = graph.induced(rows), torch.arange(len(rows))
    if fitted.centre is None:
        return _scores(fitted, graph, rows, mode)
    each = [fitted.replica(number) for number in range(fitted.replicas)]
    return torch.cat([_scores(one, one.seen(graph), rows, mode) for one in each], dim=1)


def _scores(fitted: Fit, seen: TextGraph, rows: Tensor, mode: Mode) -> Tensor:
    prediction = fitted.settings.prediction
    with torch.no_grad():
        if mode == "alone":
            scores = fitted.model.scores_alone(fitted.parameters, seen.features)
        elif prediction.method == "matched" and len(rows) > 0:
            return matched_scores(
                released_of(fitted),
                seen,
                rows,
                restart=prediction.restart,
                hops=prediction.hops,
            )
        else:
            links = seen.propagation()
            scores = fitted.model.scores(fitted.parameters, seen.features, links)[rows]
        bias = fitted.bias
        return scores if bias is None else scores + bias.alone * bias.values


def released_of(fitted: Fit) -> list[Released]:
    """What each replica's training released, in the terms that matching needs.

    Raises:
        ConfigError: The model was not trained for matching.
    """
    plan, path = fitted.plan, fitted.path
    if plan is None or path is None or len(fitted.model.layers) != 1:
        raise ConfigError(
            "Prediction by 'matched' needs a private linear model whose path was kept "
            "(training.reach). Use prediction.method 'direct'."
        )
    numbers = numbers_of(fitted)
    # Plain steps from the first weights on: how far they went is the sum of the gradients.
    steps = len(path) - 1
    sums, prior = (path[0] - path[-1]) / numbers.rate, torch.zeros_like(path[0])
    if fitted.names is not None:
        sums = unpulled(sums, fitted.names)
        prior = -numbers.rate * along_names(sums, fitted.names)
    sums = sums * (plan.schedule.expected_parts / steps)
    sums = sums - sums.mean(-1, keepdim=True)
    return [
        Released(
            path[:-1, :, replica],
            fitted.parameters[0][:, replica],
            sums[:, replica],
            plan.noise_std / math.sqrt(steps),
            plan.units,
            numbers,
            prior[:, replica],
            None if fitted.bias is None else fitted.bias.replica(replica),
        )
        for replica in range(path.shape[2])
    ]


def numbers_of(fitted: Fit) -> Numbers:
    """What matching computes with: as saved with the model, else as this version has it.

    Raises:
        ConfigError: The model was not trained for matching.
    """
    if fitted.matching is not None:
        return Numbers.model_validate(fitted.matching)
    training, features = fitted.settings.training, fitted.parameters[0].shape[0]
    if fitted.plan is None or training.reach is None:
        raise ConfigError(
            "Prediction by 'matched' needs a private model trained with 'training.reach'. "
            "Use prediction.method 'direct'."
        )
    return Numbers.of_this_version(
        rate=float(with_rate(training, fitted.plan).learning_rate or 0.0),
        signal=signal_over_noise(fitted.plan, features),
        longest=fitted.plan.clip_norm,
        features=features,
        classes=fitted.parameters[0].shape[-1],
    )
