"""Prediction by matching: what the documents in sight must be like, given what was released.

Training released a noisy sum over the training documents of (features x residual). The
documents to predict come from the same source, so their own sum, with the right classes
put in, should be about the same, up to the known noise. ``matched_scores`` looks for class
probabilities, as a smooth function of where a document stands among the others in sight,
whose sum matches best: a maximum a posteriori estimate in which the noise level is known
and not tuned. No label of any document is used, nothing is saved, and the training
documents enter only through what was released: post-processing.

Links are used where answers found without them agree along them (``links_help``).
``docs/concepts/recipe.md`` derives the method.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from privgcn.graph.rows import Rows
from privgcn.graph.textgraph import TextGraph
from privgcn.prediction.matching_numbers import SURE, WORTH, Numbers
from privgcn.prediction.spectrum import personalised_pagerank, principal_directions, whitened


@dataclass(frozen=True, eq=False)
class Released:
    """What training released about its documents, for one replica.

    Attributes:
        path: Weights before each gradient step, ``[steps, features, classes]``.
        weights: The trained weights.
        mean_sum: The mean over the steps of the noisy sums.
        noise_std: Noise of each coordinate of ``mean_sum``.
        units: Number of protected units that were summed.
        numbers: What matching computes with.
    """

    path: Tensor
    weights: Tensor
    mean_sum: Tensor
    noise_std: float
    units: int
    numbers: Numbers


def matched_scores(
    replicas: Sequence[Released], seen: TextGraph, *, restart: float, hops: int
) -> Tensor:
    """Scores ``[documents, R, classes]`` of all documents in sight."""
    sight = _Sight.of(seen, restart, hops, replicas[0].numbers)
    return torch.stack([_replica_scores(released, sight) for released in replicas], dim=1)


def _replica_scores(released: Released, sight: _Sight) -> Tensor:
    problem, numbers = _Problem.of(released, sight), released.numbers
    places = sight.alone
    # The first answer tells how far the sum over other documents may stray.
    first = problem.solved(places[sight.matched])
    problem = problem.informed(first.shares())
    best = problem.solved(places[sight.matched], start=first)
    shares = best.scores(places).softmax(1)
    linked = links_help(shares, sight.edges, sure=numbers.sure, worth=numbers.worth)
    if linked:
        solved = [(problem.solved(p[sight.matched]), p) for p in sight.linked]
        best, places = min(solved, key=lambda pair: pair[0].cost())
    best.run(numbers.rounds // 2, sharpening=numbers.sharpening)
    # The trained weights themselves count the more, the less noise they carry and the fewer
    # documents are in sight; less beside links, which they know nothing of.
    ratio = released.units / sight.features.shape[0]
    blend = numbers.linked_blend if linked else numbers.blend
    share = min(numbers.most_blend, blend * numbers.signal**2 * ratio)
    return best.scores(places) + share * sight.features.times(released.weights)


def links_help(
    shares: Tensor, edges: Tensor, *, sure: float = SURE, worth: float = WORTH
) -> bool:
    """Whether answers found without links agree along the links, well beyond chance.

    The class shares at the two ends of a link are compared with those at the ends of links
    that were rewired at random. Where linked documents are no more alike than others, what
    travels along the links is noise.
    """
    links = edges.shape[1]
    if links < 2:
        return False
    order = torch.randperm(links, generator=torch.Generator().manual_seed(0))
    begin, end = shares[edges[0]], shares[edges[1]]
    agreement = (begin * end).sum(1)
    chance = (begin * end[order]).sum(1)
    gain = float(agreement.mean() - chance.mean())
    error = float(((agreement.var() + chance.var()) / links).sqrt())
    most = float(begin.square().sum(1).mean() - chance.mean())
    return gain > sure * error and gain > worth * most


@dataclass(frozen=True, eq=False)
class _Sight:
    """What the documents in sight look like, whatever was released.

    Attributes:
        matched: The documents that take part in the match: all, or a fixed random choice
            of many, so that cost grows no faster than the documents.
        projected: Features of those in the documents' own main directions.
        alone: Where each document stands among the others by its text.
        linked: The same along the links, and both beside each other; empty without links.
    """

    features: Rows
    basis: Tensor
    matched: Tensor
    projected: Tensor
    alone: Tensor
    linked: list[Tensor]
    edges: Tensor

    @classmethod
    def of(cls, seen: TextGraph, restart: float, hops: int, numbers: Numbers) -> _Sight:
        features = seen.features
        matrix = seen.propagation() if seen.edges.shape[1] else None
        basis, coordinates = principal_directions(
            features,
            numbers.rank,
            oversampling=numbers.oversampling,
            iterations=numbers.iterations,
        )
        empty = features.row_sums(1) == 0
        coordinates = torch.where(empty[:, None], 0.0, coordinates)
        alone = whitened(coordinates, numbers.stretch)
        linked: list[Tensor] = []
        if matrix is not None:
            travelled = personalised_pagerank(matrix, coordinates, restart, hops)
            along, share = whitened(travelled, numbers.stretch), numbers.linked_share
            beside = [share**0.5 * along, (1 - share) ** 0.5 * alone]
            linked = [along, torch.cat(beside, dim=1)]
        matched = torch.arange(len(seen))
        if len(seen) > numbers.most_matched:
            order = torch.randperm(len(seen), generator=torch.Generator().manual_seed(0))
            matched = order[: numbers.most_matched]
        projected = features.select(matched).times(basis)
        return cls(features, basis, matched, projected, alone, linked, seen.edges)


@dataclass(frozen=True, eq=False)
class _Problem:
    """Match the released sum with the sum over the documents in sight.

    Attributes:
        residuals: What each document would add for each class.
        target: The released sum, in the main directions.
        spread: Standard deviation of its difference to a sum over other documents: the
            noise, and the chance of which documents were trained on and are in sight.
        noise_std: The noise alone.
        scale: Training units for each document in the match.
        numbers: What else is computed with.
    """

    projected: Tensor
    residuals: Tensor
    target: Tensor
    spread: Tensor
    noise_std: float
    scale: float
    numbers: Numbers

    @classmethod
    def of(cls, released: Released, sight: _Sight) -> _Problem:
        documents, classes = len(sight.matched), released.weights.shape[1]
        units, longest = released.units, released.numbers.longest
        chance = units * (1 + units / documents) * longest**2 / classes
        squares = sight.projected.square().mean(0)
        seen = sight.features.select(sight.matched)
        return cls(
            sight.projected,
            mean_residuals(released.path, seen, longest),
            sight.basis.T @ released.mean_sum,
            (released.noise_std**2 + chance * squares).sqrt()[:, None].expand(-1, classes),
            released.noise_std,
            units / documents,
            released.numbers,
        )

    def informed(self, shares: Tensor) -> _Problem:
        """The same, with the spread that documents of these class shares have.

        Labels of training documents vary around the shares, and the documents in sight are
        one choice of many. What both sums have in common does not vary.
        """
        mean = torch.einsum("ik,ikj->ij", shares, self.residuals)
        square = torch.einsum("ik,ikj->ij", shares, self.residuals.square())
        squares = self.projected.square().T / len(shares)
        centre = (self.projected.T @ mean / len(shares)).square()
        units = self.scale * len(shares)
        labels = units * (squares @ (square - mean.square()).clamp(min=0))
        choice = units * (1 + self.scale) * (squares @ mean.square() - centre).clamp(min=0)
        return replace(self, spread=(self.noise_std**2 + labels + choice).sqrt())

    def solved(self, places: Tensor, *, start: _Solution | None = None) -> _Solution:
        """The best match for documents at these places."""
        solution = _Solution(self, places, start)
        solution.run(self.numbers.rounds, sharpening=0.0)
        return solution


class _Solution:
    """Weights over places, found by L-BFGS."""

    def __init__(self, problem: _Problem, places: Tensor, start: _Solution | None) -> None:
        classes = problem.target.shape[1]
        self.problem = problem
        self.places = places * problem.numbers.prior**0.5
        self.weights = torch.zeros(places.shape[1], classes, requires_grad=True)
        self.bias = torch.zeros(classes, requires_grad=True)
        if start is not None:
            self.weights = start.weights.detach().clone().requires_grad_()
            self.bias = start.bias.detach().clone().requires_grad_()
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
            logs = torch.log_softmax(self.scores_of(self.places), dim=1)
            shares = logs.exp()
            expected = torch.einsum("ik,ikj->ij", shares, self.problem.residuals)
            total = self.problem.scale * (self.problem.projected.T @ expected)
            misfit = ((self.problem.target - total) / self.problem.spread).square().sum()
            spread = self.problem.numbers.bias_variance
            size = self.weights.square().sum() + self.bias.square().sum() / spread
            loss: Tensor = 0.5 * (misfit + size)
            self.objective = float(loss.detach())
            if sharpening:
                loss = loss - sharpening * (shares * logs).sum()
            loss.backward()  # type: ignore[no-untyped-call]
            return loss

        with torch.enable_grad():
            optimiser.step(closure)  # type: ignore[no-untyped-call]

    def cost(self) -> float:
        """The objective, and how much freedom these places gave: half a Laplace evidence."""
        problem, classes = self.problem, self.problem.target.shape[1]
        with torch.no_grad():
            shares = self.shares()
            doubt = (1 - shares.square().sum(1)).mean()
            slope = doubt / ((classes - 1) * math.sqrt(1 - 1 / classes)) * problem.scale
            change = slope * (problem.projected / problem.spread.mean(1)).T @ self.places
            strengths = torch.linalg.eigvalsh((change @ change.T).double()).clamp(min=0)
        freedom = (classes - 1) / 2 * float(torch.log1p(strengths).sum())
        return self.objective + problem.numbers.complexity * freedom

    def shares(self) -> Tensor:
        """Class shares of the documents in the match."""
        with torch.no_grad():
            return self.scores_of(self.places).softmax(1)

    def scores(self, places: Tensor) -> Tensor:
        """Scores of documents at some places, also of those outside the match."""
        with torch.no_grad():
            return self.scores_of(places * self.problem.numbers.prior**0.5)

    def scores_of(self, scaled: Tensor) -> Tensor:
        """Scores at places in units of the prior."""
        return scaled @ self.weights + self.bias


def mean_residuals(path: Tensor, features: Rows, longest: float) -> Tensor:
    """``[documents, k, j]``: coordinate j of the mean residual if the class were k."""
    classes = path.shape[2]
    labels = torch.eye(classes)
    total = torch.zeros(features.shape[0], classes, classes)
    for weights in path:
        residual = features.times(weights).softmax(1)[:, None] - labels
        norms = residual.norm(dim=2, keepdim=True).clamp(min=1e-9)
        total += residual * (longest / norms).clamp(max=1.0)
    return total / len(path)
