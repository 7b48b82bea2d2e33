"""How good predictions are, how far a score may be off, and what it must beat.

    accuracy, micro F1, macro F1   by scikit-learn; documents without a label do not count
    log loss, calibration error    of probabilities: 15 bins of equal width
    a mode against another         McNemar's exact test of paired answers
    intervals                      95 %: Wilson's of a fraction, a bootstrap of macro F1
    baselines                      know nothing of training: majority, uniform
    references                     the best score without privacy, for non-private runs

The interval of one run answers for the test documents: it is what other test documents of the
same source would give. It takes documents to be sampled one by one, and it knows nothing of the
noise and the first weights; what these do is seen by training with several seeds
(:func:`over_seeds`).

Examples:
    >>> import numpy as np
    >>> scores = classification_scores(np.array([0, 0, 1, -1]), np.array([0, 1, 1, 0]), "ab")
    >>> round(scores["accuracy"], 3), scores["confusion"]
    (0.667, [[1, 1], [0, 1]])
"""

from __future__ import annotations

import math
import statistics
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
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

LEVEL = 0.95
"""How often an interval holds the true value."""

HOPS = {"propagated regression": 2, "logistic regression": 0}
"""Regressions that a run without privacy is compared with, beside a GCN, and their hops."""

STRENGTHS = (1.0, 10.0, 100.0)
"""Of the regressions, inverse to their regularisation; the validation documents choose."""

_BINS = 15
# The least probability that log loss counts: an answer with none would cost infinitely much.
_LEAST = 1e-15
_NORMAL = statistics.NormalDist().inv_cdf((1 + LEVEL) / 2)
_RESAMPLED = 1000
_ITERATIONS = 100
# Stored values times classes from which on one strength must do: a fit takes a minute there.
_MUCH = 200_000_000
# Where there are no validation documents, so many training documents take their place.
_HELD_BACK = 0.2


def classification_scores(
    truth: Classes, predicted: Classes, classes: Sequence[str]
) -> dict[str, Any]:
    """Micro and macro F1, accuracy, their intervals, a table per class, the confusion matrix.

    Documents without a label do not count. Macro F1 averages over the classes that occur
    among the labels or the predictions.

    Args:
        truth: Class index of each document, -1 for none.
        predicted: Predicted class index of each document.
        classes: Names of the classes.
    """
    from sklearn.metrics import confusion_matrix, precision_recall_fscore_support

    known = truth >= 0
    truth, predicted = truth[known], predicted[known]
    labels = np.arange(len(classes))
    if len(truth) == 0:
        empty = dict.fromkeys(HEADLINE)
        return {**empty, "documents": 0, "intervals": {}, "per_class": [], "confusion": []}
    rates = precision_recall_fscore_support(truth, predicted, labels=labels, zero_division=0.0)
    f1, support = rates[2:]
    confusion = confusion_matrix(truth, predicted, labels=labels)
    occurs = (support > 0) | (confusion.sum(axis=0) > 0)
    accuracy = float((truth == predicted).mean())
    fraction = list(wilson(int(np.trace(confusion)), len(truth)))
    return {
        # With one label per document, micro F1 and accuracy are the same number.
        "micro_f1": accuracy,
        "macro_f1": float(f1[occurs].mean()),
        "accuracy": accuracy,
        "documents": len(truth),
        "intervals": {
            "micro_f1": fraction,
            "macro_f1": list(bootstrap_macro_f1(confusion)),
            "accuracy": fraction,
        },
        "per_class": [
            {
                "class": name,
                "precision": float(precision),
                "recall": float(recall),
                "f1": float(score),
                "support": int(count),
            }
            for name, precision, recall, score, count in zip(classes, *rates, strict=True)
        ],
        "confusion": confusion.tolist(),
    }


