"""Predictions of a run inside its record: short text, exact."""

from __future__ import annotations

import base64

import numpy as np
import numpy.typing as npt


def pack(classes: npt.NDArray[np.int64]) -> str:
    """Class indices as text; -1 (no label) travels as 255."""
    return base64.b64encode(np.asarray(classes).astype(np.uint8).tobytes()).decode("ascii")


def unpack(text: str) -> npt.NDArray[np.int64]:
    """The class indices that ``pack`` wrote."""
    values = np.frombuffer(base64.b64decode(text), dtype=np.uint8).astype(np.int64)
    values[values == 255] = -1
    return values


def train_majority(
    train: npt.NDArray[np.int64], test: npt.NDArray[np.int64], classes: int
) -> float:
    """Share of the test documents in the most frequent training class: the paper's "Maj."."""
    top = int(np.bincount(train[train >= 0], minlength=classes).argmax())
    return float((test == top).mean())
