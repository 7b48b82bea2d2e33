"""What a run leaves of its predictions in its record, and what can be read from it."""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from privgcn.data import Corpus
from privgcn.data.corpus import TEST
from privgcn.evaluation.metrics import classification_scores
from privgcn.experiments.tasks import Result

Classes = npt.NDArray[np.int64]


def results_of(corpus: Corpus, predicted: Mapping[str, npt.NDArray[Any]]) -> list[Result]:
    """One result per seed: scores on the test documents, and the predictions themselves.

    Args:
        corpus: What the run trained on and was scored on.
        predicted: Class of each test document by inference mode, ``[seeds, documents]``.
    """
    each = zip(*predicted.values(), strict=True)
    by_seed = [dict(zip(predicted, rows, strict=True)) for rows in each]
    truth, training = corpus.labels[corpus.split == TEST], corpus.train
    train = training.labels
    shared = {
        "synthetic": corpus.facts.synthetic,
        "classes": list(corpus.classes),
        "documents": {
            "train": len(train),
            "test": len(truth),
            "train_links": training.edges.shape[1],
            "links": corpus.edges.shape[1],
        },
        "majority": train_majority(train, truth, corpus.num_classes),
        "truth": pack(truth),
    }
    return [
        {
            **shared,
            "scores": {
                mode: {
                    name: value
                    for name, value in classification_scores(truth, row, corpus.classes).items()
                    if name in ("micro_f1", "macro_f1")
                }
                for mode, row in rows.items()
            },
            "predicted": {mode: pack(row) for mode, row in rows.items()},
        }
        for rows in by_seed
    ]


def train_majority(train: Classes, test: Classes, classes: int) -> float:
    """Share of the test documents in the most frequent training class: the paper's "Maj."."""
    top = int(np.bincount(train[train >= 0], minlength=classes).argmax())
    return float((test == top).mean())


def pack(classes: npt.NDArray[Any]) -> str:
    """Class indices as short text; -1 (no label) travels as 255."""
    return base64.b64encode(np.asarray(classes).astype(np.uint8).tobytes()).decode("ascii")


def unpack(text: str) -> Classes:
    """The class indices that ``pack`` wrote."""
    values = np.frombuffer(base64.b64decode(text), dtype=np.uint8).astype(np.int64)
    values[values == 255] = -1
    return values


def errors(result: Result, mode: str) -> npt.NDArray[np.bool_]:
    """Which test documents a run got wrong."""
    truth = unpack(result["truth"])
    wrong: npt.NDArray[np.bool_] = unpack(result["predicted"][mode]) != truth
    return wrong & (truth >= 0)


def errors_spread(share: npt.NDArray[np.float64]) -> float:
    """How many wrong classes the errors of a class go to: 2 to the entropy, on average.

    One where every class is mistaken for one other; classes without errors do not count.
    """
    wrong = share * (1.0 - np.eye(len(share)))
    total = wrong.sum(axis=1)
    rows = wrong[total > 0] / total[total > 0, None]
    if not len(rows):
        return 0.0
    logarithms = np.log2(rows, where=rows > 0, out=np.zeros_like(rows))
    return float((2.0 ** -(rows * logarithms).sum(axis=1)).mean())


def confusion(results: Sequence[Result], mode: str) -> npt.NDArray[np.float64]:
    """Share of the documents of each true class by predicted class, summed over seeds."""
    classes = len(results[0]["classes"])
    matrix = np.zeros((classes, classes))
    for result in results:
        truth, predicted = unpack(result["truth"]), unpack(result["predicted"][mode])
        np.add.at(matrix, (truth[truth >= 0], predicted[truth >= 0]), 1)
    return np.asarray(matrix / np.maximum(matrix.sum(axis=1, keepdims=True), 1))
