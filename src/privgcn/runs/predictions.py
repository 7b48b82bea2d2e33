"""What a model says of a folder of documents: predictions, or scores where labels are known.

A run folder finds exact copies of its training documents; a saved model or a release cannot.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from privgcn import progress
from privgcn.config import MODES, Mode, check_mode
from privgcn.data import OUTSIDE, TEST, TRAIN, VALIDATION
from privgcn.errors import ConfigError, DataError
from privgcn.files import write_atomically
from privgcn.inference import FEWEST, too_few
from privgcn.runs.run import Run

# What a spreadsheet would run; a number is none.
_FORMULA = re.compile(r"(?![+-]?\d+(\.\d+)?$)[=+\-@\t\r]")


@dataclass(frozen=True, eq=False)
class Predictions:
    """Class probabilities ``[documents, classes]``, and whether the guarantee covers them.

    That is ``None`` where the folder does not know whether one of them ``trained`` the model.
    ``left_out`` documents of the run's own corpus did, and were not predicted.
    """

    ids: Sequence[str] | NDArray[Any]
    classes: NDArray[Any]
    probabilities: NDArray[np.float64]
    covered: bool | None
    coverage: str
    trained: tuple[str, ...]
    left_out: int

    def csv_text(self, *, all_classes: bool = False) -> str:
        """Id, predicted class and its probability; with ``all_classes``, of every class.

        No cell is a formula that a spreadsheet runs.
        """
        text = io.StringIO()
        table = csv.writer(text, lineterminator="\n")
        every = [f"probability of {name}" for name in self.classes] if all_classes else []
        table.writerow(["id", "label", "probability", *every])
        best = self.probabilities.argmax(axis=1)
        for name, code, row in zip(self.ids, best, self.probabilities, strict=True):
            words = str(name), str(self.classes[code])
            cells = (f"'{word}" if _FORMULA.match(word) else word for word in words)
            values = (row[code], *row[: len(every)])
            table.writerow([*cells, *(f"{value:.6f}" for value in values)])
        return text.getvalue()

    def write(self, path: Path, *, all_classes: bool = False) -> None:
        """Writes the table atomically; nobody else can read it, whatever the umask."""
        write_atomically(path, self.csv_text(all_classes=all_classes))


def predict_source(
    folder: Path,
    source: str,
    inference: str,
    *,
    encoder: Path | None = None,
    reading: Mapping[str, Any] | None = None,
) -> Predictions:
    """Predicts the documents of a folder or dataset; of its own, those that did not train it.

    ``encoder`` says where the encoder of the features lies, if it is not installed; ``reading``
    has options of ``load_corpus``, where the run has others or, as a release, none.
    """
    mode, run = check_mode(inference), Run(folder)
    model, own = run.model(path=encoder), run.is_own_source(source)
    corpus = run.corpus(source, reading, labelled=False)
    trained = run.roles(corpus, own=own) == TRAIN
    _check_full_graph(run, mode, there=bool(trained.any()))
    chosen = corpus.select(~trained if own else np.arange(len(corpus)))
    if len(chosen) == 0:
        raise DataError(
            f"There are no documents to predict in {source}: all are training documents."
        )
    named = [] if own else [str(corpus.ids[row]) for row in np.flatnonzero(trained).tolist()]
    progress.begin("prediction")
    covered, words = _coverage(mode, run, own=own, trained=named, documents=len(chosen))
    if mode != "alone" and too_few(model.released, len(chosen)):
        words += f" Fewer than {FEWEST} documents are answered as each one alone."
    return Predictions(
        ids=chosen.ids,
        classes=model.classes,
        probabilities=model.probabilities(chosen, mode),
        covered=covered,
        coverage=words,
        trained=tuple(named),
        left_out=int(trained.sum()) if own else 0,
    )


def score_documents(
    run: Run,
    source: str | None = None,
    inference: str = "all",
    *,
    encoder: Path | None = None,
    reading: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """What ``evaluate --json`` prints: scores on documents that did not train the model.

    Of its own corpus these are the test documents; a random split would be made anew where
    documents came or went, so there the run's memory of training and validation decides. Of
    other documents these are all but exact copies of training documents. ``encoder`` and
    ``reading`` are as in :func:`predict_source`.
    """
    from privgcn.runs.train import TrainedRun

    model, own = run.model(path=encoder), source is None or run.is_own_source(source)
    if own and run.kind != "run":
        raise DataError(
            f"The {run.kind} {run.folder} does not know which documents it was trained on. "
            "Evaluate the run folder, or name other documents."
        )
    corpus = run.corpus(source, reading)
    roles = run.roles(corpus, own=own)
    trained = left_out = roles == TRAIN
    test = ~trained
    if own:
        left_out = trained & (corpus.split == TEST)
        random = corpus.facts.split_origin == "random"
        test &= roles != VALIDATION if random else corpus.split == TEST
    if not test.any():
        raise DataError(
            f"There are no documents in {source or run.settings.data.source} to evaluate that "
            f"the run {run.folder} was not trained on. Add some with split 'test'."
        )
    if not own and not (corpus.labels[test] >= 0).any():
        raise DataError(
            f"Evaluation needs labels, and no document of {source} has one. Add a column "
            "'label', or use 'privgcn predict'."
        )
    there = bool(trained.any())
    modes = [mode for mode in MODES if there or mode != "full-graph"]
    if inference != "all":
        modes = [check_mode(inference)]
        _check_full_graph(run, modes[0], there=there)
    corpus = corpus.with_split(np.where(test, TEST, np.where(trained, TRAIN, OUTSIDE)))
    scored = TrainedRun(model, corpus, model.graph(corpus))
    return {
        "run": str(run.folder),
        "dataset": corpus.name,
        "synthetic": corpus.facts.synthetic,
        "left_out": int(left_out.sum()),
        "scores": {mode: scored.score(mode) for mode in modes},
        "baselines": scored.baselines,
    }


def _check_full_graph(run: Run, mode: Mode, *, there: bool) -> None:
    if mode == "full-graph" and not there:
        raise ConfigError(
            "Inference 'full-graph' looks at training documents, and none is known to be among "
            f"these, to a {run.kind}. Use the folder of the run with its own documents, or "
            "--inference own-graph."
        )


def _coverage(
    mode: Mode, run: Run, *, own: bool, trained: list[str], documents: int
) -> tuple[bool | None, str]:
    if run.statement is None or run.statement.void:
        lacks = "the model has none" if run.statement is None else "the model's claim is void"
        return False, f"No guarantee covers these predictions: {lacks}."
    if mode == "full-graph":
        return False, "Not covered by the guarantee: training documents were looked at."
    if trained:
        names = ", ".join(trained[:5]) + (", ..." if len(trained) > 5 else "")
        others = "only predictions of the others are" if mode == "alone" else "no prediction is"
        return False, (
            f"{len(trained)} of {documents} documents trained the model or repeat one that "
            f"did ({names}): {others} covered by the guarantee."
        )
    if run.kind != "run":
        return None, "Covered by the guarantee if none of these documents trained the model."
    copy = "there is no exact copy of a training document among these, but for spaces and case"
    why = "these were left out" if own else copy
    return True, f"Covered by the guarantee, which protects training documents: {why}."
