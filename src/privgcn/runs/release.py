"""Releases: the part of a run that may be published, and nothing else.

A release has the model, its statement and pages. It holds no ids, owners, counts, scores,
paths or times: what differs between neighbouring datasets is what was released with noise.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from privgcn.config import DataSettings, Settings, to_toml
from privgcn.errors import ConfigError, PrivacyContractError
from privgcn.privacy.statement import PrivacyStatement
from privgcn.runs.folder import (
    MODEL,
    SETTINGS,
    STATEMENT,
    WEIGHTS,
    check_target,
    lies_in,
    write_folder,
)
from privgcn.runs.run import Run


def releasable_statement(run: Run, *, learned_features: bool) -> PrivacyStatement:
    """The checked statement of a run that may be released.

    Args:
        run: The run.
        learned_features: Whether features that were learned from protected text may go out.

    Raises:
        DataError: There is no run, or it was changed.
        PrivacyContractError: The run has no guarantee, seeded noise, or features that were
            learned from protected text.
    """
    statement = run.statement
    if statement is None:
        raise PrivacyContractError(
            f"The run in {run.folder} was trained without privacy; there is nothing to "
            "release. Train with --epsilon."
        )
    if not statement.releasable:
        raise PrivacyContractError(
            f"The noise of the run in {run.folder} was seeded (--reproducible): whoever knows "
            "the seed can subtract it. Train again without --reproducible."
        )
    if statement.void:
        raise PrivacyContractError(
            f"Nothing can be claimed of the run in {run.folder}: its statement names what "
            f"voids it ({statement.void[0].code}). Train again, once; to choose settings, use "
            "'privgcn tune'."
        )
    featurizer = run.model().featurizer
    if featurizer.learns and not learned_features:
        raise PrivacyContractError(
            f"The features of the run in {run.folder} are not covered by the guarantee: "
            f"{featurizer.learned}. Train with features that learn nothing, or accept it with "
            "--with-learned-features."
        )
    return statement


def public_settings(settings: Settings, kind: str) -> Settings:
    """The settings without where documents, vectors and caches lie on this machine."""
    from privgcn.features import without_paths

    options = without_paths(kind, settings.features.options)
    features = settings.features.model_copy(update={"options": options})
    return settings.model_copy(update={"data": DataSettings(), "features": features})


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
    """Writes model, statement and pages; the statement is the run's, word for word.

    Args:
        run: The run.
        folder: Where.
        pages: Card and report, by their names.
        overwrite: Whether an earlier run or release there may be replaced.
    """
    check_release_target(run, folder, overwrite=overwrite)
    public = public_settings(run.settings, run.model().featurizer.kind)
    files: dict[str, str | bytes] = {
        **{name: run.stored.content(name) for name in (MODEL, WEIGHTS, STATEMENT)},
        SETTINGS: to_toml(public.model_dump()),
        **pages,
    }
    write_folder(folder, "release", files, overwrite=overwrite)
