"""Checkpoints: a stopped private run goes on where it was, with fresh noise.

A checkpoint holds noisy parameters and optimiser state, and of the documents no more than a
keyed fingerprint, so that it is never taken for a run on others. Random sources are never
stored: whoever resumes draws from a new key, so no noise repeats, and steps that a crash lost
were never released, so taking them again costs nothing.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import secrets
import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from privgcn.data.scratch import LINKS_AT_ONCE
from privgcn.errors import DataError
from privgcn.files import read_bounded, write_atomically
from privgcn.graph.on_disk import RowsOnDisk, forget
from privgcn.graph.sparse_rows import SparseRows
from privgcn.graph.textgraph import TextGraph

_NAME = "checkpoint.safetensors"
_MOST_BYTES = 1 << 34


@dataclass
class Checkpoint:
    """A file that holds the state of one run, replaced atomically from time to time.

    Attributes:
        folder: Where the file is; made when the first state is written.
        purpose: Everything that decides the run, its documents included; a state of another
            purpose is not taken.
        every_seconds: Least time between two writes.
    """

    folder: Path
    purpose: dict[str, Any]
    every_seconds: float = 20.0
    _key: str = field(default_factory=lambda: secrets.token_hex(32), repr=False)
    _last: float = field(default_factory=time.monotonic, repr=False)

    @property
    def path(self) -> Path:
        """The checkpoint file."""
        return self.folder / _NAME

    def _digest(self, key: str) -> str:
        text = json.dumps(self.purpose, sort_keys=True, default=str)
        return hmac.digest(key.encode(), text.encode(), "sha256").hex()

    def load(self) -> dict[str, Tensor] | None:
        """The stored state of this very run, or ``None``."""
        from safetensors import SafetensorError
        from safetensors.torch import load

        try:
            content = read_bounded(self.path, most=_MOST_BYTES)
            size = int.from_bytes(content[:8], "little")
            stored = json.loads(content[8 : 8 + size])["__metadata__"]
            if stored["purpose"] != self._digest(stored["key"]):
                return None
            return load(content)
        except (
            *(DataError, SafetensorError, ValueError, KeyError, TypeError, AttributeError),
            RecursionError,
        ):
            # A file that cannot be read is no checkpoint; training starts from the beginning.
            return None

    def offer(self, state: Any) -> None:
        """Writes ``state()`` if the last write is long enough ago."""
        if time.monotonic() - self._last >= self.every_seconds:
            self.write(state())

    def write(self, state: dict[str, Tensor]) -> None:
        """Replaces the stored state."""
        from safetensors.torch import save

        contiguous = {name: tensor.contiguous() for name, tensor in state.items()}
        metadata = {"key": self._key, "purpose": self._digest(self._key)}
        write_atomically(self.path, save(contiguous, metadata))
        self._last = time.monotonic()


def clear_checkpoint(folder: Path) -> None:
    """Removes the state that a finished run left in a folder, and the folder if it is empty."""
    (folder / _NAME).unlink(missing_ok=True)
    with suppress(OSError):
        folder.rmdir()


def fingerprint(train: TextGraph, columns: Mapping[str, Any]) -> str:
    """SHA-256 of everything that training reads of its documents; never stored as it is."""
    digest = hashlib.sha256()
    for tensor in _tensors(train):
        array = np.ascontiguousarray(tensor.cpu().numpy())
        digest.update(f"{array.dtype} {array.shape}".encode())
        digest.update(array.data)
    for name in sorted(columns):
        digest.update(json.dumps([name, *map(str, columns[name])]).encode())
    return digest.hexdigest()


def _tensors(train: TextGraph) -> Iterator[Tensor]:
    """What training reads of its documents; what lies on disk comes in pieces."""
    yield train.labels
    if train.owners is not None:
        yield train.owners
    for links in torch.split(train.edges, LINKS_AT_ONCE, dim=1):
        yield links
        forget(train.edges)
    rows = train.features
    pieces = (own for _, own in rows.pieces()) if isinstance(rows, RowsOnDisk) else [rows]
    for own in pieces:
        if isinstance(own, SparseRows):
            yield from (own.offsets, own.columns)
        yield own.values
