"""Prediction by matching: what the documents in sight must be like, given what was released.

Training released a noisy sum over the training documents of (features x residual). The
documents to predict come from the same source, so their own sum, with the right classes
put in, should be about the same, up to the known noise. ``matched_scores`` looks for class
probabilities, as a smooth function of where a document stands among the others in sight,
whose sum matches best: a maximum a posteriori estimate in which the noise level is known
and not tuned. No label of any document is used, nothing is saved, and the training
documents enter only through what was released: post-processing.

Where the links do not help, the candidate without links explains the released sum better
and is chosen. ``docs/concepts/recipe.md`` derives the method.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from privgcn.evaluation.spectrum import personalised_pagerank, principal_directions, whitened
from privgcn.graph.rows import Rows, SparseRows
from privgcn.graph.textgraph import TextGraph

RANK = 300
STRETCH = 0.25
PRIOR_VARIANCE = 1.5
BIAS_VARIANCE = 10.0
SHARPENING = 0.03
ROUNDS = 40
LINKED_SHARE = 0.75
BLEND = 0.05
_MOST_BLEND = 0.5


@dataclass(frozen=True, eq=False)
class Released:
    """What training released about its documents, for one replica.

    Attributes:
        path: Weights before each step, ``[steps, features, classes]``.
        weights: Weights after the last step.
        mean_sum: The mean over the steps of the noisy sums.
        noise_std: Noise of each coordinate of ``mean_sum``.
        units: Number of protected units that were summed.
    """

    path: Tensor
    weights: Tensor
    mean_sum: Tensor
    noise_std: float
    units: int


def matched_scores(
    replicas: Sequence[Released], seen: TextGraph, *, restart: float, hops: int
) -> Tensor:
    """Scores ``[documents, R, classes]`` of all documents in sight."""
    sight = _Sight.of(seen, restart, hops)
    return torch.stack([_replica_scores(released, sight) for released in replicas], dim=1)


def _replica_scores(released: Released, sight: _Sight) -> Tensor:
    problem = _Problem.of(released, sight)
    solutions = [_Solution(problem, place) for place in sight.places]
    for solution in solutions:
        solution.run(ROUNDS, sharpening=0.0)
    chosen = min(range(len(solutions)), key=lambda number: solutions[number].objective)
    own = sight.features.times(released.weights)
    if chosen > 0 and sight.matrix is not None:
        own = personalised_pagerank(sight.matrix, own, sight.restart, sight.hops)
    # The fewer documents are in sight, the more the trained weights themselves count.
    share = min(_MOST_BLEND, BLEND * released.units / sight.features.shape[0])
    return solutions[chosen].sharpened() + share * own


@dataclass(frozen=True, eq=False)
class _Sight:
    """What the documents in sight look like, whatever was released.

    Attributes:
        projected: Features in the documents' own main directions.
        places: Where each document stands among the others: without links, along the
            links, and both beside each other.
    """

    features: Rows
    matrix: SparseRows | None
    basis: Tensor
    projected: Tensor
    places: list[Tensor]
    restart: float
    hops: int

    @classmethod
    def of(cls, seen: TextGraph, restart: float, hops: int) -> _Sight:
        features = seen.features
        matrix = seen.propagation() if seen.edges.shape[1] else None
        basis, coordinates = principal_directions(features, RANK)
        empty = features.row_sums(1) == 0
        coordinates = torch.where(empty[:, None], 0.0, coordinates)
        places = [whitened(coordinates, STRETCH)]
        if matrix is not None:
            travelled = personalised_pagerank(matrix, coordinates, restart, hops)
            along = whitened(travelled, STRETCH)
            beside = [LINKED_SHARE**0.5 * along, (1 - LINKED_SHARE) ** 0.5 * places[0]]
            places += [along, torch.cat(beside, dim=1)]
        projected = features.times(basis)
        return cls(features, matrix, basis, projected, places, restart, hops)


@dataclass(frozen=True, eq=False)
class _Problem:
    """Match the released sum with the sum over the documents in sight.

    Attributes:
        residuals: What each document would add for each class.
        target: The released sum, in the main directions.
        spread: Standard deviation of its difference to a sum over other documents: the
            noise, and the chance of which documents are in sight.
        scale: Training units for each document in sight.
    """

    projected: Tensor
    residuals: Tensor
    target: Tensor
    spread: Tensor
    scale: float

    @classmethod
    def of(cls, released: Released, sight: _Sight) -> _Problem:
        documents, classes = sight.features.shape[0], released.weights.shape[1]
        units = released.units
        chance = units * (1 + units / documents) / classes * sight.projected.square().mean(0)
        return cls(
            sight.projected,
            mean_residuals(released.path, sight.features),
            sight.basis.T @ released.mean_sum,
            (released.noise_std**2 + chance).sqrt()[:, None],
            units / documents,
        )


class _Solution:
    """Weights over places, found by L-BFGS."""

    def __init__(self, problem: _Problem, places: Tensor) -> None:
        classes = problem.target.shape[1]
        self.problem = problem
        self.places = places * PRIOR_VARIANCE**0.5
        self.weights = torch.zeros(places.shape[1], classes, requires_grad=True)
        self.bias = torch.zeros(classes, requires_grad=True)
        self.objective = float("inf")

    def run(self, rounds: int, *, sharpening: float) -> None:
        """Minimises the negative log posterior, less certainty times ``sharpening``."""
        optimiser = torch.optim.LBFGS(
            [self.weights, self.bias],
            max_iter=rounds,
            history_size=10,
            line_search_fn="strong_wolfe",
            tolerance_change=1e-7,
        )

        def closure() -> Tensor:
            optimiser.zero_grad()
            logs = torch.log_softmax(self.places @ self.weights + self.bias, dim=1)
            shares = logs.exp()
            expected = torch.einsum("ik,ikj->ij", shares, self.problem.residuals)
            total = self.problem.scale * (self.problem.projected.T @ expected)
            misfit = ((self.problem.target - total) / self.problem.spread).square().sum()
            size = self.weights.square().sum() + self.bias.square().sum() / BIAS_VARIANCE
            loss: Tensor = 0.5 * (misfit + size)
            self.objective = float(loss.detach())
            if sharpening:
                loss = loss - sharpening * (shares * logs).sum()
            loss.backward()  # type: ignore[no-untyped-call]
            return loss

        with torch.enable_grad():
            optimiser.step(closure)  # type: ignore[no-untyped-call]

    def sharpened(self) -> Tensor:
        """Scores after a last look that prefers sure answers."""
        self.run(ROUNDS // 2, sharpening=SHARPENING)
        with torch.no_grad():
            scores: Tensor = self.places @ self.weights + self.bias
        return scores


def mean_residuals(path: Tensor, features: Rows) -> Tensor:
    """``[documents, k, j]``: coordinate j of the mean unit residual if the class were k."""
    classes = path.shape[2]
    labels = torch.eye(classes)
    total = torch.zeros(features.shape[0], classes, classes)
    for weights in path:
        residual = features.times(weights).softmax(1)[:, None] - labels
        total += residual / residual.norm(dim=2, keepdim=True).clamp(min=1e-9)
    return total / len(path)
