"""How good predictions are, how far a score may be off, and what it must beat.

Documents without a label do not count. The interval of one run is what other test documents of
the same source, sampled one by one, would give. What noise and first weights do is seen by
training with several seeds (:func:`over_seeds`).
"""

from __future__ import annotations

import math
import statistics
import warnings
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from privgcn.config import MODES, Mode, Settings
from privgcn.data import TEST, TRAIN, VALIDATION
from privgcn.errors import PrivacyContractError
from privgcn.graph import DocumentGraph, scaled_rows
from privgcn.released import Released

Classes = NDArray[np.int64]
Interval = tuple[float, float]
Predict = Callable[[Classes, Mode], Classes]

HEADLINE = ("micro_f1", "macro_f1", "accuracy")
PROBABILITIES = ("log_loss", "calibration_error", "confidence")
# How often an interval holds the true value.
LEVEL = 0.95
# Regressions that a run without privacy is compared with, beside a GCN, and their hops.
HOPS = {"propagated regression": 2, "logistic regression": 0}
# Of the regressions, inverse to their regularisation; the validation documents choose.
_STRENGTHS = (1.0, 10.0, 100.0)
# Bins of confidence.
_BINS = 15
# The least probability that log loss counts: an answer with none would cost infinitely much.
_LEAST = 1e-15


def classification_scores(
    truth: Classes, predicted: Classes, classes: Sequence[str]
) -> dict[str, Any]:
    """Micro and macro F1, accuracy, its interval, a table per class, the confusion matrix.

    Macro F1 averages over the classes that occur among the labels or the predictions.
    """
    from sklearn.metrics import confusion_matrix, precision_recall_fscore_support

    known = truth >= 0
    truth, predicted = truth[known], predicted[known]
    if len(truth) == 0:
        nothing = {"documents": 0, "intervals": {}, "per_class": [], "confusion": []}
        return dict.fromkeys(HEADLINE) | nothing
    labels = np.arange(len(classes))
    rates = precision_recall_fscore_support(truth, predicted, labels=labels, zero_division=0.0)
    f1, support = rates[2:]
    confusion = confusion_matrix(truth, predicted, labels=labels)
    occurs = (support > 0) | (confusion.sum(axis=0) > 0)
    # With one label per document, micro F1 and accuracy are the same number.
    accuracy = float((truth == predicted).mean())
    fraction = list(wilson(int(np.trace(confusion)), len(truth)))
    columns = [list(classes), *(rate.tolist() for rate in rates)]
    names = ("class", "precision", "recall", "f1", "support")
    return {
        "micro_f1": accuracy,
        "macro_f1": float(f1[occurs].mean()),
        "accuracy": accuracy,
        "documents": len(truth),
        "intervals": {"micro_f1": fraction, "accuracy": fraction},
        "per_class": [dict(zip(names, row, strict=True)) for row in zip(*columns, strict=True)],
        "confusion": confusion.tolist(),
    }


def probability_scores(truth: Classes, probabilities: NDArray[np.float64]) -> dict[str, Any]:
    """Log loss, calibration error (Naeini et al. 2015) and mean confidence, and the bins.

    Confidence is the probability of the predicted class; the error is its mean distance from
    accuracy in 15 bins of equal width.
    """
    known = truth >= 0
    truth, probabilities = truth[known], probabilities[known]
    if len(truth) == 0:
        return {**dict.fromkeys(PROBABILITIES), "reliability": []}
    own = probabilities[np.arange(len(truth)), truth]
    confidence, right = probabilities.max(1), probabilities.argmax(1) == truth
    bins = np.minimum((confidence * _BINS).astype(np.int64), _BINS - 1)
    used, bins, counts = np.unique(bins, return_inverse=True, return_counts=True)
    sure, correct = (np.bincount(bins, values, len(used)) for values in (confidence, right))
    rows = zip(sure / counts, correct / counts, counts, strict=True)
    return {
        "log_loss": float(-np.log(np.maximum(own, _LEAST)).mean()),
        "calibration_error": float(np.abs(sure - correct).sum() / len(truth)),
        "confidence": float(confidence.mean()),
        "reliability": [
            {"confidence": float(mean), "accuracy": float(share), "documents": int(count)}
            for mean, share, count in rows
        ],
    }


def better_mode(truth: Classes, alone: Classes, own_graph: Classes) -> dict[str, Any]:
    """The covered mode that is right more often, ``alone`` of two equal ones.

    And how often chance would divide the documents as unequally (McNemar's exact test).
    """
    from scipy.stats import binomtest

    known = truth >= 0
    first, second = (each[known] == truth[known] for each in (alone, own_graph))
    only, other = int((first & ~second).sum()), int((second & ~first).sum())
    return {
        "mode": "own-graph" if other > only else "alone",
        "documents": len(first),
        "alone_only": only,
        "own_graph_only": other,
        "p_value": float(binomtest(only, only + other).pvalue) if only + other else 1.0,
    }


