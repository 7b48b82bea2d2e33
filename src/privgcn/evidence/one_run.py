"""The audit of one training run: many canaries, each there by the toss of its own coin.

Steinke, Nasr and Jagielski (2023). The canaries join the documents of the corpus, each with a
feature column of its own, and a single run trains on all of them. Afterwards the adversary
says of those that look most and least present whether they were there, and abstains about
the rest.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from privgcn.config import Settings
from privgcn.errors import ConfigError, PrivacyContractError
from privgcn.evidence.canaries import LOUD, Neighbours, check_alike, with_noise_of
from privgcn.evidence.membership import surety
from privgcn.evidence.releases import Observer, observing
from privgcn.graph.dense_rows import DenseRows
from privgcn.graph.on_disk import RowsOnDisk
from privgcn.graph.rows import Rows
from privgcn.graph.sparse_rows import SparseRows
from privgcn.graph.textgraph import TextGraph
from privgcn.prediction.inference import scores_in_mode
from privgcn.privacy.plan import PrivacyPlan
from privgcn.randomness import RandomSource
from privgcn.training.fit import fit

# One canary in ten is guessed about: the more extreme, the surer.
_ABSTAINED = 10


class Counted(NamedTuple):
    """Guesses of one adversary, who may abstain.

    Attributes:
        adversary: What it looked at.
        canaries: How many there were to guess about.
        guesses: How many guesses it made.
        correct: How many of these were right.
    """

    adversary: str
    canaries: int
    guesses: int
    correct: int


@dataclass(eq=False)
class _ColumnObserver(Observer):
    """Scores each canary by what was released in its own column."""

    width: int = 0
    scores: Any = 0.0

    def see(self, before: Sequence[Tensor], released: Sequence[Tensor]) -> None:
        if self._plan is None or self._sums is None:
            return
        shape = (self._sums[0][0].shape[0], -1)
        seen, present, absent = (
            tensor.reshape(shape)[self.width :]
            for tensor in (released[0], self._sums[0][0], self._sums[1][0])
        )
        self.scores = self.scores + self._ratio(seen, present, absent).numpy()
        self._sums = None


def can_hold_canaries(settings: Settings, plan: PrivacyPlan) -> bool:
    """Whether canaries can have parts and columns of their own, all of them in a step."""
    together = plan.schedule.name != "epoch"
    return plan.part_is_unit and together and settings.model.kind == "linear"


class CanaryScores(NamedTuple):
    """How present each canary looks, beside whether it was there.

    Attributes:
        there: Whether it was.
        releases: Logarithm of the likelihood ratio of what was released in its column.
        predictions: How sure the model is of its label.
    """

    there: npt.NDArray[np.bool_]
    releases: npt.NDArray[np.float64]
    predictions: npt.NDArray[np.float64]


def one_run(
    train: TextGraph,
    settings: Settings,
    plan: PrivacyPlan,
    *,
    columns: Mapping[str, Any],
    canaries: int,
) -> tuple[Counted, ...]:
    """Trains once on documents and canaries, and guesses which canaries were there.

    Args:
        train: The training documents.
        settings: Of the audited run.
        plan: Of the audited run; every unit is a part of its own.
        columns: Extra columns of the training documents.
        canaries: How many documents, or persons, may join.
    """
    there = np.zeros(canaries, dtype=bool)
    there[RandomSource.secret().choose(canaries, 0.5)] = True
    scores = canary_scores(train, settings, plan, columns=columns, there=there)
    return (
        _counted("canaries in all releases", scores.releases, there),
        _counted("canaries in predictions", scores.predictions, there),
    )


def canary_scores(
    train: TextGraph,
    settings: Settings,
    plan: PrivacyPlan,
    *,
    columns: Mapping[str, Any],
    there: npt.NDArray[np.bool_],
) -> CanaryScores:
    """Trains once on documents and those canaries that are ``there``, and scores all of them.

    Each canary has a column of its own, and its score looks at nothing else: with the noise
    that the plan claims, the scores are independent.

    Raises:
        PrivacyContractError: Canaries cannot have parts and columns of their own, or the run
            would be accounted otherwise than the audited one.
    """
    if not can_hold_canaries(settings, plan):
        raise PrivacyContractError(
            "Canaries in one run need a linear model, parts 'each' and no sampling 'epoch'. "
            f"Got model '{settings.model.kind}', parts of kind '{plan.partition.kind}' and "
            f"sampling '{plan.schedule.name}'. Use many runs."
        )
    drawn = RandomSource.secret().uniform_bytes((len(there),))
    labels = torch.from_numpy(drawn.astype(np.int64)) % train.classes
    trained, everyone, nobody = (
        _joined(train, labels, chosen, plan.relation)
        for chosen in (there, np.ones_like(there), np.zeros_like(there))
    )
    private = with_noise_of(settings, plan)
    check_alike(private, trained, plan, columns)
    known = torch.arange(len(everyone)) < len(train)
    targets = torch.nonzero(~known)[:, 0]
    pair = Neighbours(_silent(everyone, known), _silent(nobody, known), private, targets)
    observer = _ColumnObserver(pair, width=train.features.width)
    with observing(observer):
        fitted = fit(trained, private, seeds=[private.seed], columns=columns)
    scores = scores_in_mode(fitted, everyone, targets, "alone")[:, 0]
    return CanaryScores(there, np.asarray(observer.scores), surety(scores, labels))


def _counted(
    adversary: str, scores: npt.NDArray[np.float64], there: npt.NDArray[np.bool_]
) -> Counted:
    half = max(1, len(scores) // (2 * _ABSTAINED))
    order = np.argsort(scores, kind="stable")
    correct = int(there[order[-half:]].sum() + (~there[order[:half]]).sum())
    return Counted(adversary, len(scores), 2 * half, correct)


def _joined(
    train: TextGraph, labels: Tensor, there: npt.NDArray[np.bool_], relation: str
) -> TextGraph:
    """The documents and the canaries; those not there are empty, or turned around."""
    size = np.where(there, LOUD, -LOUD if relation == "replace" else 0.0)
    canaries = len(there)
    if relation == "remove":
        labels = torch.where(torch.from_numpy(there), labels, -1)
    owners = None
    if train.owners is not None:
        first = int(train.owners.max()) + 1
        owners = torch.cat([train.owners, torch.arange(first, first + canaries)])
    return TextGraph(
        _with_columns(train.features, size),
        train.edges,
        torch.cat([train.labels, labels]),
        train.classes,
        torch.cat([train.split, train.split.new_zeros(canaries)]),
        owners,
    )


def _with_columns(rows: Rows, sizes: npt.NDArray[np.float64]) -> Rows:
    """The rows, and below them one row for each size, in a column of its own."""
    if isinstance(rows, RowsOnDisk):
        raise ConfigError(
            "Canaries join rows in memory, and these lie on disk. Use --canaries 0, or raise "
            "training.memory to what the rows take, in GiB."
        )
    own = torch.from_numpy(sizes).float()
    if isinstance(rows, DenseRows):
        wide = torch.zeros(len(rows.values) + len(own), rows.width + len(own))
        wide[: len(rows.values), : rows.width] = rows.values
        wide[len(rows.values) :, rows.width :] = torch.diag(own)
        return DenseRows(wide)
    filled = own != 0
    return SparseRows(
        torch.cat([rows.offsets, rows.offsets[-1] + filled.cumsum(0)]),
        torch.cat([rows.columns, rows.width + torch.nonzero(filled)[:, 0]]),
        torch.cat([rows.values, own[filled]]),
        rows.width + len(own),
    )


def _silent(graph: TextGraph, known: Tensor) -> TextGraph:
    """Canaries alone: what the adversary knows anyway adds nothing."""
    return replace(
        graph,
        features=graph.features.emptied(known),
        labels=torch.where(known, -1, graph.labels),
        edges=graph.edges[:, :0],
    )
