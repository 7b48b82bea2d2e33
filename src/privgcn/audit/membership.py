"""Membership: was this document, or this person, in the training data?

The likelihood ratio attack of Carlini et al. (2022). Pairs of models train on random halves of
the training documents, so that each unit is in one model of each pair. Each model in turn is
the target; the other pairs are its shadow models and say how the target would answer about a
unit if it had, or had not, trained on it.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import logsumexp

from privgcn.audit.canaries import plan_like
from privgcn.audit.observe import trained
from privgcn.config import MODES, Mode, Settings
from privgcn.data import TEST, TRAIN, VALIDATION
from privgcn.errors import ConfigError
from privgcn.graph import DocumentGraph
from privgcn.inference import scores_in_mode
from privgcn.mechanism import Groups, RandomSource, Session
from privgcn.mechanism.fixed_point import Floats
from privgcn.privacy.plan import PrivacyPlan
from privgcn.released import Released

_FEWEST = 4


class Members(NamedTuple):
    """Scores of an attack on members and on others; larger for likelier members."""

    inside: Floats
    outside: Floats


def membership(
    graph: DocumentGraph,
    settings: Settings,
    plan: PrivacyPlan | None,
    *,
    shadows: int,
    seed: int = 0,
) -> dict[tuple[str, Mode], Members]:
    """Attacks every model by the others, in each inference mode.

    A ``full-graph`` service is asked about the test documents that a target has edges to: its
    predictions about them depend on the target's text. In the other modes the target itself
    is asked about, in ``own-graph`` together with all others and the edges among them.

    Args:
        graph: All documents with their split.
        settings: Of the models.
        plan: Of a model of all training documents, whose noise the others have too; ``None``
            without privacy.
        shadows: How many models; an even number.
        seed: Of the halves.

    Returns:
        Scores for ``document`` and, where documents have owners, ``person``, by mode.
    """
    if shadows < _FEWEST or shadows % 2:
        raise ConfigError(
            f"The 'shadows' of an attack must be even and at least {_FEWEST}. Got {shadows}."
        )
    pool = np.flatnonzero((graph.split == TRAIN) & (graph.labels >= 0))
    document = owner = np.arange(len(pool))
    if graph.owners is not None:
        owner = np.unique(graph.owners[pool], return_inverse=True)[1]
    inside = _halves(int(owner.max()) + 1, shadows, seed)
    answers: dict[Mode, list[Floats]] = {mode: [] for mode in MODES}
    for number, chosen in enumerate(inside[:, owner]):
        rows = pool[chosen]
        own = settings.changed({"seed": seed + number})
        released = trained_on(graph, rows, own, plan)
        for mode in MODES:
            answers[mode].append(_answers(released, graph, pool, rows, mode))
    attacked: dict[tuple[str, Mode], Members] = {}
    for mode, each in answers.items():
        ratios = _ratios(np.stack(each), inside[:, owner])
        if not np.isnan(ratios).all():
            attacked["document", mode] = _members(ratios, document, inside[:, owner])
            if graph.owners is not None:
                attacked["person", mode] = _members(ratios, owner, inside)
    return attacked


def trained_on(
    graph: DocumentGraph,
    rows: NDArray[np.int64],
    settings: Settings,
    plan: PrivacyPlan | None,
) -> Released:
    """A model of some training documents: with the noise of ``plan``, or without privacy."""
    train = graph.induced(rows)
    if plan is None:
        from privgcn.sgd.train import train_plain

        checked = np.flatnonzero(graph.split == VALIDATION)
        return train_plain(train, graph.induced(np.concatenate([rows, checked])), settings)
    units = len(rows)
    if plan.unit == "person" and train.owners is not None:
        units = len(np.unique(train.owners))
    each = plan.partition.kind == "each"
    fewer = plan_like(plan, units, units if each else plan.partition.groups)
    session = Session(fewer, Groups.of_plan(fewer, train), RandomSource.secret())
    return trained(session, settings)


def _halves(units: int, models: int, seed: int) -> NDArray[np.bool_]:
    """Whether each unit is in each model ``[models, units]``: in one of each two."""
    coins = np.random.default_rng(seed).random((models // 2, units)) < 0.5
    return np.stack([coins, ~coins], 1).reshape(models, units)


def _answers(
    released: Released,
    graph: DocumentGraph,
    pool: NDArray[np.int64],
    rows: NDArray[np.int64],
    mode: Mode,
) -> Floats:
    """How sure the model is of each target's label; not a number where nothing is asked."""
    if mode != "full-graph":
        return sureness(scores_in_mode(released, graph, pool, mode), graph.labels[pool])
    test = np.flatnonzero(graph.split == TEST)
    served = graph.induced(np.concatenate([rows, test]))
    asked = np.arange(len(rows), len(served))
    scores = np.zeros((len(graph), graph.classes))
    scores[test] = scores_in_mode(released, served, asked, mode)
    # Of every edge between a target and a test document, the answer about the latter.
    position = np.full(len(graph), -1)
    position[pool] = np.arange(len(pool))
    ends = np.concatenate([graph.edges, graph.edges[::-1]], axis=1)
    ends = ends[:, (position[ends[0]] >= 0) & (graph.split[ends[1]] == TEST)]
    sure = sureness(scores[ends[1]], graph.labels[ends[0]])
    sums, counts = (
        np.bincount(position[ends[0]], weights=w, minlength=len(pool))
        for w in (sure, np.ones_like(sure))
    )
    with np.errstate(invalid="ignore"):
        return np.asarray(sums / counts)


def _ratios(answers: Floats, inside: NDArray[np.bool_]) -> Floats:
    """Log likelihood ratios of each target in each model, by the other models.

    Few shadow models tell a mean, not a spread: that is taken over all targets.
    """
    logs = []
    for group in (inside, ~inside):
        known = np.where(group, answers, 0.0)
        pairs = known.reshape(-1, 2, known.shape[1]).sum(1)
        # Without the pair that is attacked: of either kind as many models are left.
        means = (known.sum(0) - np.repeat(pairs, 2, 0)) / (len(pairs) - 1)
        rest = (answers - known.sum(0) / len(pairs))[group]
        spread = 1e-9 if np.isnan(rest).all() else max(float(np.nanstd(rest)), 1e-9)
        logs.append(-0.5 * ((answers - means) / spread) ** 2 - np.log(spread))
    return np.asarray(logs[0] - logs[1])


def _members(ratios: Floats, unit: NDArray[np.int64], inside: NDArray[np.bool_]) -> Members:
    """Of each unit the sum over its documents; nothing where none of them was asked about."""
    sums, asked = np.zeros((2, *inside.T.shape))
    np.add.at(sums, unit, np.nan_to_num(ratios.T))
    np.add.at(asked, unit, ~np.isnan(ratios.T))
    return Members(sums[(asked > 0) & inside.T], sums[(asked > 0) & ~inside.T])


def sureness(scores: NDArray[Any], labels: NDArray[np.int64]) -> Floats:
    """How sure a model is of labels: the logarithm of their odds, one for each row."""
    rows, own = np.arange(len(labels)), scores.astype(np.float64)
    right = own[rows, labels]
    own[rows, labels] = -np.inf
    return np.asarray(right - logsumexp(own, axis=1))
