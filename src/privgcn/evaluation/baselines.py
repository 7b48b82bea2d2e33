"""What a classifier must beat: no knowledge, and no links."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from privgcn.config import Settings


def majority(truth: npt.NDArray[np.int64], classes: int) -> npt.NDArray[np.int64]:
    """The most frequent class among the evaluated documents, for all of them.

    It is read off the evaluated labels, never off training labels: that would be a query
    to protected data.
    """
    counts = np.bincount(truth[truth >= 0], minlength=classes)
    return np.full(len(truth), int(counts.argmax()), dtype=np.int64)


def uniform(truth: npt.NDArray[np.int64], classes: int, seed: int) -> npt.NDArray[np.int64]:
    """A class drawn at random for each document."""
    return np.random.default_rng(seed).integers(0, classes, len(truth))


def sees_no_links(settings: Settings) -> bool:
    """Whether the model itself, scoring documents alone, is the graph-blind baseline."""
    return settings.model.kind == "linear" and settings.model.hops == 0


def baselines_left_out(settings: Settings) -> list[str]:
    """What a private run is not compared with, and why."""
    if settings.privacy is None or sees_no_links(settings):
        return []
    return [
        "No graph-blind baseline: it would be trained on the private documents once more, at "
        "a cost that epsilon does not count."
    ]
