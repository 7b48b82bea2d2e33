"""A run on disk: the owner's working state, not for release."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from privgcn.config import Settings
from privgcn.corpus import Corpus, load_corpus
from privgcn.errors import DataError
from privgcn.files import folder_written_atomically
from privgcn.privacy.statement import PrivacyStatement
from privgcn.runs.model_folder import (
    MODEL,
    SavedModel,
    read_model,
    read_settings_of,
    read_statement_of,
    write_model_files,
)
from privgcn.runs.prepare import graph_of
from privgcn.runs.replicas import Replicas

SCORES = "scores.json"


@dataclass(frozen=True)
class Run:
    """A finished run, read back from its folder."""

    folder: Path

    @cached_property
    def settings(self) -> Settings:
        """What the run was asked to do."""
        return read_settings_of(self.folder)

    @cached_property
    def statement(self) -> PrivacyStatement | None:
        """What may be claimed; ``None`` for a non-private run."""
        return read_statement_of(self.folder)

    @cached_property
    def scores(self) -> dict[str, Any]:
        """Scores by inference mode, beside the baselines."""
        try:
            record = json.loads((self.folder / SCORES).read_text(encoding="utf-8"))
        except (FileNotFoundError, NotADirectoryError):
            raise DataError(
                f"There are no scores in {self.folder}. "
                "Name a folder that 'privgcn train' wrote."
            ) from None
        except (json.JSONDecodeError, UnicodeDecodeError) as error:
            raise DataError(
                f"The file {self.folder / SCORES} cannot be read: {error}. Train again."
            ) from None
        if not isinstance(record, dict):
            raise DataError(f"The file {self.folder / SCORES} is not a table of scores.")
        return record

    @cached_property
    def saved(self) -> SavedModel:
        """The model."""
        return read_model(self.folder)

    def corpus(self) -> Corpus:
        """The corpus the run was trained on, loaded again from its source."""
        data = self.settings.data
        if data.source is None:
            raise DataError(
                f"The run in {self.folder} does not name its documents. Use 'privgcn predict' "
                "with a folder of documents instead."
            )
        return load_corpus(data.source, classes=data.classes, seed=self.settings.seed)

    def replicas(self) -> Replicas:
        """The trained model beside its corpus, ready to be scored again."""
        corpus, saved = self.corpus(), self.saved
        graph = graph_of(corpus, saved.featurizer, self.settings)
        return Replicas(corpus, graph, saved.featurizer, saved.fitted, (self.settings.seed,))


def write_run(
    folder: Path, saved: SavedModel, scores: Mapping[str, Any], pages: Mapping[str, str]
) -> None:
    """Writes a run folder atomically: a killed run leaves the old folder, or none.

    Args:
        folder: Replaced if it holds an earlier run.
        saved: The model.
        scores: What ``score_table`` made.
        pages: Further text files by name, such as the report.
    """
    with folder_written_atomically(folder, marker=MODEL) as draft:
        write_model_files(draft, saved)
        (draft / SCORES).write_text(json.dumps(scores, indent=1) + "\n", encoding="utf-8")
        for name, text in pages.items():
            (draft / name).write_text(text, encoding="utf-8")


def score_table(replicas: Replicas, baselines: Mapping[str, Any]) -> dict[str, Any]:
    """The content of ``scores.json``."""
    corpus = replicas.corpus
    return {
        "dataset": corpus.name,
        "synthetic": corpus.facts.synthetic,
        "classes": list(corpus.classes),
        "modes": replicas.scores[0],
        "baselines": dict(baselines),
    }
