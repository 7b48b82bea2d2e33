"""Writes a page whole or not at all, and says what to do where it cannot."""

from __future__ import annotations

from pathlib import Path

from privgcn.errors import ConfigError
from privgcn.files import write_atomically


def write_text(path: str | Path, text: str) -> Path:
    """Writes ``text`` to ``path``; a killed program leaves the old file or the new one.

    Raises:
        ConfigError: ``path`` is a folder or cannot be written.
    """
    target = Path(path)
    if target.is_dir():
        raise ConfigError(
            f"The output file must not be a folder. Got {target}. "
            f"Name a file in it, such as {target / 'report.html'}."
        )
    write_atomically(target, text)
    return target
