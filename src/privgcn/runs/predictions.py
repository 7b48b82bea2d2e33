"""Predictions for a folder of documents, as a table on disk."""

from __future__ import annotations

import csv
import io
import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from privgcn import progress
from privgcn.config import Mode, check_mode
from privgcn.data import load_corpus
from privgcn.errors import ConfigError, DataError
from privgcn.files import write_atomically
from privgcn.runs.classifier import GraphClassifier
from privgcn.runs.run import Run

_FORMATS = (".csv", ".jsonl", ".parquet")
_COLUMNS = ["id", "label", "probability"]
_FORMULA = re.compile(r"[=+\-@\t\r]")
_NUMBER = re.compile(r"[+-]?\d+(\.\d+)?$")


@dataclass(frozen=True, eq=False)
class Predictions:
    """Class probabilities of documents.

    Attributes:
        ids: The documents.
        classes: The class labels.
        probabilities: ``[documents, classes]``.
        covered: Whether the training guarantee covers them; ``None`` where that depends on
            whether one of them trained the model, which the folder does not know.
        coverage: The same in words.
        trained: Documents among them that trained the model.
        left_out: How many training documents of the run's own corpus were not predicted.
    """

    ids: npt.NDArray[np.str_]
    classes: npt.NDArray[np.generic]
    probabilities: npt.NDArray[np.float64]
    covered: bool | None
    coverage: str
    trained: tuple[str, ...]
    left_out: int

    def table(self, *, all_classes: bool = False) -> dict[str, list[Any]]:
        """Id, predicted class and its probability; with ``all_classes``, of every class."""
        best = self.probabilities.argmax(axis=1)
        chosen = self.probabilities[np.arange(len(best)), best]
        labels = [str(self.classes[code]) for code in best]
        found = ([str(name) for name in self.ids], labels, chosen.tolist())
        columns: dict[str, list[Any]] = dict(zip(_COLUMNS, found, strict=True))
        if all_classes:
            columns |= {
                f"probability of {name}": self.probabilities[:, code].tolist()
                for code, name in enumerate(self.classes)
            }
        return columns

    def csv_text(self, *, all_classes: bool = False) -> str:
        """The table as CSV; no cell is a formula."""
        columns = self.table(all_classes=all_classes)
        text = io.StringIO()
        table = csv.writer(text, lineterminator="\n")
        table.writerow([harmless(name) for name in columns])
        for cells in zip(*columns.values(), strict=True):
            table.writerow([harmless(c) if isinstance(c, str) else f"{c:.6f}" for c in cells])
        return text.getvalue()

    def write(self, path: Path, *, all_classes: bool = False) -> None:
        """Writes the table in the format that the file's name ends with, atomically."""
        if check_format(path) == ".csv":
            write_atomically(path, self.csv_text(all_classes=all_classes))
            return
        import polars as pl

        frame = pl.DataFrame(self.table(all_classes=all_classes))
        content = io.BytesIO()
        if path.suffix == ".parquet":
            frame.write_parquet(content)
        else:
            frame.write_ndjson(content)
        write_atomically(path, content.getvalue())


def check_format(path: Path) -> str:
    """How predictions are written to a file: as its name ends, or else as CSV.

    Raises:
        ConfigError: They cannot be written so.
    """
    if path.suffix in ("", *_FORMATS):
        return path.suffix or ".csv"
    raise ConfigError(
        f"Predictions must be written to a file that ends with {', '.join(_FORMATS)}. Got "
        f"{path}. Rename it."
    )


def are_predictions(path: Path) -> bool:
    """Whether a file begins as :meth:`Predictions.write` would have it."""
    import polars as pl

    with path.open("rb") as file:
        head = file.readline(1 << 20)
    try:
        if path.suffix == ".parquet":
            names = list(pl.read_parquet_schema(path))
        elif path.suffix == ".jsonl":
            names = list(json.loads(head))
        else:
            names = next(csv.reader([head.decode()]))
    except (ValueError, TypeError, csv.Error, pl.exceptions.PolarsError):
        return False
    return names[: len(_COLUMNS)] == _COLUMNS


def harmless(value: str) -> str:
    """A table's cell that no spreadsheet runs as a formula; numbers stay as they are."""
    formula = _FORMULA.match(value) and not _NUMBER.match(value)
    return f"'{value}" if formula else value


def predict_source(folder: Path, source: str, inference: str) -> Predictions:
    """Predicts the documents of a folder or dataset.

    Of the run's own corpus, only documents outside of training are predicted: training
    documents given as new ones would make every prediction a look at them.

    Raises:
        ConfigError: ``full-graph`` without training documents in sight.
        DataError: The folder is no run, or there is nothing to predict.
    """
    mode = check_mode(inference)
    run = Run(folder)
    private, trained = run.statement is not None, run.trained
    model = GraphClassifier.of_run(run)
    corpus = load_corpus(source, seed=run.settings.seed, require_labels=False)
    own = run.is_own_source(source)
    seen = np.zeros(len(corpus), dtype=bool)
    if trained is not None:
        seen = trained.seen(corpus, own=own)
    if mode == "full-graph":
        _check_full_graph(run, source, in_sight=bool(seen.any()))
    chosen = corpus.select(~seen if own else np.arange(len(corpus)))
    if len(chosen) == 0:
        raise DataError(
            f"There are no documents to predict in {source}: all are training documents."
        )
    given = () if own else tuple(str(name) for name in corpus.ids[seen])
    progress.begin("prediction")
    covered, words = _coverage(
        mode, private=private, known=trained is not None, trained=given, documents=len(chosen)
    )
    return Predictions(
        chosen.ids,
        model.classes_,
        model.predict_proba(chosen, inference=mode),
        covered,
        words,
        given,
        int(seen.sum()) if own else 0,
    )


def _check_full_graph(run: Run, source: str, *, in_sight: bool) -> None:
    if run.trained is None:
        raise ConfigError(
            "Inference 'full-graph' looks at training documents, and a "
            f"{run.stored.kind} does not know which those are. Use the run folder, or "
            "--inference own-graph."
        )
    if not in_sight:
        raise ConfigError(
            f"Inference 'full-graph' looks at training documents, and {source} has none: it "
            "would be the same as 'own-graph'. Use --inference own-graph."
        )


def _coverage(
    mode: Mode, *, private: bool, known: bool, trained: tuple[str, ...], documents: int
) -> tuple[bool | None, str]:
    """Whether predictions are covered by the guarantee of the training data, and why."""
    if not private:
        return False, "No guarantee covers these predictions: the model has none."
    if mode == "full-graph":
        return False, "Not covered by the guarantee: training documents were seen."
    if trained:
        names = ", ".join(trained[:5]) + (", ..." if len(trained) > 5 else "")
        reach = (
            "their own predictions are not covered by the guarantee; the others are"
            if mode == "alone"
            else "training documents were seen, so no prediction here is covered by the "
            "guarantee"
        )
        return False, (
            f"{len(trained)} of {documents} documents trained the model or repeat one that "
            f"did ({names}): {reach}."
        )
    if not known:
        return None, "Covered by the guarantee if none of these documents trained the model."
    return True, "Covered by the guarantee: none of these documents trained the model."
