"""A run, a saved model or a release: written from memory, read back from its folder, checked.

    write_run(folder, trained, page)
    run = Run(folder)
    run.statement, run.scores, run.model()
    verify(folder)

Reading and checking imports no PyTorch: claim, settings, record and tensors are looked at as
JSON, TOML and bytes.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from privgcn import progress
from privgcn.config import Settings
from privgcn.errors import DataError, PrivacyContractError
from privgcn.files import read_bounded
from privgcn.privacy.statement import PrivacyStatement
from privgcn.privacy.verify import Verification, check_claim
from privgcn.runs.folder import (
    MODEL,
    REPORT,
    SCORES,
    SEEN,
    STATEMENT,
    WEIGHTS,
    Stored,
    is_stored,
    read_folder,
    write_folder,
)
from privgcn.runs.model import (
    Model,
    bound_settings,
    model_files,
    read_model,
    read_settings,
)

if TYPE_CHECKING:
    from torch import nn

    from privgcn.data import Corpus
    from privgcn.runs.documents_seen import DocumentsSeen
    from privgcn.runs.train import TrainedRun

Page = Callable[[Settings, PrivacyStatement | None, dict[str, Any]], str]
_MOST_STATEMENT = 1 << 24
# Of the scores, what ``--json`` prints as it is.
_PRINTED = ("baselines", "references", "deploy", "repeats")


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
        """The claim, computed again; ``None`` where there is none."""
        stored = self.stored
        if STATEMENT not in stored.files:
            if self.settings.privacy is not None:
                raise DataError(
                    f"The {stored.kind} {self.folder} was trained with privacy but has no "
                    f"{STATEMENT}. Copy the whole folder, or train again."
                )
            return None
        statement = PrivacyStatement.from_json(stored.text(STATEMENT))
        checked = check_claim(
            statement,
            settings=bound_settings(self.settings),
            weights=stored.content(WEIGHTS),
            record=stored.record(MODEL),
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

    def model(self, *, module: nn.Module | None = None, path: Path | None = None) -> Model:
        """The model, as :func:`read_model` gives it; its claim is checked first."""
        return read_model(
            self.stored,
            settings=self.settings,
            statement=self.statement,
            module=module,
            path=path,
        )

    @cached_property
    def documents_seen(self) -> DocumentsSeen | None:
        """Which documents it was trained on; ``None`` where the folder does not know."""
        from privgcn.runs.documents_seen import DocumentsSeen

        return DocumentsSeen.read(self.stored)

    def is_own_source(self, source: str) -> bool:
        """Whether the run was trained on the documents at ``source``."""
        from privgcn.data import resolved_source

        own = self.settings.data.source
        return own is not None and resolved_source(own) == resolved_source(source)

    def reading(self, *, own: bool) -> dict[str, Any]:
        """Options of ``load_corpus`` for the documents of the run, or for new ones."""
        data = self.settings.data
        return data.reading if own else data.reading_new

    def corpus(
        self, source: str | None = None, reading: Mapping[str, Any] | None = None
    ) -> Corpus:
        """Documents with labels of the model's classes; by default those it was trained on.

        Args:
            source: Where other documents are.
            reading: Options of ``load_corpus`` for them, where the run has others.
        """
        from privgcn.data import load_corpus

        source = source or self.settings.data.source
        if source is None:
            raise DataError(
                f"The {self.stored.kind} {self.folder} does not name its documents. Use "
                "'privgcn predict' with a folder of documents instead."
            )
        read = {**self.reading(own=self.is_own_source(source)), **(reading or {})}
        read["classes"] = [str(name) for name in self.stored.record(MODEL)["classes"]["values"]]
        return load_corpus(source, seed=self.settings.seed, **read)


def verify(path: Path) -> Verification:
    """Checks a run, a release or a statement file from the files alone.

    Raises:
        DataError: A file was edited, removed or added, or cannot be read.
        PrivacyContractError: The claim does not hold or is void, or files contradict each
            other.
    """
    folder = path if path.is_dir() or path.name != STATEMENT else path.parent
    if path.is_dir() or is_stored(folder):
        verification = Run(folder).verification
        if verification is None:
            raise DataError(
                f"The run {folder} is as it was written, but it was trained without privacy "
                "and has no statement to verify."
            )
        return _valid(verification, path)
    try:
        text = read_bounded(path, most=_MOST_STATEMENT).decode("utf-8")
    except UnicodeDecodeError:
        raise DataError(f"The file {path} is not UTF-8 text.") from None
    statement = PrivacyStatement.from_json(text)
    return _valid(Verification(statement, check_claim(statement, where=path)), path)


def _valid(verification: Verification, path: Path) -> Verification:
    if verification.statement.void:
        raise PrivacyContractError(
            f"The claim of {path} must hold. It is void by the fact "
            f"'{verification.statement.void[0].code}', which its statement names. Train again, "
            "once, or use 'privgcn tune'."
        )
    return verification


def write_run(
    folder: Path, run: TrainedRun, page: Page, *, overwrite: bool = False, seeds: int = 1
) -> dict[str, Any]:
    """Scores a model and writes its run folder: whole, or not at all.

    With several ``seeds``, the model's is the first, and models of the others are forgotten.

    Returns:
        What ``--json`` prints, but for the time: that of a search would tell its runs.
    """
    from privgcn.evaluation import HEADLINE, PROBABILITIES, baselines_left_out
    from privgcn.runs.documents_seen import DocumentsSeen
    from privgcn.runs.evaluate import repeated_scores
    from privgcn.runs.train import score_table

    settings, statement = run.settings, run.model.statement
    scores = score_table(run)
    if seeds > 1:
        scores["repeats"] = repeated_scores(run, seeds)
    progress.begin("report")
    unit = None if settings.privacy is None else settings.privacy.unit
    files = {
        **model_files(run.model),
        SCORES: json.dumps(scores, indent=1) + "\n",
        SEEN: DocumentsSeen.of(run.corpus, unit).content(),
        REPORT: page(settings, statement, scores),
    }
    write_folder(folder, "run", files, overwrite=overwrite)
    printed = (*HEADLINE, *PROBABILITIES, "documents", "intervals")
    return {
        "run": str(folder),
        "dataset": run.corpus.name,
        "synthetic": run.corpus.facts.synthetic,
        "settings": settings.model_dump(),
        "statement": None if statement is None else json.loads(statement.to_json()),
        "scores": {
            mode: {key: row[key] for key in printed} for mode, row in scores["modes"].items()
        },
        **{name: scores[name] for name in _PRINTED if name in scores},
        "baselines_left_out": baselines_left_out(settings),
    }
