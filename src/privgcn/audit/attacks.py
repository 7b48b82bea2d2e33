"""Attacks on released models, with and without privacy, in each inference mode.

The result is a record that is written, read and shown on a report.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, ValidationError
from scipy.sparse import issparse
from scipy.special import softmax

from privgcn import progress
from privgcn.audit.audit import Target
from privgcn.audit.bounds import FALSE_POSITIVES, Measured, auc, true_positives
from privgcn.audit.membership import Members, membership
from privgcn.config import MODES, Mode, Settings, make_settings
from privgcn.data import TRAIN
from privgcn.errors import ConfigError, DataError
from privgcn.files import read_bounded
from privgcn.graph import DocumentGraph
from privgcn.inference import scores_in_mode
from privgcn.mechanism.fixed_point import Floats
from privgcn.released import Released
from privgcn.runs.prepare import prepare
from privgcn.runs.train import fit

NO_MODEL = "no model"
"""Name of what can be told without any model, from texts alone."""

_LABEL = "label"
_MOST_BYTES = 1 << 20
# Pairs of each kind, at most.
_PAIRS = 4_000


class _Record(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)


class AttackRow(_Record):
    """One attack on one kind of model in one inference mode.

    Attributes:
        attack: What is attacked.
        model: ``without privacy``, the epsilon of a private model, or no model at all.
        inference: The mode in which predictions are given; ``None`` without a model.
        covered: Whether the guarantee covers this; false without one.
        positives: Targets of which the answer is yes.
        auc: Area under the curve, and its 95 % interval; 0.5 is chance.
        others: The same of documents that trained no model: what is no leak of training.
        tpr: True-positive rates at the false-positive rates of ``FALSE_POSITIVES``.
    """

    attack: Literal["document membership", "person membership", "edges", "column"]
    model: str
    inference: str | None
    covered: bool
    positives: int
    auc: Measured
    others: Measured | None
    tpr: tuple[Measured, ...]


class Attacks(_Record):
    """Everything that was tried on one corpus.

    Attributes:
        source: The documents.
        epsilon: Of the private models; ``None`` if none was attacked.
        unit: What they protect.
        shadows: Models of each kind that membership was told by.
        column: The column that was inferred, if any.
        rows: The attacks.
    """

    source: str
    epsilon: float | None
    unit: str | None
    shadows: int
    column: str | None
    rows: tuple[AttackRow, ...]


def read_attacks(path: Path) -> Attacks:
    """Reads what ``privgcn attack --out`` wrote.

    Raises:
        DataError: It is something else.
    """
    text = read_bounded(path, most=_MOST_BYTES)
    try:
        return Attacks.model_validate_json(text)
    except ValidationError:
        raise DataError(
            f"The file {path} holds no attacks. Write it with 'privgcn attack --out {path}'."
        ) from None


def attack(target: Target, *, shadows: int = 16, column: str | None = None) -> Attacks:
    """Attacks models that train as the target does, and models without privacy beside them.

    Args:
        target: A run, whose own model is asked about edges and the column, or a corpus.
        shadows: Models of each kind for membership: 16 of them take about a minute.
        column: A further column of the documents to infer, or ``label``.

    Raises:
        ConfigError: There is no such column.
    """
    corpus, given, graph = target.prepared.corpus, target.prepared.settings, target.graph
    # The last name is that of documents without a label.
    classes = np.asarray([*corpus.classes, ""], object)
    columns = {**corpus.columns, _LABEL: classes[corpus.labels]}
    if column is not None and column not in columns:
        known = ", ".join([_LABEL, *corpus.columns])
        raise ConfigError(f"The 'column' of an attack must be one of {known}. Got {column!r}.")
    connected = bool((graph.split[graph.edges] == TRAIN).all(0).any())
    # What a model without privacy takes over.
    shared = {
        "seed": given.seed,
        "data.source": given.data.source,
        "data.classes": given.data.classes,
        "features.kind": given.features.kind,
        "features.language": given.features.language,
        "features.options": given.features.options,
    }
    kinds = {"without privacy": make_settings("plain", changes=shared)}
    claim = None if given.privacy is None else target.claim
    if claim is not None:
        kinds[f"epsilon {claim:.3g}"] = given
    rows: list[AttackRow] = []
    for name, settings in kinds.items():
        own = settings is given
        progress.begin(f"{name}: {shadows} models for membership")
        plan = target.plan if own else None
        told = membership(graph, settings, plan, shadows=shadows, seed=settings.seed)
        rows += [
            # Of each pair of models, one had the target.
            _row(f"{kind} membership", name, mode, settings, scores, copies=shadows // 2)
            for (kind, mode), scores in told.items()
        ]
        progress.begin(f"{name}: edges and column")
        if own and target.run is not None:
            released = target.run.model().released
        else:
            released = fit(target.prepared if own else prepare(corpus, settings), graph)
        for mode in MODES:
            vectors = answers(released, graph, mode)
            if connected:
                rows.append(_row("edges", name, mode, settings, stolen_edges(graph, vectors)))
            if column is not None:
                scores, others = inferred_column(columns[column], graph, vectors)
                rows.append(_row("column", name, mode, settings, scores, others))
    if connected:
        texts = graph.features.toarray() if issparse(graph.features) else graph.features
        alike = stolen_edges(graph, np.asarray(texts, np.float64))
        rows.append(_row("edges", NO_MODEL, None, given, alike))
    return Attacks(
        source=corpus.name,
        epsilon=claim,
        unit=None if given.privacy is None else given.privacy.unit,
        shadows=shadows,
        column=column,
        rows=tuple(sorted(rows, key=lambda row: row.attack)),
    )


def _row(
    attack: Any,
    model: str,
    mode: Mode | None,
    settings: Settings,
    scores: Members,
    others: Members | None = None,
    *,
    copies: int = 1,
) -> AttackRow:
    return AttackRow(
        attack=attack,
        model=model,
        inference=mode,
        covered=mode is not None and settings.privacy is not None and MODES[mode].covered,
        positives=len(scores.inside),
        auc=auc(*scores, copies),
        tpr=tuple(true_positives(*scores, rate, copies) for rate in FALSE_POSITIVES),
        others=None if others is None else auc(*others),
    )


# -- edges and a private column, from predictions about training documents --------------------


def answers(released: Released, graph: DocumentGraph, mode: Mode) -> Floats:
    """Class probabilities of all documents, as a service in this mode would give them.

    Whoever asks knows documents but no edges. Only a ``full-graph`` service has the edges.
    """
    asked = np.arange(len(graph))
    if mode != "full-graph":
        graph = replace(graph, edges=graph.edges[:, :0])
    scores = scores_in_mode(released, graph, asked, mode)
    return np.asarray(softmax(scores.astype(np.float64), axis=1))


def stolen_edges(graph: DocumentGraph, vectors: Floats) -> Members:
    """Tells connected training documents from as many others by how alike their vectors are.

    He et al. (2021). Connected documents are alike anyway: compare with the vectors of their
    texts, which no model made.
    """
    random = np.random.default_rng(0)
    training = graph.split == TRAIN
    edges = graph.edges[:, training[graph.edges].all(0)]
    if edges.shape[1] > _PAIRS:
        edges = edges[:, random.permutation(edges.shape[1])[:_PAIRS]]
    shape = (2, 4 * edges.shape[1] + 16)
    apart = np.sort(random.choice(np.flatnonzero(training), shape), axis=0)
    known = np.isin(
        apart[0] * len(graph) + apart[1], graph.edges[0] * len(graph) + graph.edges[1]
    )
    apart = apart[:, (apart[0] != apart[1]) & ~known][:, : edges.shape[1]]
    # The cosine of two vectors, each less the mean of all.
    moved = vectors - vectors.mean(0)
    moved /= np.maximum(np.linalg.norm(moved, axis=1, keepdims=True), 1e-9)
    alike = ((moved[pairs[0]] * moved[pairs[1]]).sum(1) for pairs in (edges, apart))
    return Members(*alike)


def inferred_column(
    values: NDArray[np.object_], graph: DocumentGraph, vectors: Floats
) -> tuple[Members, Members]:
    """Guesses a column from vectors; the guesser learned from documents that did not train.

    Returns:
        For training documents, and for those that the guesser did not learn from either: true
        values and all others, scored. What can be told of documents that never trained is no
        leak of the training.
    """
    from sklearn.linear_model import LogisticRegression

    names, codes = np.unique(values.astype(str), return_inverse=True)
    training = graph.split == TRAIN
    outside = np.flatnonzero(~training)
    logs = np.log(np.clip(vectors, 1e-9, None))
    logs = (logs - logs[outside].mean(0)) / np.maximum(logs[outside].std(0), 1e-9)

    def scored(learned: NDArray[np.int64], asked: NDArray[np.int64]) -> Members:
        if len(np.unique(codes[learned])) < 2:
            raise ConfigError(
                "The column of an attack must have two values at least among documents that "
                "do not train: whoever guesses it learns from them. Choose another column."
            )
        guesser = LogisticRegression(max_iter=200).fit(logs[learned], codes[learned])
        table = np.full((len(asked), len(names)), -50.0)
        prior = np.log(np.bincount(codes[learned], minlength=len(names)) / len(learned) + 1e-9)
        guessed = guesser.predict_log_proba(logs[asked])
        table[:, guesser.classes_] = np.maximum(guessed - prior[guesser.classes_], -50.0)
        true = codes[asked][:, None] == np.arange(len(names))
        return Members(table[true], table[~true])

    # Every second document of each value.
    half = np.zeros(len(outside), dtype=bool)
    half[np.argsort(codes[outside], kind="stable")[::2]] = True
    if graph.owners is not None:
        # No person is on both sides: their documents would tell of each other.
        half = graph.owners[outside] % 2 == 0
    return (
        scored(outside, np.flatnonzero(training)),
        scored(outside[half], outside[~half]),
    )
