"""Prediction by matching: what the documents in sight must be like, given what was released.

Training released a noisy sum over the training documents of (features x residual). The
documents to predict come from the same source, so their own sum, with the right classes
put in, should be about the same, up to the known noise. ``matched_scores`` looks for class
probabilities, as a smooth function of where a document stands among the others in sight,
whose sum matches best: a maximum a posteriori estimate in which the noise level is known
and not tuned. No label of any document is used, nothing is saved, and the training
documents enter only through what was released: post-processing.

Links are used where answers found without them agree along them (``links_help``).

Documents, directions and links in the match are a fixed random choice of limited size: only
passes that project, send along links and score documents grow with their number.
``docs/concepts/recipe.md`` derives the method.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Protocol

import numpy as np
import numpy.typing as npt
import torch
from threadpoolctl import threadpool_limits
from torch import Tensor
from torch.nn.functional import linear

from privgcn.graph.on_disk import in_memory
from privgcn.graph.rows import Rows
from privgcn.graph.textgraph import TextGraph
from privgcn.prediction.matching_numbers import SURE, WORTH, Numbers
from privgcn.prediction.spectrum import (
    Whitening,
    personalised_pagerank,
    principal_directions,
)
from privgcn.progress import advance
from privgcn.training.class_bias import ClassBias

# What is computed at once, so that memory does not grow with the documents.
_ROWS_AT_ONCE = 4096
_MOST_COLUMNS, _LEAST_COLUMNS = 50, 8
_NUMBERS_AT_ONCE = 1 << 26
# How much flatter or sharper scores may be than they say: steps of the root of two.
_SHARPNESS = tuple(2.0 ** (step / 2) for step in range(-8, 5))


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
        prior: Weights that are expected before the match: how far training moved along the
            class names; zero where there are none.
        bias: What training added to the scores of each class, if anything.
    """

    path: Tensor
    weights: Tensor
    mean_sum: Tensor
    noise_std: float
    units: int
    numbers: Numbers
    prior: Tensor
    bias: ClassBias | None = None


def matched_scores(
    replicas: Sequence[Released],
    seen: TextGraph,
    rows: Tensor,
    *,
    restart: float,
    hops: int,
) -> Tensor:
    """Scores ``[rows, R, classes]`` of the named documents, among all that are in sight.

    Args:
        replicas: What each replica's training released.
        seen: The documents in sight.
        rows: Those to score.
        restart: Of the personalised PageRank that carries places along links.
        hops: How far it goes.
    """
    sight = _Sight(seen, rows, restart, hops, replicas[0].numbers)
    return torch.stack([_replica_scores(released, sight) for released in replicas], dim=1)