def wilson(right: float, documents: int) -> Interval:
    """The 95 % score interval of a fraction (Wilson, 1927), for accuracy and micro F1."""
    from scipy.stats import binomtest

    interval = binomtest(round(right), documents).proportion_ci(LEVEL, method="wilson")
    return float(interval.low), float(interval.high)


def over_seeds(values: Sequence[float], documents: int) -> dict[str, Any]:
    """Mean, sample standard deviation and interval of one score over several seeds.

    The interval is that of the mean: what the seeds leave open (Student's t) and what the test
    ``documents`` do, which all seeds share (as of a fraction; for macro F1 that is rough).
    """
    from scipy.stats import t

    mean = statistics.fmean(values)
    std = statistics.stdev(values) if len(values) > 1 else None
    of_seeds = 0.0
    if std is not None:
        of_seeds = float(t.ppf((1 + LEVEL) / 2, len(values) - 1)) * std / len(values) ** 0.5
    low, high = (
        mean + math.copysign(math.hypot(end - mean, of_seeds), side)
        for end, side in zip(wilson(mean * documents, documents), (-1, 1), strict=True)
    )
    ends = [max(0.0, low), min(1.0, high)]
    return {"values": list(values), "mean": mean, "std": std, "interval": ends}


def majority(truth: Classes, classes: int) -> Classes:
    """The most frequent class of the evaluated documents: of training ones it is private."""
    return np.full(len(truth), np.bincount(truth[truth >= 0], minlength=classes).argmax())


def references(
    graph: DocumentGraph, settings: Settings, released: Released | None = None
) -> dict[Mode, dict[str, Any]]:
    """Trains usual models without privacy; for each mode the validation documents choose one.

    Without any, the training documents do. The settings say how a network trains; ``released``
    is what the run trained already.

    Returns:
        For each mode the name of the ``best``, and the classes of the test documents as
        ``predicted`` by each.
    """
    if settings.privacy is not None:
        raise PrivacyContractError(
            "References train on the documents without noise, and no epsilon counts that."
        )
    train, validation, test = (
        np.flatnonzero(graph.split == code) for code in (TRAIN, VALIDATION, TEST)
    )
    choosing = validation if len(validation) else train
    right: dict[Mode, dict[str, int]] = {mode: {} for mode in MODES}
    predicted: dict[Mode, dict[str, Classes]] = {mode: {} for mode in MODES}
    for name, predict in _candidates(graph, settings, released):
        for mode, known in right.items():
            count = int((predict(choosing, mode) == graph.labels[choosing]).sum())
            # Of several strengths of a regression, the first of the best stays.
            if count > known.get(name, -1):
                known[name], predicted[mode][name] = count, predict(test, mode)
    best = {mode: max(known, key=known.__getitem__) for mode, known in right.items()}
    return {mode: {"best": best[mode], "predicted": predicted[mode]} for mode in MODES}


def _candidates(
    graph: DocumentGraph, settings: Settings, released: Released | None
) -> Iterator[tuple[str, Predict]]:
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.linear_model import LogisticRegression

    # These need PyTorch, which takes a second to import.
    from privgcn.inference import scores_in_mode
    from privgcn.sgd.train import train_plain

    chosen = settings.changed({"model.kind": "gcn"})
    train = graph.induced(np.flatnonzero(graph.split == TRAIN))
    if released is None or released.settings != chosen:
        visible = np.flatnonzero(np.isin(graph.split, (TRAIN, VALIDATION)))
        released = train_plain(train, graph.induced(visible), chosen)
    own = partial(scores_in_mode, released, graph)
    yield "gcn", lambda rows, mode: np.asarray(own(rows, mode).argmax(axis=1))
    known = train.labels >= 0
    if len(np.unique(train.labels[known])) < 2:
        return
    for name, hops in HOPS.items():
        rows = _propagated(train, hops)[known]
        for strength in _STRENGTHS:
            model = LogisticRegression(C=strength, tol=1e-3)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", ConvergenceWarning)
                model.fit(rows, train.labels[known])
            yield name, partial(_predicted, model, graph, hops)


def _predicted(
    model: Any, graph: DocumentGraph, hops: int, rows: Classes, mode: Mode
) -> Classes:
    if mode != "full-graph":
        graph, rows = graph.induced(rows), np.arange(len(rows))
    seen = _propagated(graph, 0 if mode == "alone" else hops)
    return np.asarray(model.predict(seen[rows]))


def _propagated(graph: DocumentGraph, hops: int) -> Any:
    values = scaled_rows(graph.features, "l2")
    for _ in range(hops):
        values = graph.propagation @ values
    return values
