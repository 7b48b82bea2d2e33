"""Attacks on released models, with and without privacy, in each inference mode.

The result is a record that is written, read and shown on a report.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
from pydantic import BaseModel, ConfigDict, ValidationError
from scipy.sparse import issparse
from scipy.special import softmax

from privgcn import progress
from privgcn.audit.audit import Target
from privgcn.audit.bounds import FALSE_POSITIVES, Measured, auc, true_positives
from privgcn.audit.membership import Members, membership
from privgcn.config import MODES, Mode, Settings, make_settings
from privgcn.data import TRAIN
from privgcn.errors import DataError
from privgcn.files import read_bounded
from privgcn.graph import DocumentGraph
from privgcn.inference import scores_in_mode
from privgcn.mechanism.fixed_point import Floats
from privgcn.released import Released
from privgcn.runs.prepare import prepare
from privgcn.runs.train import fit

NO_MODEL = "no model"
"""Name of what can be told without any model, from texts alone."""

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
        tpr: True-positive rates at the false-positive rates of ``FALSE_POSITIVES``.
    """

    attack: Literal["document membership", "person membership", "edges"]
    model: str
    inference: str | None
    covered: bool
    positives: int
    auc: Measured
    tpr: tuple[Measured, ...]


class Attacks(_Record):
    """Everything that was tried on one corpus.

    Attributes:
        source: The documents.
        epsilon: Of the private models; ``None`` if none was attacked.
        unit: What they protect.
        shadows: Models of each kind that membership was told by.
        rows: The attacks.
    """

    source: str
    epsilon: float | None
    unit: str | None
    shadows: int
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


def attack(target: Target, *, shadows: int = 16) -> Attacks:
    """Attacks models that train as the target does, and models without privacy beside them.

    Args:
        target: A run, whose own model is asked about edges, or a corpus.
        shadows: Models of each kind for membership: 16 of them take about a minute.
    """
    corpus, given, graph = target.prepared.corpus, target.prepared.settings, target.graph
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
        scores = membership(graph, settings, plan, shadows=shadows, seed=settings.seed)
        rows += [
            # Of each pair of models, one had the target.
            _row(f"{kind} membership", name, mode, settings, members, copies=shadows // 2)
            for (kind, mode), members in scores.items()
        ]
        if connected:
            progress.begin(f"{name}: edges")
            same = own or (given.privacy is None and target.run is not None)
            released = target.released if same else fit(prepare(corpus, settings), graph)
            rows += [
                _row(
                    "edges", name, m, settings, stolen_edges(graph, answers(released, graph, m))
                )
                for m in MODES
            ]
    if connected:
        texts = graph.features.toarray() if issparse(graph.features) else graph.features
        alike = stolen_edges(graph, np.asarray(texts, np.float64))
        rows.append(_row("edges", NO_MODEL, None, given, alike))
    return Attacks(
        source=corpus.name,
        epsilon=claim,
        unit=None if given.privacy is None else given.privacy.unit,
        shadows=shadows,
        rows=tuple(sorted(rows, key=lambda row: row.attack)),
    )


def _row(
    attack: Any,
    model: str,
    mode: Mode | None,
    settings: Settings,
    scores: Members,
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
    )


# -- edges, from predictions about training documents --------------------


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
