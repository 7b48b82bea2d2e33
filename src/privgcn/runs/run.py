"""A run, a saved model or a release: written, read back from its folder, and checked."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from privgcn import progress
from privgcn.config import Settings
from privgcn.data import Corpus, load_corpus
from privgcn.data.catalogue import resolved_source
from privgcn.data.corpus import OUTSIDE, TEST, TRAIN
from privgcn.errors import DataError
from privgcn.evaluation.baselines import baselines_left_out
from privgcn.evaluation.metrics import HEADLINE
from privgcn.files import read_bounded
from privgcn.privacy.statement import PrivacyStatement
from privgcn.privacy.verification import Verification, check_claim
from privgcn.runs.expected import expected_score
from privgcn.runs.fingerprints import Trained
from privgcn.runs.folder import (
    MODEL,
    REPORT,
    SCORES,
    SETTINGS,
    STATEMENT,
    TRAINED,
    WEIGHTS,
    Stored,
    is_stored,
    read_folder,
    write_folder,
)
from privgcn.runs.model import Model, model_files, read_model, read_settings, read_statement
from privgcn.runs.repeats import repeated_scores
from privgcn.runs.train import Trial, score_table, with_split

Page = Callable[[Settings, PrivacyStatement | None, dict[str, Any]], str]
_MOST_STATEMENT = 1 << 24
# Of the scores, what ``--json`` prints as it is.
_SCORED = ("baselines", "references", "expected", "repeats")


class Evaluation(NamedTuple):
    """A model beside documents that it has not seen.

    Attributes:
        trial: Ready to be scored.
        left_out: How many documents the split now calls test that trained the model.
    """

    trial: Trial
    left_out: int


@dataclass(frozen=True)
class Run:
    """What a folder holds; nothing of it is handed out before the manifest was checked."""

    folder: Path

    @cached_property
    def stored(self) -> Stored:
        """The files."""
        return read_folder(self.folder)

    @cached_property
    def settings(self) -> Settings:
        """What the run was asked to do."""
        return read_settings(self.stored)

    @cached_property
    def verification(self) -> Verification | None:
        """The claim, computed again; ``None`` where there is none.

        Raises:
            PrivacyContractError: The claim does not hold, or files contradict each other.
        """
        statement = read_statement(self.stored)
        if statement is None:
            return None
        files = self.stored.files
        checked = check_claim(
            statement,
            settings=self.settings if SETTINGS in files else None,
            weights=files.get(WEIGHTS),
            record=self.stored.record(MODEL) if MODEL in files else None,
            where=self.folder,
        )
        return Verification(statement, (*checked, "manifest"))

    @property
    def statement(self) -> PrivacyStatement | None:
        """What may be claimed, checked; ``None`` for a non-private run."""
        return None if self.verification is None else self.verification.statement

    @cached_property
    def scores(self) -> dict[str, Any]:
        """Scores by inference mode, beside the baselines."""
        return self.stored.record(SCORES)

    @cached_property
    def model(self) -> Model:
        """The model."""
        return read_model(self.stored)

    @cached_property
    def trained(self) -> Trained | None:
        """Which documents it was trained on; ``None`` where the folder does not know."""
        return Trained.read(self.stored)

    def corpus(self) -> Corpus:
        """The corpus the run was trained on, loaded again from its source."""
        source = self.settings.data.source
        if source is None:
            raise DataError(
                f"The {self.stored.kind} {self.folder} does not name its documents. Use "
                "'privgcn predict' with a folder of documents instead."
            )
        classes = [str(name) for name in self.model.classes]
        return load_corpus(source, classes=classes, seed=self.settings.seed)

    def is_own_source(self, source: str) -> bool:
        """Whether the run was trained on the documents at ``source``."""
        own = self.settings.data.source
        return own is not None and resolved_source(own) == resolved_source(source)

    def evaluation(self) -> Evaluation:
        """The model beside the test documents that it has not seen.

        A random split would be drawn anew, and differently where documents came or went. So
        the run's memory decides: what it was not trained on and did not validate with.

        Raises:
            DataError: The folder does not know, or there are no such documents.
        """
        corpus, trained = self.corpus(), self.trained
        if trained is None:
            raise DataError(
                f"The {self.stored.kind} {self.folder} does not know which documents it was "
                "trained on. Evaluate the run folder."
            )
        seen = trained.seen(corpus, own=True)
        test = (corpus.split == TEST) & ~seen
        if corpus.facts.split_origin == "random":
            test = ~seen & ~trained.validated(corpus)
        if not test.any():
            raise DataError(
                f"There are no documents in {self.settings.data.source} to evaluate that the "
                f"run {self.folder} was not trained on. Add some with split 'test'."
            )
        codes = np.where(test, TEST, np.where(seen, TRAIN, OUTSIDE))
        documents = with_split(corpus, codes)
        trial = Trial(self.model, documents, self.model.graph(documents))
        return Evaluation(trial, int((seen & (corpus.split == TEST)).sum()))


def verify(path: Path) -> Verification:
    """Checks a run, a release or a statement file from the files alone.

    Raises:
        DataError: A file was edited, removed or added, or cannot be read.
        PrivacyContractError: The claim does not hold, or files contradict each other.
    """
    folder = path if path.is_dir() or path.name != STATEMENT else path.parent
    if path.is_dir() or is_stored(folder):
        found = Run(folder).verification
        if found is None:
            raise DataError(
                f"The run {folder} is as it was written, but it was trained without privacy "
                "and has no statement to verify."
            )
        return found
    try:
        text = read_bounded(path, most=_MOST_STATEMENT).decode("utf-8")
    except UnicodeDecodeError:
        raise DataError(f"The file {path} is not UTF-8 text.") from None
    statement = PrivacyStatement.from_json(text)
    return Verification(statement, check_claim(statement, where=path))


def write_run(
    folder: Path, trial: Trial, page: Page, *, overwrite: bool = False, seeds: int = 1
) -> dict[str, Any]:
    """Scores a model and writes its run folder: whole, or not at all.

    Args:
        folder: Where.
        trial: The model beside its documents.
        page: Makes the report.
        overwrite: Whether an earlier run or release of ours may be replaced.
        seeds: How many seeds to score, the model's included; the others are forgotten.

    Returns:
        What ``--json`` prints. No time is in it: that of a search would tell its runs.
    """
    model, corpus = trial.model, trial.corpus
    settings, statement = model.fitted.settings, model.statement
    unit = None if settings.privacy is None else settings.privacy.unit
    scores = score_table(trial)
    expected = expected_score(trial)
    if expected is not None:
        scores["expected"] = expected
    if seeds > 1:
        scores["repeats"] = repeated_scores(trial, seeds)
    progress.begin("report")
    files = {
        **model_files(model),
        SCORES: json.dumps(scores, indent=1) + "\n",
        TRAINED: Trained.of(corpus, unit).to_json(),
        REPORT: page(settings, statement, scores),
    }
    write_folder(folder, "run", files, overwrite=overwrite)
    return {
        "run": str(folder),
        "dataset": corpus.name,
        "synthetic": corpus.facts.synthetic,
        "settings": settings.model_dump(),
        "statement": None if statement is None else statement.model_dump(mode="json"),
        "scores": {
            mode: {key: row[key] for key in (*HEADLINE, "documents", "intervals")}
            for mode, row in scores["modes"].items()
        },
        **{name: scores[name] for name in _SCORED if name in scores},
        "baselines_left_out": baselines_left_out(settings),
    }
