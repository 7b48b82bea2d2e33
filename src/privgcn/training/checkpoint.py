"""Checkpoints: a stopped private run goes on where it was, with fresh noise.

A checkpoint holds noisy parameters and optimiser state, nothing of the documents. Random
sources are never stored: whoever resumes draws from a new key, so no noise repeats, and
steps that a crash lost were never released, so taking them again costs nothing.
"""

from __future__ import annotations

import hashlib
import json
import os
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from torch import Tensor

_NAME = "checkpoint.safetensors"


@dataclass
class Checkpoint:
    """A file that holds the state of one run, replaced atomically from time to time.

    Attributes:
        folder: Where the file is; made when the first state is written.
        purpose: Everything that decides the run; a state of another purpose is not taken.
        every_seconds: Least time between two writes.
    """

    folder: Path
    purpose: dict[str, Any]
    every_seconds: float = 20.0
    _last: float = field(default_factory=time.monotonic, repr=False)

    @property
    def path(self) -> Path:
        """The checkpoint file."""
        return self.folder / _NAME

    @property
    def _digest(self) -> str:
        text = json.dumps(self.purpose, sort_keys=True, default=str)
        return hashlib.sha256(text.encode()).hexdigest()

    def load(self) -> dict[str, Tensor] | None:
        """The stored state of this very run, or ``None``."""
        from safetensors import SafetensorError, safe_open

        if not self.path.exists():
            return None
        try:
            with safe_open(self.path, framework="pt") as file:
                if (file.metadata() or {}).get("purpose") != self._digest:
                    return None
                return {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
        except (SafetensorError, OSError):
            # A file that cannot be read is no checkpoint; training starts from the beginning.
            return None

    def offer(self, state: Any) -> None:
        """Writes ``state()`` if the last write is long enough ago."""
        if time.monotonic() - self._last >= self.every_seconds:
            self.write(state())

    def write(self, state: dict[str, Tensor]) -> None:
        """Replaces the stored state."""
        from safetensors.torch import save_file

        self.folder.mkdir(parents=True, exist_ok=True)
        draft = self.path.with_suffix(".draft")
        contiguous = {name: tensor.contiguous() for name, tensor in state.items()}
        save_file(contiguous, draft, metadata={"purpose": self._digest})
        os.replace(draft, self.path)
        self._last = time.monotonic()
