"""Brings raw files into the data folder: downloaded, or copied from where they already are.

Downloads are checked by sha256 and continued where an earlier attempt was cut.

A file is written beside its place as ``NAME.part`` and moved there only when its checksum is
right, so nothing half-written is ever read.
"""

from __future__ import annotations

import http.client
import os
import shutil
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path

from privgcn.data.card import DatasetCard, RawFile, sha256_of
from privgcn.errors import DataNotAvailableError
from privgcn.files import writing

Progress = Callable[[str, int, int | None], None]
"""Called with a file's name, the bytes that are there, and the bytes in all if known."""

_CHUNK = 1 << 18
_ATTEMPTS = 3
_TIMEOUT_SECONDS = 30
_RANGE_REFUSED = 416
_PARTIAL = 206


def fetch(card: DatasetCard, folder: Path, progress: Progress | None = None) -> list[Path]:
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
    return [_fetch_file(file, folder, progress or _silent) for file in card.files]


def copy_from(card: DatasetCard, source: Path, folder: Path) -> list[Path]:
    """Copies the raw files of a dataset from a folder, found there by their names.

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
        found = sorted(path for path in source.rglob(name) if path.is_file())
        if not found:
            raise DataNotAvailableError(
                f"The dataset '{card.name}' needs the file {name}, which is nowhere below "
                f"{source}. Get it from {card.origin}."
            )
        if not (target.exists() and target.samefile(found[0])):
            part = target.with_name(target.name + ".part")
            with writing(target):
                target.parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(found[0], part)
                os.replace(part, target)
        file.check(folder)
        copied.append(target)
    return copied


def _silent(name: str, done: int, total: int | None) -> None:
    """Shows nothing."""


def _fetch_file(file: RawFile, folder: Path, progress: Progress) -> Path:
    path = folder / file.path
    if path.is_file() and (file.sha256 is None or sha256_of(path) == file.sha256):
        progress(path.name, path.stat().st_size, path.stat().st_size)
        return path
    if file.url is None:
        file.check(folder)
    part = path.with_name(path.name + ".part")
    with writing(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        _download(file, part, path.name, progress)
        os.replace(part, path)
    return path


def _download(file: RawFile, part: Path, name: str, progress: Progress) -> None:
    """Fills ``part`` until its checksum is right; a cut connection is continued."""
    problem = ""
    for _ in range(_ATTEMPTS):
        continued = part.is_file() and part.stat().st_size > 0
        try:
            complete = _receive(file, part, name, progress)
        except urllib.error.HTTPError as error:
            problem = f"the server answered {error.code} {error.reason}"
            error.close()
            if error.code != _RANGE_REFUSED:
                break
            # The part is not a beginning of the file; a new attempt starts afresh.
            part.unlink(missing_ok=True)
            continue
        except urllib.error.URLError as error:
            raise DataNotAvailableError(
                f"The file {name} could not be downloaded from {file.url}: {error.reason}. "
                "Check the connection and run the command again, or copy the files by hand "
                "and set PRIVGCN_DATA."
            ) from error
        except (http.client.HTTPException, ConnectionError, TimeoutError) as error:
            problem = f"the connection was cut ({type(error).__name__})"
            continue
        if not complete:
            problem = "the connection was cut"
            continue
        if file.sha256 is None or sha256_of(part) == file.sha256:
            return
        part.unlink()
        problem = f"its sha256 is not the published one ({file.sha256})"
        if not continued:
            break
    kept = " What arrived is kept; run the command again to continue." if part.exists() else ""
    raise DataNotAvailableError(
        f"The file {name} could not be downloaded from {file.url}: {problem}.{kept}"
    )


def _receive(file: RawFile, part: Path, name: str, progress: Progress) -> bool:
    """One request; true when as many bytes are there as the server announced."""
    start = part.stat().st_size if part.is_file() else 0
    if start and start == file.size:
        return True
    request = urllib.request.Request(str(file.url), headers={"User-Agent": "privgcn"})
    if start:
        request.add_header("Range", f"bytes={start}-")
    with urllib.request.urlopen(request, timeout=_TIMEOUT_SECONDS) as answer:
        if start and answer.status != _PARTIAL:
            start = 0
        length = answer.headers.get("Content-Length", "")
        total = start + int(length) if length.isdigit() and len(length) < 20 else file.size
        done = start
        with part.open("ab" if start else "wb") as stream:
            progress(name, done, total)
            while piece := answer.read(_CHUNK):
                stream.write(piece)
                done += len(piece)
                progress(name, done, total)
                if file.size is not None and done > file.size:
                    # Not the published file, and perhaps one without an end.
                    total = done
                    break
            stream.flush()
            os.fsync(stream.fileno())
    return total is None or done >= total