def probability_scores(truth: Classes, probabilities: NDArray[np.float64]) -> dict[str, Any]:
    """Log loss, calibration error and mean confidence of probabilities, and the bins.

    Confidence is the probability of the predicted class. The calibration error is the distance
    between mean confidence and accuracy in each of 15 bins of equal width, averaged over
    documents (Naeini et al. 2015).

    Args:
        truth: Class index of each document, -1 for none.
        probabilities: ``[documents, classes]``.

    Examples:
        >>> sure = np.array([[0.9, 0.1], [0.9, 0.1]])
        >>> round(probability_scores(np.array([0, 1]), sure)["calibration_error"], 3)
        0.4
    """
    known = truth >= 0
    truth, probabilities = truth[known], probabilities[known]
    if len(truth) == 0:
        return {**dict.fromkeys(PROBABILITIES), "reliability": []}
    own = probabilities[np.arange(len(truth)), truth]
    confidence, right = probabilities.max(1), probabilities.argmax(1) == truth
    bins = np.minimum((confidence * _BINS).astype(np.int64), _BINS - 1)
    counts, sure, correct = (
        np.bincount(bins, weights, _BINS) for weights in (None, confidence, right)
    )
    return {
        "log_loss": float(-np.log(np.maximum(own, _LEAST)).mean()),
        "calibration_error": float(np.abs(sure - correct).sum() / len(truth)),
        "confidence": float(confidence.mean()),
        "reliability": [
            {
                "confidence": float(sure[each] / counts[each]),
                "accuracy": float(correct[each] / counts[each]),
                "documents": int(counts[each]),
            }
            for each in np.flatnonzero(counts)
        ],
    }


def better_mode(truth: Classes, alone: Classes, own_graph: Classes) -> dict[str, Any]:
    """The covered mode that is right more often, ``alone`` of two equal ones.

    Returns:
        The mode; the documents; how many either mode alone gets right; and how often chance
        would divide these as unequally (McNemar's exact test).
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
    """The Wilson score interval of a fraction (Wilson, 1927), for accuracy and micro F1.

    Args:
        right: Documents that were classified rightly; a mean over seeds need not be whole.
        documents: All of them; at least one.

    Examples:
        >>> [round(end, 4) for end in wilson(8, 10)]
        [0.4902, 0.9433]
    """
    z, fraction = _NORMAL, right / documents
    middle = fraction + z * z / (2 * documents)
    spread = z * math.sqrt(fraction * (1 - fraction) / documents + (z / (2 * documents)) ** 2)
    scale = 1 + z * z / documents
    return max(0.0, (middle - spread) / scale), min(1.0, (middle + spread) / scale)


def bootstrap_macro_f1(confusion: NDArray[Any]) -> Interval:
    """The bootstrap interval of macro F1: test documents sampled again, with replacement.

    A document enters through its cell of the confusion matrix alone, so cells are sampled. The
    samples are seeded: the same scores have the same interval.
    """
    truth, predicted = np.nonzero(confusion)
    counts = np.asarray(confusion)[truth, predicted]
    total = int(counts.sum())
    samples = np.random.default_rng(0).multinomial(total, counts / total, _RESAMPLED)
    names = np.arange(len(confusion))
    of_truth, of_predicted = truth[:, None] == names, predicted[:, None] == names
    right = samples @ (of_truth & of_predicted).astype(np.float64)
    both = samples @ (of_truth.astype(np.float64) + of_predicted)
    # As in the score itself, only classes count that occur.
    occurs = both > 0
    scores = (2 * right / np.where(occurs, both, 1)).sum(1) / occurs.sum(1)
    low, high = np.quantile(scores, [(1 - LEVEL) / 2, (1 + LEVEL) / 2])
    return float(low), float(high)


def over_seeds(values: Sequence[float], documents: int) -> dict[str, Any]:
    """Mean, sample standard deviation and interval of one score over several seeds.

    The interval is that of the mean: what the seeds leave open (Student's t) and what the test
    documents leave open, which all seeds have in common (as of a fraction; for macro F1 that is
    rough).

    Args:
        values: One score for each seed.
        documents: Test documents behind each score.
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


def guesses(truth: Classes, classes: int, seed: int) -> dict[str, Classes]:
    """What anybody could predict: the most frequent class, or a random one.

    The most frequent class is that of the evaluated documents, never of training documents:
    that would be a query to protected data.
    """
    counts = np.bincount(truth[truth >= 0], minlength=classes)
    return {
        "majority": np.full(len(truth), int(counts.argmax()), dtype=np.int64),
        "random": np.random.default_rng(seed).integers(0, classes, len(truth)),
    }


def sees_no_edges(settings: Settings) -> bool:
    """Whether the model itself, scoring documents alone, is the graph-blind baseline."""
    return settings.model.kind == "linear" and settings.model.hops == 0


def baselines_left_out(settings: Settings) -> list[str]:
    """What a private run is not compared with, and why."""
    if settings.privacy is None or sees_no_edges(settings):
        return []
    return [
        "No graph-blind baseline: it would be trained on the private documents once more, at "
        "a cost that epsilon does not count."
    ]


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
    graph: DocumentGraph, settings: Settings, released: Released | None = None
) -> dict[Mode, Reference]:
    """Trains usual models without privacy; for each mode the validation documents choose one.

    Test documents have no say. All train on the documents as they are. So a private run has no
    references: they would be further releases, at a cost that its epsilon does not count.

    Args:
        graph: All documents, with their split.
        settings: Of a non-private run; they say how a network trains.
        released: What this run trained on the documents already.

    Raises:
        PrivacyContractError: The settings are those of a private run.
    """
    if settings.privacy is not None:
        raise PrivacyContractError(
            "References train on the documents without noise, and no epsilon counts that. "
            "Got private settings. Compare with a run without --epsilon, on public documents."
        )
    if not (graph.split == VALIDATION).any():
        rows, split = np.flatnonzero(graph.split == TRAIN), graph.split.copy()
        order = np.random.default_rng(settings.seed).permutation(len(rows))
        split[rows[order[: int(_HELD_BACK * len(rows))]]] = VALIDATION
        graph, released = replace(graph, split=split), None
    validation, test = (np.flatnonzero(graph.split == code) for code in (VALIDATION, TEST))
    truth = graph.labels[validation]
    accuracies: dict[Mode, dict[str, float]] = {mode: {} for mode in MODES}
    predicted: dict[Mode, dict[str, Classes]] = {mode: {} for mode in MODES}
    for name, predict in _candidates(graph, settings, released):
        for mode, known in accuracies.items():
            right = (predict(validation, mode) == truth)[truth >= 0]
            accuracy = float(right.mean()) if right.size else 0.0
            # Of several strengths of a regression, the first of the best stays.
            if accuracy > known.get(name, -1.0):
                known[name], predicted[mode][name] = accuracy, predict(test, mode)
    return {
        mode: Reference(max(known, key=known.__getitem__), known, predicted[mode])
        for mode, known in accuracies.items()
    }


