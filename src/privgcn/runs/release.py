"""Releases: the part of a run that may be published, and nothing else.

A release has the model, its statement and pages. It holds no ids, owners, counts, scores,
paths or times: what differs between neighbouring datasets is what was released with noise.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from privgcn.config import Settings, to_toml
from privgcn.errors import ConfigError, PrivacyContractError
from privgcn.files import writing
from privgcn.privacy.ledger import check_releasable
from privgcn.privacy.statement import PrivacyStatement
from privgcn.runs.folder import (
    MODEL,
    SETTINGS,
    STATEMENT,
    WEIGHTS,
    check_target,
    write_folder,
)
from privgcn.runs.model import bound_settings
from privgcn.runs.run import Run, runs_beside


def releasable_statement(
    run: Run, *, learned_features: bool, not_chosen: bool = False
) -> PrivacyStatement:
    """The checked statement of a run that may be released.

    Args:
        run: The run.
        learned_features: Whether features that were learned from protected text may go out.
        not_chosen: The owner's word that a model that is one of several was not chosen among
            them by looking at scores or documents.
    """
    statement = run.statement
    if statement is None:
        raise PrivacyContractError(
            f"The run in {run.folder} was trained without privacy; there is nothing to "
            "release. Train with --epsilon."
        )
    check_releasable(statement, not_chosen=not_chosen)
    others = () if not_chosen else runs_beside(run.folder, run.settings)
    if others:
        raise PrivacyContractError(
            f"The model of a release must not be chosen among several by looking at scores or "
            f"documents. Got one of {len(others) + 1} private runs of the same documents in "
            f"{run.folder.resolve().parent}, such as {others[0].name}. To choose, use 'privgcn "
            "tune', whose epsilon covers the search; if this one was not chosen, say so: "
            "--not-chosen."
        )
    featurizer = run.model().featurizer
    if featurizer.learns and not learned_features:
        raise PrivacyContractError(
            f"The features of the run in {run.folder} are not covered by the guarantee: "
            f"{featurizer.learned}. Train with features that learn nothing, or accept it with "
            "--with-learned-features."
        )
    return statement


def public_settings(run: Run) -> Settings:
    """The settings without where documents, vectors and caches lie on this machine."""
    from privgcn.features.choose import without_paths

    kind = run.model().featurizer.kind
    return bound_settings(run.settings, without_paths(kind, run.settings.features.options))


def check_release_target(run: Run, folder: Path, *, overwrite: bool) -> None:
    """Refuses to write a release over its own run, or where it must not or cannot be."""
    with writing(folder):
        own, target = run.folder.resolve(), folder.resolve()
        if target.is_relative_to(own) or own.is_relative_to(target):
            raise ConfigError(
                f"The release of {run.folder} must lie apart from the run. Got {folder}. Name "
                "another folder."
            )
    check_target(folder, overwrite=overwrite)


def write_release(
    run: Run, folder: Path, pages: Mapping[str, str], *, overwrite: bool = False
) -> None:
    """Writes model, statement and pages; the statement is the run's, word for word."""
    check_release_target(run, folder, overwrite=overwrite)
    files: dict[str, str | bytes] = {
        **{name: run.content(name) for name in (MODEL, WEIGHTS, STATEMENT)},
        SETTINGS: to_toml(public_settings(run).model_dump()),
        **pages,
    }
    write_folder(folder, "release", files, overwrite=overwrite)
