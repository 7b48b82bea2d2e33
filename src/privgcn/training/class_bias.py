"""What the released class shares do: frequent classes begin ahead, in training and after it."""

from __future__ import annotations

from dataclasses import dataclass, replace

from torch import Tensor

# How much of the logarithm of a class's share training adds to its score, and how much of that
# a prediction of a document alone keeps. Prediction by matching has the bias in the match.
# Chosen on development corpora (docs/decisions/0007-recipe-auto.md).
_OF_LOGARITHM = 0.5
_KEPT = 0.5


@dataclass(frozen=True, eq=False)
class ClassBias:
    """A bias of each class that is not trained.

    Attributes:
        values: What training adds to the scores, ``[R, classes]``.
        alone: How many times a prediction from the weights adds it to their scores.
        matched: How many times a prediction by matching adds it to what matched.
    """

    values: Tensor
    alone: float
    matched: float

    @classmethod
    def of_shares(cls, shares: Tensor, *, balanced: bool) -> ClassBias:
        """From released shares ``[R, classes]``; ``balanced`` takes it off all predictions.

        Taking it off divides by the square root of the share, where macro F1 is best.
        """
        logs = _OF_LOGARITHM * shares.log()
        less = 1.0 if balanced else 0.0
        return cls(logs - logs.mean(-1, keepdim=True), _KEPT - less, -less)

    def replica(self, number: int) -> ClassBias:
        """That of one replica."""
        return replace(self, values=self.values[number : number + 1])
