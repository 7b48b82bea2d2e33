"""What a model says of a folder of documents: predictions, or scores where labels are known.

Neither takes a training document for a new one. A run folder knows which documents those are,
and finds exact copies of them elsewhere; a saved model or a release does not.
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

_COLUMNS = ["id", "label", "probability"]
_FORMULA = re.compile(r"[=+\-@\t\r]")
_NUMBER = re.compile(r"[+-]?\d+(\.\d+)?$")


@dataclass(frozen=True, eq=False)
class Predictions:
    """Class probabilities ``[documents, classes]``.

    Attributes:
        covered: Whether the training guarantee covers them; ``None`` where that depends on
            whether one of them trained the model, which the folder does not know.
        coverage: The same in words.
        trained: Documents among them that trained the model, or are copies of one that did.
        left_out: How many training documents of the run's own corpus were not predicted.
    """

    ids: Sequence[str] | NDArray[Any]
    classes: NDArray[Any]
    probabilities: NDArray[np.float64]
    covered: bool | None
    coverage: str
    trained: tuple[str, ...]
    left_out: int

    def csv_text(self, *, all_classes: bool = False) -> str:
        """Id, predicted class and its probability; with ``all_classes``, of every class."""
        text = io.StringIO()
        table = csv.writer(text, lineterminator="\n")
        every = [f"probability of {name}" for name in self.classes] if all_classes else []
        table.writerow([*_COLUMNS, *every])
        best = self.probabilities.argmax(axis=1)
        for name, code, row in zip(self.ids, best, self.probabilities, strict=True):
            words = harmless(str(name)), harmless(str(self.classes[code]))
            values = (row[code], *row[: len(every)])
            table.writerow([*words, *(f"{value:.6f}" for value in values)])
        return text.getvalue()

    def write(self, path: Path, *, all_classes: bool = False) -> None:
        """Writes the table atomically; nobody else can read it, whatever the umask."""
        check_format(path)
        write_atomically(path, self.csv_text(all_classes=all_classes), mode=0o600)


def check_format(path: Path) -> None:
    """Refuses a file whose name says that it is no CSV."""
    if path.suffix not in ("", ".csv"):
        raise ConfigError(
            f"Predictions must be written to a file that ends with .csv. Got {path}. Rename it."
        )


def harmless(value: str) -> str:
    """A table's cell that no spreadsheet runs as a formula; numbers stay as they are."""
    formula = _FORMULA.match(value) and not _NUMBER.match(value)
    return f"'{value}" if formula else value


def predict_source(
    folder: Path,
    source: str,
    inference: str,
    *,
    encoder: Path | None = None,
    reading: Mapping[str, Any] | None = None,
) -> Predictions:
    """Predicts the documents of a folder or dataset.

    Of the run's own corpus, only documents outside of training are predicted: training
    documents given as new ones would make every prediction a look at them. ``encoder`` says
    where the encoder of the features lies, if it is not installed; ``reading`` has options of
    ``load_corpus``, where the run has others or, as a release, none.
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
    """Scores of a model on documents that it was not trained on, with intervals.

    Of its own corpus these are the test documents. A random split would be made anew, and
    differently where documents came or went, so the run's memory decides: what it was not
    trained on and did not validate with. Of other documents, which a saved model or a release
    can be scored on, too, these are all but exact copies of training documents, whatever their
    split. ``encoder`` and ``reading`` are as in :func:`predict_source`.

    Returns:
        What ``--json`` prints, with the mode of ``inference`` or all that these documents have.
    """
    from privgcn.runs.train import TrainedRun, baselines

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
        "baselines": baselines(scored),
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
    """Whether predictions are covered by the guarantee of the training data, and why."""
    if run.statement is None or run.statement.void:
        lacks = "the model has none" if run.statement is None else "the model's claim is void"
        return False, f"No guarantee covers these predictions: {lacks}."
    if mode == "full-graph":
        return False, "Not covered by the guarantee: training documents were looked at."
    if trained:
        names = ", ".join(trained[:5]) + (", ..." if len(trained) > 5 else "")
        consequence = "no prediction here is covered by the guarantee"
        if mode == "alone":
            consequence = "only predictions of the others are covered by the guarantee"
        return False, (
            f"{len(trained)} of {documents} documents trained the model or repeat one that "
            f"did ({names}): {consequence}."
        )
    if run.kind != "run":
        return None, "Covered by the guarantee if none of these documents trained the model."
    why = (
        "these were left out"
        if own
        else "there is no exact copy of a training document among these, whatever the spaces "
        "and case"
    )
    return True, f"Covered by the guarantee, which protects training documents: {why}."
