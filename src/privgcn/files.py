"""Files that are either whole or not there."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from privgcn.errors import ConfigError


def write_atomically(path: Path, content: str | bytes) -> None:
    """Writes a file through a draft beside it, so that a crash leaves the old one or none.

    The new file is on disk when this returns.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    data = content.encode() if isinstance(content, str) else content
    handle, draft = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.chmod(draft, 0o666 & ~_umask())
        os.replace(draft, path)
        _flush_folder(path.parent)
    except BaseException:
        with suppress(FileNotFoundError):
            os.unlink(draft)
        raise


@contextmanager
def folder_written_atomically(folder: Path, *, marker: str) -> Iterator[Path]:
    """Yields a draft folder that takes the place of ``folder`` when the block succeeds.

    An existing folder is replaced only if it holds ``marker``: one of our own, never
    somebody's documents.

    Raises:
        ConfigError: ``folder`` exists and is none of ours.
    """
    if folder.exists() and (
        not folder.is_dir() or (any(folder.iterdir()) and not (folder / marker).exists())
    ):
        raise ConfigError(
            f"The folder {folder} exists and was not written by privgcn. "
            "Name another folder, or remove it first."
        )
    folder.parent.mkdir(parents=True, exist_ok=True)
    draft = Path(tempfile.mkdtemp(dir=folder.parent, prefix=f".{folder.name}."))
    os.chmod(draft, 0o777 & ~_umask())
    try:
        yield draft
        if folder.exists():
            old = Path(tempfile.mkdtemp(dir=folder.parent, prefix=f".{folder.name}.old."))
            os.replace(folder, old / folder.name)
            os.replace(draft, folder)
            shutil.rmtree(old)
        else:
            os.replace(draft, folder)
    except BaseException:
        shutil.rmtree(draft, ignore_errors=True)
        raise


def _flush_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
