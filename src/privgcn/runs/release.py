"""Releases: the part of a run that may leave the house, and nothing else."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from privgcn.config import DataSettings, Settings
from privgcn.errors import PrivacyContractError
from privgcn.features import featurizer_from_state
from privgcn.features.registry import without_places
from privgcn.files import folder_written_atomically
from privgcn.runs.model_folder import MODEL, write_model_files
from privgcn.runs.run_folder import Run


def check_releasable(run: Run, *, learned_features: bool) -> None:
    """Refuses a run whose model must stay where it is.

    Raises:
        DataError: There is no run.
        PrivacyContractError: The run has no guarantee, seeded noise, or features that were
            learned from protected text.
    """
    featurizer = run.saved.featurizer
    if run.statement is None:
        raise PrivacyContractError(
            f"The run in {run.folder} was trained without privacy; there is nothing to "
            "release. Train with --epsilon."
        )
    run.statement.verify()
    if not run.statement.releasable or not run.saved.fitted.releasable:
        raise PrivacyContractError(
            f"The noise of the run in {run.folder} was seeded (--reproducible): whoever knows "
            "the seed can subtract it. Train again without --reproducible."
        )
    if featurizer.learns and not learned_features:
        raise PrivacyContractError(
            f"The features of the run in {run.folder} are not covered by the guarantee: "
            f"{featurizer.learned}. Train with features that learn nothing, or accept it with "
            "--with-learned-features."
        )


def public_settings(settings: Settings) -> Settings:
    """The settings without where documents, vectors and caches lie on this machine."""
    features = settings.features
    named = features.model_copy(update={"options": without_places(features.options)})
    return settings.model_copy(update={"data": DataSettings(), "features": named})


def write_release(run: Run, folder: Path, pages: Mapping[str, str]) -> None:
    """Writes model, statement and pages, without scores and without where anything lay."""
    saved = run.saved
    bare = replace(
        saved,
        fitted=replace(saved.fitted, settings=public_settings(saved.fitted.settings)),
        featurizer=featurizer_from_state(without_places(saved.featurizer.state())),
    )
    with folder_written_atomically(folder, marker=MODEL) as draft:
        write_model_files(draft, bare)
        for name, text in pages.items():
            (draft / name).write_text(text, encoding="utf-8")
