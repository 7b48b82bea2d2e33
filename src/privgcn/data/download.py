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


def fetch(
    card: DatasetCard, folder: Path, *, source: Path | None = None, progressbar: bool = False
) -> list[Path]:
    """Makes sure that the raw files of a dataset are below ``folder``, and names them.

    Args:
        card: The dataset.
        folder: The data folder.
        source: A folder that has the files, by their names, instead of a download.
        progressbar: Whether a download shows how far it is.

    Raises:
        DataNotAvailableError: There is no connection, no address to download from, or what
            is found is something else than the published file.
        ConfigError: The folder cannot be written, or the disk is full.
    """
    if source is None and (by_hand := [f for f in card.missing(folder) if f.url is None]):
        raise DataNotAvailableError(
            f"The dataset '{card.name}' cannot be downloaded. Get "
            f"{', '.join(Path(file.path).name for file in by_hand)} by hand ({card.origin}), "
            f"then run: privgcn fetch {card.name} --from FOLDER"
        )
    import pooch  # type: ignore[import-untyped]
    import requests

    # pooch says on a logger what it downloads; the caller shows progress.
    pooch.get_logger().setLevel("ERROR")
    download = pooch.HTTPDownloader(progressbar=progressbar, timeout=30)
    if source is not None:
        download = _copied
    for file in card.files:
        path, address = folder / file.path, file.url
        if source is not None:
            copies = (own for own in sorted(source.rglob(path.name)) if own.is_file())
            address = str(next(copies, source))
        # What was put there by hand is checked when it is read.
        if address is None:
            continue
        with writing(path):
            try:
                pooch.retrieve(
                    address,
                    known_hash=None if file.sha256 is None else f"sha256:{file.sha256}",
                    fname=path.name,
                    path=path.parent,
                    downloader=download,
                )
            # Errors of requests are OSErrors, which ``writing`` would call one of the disk.
            except (requests.RequestException, ValueError) as error:
                raise DataNotAvailableError(
                    f"The file {path.name} could not be had from {address}: {reason(error)}. "
                    f"Check the connection, or get it from {card.origin or address} by hand "
                    "and set PRIVGCN_DATA."
                ) from error
    return [folder / file.path for file in card.files]


def _copied(source: str, target: str, caller: object) -> None:
    """What pooch calls instead of a download."""
    if not Path(source).is_file():
        raise ValueError("it is nowhere below that folder")
    shutil.copyfile(source, target)