def _candidates(
    graph: DocumentGraph, settings: Settings, released: Released | None
) -> Iterator[tuple[str, Predict]]:
    """A GCN, and logistic regressions on features as they are and propagated."""
    # These need PyTorch, which takes a second to import.
    from privgcn.inference import scores_in_mode
    from privgcn.sgd.train import train_plain

    chosen = settings.changed({"model.kind": "gcn"})
    train = graph.induced(np.flatnonzero(graph.split == TRAIN))
    trained = released
    if trained is None or trained.settings != chosen:
        visible = np.flatnonzero(np.isin(graph.split, (TRAIN, VALIDATION)))
        trained = train_plain(train, graph.induced(visible), chosen)
    network = trained

    def by_network(rows: Classes, mode: Mode) -> Classes:
        return np.asarray(scores_in_mode(network, graph, rows, mode).argmax(axis=1))

    yield "gcn", by_network
    for name, hops in HOPS.items():
        for model in _regressions(_propagated(train, hops), train.labels, graph.classes):
            yield name, partial(_predicted, model, graph, hops)


def _predicted(
    model: Any, graph: DocumentGraph, hops: int, rows: Classes, mode: Mode
) -> Classes:
    if len(rows) == 0:
        return np.empty(0, dtype=np.int64)
    if mode != "full-graph":
        graph, rows = graph.induced(rows), np.arange(len(rows))
    seen = _propagated(graph, 0 if mode == "alone" else hops)
    return np.asarray(model.predict(seen[rows]))


def _regressions(rows: Any, labels: Classes, classes: int) -> list[Any]:
    """Logistic regression, of several strengths."""
    from sklearn.dummy import DummyClassifier
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.linear_model import LogisticRegression

    rows, labels = rows[labels >= 0], labels[labels >= 0]
    if len(np.unique(labels)) < 2:
        return [DummyClassifier().fit([[0]], [labels.max(initial=0)])]
    strengths = STRENGTHS[1:2] if rows.size * classes > _MUCH else STRENGTHS
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return [
            LogisticRegression(C=c, max_iter=_ITERATIONS, tol=1e-3).fit(rows, labels)
            for c in strengths
        ]


def _propagated(graph: DocumentGraph, hops: int) -> Any:
    """Rows of unit length, propagated along the edges."""
    values = scaled_rows(graph.features, "l2")
    for _ in range(hops):
        values = graph.propagation @ values
    return values
