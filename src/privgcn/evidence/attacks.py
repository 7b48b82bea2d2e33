"""Attacks on released models, with and without privacy, in each inference mode."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from privgcn.config import MODES, Mode, Settings, make_settings
from privgcn.errors import ConfigError
from privgcn.evidence.attack_record import NO_MODEL, AttackRow, Attacks
from privgcn.evidence.inference_attacks import answers, inferred_column, stolen_links
from privgcn.evidence.membership import Members, membership
from privgcn.evidence.roc import FALSE_POSITIVES, auc, true_positives
from privgcn.evidence.subject import Subject

_LABEL = "label"


def attack(
    subject: Subject,
    *,
    shadows: int = 16,
    column: str | None = None,
    progress: Callable[[str], None] | None = None,
) -> Attacks:
    """Attacks models that train as the subject does, and models without privacy beside them.

    Args:
        subject: A run, whose own model is asked about links and the column, or a corpus.
        shadows: Models of each kind for membership: 16 of them take about a minute.
        column: A further column of the documents to infer, or ``label``.
        progress: Called with what comes next.

    Raises:
        ConfigError: There is no such column.
    """
    values = None if column is None else _column(subject, column)
    plain = make_settings("plain", changes=_shared(subject.settings))
    kinds: dict[str, Settings] = {"without privacy": plain}
    privacy = subject.settings.privacy
    claim = None if privacy is None else subject.claim
    if claim is not None:
        kinds[f"epsilon {claim:.3g}"] = subject.settings
    rows: list[AttackRow] = []
    for name, settings in kinds.items():
        target = subject if settings is subject.settings else subject.with_settings(settings)
        graph = target.ready.graph
        if progress is not None:
            progress(f"{name}: {shadows} models for membership")
        told = membership(graph, settings, shadows=shadows, seed=settings.seed)
        rows += [
            # Of each pair of models, one had the target.
            _row(f"{kind} membership", name, mode, settings, found, copies=shadows // 2)
            for (kind, mode), found in told.items()
        ]
        if progress is not None:
            progress(f"{name}: links and column")
        own = None if target.run is None else target.run.model.fitted
        fitted = target.ready.fit(settings) if own is None else own
        for mode in MODES:
            vectors = answers(fitted, graph, mode)
            rows.append(_row("links", name, mode, settings, stolen_links(graph, vectors)))
            if values is not None:
                found, others = inferred_column(values, graph, vectors)
                rows.append(_row("column", name, mode, settings, found, others))
    graph = subject.ready.graph
    alike = stolen_links(graph, graph.features.dense().double().numpy())
    rows.append(_row("links", NO_MODEL, None, subject.settings, alike))
    return Attacks(
        source=subject.corpus.name,
        epsilon=claim,
        unit=None if privacy is None else privacy.unit,
        shadows=shadows,
        column=column,
        rows=tuple(sorted(rows, key=lambda row: row.attack)),
    )


def _row(
    attack: str,
    model: str,
    mode: Mode | None,
    settings: Settings,
    found: Members,
    others: Members | None = None,
    *,
    copies: int = 1,
) -> AttackRow:
    return AttackRow(
        attack=attack,
        model=model,
        inference=mode,
        covered=mode is not None and settings.privacy is not None and MODES[mode].covered,
        positives=len(found.inside),
        auc=auc(*found, copies),
        tpr=tuple(true_positives(*found, rate, copies) for rate in FALSE_POSITIVES),
        others=None if others is None else auc(*others),
    )


def _shared(settings: Settings) -> dict[str, Any]:
    """What a model without privacy takes over: documents and the kind of features."""
    return {
        "seed": settings.seed,
        "data.source": settings.data.source,
        "data.classes": settings.data.classes,
        "features.kind": settings.features.kind,
        "features.language": settings.features.language,
        "features.options": settings.features.options,
    }


def _column(subject: Subject, name: str) -> Any:
    corpus = subject.corpus
    if name == _LABEL:
        return np.asarray(corpus.classes, dtype=object)[corpus.labels]
    if name not in corpus.columns:
        known = ", ".join([_LABEL, *corpus.columns])
        raise ConfigError(f"The 'column' of an attack must be one of {known}. Got {name!r}.")
    return np.asarray(corpus.columns[name])
