"""What a session may be asked: which vector each group adds to a sum.

The vectors of all sampled groups are added, noise is added to the sum, and that is all that
anybody outside sees. ``ModuleGradient``, which needs PyTorch, is in a module of its own.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from privgcn.mechanism.fixed_point import Floats, Grid, exact_weights
from privgcn.mechanism.groups import Groups

FINE = 2.0**25  # probabilities are multiples of 2^-25, so squares of residuals add up exactly


class Access(NamedTuple):
    """What a session lends a question for one sum.

    ``mean`` is released, and to be taken off dense rows. ``sample`` says whether each group
    takes part, and ``seeds`` has a secret word for each, where the question ``draws``.
    """

    groups: Groups
    mean: NDArray[Any] | None
    clip_norm: float
    grid: Grid
    sample: NDArray[np.bool_]
    seeds: NDArray[np.int64]


def check_released(name: str, array: Any, shape: tuple[int, ...]) -> None:
    """A ``ValueError`` unless an array has its shape, and numbers that no row can overflow."""
    fits = type(array) is np.ndarray and array.shape == shape and array.dtype.kind in "iuf"
    if not (fits and (np.abs(array.astype(np.float64)) <= 1e100).all()):  # NaN is not
        raise ValueError(f"{name} must be a real array {list(shape)}, up to 1e100 in size.")


class GroupVectors:
    """Which vector each group adds; an implementation is part of the trusted base.

    ``draws`` says whether groups need randomness of their own. ``check`` raises an error unless
    released numbers fit the groups, from public facts alone, before anything is read or
    counted. ``clipped_sum`` is the sum over this rank's sampled groups, in whole steps, of
    vectors that are one clip norm long at most, over all coordinates together, each from its
    own group and released numbers alone; the same bits in any order and block. How many
    coordinates there are, and what is raised, is public.
    """

    draws: ClassVar[bool] = False

    def check(self, groups: Groups) -> None:  # noqa: D102
        return

    def clipped_sum(self, access: Access) -> Floats:  # noqa: D102
        raise NotImplementedError


@dataclass(frozen=True, eq=False)
class SoftmaxGradient(GroupVectors):
    """The gradient of a linear softmax model at released weights, ``[features, classes]``.

    Scores are x W + b with ``weights`` W and ``bias`` b, and r = softmax(scores) - label. Rows
    x have length one at most, so the gradient x r^T of a document is no longer than r:
    shortening r to the clip norm C clips it. The vector of a group is the mean over its
    labelled documents, and so no longer than C.

    Guarantees:
        The sensitivity is one clip norm where a group is removed, two where it is replaced.
        In whole steps (a clip norm has ``unit`` of them; a = row_bits, B = unit / 2^a) a row is
        q = trunc(2^a x), so |q| <= 2^a: cutting toward zero makes nothing longer. A residual
        is e = trunc(B w r / max(|r|, C)), with w at most 1 / (labelled documents of the
        group), so |e| <= B w. A group adds v = sum of q e^T over its documents. By the
        triangle inequality |v| <= sum |q| |e| <= 2^a B sum w <= unit: one clip norm, over all
        classes together. What float64 rounds on the way is less than what ``shortened`` takes
        off rows and w. v depends on its group and on released numbers alone: rows are cut one
        by one, scores of whole rows are exact products, squares of residuals are whole
        numbers below 2^53, the rest is one operation for each document. Partial sums are whole
        numbers up to groups * unit <= 2^51, and so exact in any order. Removing a group
        therefore moves the sum by exactly its own v. Rows that are not finite and documents
        without label add zero.
    """

    weights: NDArray[Any]
    bias: NDArray[Any]

    def check(self, groups: Groups) -> None:
        """A ``ValueError`` unless weights and bias fit."""
        check_released("weights", self.weights, (groups.width, groups.classes))
        check_released("bias", self.bias, (groups.classes,))

    def clipped_sum(self, access: Access) -> Floats:
        """The sum over this rank's sampled groups, in whole steps."""
        grid, documents = access.grid, access.groups.private
        table = exact_weights(self.weights, grid.row_bits)
        factors = documents.of_labelled * access.sample[documents.group]
        factors *= grid.unit * 2.0**-grid.row_bits
        total = np.zeros(table.shape[::-1])
        for own, rows in documents.blocks(grid, access.mean):
            scores = np.ascontiguousarray((rows @ table).T) + self.bias[:, None]
            residuals = whole_residuals(scores, documents.labels[own])
            lengths = np.sqrt(np.square(residuals).sum(0))
            residuals *= factors[own] / np.maximum(lengths, access.clip_norm * FINE)
            residuals[:, ~np.isfinite(lengths)] = 0.0
            total += np.trunc(residuals, out=residuals) @ rows
        return total.T


def whole_residuals(scores: Floats, labels: NDArray[np.int64]) -> Floats:
    """Probabilities minus label, ``[classes, documents]``, in steps of 2^-25."""
    likely = np.trunc(np.exp(scores - scores.max(0)) * FINE)
    residuals: Floats = np.trunc(likely * (FINE / likely.sum(0)))
    residuals[labels, np.arange(len(labels))] -= FINE
    return residuals


@dataclass(frozen=True, eq=False)
class Statistics(GroupVectors):
    """The mean row of dense features, and how frequent each class is, as one vector.

    The answer has, for dense features, ``ROW`` times the mean row and then ``LABEL`` times the
    fraction of each class; for sparse features, the fraction of each class alone.

    Guarantees:
        The sensitivity is one clip norm where a group is removed, two where it is replaced.
        A group adds ROW unit times the mean of its rows, each no longer than one, and LABEL
        unit times the mean of the labels of its labelled documents, each of length one: as
        ROW^2 + LABEL^2 = 1, no more than one clip norm together. The factor of each document
        is cut toward zero to a whole number (for rows, of steps divided by 2^row_bits), and
        so makes neither of the two longer; the rest is as in ``SoftmaxGradient``.
    """

    ROW: ClassVar[float] = 0.8
    LABEL: ClassVar[float] = 0.6

    def clipped_sum(self, access: Access) -> Floats:
        """The sum over this rank's sampled groups, in whole steps."""
        grid, groups, documents = access.grid, access.groups, access.groups.private
        taken, labelled = access.sample[documents.group], documents.labels >= 0
        of_label = (self.LABEL if groups.dense else 1.0) * grid.unit
        of_labels = np.trunc(documents.of_labelled * taken * of_label)[labelled]
        labels = np.bincount(documents.labels[labelled], of_labels, groups.classes)
        if not groups.dense:
            return np.asarray(labels, np.float64)
        of_row = self.ROW * grid.unit * 2.0**-grid.row_bits
        of_rows = np.trunc(documents.of_all * taken * of_row)
        total = np.zeros(groups.width)
        for own, rows in documents.blocks(grid, access.mean):
            total += of_rows[own] @ rows
        return np.concatenate([total, labels])
