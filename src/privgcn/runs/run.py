"""A run, a saved model or a release, read back from its folder and checked."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from privgcn.config import Settings
from privgcn.corpus import Corpus, load_corpus
from privgcn.corpus.catalogue import resolved_source
from privgcn.corpus.corpus import OUTSIDE, TEST, TRAIN
from privgcn.errors import DataError
from privgcn.files import read_bounded
from privgcn.privacy.statement import PrivacyStatement
from privgcn.privacy.verification import Verification, check_claim
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
from privgcn.runs.prepare import graph_of, with_split
from privgcn.runs.replicas import Replicas
from privgcn.runs.saved import (
    SavedModel,
    model_files,
    read_model,
    read_settings,
    read_statement,
)
from privgcn.runs.trained import Trained

_MOST_STATEMENT = 1 << 24


class Evaluation(NamedTuple):
    """A trained model beside documents that it has not seen.

    Attributes:
        replicas: Ready to be scored.
        left_out: How many documents the split now calls test that trained the model.
    """

    replicas: Replicas
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
    def saved(self) -> SavedModel:
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
        classes = [str(name) for name in self.saved.classes]
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
        graph_corpus = with_split(corpus, codes)
        graph = graph_of(graph_corpus, self.saved.featurizer, self.settings)
        replicas = Replicas(
            graph_corpus, graph, self.saved.featurizer, self.saved.fitted, (self.settings.seed,)
        )
        return Evaluation(replicas, int((seen & (corpus.split == TEST)).sum()))


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
    folder: Path,
    saved: SavedModel,
    corpus: Corpus,
    scores: Mapping[str, Any],
    page: str,
    *,
    overwrite: bool = False,
) -> None:
    """Writes a run folder: whole, or not at all.

    Args:
        folder: Where.
        saved: The model.
        corpus: The documents, training and others.
        scores: What ``score_table`` made.
        page: The report.
        overwrite: Whether an earlier run or release of ours may be replaced.
    """
    unit = None if saved.fitted.plan is None else saved.fitted.plan.unit
    files = {
        **model_files(saved),
        SCORES: json.dumps(scores, indent=1) + "\n",
        TRAINED: Trained.of(corpus, unit).to_json(),
        REPORT: page,
    }
    write_folder(folder, "run", files, overwrite=overwrite)


def score_table(replicas: Replicas, baselines: Mapping[str, Any]) -> dict[str, Any]:
    """The content of ``scores.json``."""
    corpus = replicas.corpus
    return {
        "dataset": corpus.name,
        "synthetic": corpus.facts.synthetic,
        "features": replicas.featurizer.dimension,
        "classes": list(corpus.classes),
        "modes": replicas.scores[0],
        "baselines": dict(baselines),
    }
