"""Files that are written whole or not at all, and read only if they are what they seem."""

from __future__ import annotations

import os
import secrets
import stat
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

from privgcn.errors import ConfigError, DataError

if TYPE_CHECKING:
    from numpy.typing import DTypeLike, NDArray


def data_folder(data_dir: str | os.PathLike[str] | None = None) -> Path:
    """The folder of raw data: the argument, ``PRIVGCN_DATA``, or the user cache."""
    named = data_dir or os.environ.get("PRIVGCN_DATA")
    return Path(named).expanduser() if named else cache_folder() / "data"


def cache_folder() -> Path:
    """The user's cache folder for this package, after the XDG rules."""
    base = Path(os.environ.get("XDG_CACHE_HOME", ""))
    # The XDG rules say that a relative path there must be ignored.
    return (base if base.is_absolute() else Path.home() / ".cache") / "privgcn"


def open_bounded(path: Path, *, most: int) -> BinaryIO:
    """A regular file of at most ``most`` bytes, open for reading; never a pipe or a device."""
    try:
        # Without waiting for somebody to write into a pipe.
        handle = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0))
    except (FileNotFoundError, NotADirectoryError):
        raise DataError(f"The file {path} does not exist.") from None
    except OSError as error:
        raise DataError(f"The file {path} cannot be read: {error.strerror}.") from None
    try:
        status = os.fstat(handle)
        if not stat.S_ISREG(status.st_mode):
            raise DataError(
                f"The file {path} must be a regular file. Got a folder, a pipe or a device."
            )
        if status.st_size > most:
            raise DataError(f"The file {path} must have at most {most} bytes. It has more.")
        return os.fdopen(handle, "rb")
    except BaseException:
        os.close(handle)
        raise


def read_bounded(path: Path, *, most: int) -> bytes:
    """The bytes of a file as ``open_bounded`` opens it."""
    with open_bounded(path, most=most) as file:
        try:
            # Never more than it had when it was opened, whatever is allowed.
            return file.read(os.fstat(file.fileno()).st_size)
        except OSError as error:
            raise DataError(f"The file {path} cannot be read: {error.strerror}.") from None


def array_on_disk(shape: tuple[int, ...], dtype: DTypeLike) -> NDArray[Any]:
    """A ``numpy.memmap`` of zeros in a file without a name, which goes when the array does."""
    import numpy as np

    with writing(Path(tempfile.gettempdir())), tempfile.TemporaryFile() as file:
        return np.memmap(file, dtype=dtype, mode="w+", shape=shape)


@contextmanager
def writing(path: Path) -> Iterator[None]:
    """Turns what the system says against writing ``path`` into one line for the user."""
    try:
        yield
    except OSError as error:
        raise ConfigError(
            f"{path} cannot be written: {error.strerror or error}. What was there is "
            "unchanged. Make room, or name another path."
        ) from None


def check_room(path: Path) -> None:
    """Writes a little beside ``path`` and removes it, before any work is done for nothing."""
    existing = next(folder for folder in path.parents if folder.exists())
    with tempfile.TemporaryDirectory(dir=existing, prefix=".privgcn-") as probe:
        (Path(probe) / "probe").write_bytes(bytes(1024))


def write_atomically(path: Path, content: str | bytes, *, mode: int = 0o600) -> None:
    """Writes a file through a draft beside it, so that a crash leaves the old one or none.

    The new file is on disk when this returns, for its owner alone unless ``mode`` allows more,
    from which the system takes the umask.
    """
    data = content.encode() if isinstance(content, str) else content
    with writing(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        draft = path.with_name(f".{path.name}.{secrets.token_hex(6)}")
        try:
            write_synced(draft, data, mode=mode)
            os.replace(draft, path)
            flush_folder(path.parent)
        except BaseException:
            draft.unlink(missing_ok=True)
            raise


def write_synced(path: Path, data: bytes, *, mode: int) -> None:
    """Writes a new file and has it on disk; it never has more permissions than ``mode``."""
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
    with os.fdopen(handle, "wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())


def flush_folder(folder: Path) -> None:
    """Puts the names in a folder on disk; Windows does so by itself."""
    if sys.platform == "win32":
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
