"""Where raw data live on this machine, and how they come there.

``PRIVGCN_DATA`` names the folder of raw data. Downloads go through pooch, which checks the
published sha256 before a file takes its place.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

from privgcn.errors import DataNotAvailableError, reason
from privgcn.files import writing

if TYPE_CHECKING:
    from privgcn.data.catalogue import DatasetCard


def data_folder(data_dir: str | os.PathLike[str] | None = None) -> Path:
    """The folder of raw data: the argument, ``PRIVGCN_DATA``, or the user cache."""
    named = data_dir or os.environ.get("PRIVGCN_DATA")
    return Path(named).expanduser() if named else cache_folder() / "data"


def cache_folder() -> Path:
    """The user's cache folder for this package, after the XDG rules."""
    base = os.environ.get("XDG_CACHE_HOME")
    # The XDG rules say that a relative path there must be ignored.
    root = Path(base) if base and os.path.isabs(base) else Path.home() / ".cache"
    return root / "privgcn"


def fetch(card: DatasetCard, folder: Path, *, progressbar: bool = False) -> list[Path]:
    """Makes sure that the raw files of a dataset are below ``folder``.

    Returns:
        The files. Empty for a dataset that is generated.

    Raises:
        DataNotAvailableError: There is no connection, no address to download from, or the
            server sends something else than the published file.
        ConfigError: The folder cannot be written, or the disk is full.
    """
    by_hand = [file for file in card.missing(folder) if file.url is None]
    if by_hand:
        raise DataNotAvailableError(
            f"The dataset '{card.name}' cannot be downloaded. Get "
            f"{', '.join(Path(file.path).name for file in by_hand)} by hand ({card.origin}), "
            f"then run: privgcn fetch {card.name} --from FOLDER"
        )
    import pooch  # type: ignore[import-untyped]
    import requests

    # pooch says on a logger what it downloads; the caller shows progress.
    pooch.get_logger().setLevel("ERROR")
    downloader = pooch.HTTPDownloader(progressbar=progressbar, timeout=30)
    for file in card.files:
        path = folder / file.path
        if file.url is None:
            file.check(folder)
            continue
        with writing(path):
            try:
                pooch.retrieve(
                    file.url,
                    known_hash=None if file.sha256 is None else f"sha256:{file.sha256}",
                    fname=path.name,
                    path=path.parent,
                    downloader=downloader,
                )
            # Errors of requests are OSErrors, which ``writing`` would call one of the disk.
            except (requests.RequestException, ValueError) as error:
                raise DataNotAvailableError(
                    f"The file {path.name} could not be downloaded from {file.url}: "
                    f"{reason(error)}. Check the connection and run the command again, or "
                    "copy the files by hand and set PRIVGCN_DATA."
                ) from error
    return [folder / file.path for file in card.files]


def copy_from(card: DatasetCard, source: Path, folder: Path) -> list[Path]:
    """Copies the raw files of a dataset from a folder, where they are looked for by name.

    Raises:
        DataNotAvailableError: A file is nowhere below the folder.
        DataError: A file is not the published one.
        ConfigError: The data folder cannot be written, or the disk is full.
    """
    if not source.is_dir():
        raise DataNotAvailableError(
            f"The folder {source} to take '{card.name}' from does not exist."
        )
    copied = []
    for file in card.files:
        name, target = Path(file.path).name, folder / file.path
        candidates = sorted(path for path in source.rglob(name) if path.is_file())
        if not candidates:
            raise DataNotAvailableError(
                f"The dataset '{card.name}' needs the file {name}, which is nowhere below "
                f"{source}. Get it from {card.origin}."
            )
        if not (target.exists() and target.samefile(candidates[0])):
            part = target.with_name(target.name + ".part")
            with writing(target):
                target.parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(candidates[0], part)
                os.replace(part, target)
        file.check(folder)
        copied.append(target)
    return copied
