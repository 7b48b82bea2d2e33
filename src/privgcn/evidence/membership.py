"""Membership: was this document, or this person, in the training data?

The likelihood ratio attack of Carlini et al. (2022). Pairs of models train on random halves of
the training documents, so that each unit is in one model of each pair. Each model in turn is
the target; the other pairs are its shadow models and say how the target would answer about a
unit if it had, or had not, trained on it.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from privgcn.config import MODES, Mode, Settings
from privgcn.data.corpus import TEST, TRAIN, VALIDATION
from privgcn.errors import ConfigError
from privgcn.graph.textgraph import TextGraph
from privgcn.prediction.inference import scores_in_mode
from privgcn.runs.train import rows_with_split
from privgcn.training.fit import fit
from privgcn.training.fitted import Fit

Array = npt.NDArray[np.float64]

_FEWEST = 4


class Members(NamedTuple):
    """Scores of an attack on members and on others; larger for likelier members."""

    inside: Array
    outside: Array


def membership(
    graph: TextGraph, settings: Settings, *, shadows: int, seed: int = 0
) -> dict[tuple[str, Mode], Members]:
    """Attacks every model by the others, in each inference mode.

    A ``full-graph`` service is asked about the test documents that a target links to: its
    predictions about them see the target's text. In the other modes the target itself is
    asked about, in ``own-graph`` together with all others and the links among them.

    Args:
        graph: All documents with their split.
        settings: Of the models.
        shadows: How many models; an even number.
        seed: Of the halves.

    Returns:
        Scores for ``document`` and, where documents have owners, ``person``, by mode.
    """
    if shadows < _FEWEST or shadows % 2:
        raise ConfigError(
            f"The 'shadows' of an attack must be even and at least {_FEWEST}. Got {shadows}."
        )
    pool = rows_with_split(graph, TRAIN)
    pool = pool[graph.labels[pool] >= 0]
    owners = torch.arange(len(pool))
    if graph.owners is not None:
        owners = torch.unique(graph.owners[pool], return_inverse=True)[1]
    inside = _halves(int(owners.max()) + 1, shadows, seed)[:, owners.numpy()]
    answers: dict[Mode, list[Array]] = {mode: [] for mode in MODES}
    for number, chosen in enumerate(inside):
        rows = pool[torch.from_numpy(chosen)]
        trained = _trained(graph, rows, settings, seed + number)
        for mode in MODES:
            answers[mode].append(_answers(trained, graph, pool, rows, mode))
    found: dict[tuple[str, Mode], Members] = {}
    for mode, each in answers.items():
        ratios = _ratios(np.stack(each), inside)
        known = ~np.isnan(ratios)
        if not known.any():
            continue
        found["document", mode] = Members(ratios[known & inside], ratios[known & ~inside])
        if graph.owners is not None:
            found["person", mode] = _by_person(ratios, inside, owners.numpy())
    return found


def _halves(units: int, models: int, seed: int) -> npt.NDArray[np.bool_]:
    """Whether each unit is in each model ``[models, units]``: in one of each two."""
    coins = np.random.default_rng(seed).random((models // 2, units)) < 0.5
    return np.stack([coins, ~coins], 1).reshape(models, units)


def _trained(graph: TextGraph, rows: Tensor, settings: Settings, seed: int) -> Fit:
    visible = None
    if settings.privacy is None:
        checked = rows_with_split(graph, VALIDATION)
        visible = graph.induced(torch.cat([rows, checked]))
    return fit(graph.induced(rows), settings, seeds=[seed], visible=visible)


def _answers(fitted: Fit, graph: TextGraph, pool: Tensor, rows: Tensor, mode: Mode) -> Array:
    """How sure the model is of each target's label; not a number where nothing is asked."""
    if mode != "full-graph":
        scores = scores_in_mode(fitted, graph, pool, mode)[:, 0]
        return surety(scores, graph.labels[pool])
    test = rows_with_split(graph, TEST)
    seen = graph.induced(torch.cat([rows, test]))
    asked = torch.arange(len(rows), len(seen))
    scores = torch.zeros(len(graph), graph.classes)
    scores[test] = scores_in_mode(fitted, seen, asked, mode)[:, 0].float()
    # Of every link between a target and a test document, the answer about the latter.
    place = torch.full((len(graph),), -1)
    place[pool] = torch.arange(len(pool))
    ends = torch.cat([graph.edges, graph.edges.flip(0)], 1)
    ends = ends[:, (place[ends[0]] >= 0) & (graph.split[ends[1]] == TEST)]
    sure = surety(scores[ends[1]], graph.labels[ends[0]])
    sums, counts = (
        np.bincount(place[ends[0]].numpy(), weights=w, minlength=len(pool))
        for w in (sure, np.ones_like(sure))
    )
    with np.errstate(invalid="ignore"):
        return np.asarray(sums / counts)


def surety(scores: Tensor, labels: Tensor) -> Array:
    """How sure a model is of labels: the logarithm of their odds, one for each row."""
    scores = scores.double()
    right = scores.gather(1, labels[:, None])[:, 0]
    others = scores.scatter(1, labels[:, None], -torch.inf).logsumexp(1)
    return (right - others).numpy()


def _ratios(answers: Array, inside: npt.NDArray[np.bool_]) -> Array:
    """Log likelihood ratios of each target in each model, by the other models.

    Few shadow models tell a mean, not a spread: that is taken over all targets.
    """
    logs = []
    for group in (inside, ~inside):
        known = np.where(group, answers, 0.0)
        pairs = known.reshape(-1, 2, known.shape[1]).sum(1)
        # Without the pair that is attacked: of either kind as many models are left.
        means = (known.sum(0) - np.repeat(pairs, 2, 0)) / (len(pairs) - 1)
        spread = max(float(np.nanstd((answers - known.sum(0) / len(pairs))[group])), 1e-9)
        logs.append(-0.5 * ((answers - means) / spread) ** 2 - np.log(spread))
    return np.asarray(logs[0] - logs[1])


def _by_person(
    ratios: Array, inside: npt.NDArray[np.bool_], owners: npt.NDArray[np.int64]
) -> Members:
    """Of each person the sum over the documents; nobody of whom nothing is known."""
    people = int(owners.max()) + 1
    first = np.zeros(people, dtype=np.int64)
    first[owners] = np.arange(len(owners))
    scores: tuple[list[float], list[float]] = ([], [])
    for row, there in zip(ratios, inside, strict=True):
        known = ~np.isnan(row)
        total = np.bincount(owners[known], weights=row[known], minlength=people)
        asked = np.bincount(owners[known], minlength=people) > 0
        scores[0].extend(total[asked & there[first]])
        scores[1].extend(total[asked & ~there[first]])
    return Members(np.array(scores[0]), np.array(scores[1]))
