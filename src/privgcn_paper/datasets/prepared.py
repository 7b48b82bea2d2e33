"""Large raw dumps, prepared once into a folder of documents in the user's cache.

Dumps have no published checksum: what does not hold together is refused as a whole.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from privgcn.errors import DataError, reason
from privgcn.files import cache_folder, writing

_PREPARED_FORMAT = 3


def prepared_folder(
    name: str, raw: Sequence[Path], options: str, build: Callable[[Path], None]
) -> Path:
    """The folder that ``build`` fills from a large raw dump, made now unless it is there.

    It has the form of a user's own documents. It is built beside its folder and moved there
    when it is complete: a failed or killed preparation leaves nothing that could be read, and
    two at once do not disturb each other.

    A change of a ``raw`` file, or of ``options``, makes a new folder.
    """
    state = [(path.name, path.stat().st_size, path.stat().st_mtime_ns) for path in raw]
    digest = hashlib.sha256(repr((_PREPARED_FORMAT, state, options)).encode()).hexdigest()[:16]
    final = cache_folder() / "prepared" / f"{name}-{digest}"
    if final.is_dir():
        return final
    with writing(final):
        final.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        # Readable by its owner only: the dumps hold what people wrote about themselves.
        work = Path(tempfile.mkdtemp(prefix=f".{name}-", dir=final.parent))
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


@contextmanager
def reading(path: Path) -> Iterator[None]:
    """Turns whatever is wrong with a published file into one ``DataError``."""
    try:
        yield
    # Broken archives and headers make zipfile, numpy and polars raise nearly anything.
    except Exception as error:
        raise DataError(
            f"The file {path} must be complete and as published. It cannot be read "
            f"({reason(error)}). It was probably cut in the download: get it again."
        ) from error
