"""Keeps what was prepared from a large raw dump, so that it is prepared once.

A preparation writes a folder of the same form as a user's own documents. It is built beside
its place and moved there when it is complete: a failed or killed preparation leaves nothing
that could be read, and two at once do not disturb each other.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

from privgcn.corpus.location import cache_folder
from privgcn.errors import DataError

_FORMAT = 1


def prepared_folder(
    name: str, raw: Sequence[Path], options: str, build: Callable[[Path], None]
) -> Path:
    """The folder that ``build`` fills, made now unless it is there.

    Args:
        name: The dataset.
        raw: The files it is made from; a change of one makes a new folder.
        options: What else the result depends on.
        build: Fills an empty folder.

    Raises:
        DataError: The cache can not be written, or ``build`` found a broken file.
    """
    seen = [(path.name, path.stat().st_size, path.stat().st_mtime_ns) for path in raw]
    digest = hashlib.sha256(repr((_FORMAT, seen, options)).encode()).hexdigest()[:16]
    final = cache_folder() / "prepared" / f"{name}-{digest}"
    if final.is_dir():
        return final
    try:
        final.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        # Readable by its owner only: the dumps hold what people wrote about themselves.
        work = Path(tempfile.mkdtemp(prefix=f".{name}-", dir=final.parent))
    except OSError as error:
        raise DataError(
            f"The cache folder {final.parent} must be writable. Got: {error.strerror}. "
            "Set XDG_CACHE_HOME to a writable folder."
        ) from error
    try:
        build(work)
        try:
            os.rename(work, final)
        except OSError:
            if not final.is_dir():
                raise
            # Another run was quicker with the same result.
    finally:
        shutil.rmtree(work, ignore_errors=True)
    return final
