"""Attacks on released models, with and without privacy, in each inference mode.

*Membership*: was this document, or this person, in the training data? The likelihood ratio
attack of Carlini et al. (2022). Pairs of models train on random halves of the training
documents. Each model in turn is the target; the other pairs, its shadow models, say how it
would answer about a unit if it had, or had not, trained on it.

*Edges*: are two training documents connected? Whoever asks knows documents but no edges.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, ValidationError
from scipy.sparse import issparse
from scipy.special import logsumexp, softmax

from privgcn import progress
from privgcn.audit.audit import Target, trained
from privgcn.audit.bounds import FALSE_POSITIVES, Measured, auc, true_positives
from privgcn.audit.canaries import plan_like
from privgcn.config import MODES, Mode, Settings, make_settings
from privgcn.data import TRAIN, VALIDATION
from privgcn.errors import ConfigError, DataError
from privgcn.files import read_bounded
from privgcn.graph import DocumentGraph
from privgcn.inference import scores_in_mode
from privgcn.mechanism import Groups, RandomSource, Session
from privgcn.mechanism.fixed_point import Floats
from privgcn.privacy.plan import PrivacyPlan
from privgcn.privacy.wording import round_up
from privgcn.released import Released
from privgcn.runs.prepare import prepare
from privgcn.runs.train import fit

# Names of a model without privacy, and of what texts alone tell without any model.
NO_PRIVACY, NO_MODEL = "without privacy", "no model"
_MOST_BYTES = 1 << 20
# Pairs of each kind, at most, and shadow models, at least.
_PAIRS, _FEWEST = 4_000, 4


class Members(NamedTuple):
    """Scores of members and of others; larger for likelier members."""

    inside: Floats
    outside: Floats


class AttackRow(BaseModel, frozen=True, extra="forbid", allow_inf_nan=False):
    """One attack on one kind of model in one inference mode, with 95 % intervals.

    ``tpr`` has one rate for each of ``FALSE_POSITIVES``. What texts tell without any model has
    no ``inference`` mode.
    """

    attack: Literal["document membership", "person membership", "edges"]
    model: str
    inference: str | None
    covered: bool
    auc: Measured
    tpr: tuple[Measured, ...]


class Attacks(BaseModel, frozen=True, extra="forbid"):
    """Everything that was tried on one corpus."""

    source: str
    shadows: int
    rows: tuple[AttackRow, ...]


def read_attacks(path: Path) -> Attacks:
    """Reads what ``privgcn attack --out`` wrote."""
    try:
        return Attacks.model_validate_json(read_bounded(path, most=_MOST_BYTES))
    except ValidationError:
        raise DataError(
            f"The file {path} holds no attacks. Write it with 'privgcn attack --out {path}'."
        ) from None


def attack(target: Target, *, shadows: int = 16) -> Attacks:
    """Attacks models that train as the target does, and models without privacy beside them."""
    corpus, given, graph = target.prepared.corpus, target.prepared.settings, target.graph
    connected = bool((graph.split[graph.edges] == TRAIN).all(0).any())
    shared = {"seed": given.seed, "data": given.data, "features": given.features}
    kinds = {NO_PRIVACY: make_settings("plain").model_copy(update=shared)}
    if given.privacy is not None:
        kinds[f"epsilon {round_up(target.claim, 3)}"] = given
    rows: list[AttackRow] = []

    def add(attack: Any, model: str, mode: Mode | None, scores: Members, copies: int) -> None:
        private = model not in (NO_PRIVACY, NO_MODEL)
        covered = private and mode is not None and MODES[mode].covered
        tpr = tuple(true_positives(*scores, rate, copies) for rate in FALSE_POSITIVES)
        row = {"attack": attack, "model": model, "inference": mode, "covered": covered}
        rows.append(AttackRow(**row, auc=auc(*scores, copies), tpr=tpr))

    for name, settings in kinds.items():
        own = settings is given
        progress.begin(f"{name}: {shadows} models for membership")
        told = membership(graph, settings, target.plan if own else None, shadows=shadows)
        for (kind, mode), members in told.items():
            # Of each pair of models, one had the target.
            add(f"{kind} membership", name, mode, members, shadows // 2)
        if connected:
            progress.begin(f"{name}: edges")
            released = target.released if own else fit(prepare(corpus, settings), graph)
            for mode in MODES:
                vectors = answers(released, graph, mode)
                add("edges", name, mode, stolen_edges(graph, vectors), 1)
    if connected:
        texts = graph.features.toarray() if issparse(graph.features) else graph.features
        add("edges", NO_MODEL, None, stolen_edges(graph, texts), 1)
    ordered = tuple(sorted(rows, key=lambda row: row.attack))
    return Attacks(source=corpus.name, shadows=shadows, rows=ordered)


def membership(
    graph: DocumentGraph, settings: Settings, plan: PrivacyPlan | None, *, shadows: int
) -> dict[tuple[str, Mode], Members]:
    """Attacks every model by the others: scores of documents and of persons, by covered mode.

    A model is asked about the targets, in ``own-graph`` about all together. The ``shadows``
    models, an even number, have the noise of ``plan``, or none.
    """
    if shadows < _FEWEST or shadows % 2:
        raise ConfigError(
            f"The 'shadows' of an attack must be even and at least {_FEWEST}. Got {shadows}."
        )
    pool = np.flatnonzero((graph.split == TRAIN) & (graph.labels >= 0))
    owner = np.arange(len(pool))
    if graph.owners is not None:
        owner = np.unique(graph.owners[pool], return_inverse=True)[1]
    # Whether each unit is in each model: in one of each two.
    random = np.random.default_rng(settings.seed)
    coins = random.random((shadows // 2, int(owner.max()) + 1)) < 0.5
    inside = np.stack([coins, ~coins], 1).reshape(shadows, -1)
    covered = [mode for mode, facts in MODES.items() if facts.covered]
    answers = {mode: np.zeros((shadows, len(pool))) for mode in covered}
    for number, chosen in enumerate(inside[:, owner]):
        own = settings.changed({"seed": settings.seed + number})
        released = trained_on(graph, pool[chosen], own, plan)
        for mode, known in answers.items():
            scores = scores_in_mode(released, graph, pool, mode)
            known[number] = sureness(scores, graph.labels[pool])
    attacked: dict[tuple[str, Mode], Members] = {}
    for mode, known in answers.items():
        there = inside[:, owner]
        ratios = _ratios(known, there)
        attacked["document", mode] = Members(ratios[there], ratios[~there])
        if graph.owners is not None:
            sums = np.zeros(inside.T.shape)
            np.add.at(sums, owner, ratios.T)
            attacked["person", mode] = Members(sums.T[inside], sums.T[~inside])
    return attacked


def trained_on(
    graph: DocumentGraph, rows: NDArray[np.int64], settings: Settings, plan: PrivacyPlan | None
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


def _ratios(answers: Floats, inside: NDArray[np.bool_]) -> Floats:
    # Log likelihood ratios of each target in each model, by the other models. Few of them tell
    # a mean, not a spread: that is taken over all targets.
    logs = []
    for group in (inside, ~inside):
        known = np.where(group, answers, 0.0)
        pairs = known.reshape(-1, 2, known.shape[1]).sum(1)
        # Without the pair that is attacked: of either kind as many models are left.
        means = (known.sum(0) - np.repeat(pairs, 2, 0)) / (len(pairs) - 1)
        rest = (answers - known.sum(0) / len(pairs))[group]
        spread = max(float(rest.std()), 1e-9)
        logs.append(-0.5 * ((answers - means) / spread) ** 2 - np.log(spread))
    return np.asarray(logs[0] - logs[1])


def sureness(scores: NDArray[Any], labels: NDArray[np.int64]) -> Floats:
    """How sure a model is of labels: the logarithm of their odds, one for each row."""
    rows, own = np.arange(len(labels)), scores.astype(np.float64)
    right = own[rows, labels]
    own[rows, labels] = -np.inf
    return np.asarray(right - logsumexp(own, axis=1))


def answers(released: Released, graph: DocumentGraph, mode: Mode) -> Floats:
    """Class probabilities of all documents; only a ``full-graph`` service has the edges."""
    if mode != "full-graph":
        graph = replace(graph, edges=graph.edges[:, :0])
    scores = scores_in_mode(released, graph, np.arange(len(graph)), mode)
    return np.asarray(softmax(scores.astype(np.float64), axis=1))


def stolen_edges(graph: DocumentGraph, vectors: Floats) -> Members:
    """Tells connected training documents from others by their vectors (He et al. 2021)."""
    random = np.random.default_rng(0)
    training = graph.split == TRAIN
    edges = graph.edges[:, training[graph.edges].all(0)]
    edges = edges[:, random.permutation(edges.shape[1])[:_PAIRS]]
    shape = (2, 4 * edges.shape[1] + 16)
    apart = np.sort(random.choice(np.flatnonzero(training), shape), axis=0)
    known = np.isin(*(pairs[0] * len(graph) + pairs[1] for pairs in (apart, graph.edges)))
    apart = apart[:, (apart[0] != apart[1]) & ~known][:, : edges.shape[1]]
    # The cosine of two vectors, each less the mean of all.
    moved = vectors - vectors.mean(0, dtype=np.float64)
    moved /= np.maximum(np.linalg.norm(moved, axis=1, keepdims=True), 1e-9)
    return Members(*((moved[a] * moved[b]).sum(1) for a, b in (edges, apart)))
