"""Where raw data live on this machine."""

from __future__ import annotations

import os
from pathlib import Path

DATA_VARIABLE = "PRIVGCN_DATA"


def data_folder(data_dir: str | os.PathLike[str] | None = None) -> Path:
    """The folder of raw data: the argument, ``PRIVGCN_DATA``, or the user cache."""
    if data_dir is not None:
        return Path(data_dir).expanduser()
    named = os.environ.get(DATA_VARIABLE)
    if named:
        return Path(named).expanduser()
    return cache_folder() / "data"


def cache_folder() -> Path:
    """The user's cache folder for this package, after the XDG rules."""
    base = os.environ.get("XDG_CACHE_HOME")
    # The XDG rules say that a relative path there must be ignored.
    root = Path(base) if base and os.path.isabs(base) else Path.home() / ".cache"
    return root / "privgcn"
