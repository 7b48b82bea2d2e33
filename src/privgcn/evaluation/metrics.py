"""Scores of predicted classes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

HEADLINE = ("micro_f1", "macro_f1", "accuracy")


def classification_scores(
    truth: npt.NDArray[np.int64], predicted: npt.NDArray[np.int64], classes: Sequence[str]
) -> dict[str, Any]:
    """Micro and macro F1, accuracy, a table per class and the confusion matrix.

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
        return {**empty, "documents": 0, "per_class": [], "confusion": []}
    rates = precision_recall_fscore_support(truth, predicted, labels=labels, zero_division=0.0)
    precision, recall, f1, support = rates
    confusion = confusion_matrix(truth, predicted, labels=labels)
    occurs = (support > 0) | (confusion.sum(axis=0) > 0)
    accuracy = float((truth == predicted).mean())
    return {
        # With one label per document, micro F1 and accuracy are the same number.
        "micro_f1": accuracy,
        "macro_f1": float(f1[occurs].mean()),
        "accuracy": accuracy,
        "documents": len(truth),
        "per_class": [
            {
                "class": name,
                "precision": float(precision[i]),
                "recall": float(recall[i]),
                "f1": float(f1[i]),
                "support": int(support[i]),
            }
            for i, name in enumerate(classes)
        ],
        "confusion": confusion.tolist(),
    }
