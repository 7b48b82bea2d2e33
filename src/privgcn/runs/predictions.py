"""Predictions for a folder of documents, as a table on disk."""

from __future__ import annotations

import csv
import io
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from privgcn.corpus import Corpus, load_corpus
from privgcn.corpus.corpus import TRAIN
from privgcn.errors import DataError
from privgcn.evaluation.inference import COVERED, check_mode
from privgcn.files import write_atomically
from privgcn.runs.classifier import GraphClassifier
from privgcn.runs.run_folder import Run


@dataclass(frozen=True, eq=False)
class Predictions:
    """Class probabilities of documents.

    Attributes:
        ids: The documents.
        classes: Names of the classes.
        probabilities: ``[documents, classes]``.
        covered: Whether the training guarantee covers them.
    """

    ids: npt.NDArray[np.str_]
    classes: tuple[str, ...]
    probabilities: npt.NDArray[np.float64]
    covered: bool

    def write_csv(self, path: Path) -> None:
        """Writes id, predicted class and its probability, atomically."""
        text = io.StringIO()
        table = csv.writer(text, lineterminator="\n")
        table.writerow(["id", "label", "probability"])
        best = self.probabilities.argmax(axis=1)
        for row, (name, chosen) in enumerate(zip(self.ids, best, strict=True)):
            share = f"{self.probabilities[row, chosen]:.6f}"
            table.writerow([name, self.classes[chosen], share])
        write_atomically(path, text.getvalue())


def predict_source(run_folder: Path, source: str, inference: str) -> Predictions:
    """Predicts the documents of a folder or dataset.

    Of the run's own corpus, only documents outside of training are predicted: training
    documents given as new ones would make every prediction a look at them.
    """
    mode = check_mode(inference)
    run = Run(run_folder)
    model = GraphClassifier.load(run_folder)
    corpus = load_corpus(source, seed=run.settings.seed, require_labels=False)
    own = _same_source(run.settings.data.source, source)
    chosen: Corpus = (
        corpus.select(corpus.split != TRAIN) if own else corpus.select(np.arange(len(corpus)))
    )
    if len(chosen) == 0:
        raise DataError(f"There are no documents to predict in {source}: all of them train.")
    probabilities = model.predict_proba(chosen, inference=mode)
    covered = mode in COVERED and run.statement is not None
    return Predictions(chosen.ids, tuple(model.classes_), probabilities, covered)


def _same_source(first: str | None, second: str) -> bool:
    if first is None:
        return False
    return first == second or Path(first).resolve() == Path(second).resolve()