def _replica_scores(released: Released, sight: _Sight) -> Tensor:
    problem, numbers = _Problem.of(released, sight), released.numbers
    telling = problem.telling(sight.variances)
    places: _Places = _Alone(sight, telling)
    expected = sight.seen.features.times(released.prior)
    if released.bias is not None:
        expected += released.bias.values
    # The first answer tells how far the sum over other documents may stray.
    first = problem.solved(sight, places, expected)
    problem = problem.informed(first.shares())
    best = problem.solved(sight, places, expected, start=first)
    documents, links = sight.some_links
    shares = best.scores(documents).softmax(1)
    travels = False
    if links_help(shares, links, sure=numbers.sure, worth=numbers.worth):
        linked = _Along(sight, telling)
        both = _Beside(places, linked, numbers.linked_share)
        along, beside = (problem.solved(sight, p, p.carried(expected)) for p in (linked, both))
        # Of two that match almost alike, the simpler one: chance moves costs that much.
        best = beside if beside.cost() + numbers.evidence < along.cost() else along
        travels = numbers.own_travels and _links_tell(problem, released, sight, linked)
    best.run(numbers.rounds // 2, sharpening=numbers.sharpening)
    share = _share_of(best, released, sight)
    own = _own_scores(released, sight.seen.features.select(sight.asked))
    if travels:
        went = linked.carried(_own_scores(released, sight.seen.features))[sight.asked]
        # A small share is worth most as it is: the match has followed the links already, and
        # well where many documents are in sight.
        units = released.units
        moved = min(1.0, share * units / (units + len(sight.seen)))
        own = torch.lerp(own, went, numbers.linked_share * moved)
    return _of_match(released, best.scores(sight.asked)).add_(own, alpha=share)


def _own_scores(released: Released, features: Rows) -> Tensor:
    """Scores of the trained weights."""
    scores, bias = features.times(released.weights), released.bias
    return scores if bias is None else scores.add_(bias.values, alpha=bias.alone)


def _of_match(released: Released, scores: Tensor) -> Tensor:
    """Scores of the match as they count in a prediction."""
    bias = released.bias
    return scores if bias is None else scores.add_(bias.values, alpha=bias.matched)


def _share_of(best: _Solution, released: Released, sight: _Sight) -> float:
    """How much the trained weights' own scores count beside those of the match.

    The more, the less noise they carry, the fewer documents are in sight to match, and the
    more often both agree: where they do not, at most one of them is right.
    """
    numbers = released.numbers
    own = _own_scores(released, sight.features).argmax(1)
    found = _of_match(released, best.scores_matched()).argmax(1)
    apart = float((own != found).float().mean())
    strength = numbers.signal * released.units / len(sight.seen)
    share = strength / (apart + numbers.least_apart)
    return min(numbers.most_blend, numbers.blend * math.pow(share, numbers.blend_power))


def _links_tell(problem: _Problem, released: Released, sight: _Sight, along: _Places) -> bool:
    """Whether the trained weights' own scores tell more once they travelled along the links.

    What they tell is how well they foretell the released sum. The scores that foretell it in
    one half of the main directions leave that half out, so that its noise has no part in them.
    """
    basis, gain = sight.directions.basis, 0.0
    for begin in (0, 1):
        left_out, half = basis[:, begin::2], problem.half(begin)
        weights = released.weights - left_out @ (left_out.T @ released.weights)
        stayed = _own_scores(replace(released, weights=weights), sight.seen.features)
        went = along.carried(stayed)
        gain += half.misfit(stayed[sight.matched]) - half.misfit(went[sight.matched])
    return gain > released.numbers.evidence


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


class _Sight:
    """What the documents in sight look like, whatever was released.

    Attributes:
        seen: The documents in sight.
        asked: Those to score.
        empty: Which of all have no features.
        matched: Those that take part in the match: all, or a fixed random choice of many.
        projected: Features of these in their own main directions.
    """

    def __init__(
        self, seen: TextGraph, asked: Tensor, restart: float, hops: int, numbers: Numbers
    ) -> None:
        self.seen, self.asked, self.restart, self.hops = seen, asked, restart, hops
        self.numbers = numbers
        self.empty = seen.features.row_sums(1) == 0
        self.matched = _some(len(seen), numbers.most_matched)
        self.features = in_memory(seen.features.select(self.matched))
        self.directions = principal_directions(
            self.features,
            numbers.rank,
            oversampling=numbers.oversampling,
            iterations=numbers.iterations,
        )
        self.projected = self.features.times(self.directions.basis)

    @cached_property
    def variances(self) -> Tensor:
        """Of the documents in the match, in each of the main directions."""
        return (self.projected[:, :-1] - self.directions.centre).square().mean(0)

    @cached_property
    def travelled(self) -> tuple[Tensor, Tensor]:
        """Coordinates that travelled along the links, of the matched and the asked documents.

        The first tensor has the row in the second of each document.
        """
        kept = torch.zeros(len(self.seen), dtype=torch.bool)
        kept[self.matched] = kept[self.asked] = True
        return kept.cumsum(0) - 1, _travelled(self, torch.nonzero(kept)[:, 0])

    @cached_property
    def some_links(self) -> tuple[Tensor, Tensor]:
        """Documents, and links among them by their number here: all, or a choice of many."""
        edges = self.seen.edges
        chosen = edges[:, _some(edges.shape[1], self.numbers.most_matched)]
        documents, links = torch.unique(chosen, return_inverse=True)
        return documents, links


def _some(count: int, most: int) -> Tensor:
    """All numbers below ``count``, or a fixed random choice of ``most`` of them."""
    if count <= most:
        return torch.arange(count)
    return torch.randperm(count, generator=torch.Generator().manual_seed(0))[:most]


class _Places(Protocol):
    """Where documents stand among the others; ``matched`` are those in the match."""

    matched: Tensor

    def of(self, rows: Tensor) -> Tensor:
        """The places of some documents, one row each."""

    def carried(self, values: Tensor) -> Tensor:
        """Values of all documents, carried along the links as the places were."""


class _Whitened(ABC):
    """Places in the directions that tell classes apart, along their own main axes."""

    def __init__(self, sight: _Sight, telling: Tensor) -> None:
        self._sight, self._telling = sight, telling
        values = self._coordinates(sight.matched)
        self._whitening = Whitening.of(values, sight.numbers.stretch)
        self.matched = self._whitening(values)

    def of(self, rows: Tensor) -> Tensor:
        return self._whitening(self._coordinates(rows))

    @abstractmethod
    def _coordinates(self, rows: Tensor) -> Tensor: ...


class _Alone(_Whitened):
    """Places by a document's own text."""

    def carried(self, values: Tensor) -> Tensor:
        return values

    def _coordinates(self, rows: Tensor) -> Tensor:
        sight = self._sight
        features = sight.seen.features.select(rows)
        return sight.directions.coordinates(features, sight.empty[rows]).mul_(self._telling)


class _Along(_Whitened):
    """Places by what travels along the links, for the matched and the asked documents."""

    def carried(self, values: Tensor) -> Tensor:
        sight = self._sight
        return personalised_pagerank(
            sight.seen.propagation(), values, sight.restart, sight.hops
        )

    def _coordinates(self, rows: Tensor) -> Tensor:
        number, values = self._sight.travelled
        return values[number[rows]].mul_(self._telling)


class _Beside:
    """Places by text and along the links, weighted."""

    def __init__(self, alone: _Places, along: _Places, share: float) -> None:
        self._alone, self._along, self._share = alone, along, share
        self.matched = self._joined(along.matched, alone.matched)

    def of(self, rows: Tensor) -> Tensor:
        return self._joined(self._along.of(rows), self._alone.of(rows))

    def carried(self, values: Tensor) -> Tensor:
        along = self._along.carried(values)
        return self._share * along + (1 - self._share) * self._alone.carried(values)

    def _joined(self, along: Tensor, alone: Tensor) -> Tensor:
        return torch.cat([self._share**0.5 * along, (1 - self._share) ** 0.5 * alone], dim=1)


def _travelled(sight: _Sight, rows: Tensor) -> Tensor:
    """Coordinates that travelled along the links, of some documents.

    A few columns at a time: the tables that hops gather from stay small.
    """
    matrix, directions = sight.seen.propagation(), sight.directions
    rank, allowed = len(directions.centre), _NUMBERS_AT_ONCE // max(1, len(sight.seen))
    columns = min(_MOST_COLUMNS, max(_LEAST_COLUMNS, allowed))
    out = torch.empty(len(rows), rank)
    for begin in range(0, rank, columns):
        advance(begin, rank)
        own = slice(begin, begin + columns)
        values = directions.coordinates(sight.seen.features, sight.empty, own)
        out[:, own] = personalised_pagerank(matrix, values, sight.restart, sight.hops)[rows]
    return out


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
        bias = None if released.bias is None else released.bias.values
        squares = sight.projected.square().mean(0)
        return cls(
            sight.projected,
            mean_residuals(released.path, sight.features, longest, bias),
            sight.directions.basis.T @ released.mean_sum,
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

    def telling(self, variances: Tensor) -> Tensor:
        """Which main directions tell classes apart: one, or zero where they do not.

        Documents that follow a few templates differ most in which one they follow, whatever
        their class. Places in such directions would keep apart what belongs together. There
        the released sum is hardly more than noise, where elsewhere it grows with the variance
        of the documents: of the two, what is more likely, given how many are silent.
        """
        numbers, silent = self.numbers, self.numbers.silent
        if silent == 0:
            return torch.ones(len(variances))
        freedom = self.target.shape[1] - 1
        energy = self.target[: len(variances)].square().sum(1) / self.noise_std**2
        relative = variances / variances.mean().clamp(min=1e-30)
        signal = torch.logspace(-4, 4, 41)[:, None] * relative

        def likelihood(signal: Tensor) -> Tensor:
            return -0.5 * (energy / (1 + signal) + freedom * signal.log1p())

        told = likelihood(signal) + math.log(1 - silent)
        untold = likelihood(numbers.silence * signal) + math.log(silent)
        best = torch.logaddexp(told, untold).sum(1).argmax()
        return (told[best] >= untold[best]).float()

    def half(self, begin: int) -> _Problem:
        """The same in every other of the main directions."""
        own = slice(begin, None, 2)
        return replace(
            self,
            projected=self.projected[:, own],
            target=self.target[own],
            spread=self.spread[own],
        )

    def misfit(self, scores: Tensor) -> float:
        """Half the squared misfit of the sum by these scores, sharpened as fits best."""
        found = []
        for power in _SHARPNESS:
            expected = torch.bmm((power * scores).softmax(1)[:, None], self.residuals)[:, 0]
            gap = (self.scale * (self.projected.T @ expected) - self.target) / self.spread
            found.append(0.5 * float(gap.square().sum()))
        return min(found)

    def solved(
        self,
        sight: _Sight,
        places: _Places,
        expected: Tensor,
        *,
        start: _Solution | None = None,
    ) -> _Solution:
        """The best match for documents at these places, with these scores to begin with."""
        solution = _Solution(self, sight, places, expected, start)
        solution.run(self.numbers.rounds, sharpening=0.0)
        return solution


class _Solution:
    """Weights over places, found by L-BFGS."""

    def __init__(
        self,
        problem: _Problem,
        sight: _Sight,
        places: _Places,
        expected: Tensor,
        start: _Solution | None,
    ) -> None:
        classes = problem.target.shape[1]
        self.problem, self._all, self._expected = problem, places, expected
        self.places = places.matched * problem.numbers.prior**0.5
        self.expected = expected[sight.matched]
        self.weights = torch.zeros(classes, self.places.shape[1])
        self.bias = torch.zeros(classes)
        if start is not None:
            self.weights, self.bias = start.weights.clone(), start.bias.clone()
        self.objective = float("inf")

    def run(self, rounds: int, *, sharpening: float) -> None:
        """Minimises the negative log posterior, less certainty times ``sharpening``."""
        # Half a second, which a process that matches nothing need not spend.
        from scipy.optimize import minimize

        shape = self.weights.shape

        def objective(flat: npt.NDArray[np.float64]) -> tuple[float, npt.NDArray[np.float64]]:
            values = torch.from_numpy(flat).float()
            self.weights = values[: -shape[0]].view(shape)
            self.bias = values[-shape[0] :]
            loss, *gradient = self._loss(sharpening)
            return loss, torch.cat([part.flatten() for part in gradient]).double().numpy()

        start = torch.cat([self.weights.flatten(), self.bias]).double().numpy()
        options = {"maxiter": rounds, "maxcor": 10, "ftol": self.problem.numbers.tolerance}
        # Many small products: threads would wait for each other most of the time.
        with threadpool_limits(1):
            found = minimize(objective, start, jac=True, method="L-BFGS-B", options=options)
            objective(found.x)

    def _loss(self, sharpening: float) -> tuple[float, Tensor, Tensor]:
        """The loss, and its gradients in the weights and the bias."""
        problem, spread = self.problem, self.problem.numbers.bias_variance
        logs = torch.log_softmax(self.scores_matched(), dim=1)
        shares = logs.exp()
        expected = torch.bmm(shares[:, None], problem.residuals)[:, 0]
        # The few classes first: three times faster than the other way round.
        total = problem.scale * (expected.T @ problem.projected)
        gap = (total - problem.target.T) / problem.spread.T
        size = self.weights.square().sum() + self.bias.square().sum() / spread
        self.objective = loss = 0.5 * float(gap.square().sum() + size)
        slope = linear(problem.projected, problem.scale * (gap / problem.spread.T))
        by_share = torch.bmm(problem.residuals, slope[..., None])[..., 0]
        if sharpening:
            loss -= sharpening * float((shares * logs).sum())
            by_share.sub_(logs, alpha=sharpening)
        by_score = shares * (by_share - (shares * by_share).sum(1, keepdim=True))
        return (
            loss,
            (by_score.T @ self.places).add_(self.weights),
            by_score.sum(0).add_(self.bias, alpha=1 / spread),
        )

    def cost(self) -> float:
        """The objective, and how much freedom these places gave: half a Laplace evidence."""
        problem, classes = self.problem, self.problem.target.shape[1]
        shares = self.shares()
        doubt = (1 - shares.square().sum(1)).mean()
        slope = doubt / ((classes - 1) * math.sqrt(1 - 1 / classes)) * problem.scale
        change = slope * (problem.projected / problem.spread.mean(1)).T @ self.places
        strengths = torch.linalg.eigvalsh((change @ change.T).double()).clamp(min=0)
        freedom = (classes - 1) / 2 * float(torch.log1p(strengths).sum())
        return self.objective + problem.numbers.complexity * freedom

    def shares(self) -> Tensor:
        """Class shares of the documents in the match."""
        return self.scores_matched().softmax(1)

    def scores_matched(self) -> Tensor:
        """Scores of the documents in the match."""
        return self._scores_of(self.places, self.expected)

    def scores(self, rows: Tensor) -> Tensor:
        """Scores of some documents, also of those outside the match."""
        root = self.problem.numbers.prior**0.5
        return torch.cat(
            [
                self._scores_of(self._all.of(own).mul_(root), self._expected[own])
                for own in torch.split(rows, _ROWS_AT_ONCE)
            ]
        )

    def _scores_of(self, scaled: Tensor, expected: Tensor) -> Tensor:
        """Scores at places in units of the prior."""
        return linear(scaled, self.weights, self.bias).add_(expected)


def mean_residuals(
    path: Tensor, features: Rows, longest: float, bias: Tensor | None = None
) -> Tensor:
    """``[documents, k, j]``: coordinate j of the mean residual if the class were k."""
    classes = path.shape[2]
    total = torch.zeros(features.shape[0], classes, classes)
    for weights in path:
        scores = features.times(weights)
        shares = (scores if bias is None else scores.add_(bias)).softmax(1)
        # The squared length of shares minus a label, for each label.
        squares = (1 - 2 * shares + shares.square().sum(1, keepdim=True)).clamp(min=1e-18)
        shortened = (longest / squares.sqrt()).clamp(max=1.0)
        total.baddbmm_(shortened[..., None], shares[:, None])
        total.diagonal(dim1=1, dim2=2).sub_(shortened)
    return total / len(path)
