"""Attacks on released models, with and without privacy, in each inference mode.

The result is a record that is written, read and shown on a report.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

import numpy as np
from pydantic import BaseModel, ConfigDict, ValidationError
from scipy.sparse import issparse

from privgcn import progress
from privgcn.audit.audit import Target
from privgcn.audit.bounds import FALSE_POSITIVES, Measured, auc, true_positives
from privgcn.audit.inference import answers, inferred_column, stolen_edges
from privgcn.audit.membership import Members, membership
from privgcn.config import MODES, Mode, Settings, make_settings
from privgcn.data import TRAIN
from privgcn.errors import ConfigError, DataError
from privgcn.files import read_bounded
from privgcn.runs.prepare import prepare
from privgcn.runs.train import fit

NO_MODEL = "no model"
"""Name of what can be told without any model, from texts alone."""

_LABEL = "label"
_MOST_BYTES = 1 << 20


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
    columns = {**corpus.columns, _LABEL: np.asarray(corpus.classes, object)[corpus.labels]}
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
