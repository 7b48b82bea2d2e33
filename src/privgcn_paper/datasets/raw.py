"""Datasets whose raw files were published elsewhere: which these are and how they come here.

Downloads go through pooch, which checks the published sha256 before a file takes its place.
"""

from __future__ import annotations

import hashlib
import shutil
from dataclasses import dataclass
from pathlib import Path

from privgcn.data.catalogue import DatasetCard
from privgcn.errors import DataError, DataNotAvailableError, reason
from privgcn.files import read_bounded, writing

_MOST_CHECKED_BYTES = 1 << 30


@dataclass(frozen=True)
class RawFile:
    """One file of a dataset, by its path in the data folder.

    It has no ``sha256`` where no copy could be had to compute it from, and no ``url`` where it
    has to be put there by hand.
    """

    path: str
    size: int | None = None
    sha256: str | None = None
    url: str | None = None

    def read(self, folder: Path) -> bytes:
        """The content, once its checksum is known to be right."""
        path = folder / self.path
        data = read_bounded(path, most=_MOST_CHECKED_BYTES)
        if self.sha256 not in (None, hashlib.sha256(data).hexdigest()):
            raise DataError(
                f"The file {path} must have the sha256 {self.sha256}. It was cut or changed "
                f"({len(data)} bytes, {self.size} expected). Delete it and fetch it again."
            )
        return data


@dataclass(frozen=True)
class PublishedDataset(DatasetCard):
    """A dataset with its raw files, in the loader's order, and where they come from."""

    files: tuple[RawFile, ...] = ()
    origin: str = ""

    def missing(self, folder: Path) -> list[str]:
        """The raw files that are not below ``folder``."""
        return [file.path for file in self.files if not (folder / file.path).is_file()]

    def fetch(
        self, folder: Path, *, source: Path | None = None, progressbar: bool = False
    ) -> list[Path]:
        """Makes sure that the raw files are below ``folder``, and names them."""
        absent = self.missing(folder)
        by_hand = [f.path for f in self.files if f.url is None and f.path in absent]
        if source is None and by_hand:
            raise DataNotAvailableError(
                f"The dataset '{self.name}' cannot be downloaded. Get "
                f"{', '.join(Path(path).name for path in by_hand)} by hand ({self.origin}), "
                f"then run: privgcn fetch {self.name} --from FOLDER"
            )
        import pooch  # type: ignore[import-untyped]
        import requests

        # pooch says on a logger what it downloads; the caller shows progress.
        pooch.get_logger().setLevel("ERROR")
        download = pooch.HTTPDownloader(progressbar=progressbar, timeout=30)
        if source is not None:
            download = _copied
        for file in self.files:
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
                        f"The file {path.name} could not be had from {address}: "
                        f"{reason(error)}. Check the connection, or get it from "
                        f"{self.origin or address} by hand and set PRIVGCN_DATA."
                    ) from error
        return [folder / file.path for file in self.files]


def _copied(source: str, target: str, caller: object) -> None:
    """What pooch calls instead of a download."""
    if not Path(source).is_file():
        raise ValueError("it is nowhere below that folder")
    shutil.copyfile(source, target)
