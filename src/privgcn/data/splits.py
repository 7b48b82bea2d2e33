"""The split, and random ones: of the seed and the order of the documents, of nothing else."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

TRAIN, VALIDATION, TEST, OUTSIDE = 0, 1, 2, 3
"""Codes of ``Corpus.split``; ``OUTSIDE`` marks documents that no step uses."""

SPLIT_NAMES = ("train", "validation", "test", "outside")

_VALIDATION_SHARE = 0.1
_TEST_SHARE = 0.1
_SMALLEST_SPLIT = 3


def random_split(
    count: int, seed: int, owners: npt.NDArray[np.int64] | None = None
) -> npt.NDArray[np.int8]:
    """80/10/10 into train, validation and test; whole owners where owners exist.

    Guarantees:
        Neither text, labels and links nor an owner's number of documents move the split, so
        it adds nothing to what the index set reveals.
        No owner is on two sides.
    """
    units = count if owners is None else int(owners.max(initial=-1)) + 1
    of_unit = np.full(units, TRAIN, dtype=np.int8)
    if units >= _SMALLEST_SPLIT:
        order = np.random.default_rng([seed, 80_10_10]).permutation(units)
        validation = max(1, round(units * _VALIDATION_SHARE))
        test = max(1, round(units * _TEST_SHARE))
        of_unit[order[:validation]] = VALIDATION
        of_unit[order[validation : validation + test]] = TEST
    return of_unit if owners is None else of_unit[owners]
