"""Releases: the part of a run that may be published, and nothing else."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from privgcn.config import DataSettings, Settings
from privgcn.errors import ConfigError, PrivacyContractError
from privgcn.features import featurizer_from_state
from privgcn.features.registry import without_places
from privgcn.privacy.statement import PrivacyStatement
from privgcn.runs.folder import check_target, lies_in, write_folder
from privgcn.runs.model import model_files
from privgcn.runs.run import Run


def releasable_statement(run: Run, *, learned_features: bool) -> PrivacyStatement:
    """The checked statement of a run that may be released.

    Raises:
        DataError: There is no run, or it was changed.
        PrivacyContractError: The run has no guarantee, seeded noise, or features that were
            learned from protected text.
    """
    statement, featurizer = run.statement, run.model.featurizer
    if statement is None:
        raise PrivacyContractError(
            f"The run in {run.folder} was trained without privacy; there is nothing to "
            "release. Train with --epsilon."
        )
    if not statement.releasable or not run.model.fitted.releasable:
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
    return statement


def public_settings(settings: Settings) -> Settings:
    """The settings without where documents, vectors and caches lie on this machine."""
    features = settings.features
    named = features.model_copy(update={"options": without_places(features.options)})
    return settings.model_copy(update={"data": DataSettings(), "features": named})


def check_release_target(run: Run, folder: Path, *, overwrite: bool) -> None:
    """Refuses to write a release over its own run, or where it must not or cannot be.

    Raises:
        ConfigError: It is refused.
    """
    if lies_in(folder, run.folder) or lies_in(run.folder, folder):
        raise ConfigError(
            f"The release of {run.folder} must lie apart from the run. Got {folder}. Name "
            "another folder."
        )
    check_target(folder, overwrite=overwrite)


def write_release(
    run: Run, folder: Path, pages: Mapping[str, str], *, overwrite: bool = False
) -> None:
    """Writes model, statement and pages, without scores and without where anything lay."""
    check_release_target(run, folder, overwrite=overwrite)
    model = run.model
    bare = replace(
        model,
        fitted=replace(model.fitted, settings=public_settings(model.fitted.settings)),
        featurizer=featurizer_from_state(without_places(model.featurizer.state())),
        parameters=None,
    )
    write_folder(folder, "release", {**model_files(bare), **pages}, overwrite=overwrite)
