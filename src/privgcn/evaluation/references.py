"""The best score without privacy: what a private model is compared with.

Four usual models are trained on the training documents without noise. In each inference mode
the one that does best on the validation documents is the reference; test documents have no say.

They train on the documents as they are. So a private run has no references: they would be
further releases, at a cost that its epsilon does not count.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from privgcn.config import MODES, Mode, Settings
from privgcn.data.corpus import TEST, TRAIN, VALIDATION
from privgcn.errors import PrivacyContractError
from privgcn.graph.on_disk import in_memory, sparse_in_memory
from privgcn.graph.rows import normalised
from privgcn.graph.sparse_rows import SparseRows
from privgcn.graph.textgraph import TextGraph
from privgcn.prediction.inference import scores_in_mode
from privgcn.training.fit import fit
from privgcn.training.fitted import Fit

Classes = npt.NDArray[np.int64]
Predict = Callable[[TextGraph, Tensor, Mode], Classes]

REFERENCES = ("gcn", "propagated regression", "mlp", "logistic regression")
_HOPS = {"logistic regression": 0, "propagated regression": 2}
STRENGTHS = (1.0, 10.0, 100.0)
_ITERATIONS = 100
# Stored values times classes from which on one strength must do: a fit takes a minute there.
_MUCH = 200_000_000
# Where there are no validation documents, so many training documents take their place.
_HELD_BACK = 0.2


@dataclass(frozen=True, eq=False)
class Reference:
    """Non-private models in one inference mode.

    Attributes:
        best: Which of them did best on the validation documents.
        validation: Accuracy of each on the validation documents.
        predicted: Classes of the test documents, by each.
    """

    best: str
    validation: dict[str, float]
    predicted: dict[str, Classes]


def references(
    graph: TextGraph,
    settings: Settings,
    *,
    fitted: Fit | None = None,
    among: Sequence[str] = REFERENCES,
    modes: Iterable[Mode] = tuple(MODES),
    strengths: Sequence[float] = STRENGTHS,
) -> dict[Mode, Reference]:
    """Trains the models without privacy and chooses the best for each inference mode.

    Args:
        graph: All documents, with their split.
        settings: Of a non-private run; they say how a network trains.
        fitted: What this run trained on the documents already.
        among: Which models.
        modes: Which inference modes.
        strengths: Of the regressions, inverse to their regularisation; for each mode the
            validation documents choose.

    Raises:
        PrivacyContractError: The settings are those of a private run.
    """
    if settings.privacy is not None:
        raise PrivacyContractError(
            "References train on the documents without noise, and no epsilon counts that. "
            "Got private settings. Compare with a run without --epsilon, on public documents."
        )
    if not bool((graph.split == VALIDATION).any()):
        graph, fitted = _with_validation(graph, settings.seed), None
    candidates: dict[str, list[Predict]] = {}
    for name in among:
        if name in _HOPS:
            candidates[name] = _regressions(graph, _HOPS[name], strengths)
        else:
            candidates[name] = [_network(graph, settings.changed({"model.kind": name}), fitted)]
    return {mode: _chosen(graph, mode, candidates) for mode in modes}


def _chosen(graph: TextGraph, mode: Mode, candidates: dict[str, list[Predict]]) -> Reference:
    validation, test = _rows(graph, VALIDATION), _rows(graph, TEST)
    truth = graph.labels[validation].numpy()
    known = truth >= 0
    scores, predicted = {}, {}
    for name, each in candidates.items():
        found = [predict(graph, validation, mode)[known] == truth[known] for predict in each]
        right = [float(one.mean()) if one.size else 0.0 for one in found]
        best = int(np.argmax(right))
        scores[name], predicted[name] = right[best], each[best](graph, test, mode)
    return Reference(max(scores, key=scores.__getitem__), scores, predicted)


def _network(graph: TextGraph, settings: Settings, fitted: Fit | None) -> Predict:
    if fitted is None or fitted.settings != settings:
        visible = graph.induced(_rows(graph, TRAIN, VALIDATION))
        fitted = fit(graph.induced(_rows(graph, TRAIN)), settings, visible=visible)
    trained = fitted

    def predict(graph: TextGraph, rows: Tensor, mode: Mode) -> Classes:
        if len(rows) == 0:
            return np.empty(0, dtype=np.int64)
        return np.asarray(scores_in_mode(trained, graph, rows, mode)[:, 0].argmax(-1).numpy())

    return predict


def _regressions(graph: TextGraph, hops: int, strengths: Sequence[float]) -> list[Predict]:
    """Logistic regression, of several strengths, on features that travelled some hops."""
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.linear_model import LogisticRegression

    train = graph.induced(_rows(graph, TRAIN))
    labels = train.labels.numpy()
    rows, known = _propagated(train, hops), labels >= 0
    if len(np.unique(labels[known])) < 2:
        only = int(labels[known].max(initial=0))
        return [lambda graph, rows, mode: np.full(len(rows), only, dtype=np.int64)]
    if rows.size * graph.classes > _MUCH:
        strengths = strengths[len(strengths) // 2 :][:1]
    models = []
    for strength in strengths:
        model = LogisticRegression(C=strength, max_iter=_ITERATIONS, tol=1e-3)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            models.append(model.fit(rows[known], labels[known]))

    def prediction(model: Any) -> Predict:
        def predict(graph: TextGraph, rows: Tensor, mode: Mode) -> Classes:
            if len(rows) == 0:
                return np.empty(0, dtype=np.int64)
            if mode != "full-graph":
                graph, rows = graph.induced(rows), torch.arange(len(rows))
            seen = _propagated(graph, 0 if mode == "alone" else hops)
            return np.asarray(model.predict(seen[rows.numpy()]))

        return predict

    return [prediction(model) for model in models]


def _propagated(graph: TextGraph, hops: int) -> Any:
    """Rows of unit length that travelled along the links."""
    rows = in_memory(normalised(graph.features, "l2"))
    values = rows.to_scipy() if isinstance(rows, SparseRows) else rows.dense().numpy()
    for _ in range(hops):
        values = sparse_in_memory(graph.propagation()).to_scipy() @ values
    return values


def _with_validation(graph: TextGraph, seed: int) -> TextGraph:
    """A random part of the training documents takes the place of validation documents."""
    rows = _rows(graph, TRAIN)
    order = np.random.default_rng(seed).permutation(len(rows))
    split = graph.split.clone()
    split[rows[order[: int(_HELD_BACK * len(rows))]]] = VALIDATION
    return replace(graph, split=split)


def _rows(graph: TextGraph, *codes: int) -> Tensor:
    return torch.nonzero(torch.isin(graph.split, torch.tensor(codes, dtype=torch.int8)))[:, 0]
