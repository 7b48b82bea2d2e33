"""Prediction by moment matching: what query documents must be like, given what was released.

    released   S = noisy sum over training documents of x r^T, mean over the steps
    residual   r_i(k) = mean over the iterates W of clip(softmax(W^T x_i + b) - e_k)
    model      S = scale * sum over query documents of x_i (sum of p_i(k) r_i(k))^T + error,
               in their main directions; scale = training units / query documents;
               error: the noise, and the chance of which documents were trained on
    prior      p_i = softmax(v_i A + a + prior scores), A and a Gaussian,
               v_i the embedding of document i along the main axes of all
    estimate   the most likely A and a, by L-BFGS
    score      (m_i + b o_i) / (match strength + b own strength),
               m_i = v_i A + a + prior scores, o_i the weights' own score of x_i

The query documents come from the same source as the training documents, so their sum, with the
right classes put in, should be about the same, up to the known noise. That is a maximum a
posteriori estimate in which the noise level is known and not tuned. No label is used, and the
training documents enter only through what was released: post-processing.

Embeddings are texts, propagated along edges where answers without edges agree along them
(``edges_help``). Documents, directions and edges in the match are a fixed random choice of
limited size: only passes that project, propagate and score grow with the number of documents.
``docs/concepts/recipe.md`` derives the method.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import NamedTuple, Self

import numpy as np
from numpy.typing import NDArray
from scipy.special import log_softmax, softmax
from threadpoolctl import threadpool_limits

from privgcn.auto.recipe import Floats, MatchingConstants, along, undone
from privgcn.auto.spectrum import (
    Table,
    fixed_choice,
    personalised_pagerank,
    principal_axes,
    principal_directions,
)
from privgcn.auto.train import blocks, text_rows
from privgcn.graph import DocumentGraph, Features, in_blocks, picked
from privgcn.progress import advance
from privgcn.released import Released
from privgcn.storage import mapping, room, unmap

Rows = NDArray[np.int64]

# Columns that are propagated at once, so that memory does not grow with the documents.
_MOST_COLUMNS, _LEAST_COLUMNS = 50, 8
_NUMBERS_AT_ONCE = 1 << 26
_MOST_PERMUTED = 1 << 22
# How much flatter or sharper scores may be than they say: steps of the root of two.
_SHARPNESS = tuple(2.0 ** (step / 2) for step in range(-8, 5))


def matched_scores(released: Released, graph: DocumentGraph, rows: Rows) -> Table:
    """Scores ``[rows, classes]`` of some documents, among all that may be seen with them."""
    moments = Moments.of(released)
    if len(rows) == 0:
        return np.zeros((0, moments.weight.shape[1]), np.float32)
    constants = moments.constants
    query = _Query(released, graph, constants)
    problem = _Problem.of(moments, query)
    informative = _informative(problem, query)
    prior_scores = query.product(moments.prior_weights, moments.class_bias)
    text = _text(query, informative, prior_scores)
    # The first answer tells how far the sum over other documents may stray.
    first = _Match(problem, query, text)
    problem = problem.informed(softmax(first.scores_matched(), axis=0))
    best = _Match(problem, query, text, start=first)
    chosen = picked(graph.edges.T, _some(graph.edges.shape[1], constants.most_matched)).T
    ends, edges = np.unique(chosen, return_inverse=True)
    propagates = False
    if edges_help(softmax(best.scores(ends), axis=1), edges.reshape(2, -1), constants):
        best = _Match(problem, query, _propagated(query, informative, prior_scores, rows))
        propagates = _edges_inform(problem, moments, query)
    best.run(constants.rounds // 2, sharpening=constants.sharpening)

    matched_bias: Table = np.float32(constants.matched_bias) * moments.class_bias
    matched = best.scores(rows) + matched_bias
    own = query.product(moments.weight, moments.own_bias, rows)
    # The trained weights' own scores count the more, the less noise they carry, the fewer query
    # documents there are to match, and the more often both agree: where they do not, at most
    # one of them is right.
    sample = np.asarray(query.features @ moments.weight) + moments.own_bias
    apart = sample.argmax(axis=1) != (best.scores_matched().T + matched_bias).argmax(axis=1)
    trust = constants.signal * moments.units / len(graph)
    trust /= float(apart.mean()) + constants.least_disagreement
    blend = min(constants.most_blend, constants.blend * math.pow(trust, constants.blend_power))
    if propagates:
        moved = query.propagate(query.product(moments.weight, moments.own_bias))[rows]
        # A small blend is worth most as it is: the match has used the edges already, and well
        # where there are many query documents.
        fraction = min(1.0, blend * moments.units / (moments.units + len(graph)))
        own += np.float32(constants.propagated_fraction * fraction) * (moved - own)
    # Both estimate the same log odds, so their mean counts and not their sum.
    strength = constants.match_strength + blend * constants.own_strength
    return np.asarray((matched + np.float32(blend) * own) / strength, np.float32)


def edges_help(probabilities: Table, edges: Rows, constants: MatchingConstants) -> bool:
    """Whether answers found without edges agree along the edges, well beyond chance.

    Probabilities at both ends of edges (``[2, m]``, by rows of ``probabilities``) are compared
    with those at the ends of edges that were rewired at random. Where neighbours are no more
    alike than others, what is propagated along the edges is noise.
    """
    count = edges.shape[1]
    if count < 2:
        return False
    begin, end = probabilities[edges[0]], probabilities[edges[1]]
    agreement = (begin * end).sum(axis=1)
    chance = (begin * end[fixed_choice().permutation(count)]).sum(axis=1)
    gain = float(agreement.mean() - chance.mean())
    error = math.sqrt(float(agreement.var(ddof=1) + chance.var(ddof=1)) / count)
    most = float(np.square(begin).sum(axis=1).mean() - chance.mean())
    return gain > constants.sure * error and gain > constants.worth * most


@dataclass(frozen=True, eq=False)
class Moments:
    """What training released about its documents, in the terms of the match.

    Attributes:
        iterates: Weights before each gradient step, ``[steps, features, classes]``.
        weight: The trained weights.
        mean_sum: The mean over the steps of the noisy sums.
        noise_std: Noise of each coordinate of ``mean_sum``.
        units: Number of protected units that were summed.
        prior_weights: What training took from the class names; zero without any.
        class_bias: What training added to the scores of each class; zero without one.
        own_bias: How much of it scores of the trained weights have.
    """

    iterates: Table
    weight: Table
    mean_sum: Table
    noise_std: float
    units: int
    prior_weights: Table
    class_bias: Table
    own_bias: Table
    constants: MatchingConstants

    @classmethod
    def of(cls, released: Released) -> Self:
        """From a model: steps are plain, so how far they went is the sum of the gradients."""
        constants, tensors = MatchingConstants.of(released), released.tensors
        plan, iterates = released.plan, tensors["iterates"]
        if plan is None:
            raise ValueError("Moment matching needs the plan of a private run.")
        sums = (iterates[0].astype(np.float64) - iterates[-1]) / constants.rate
        prior_weights = iterates[0].astype(np.float64)
        if "label_direction" in tensors:
            direction = tensors["label_direction"].astype(np.float64)
            sums = undone(sums, direction)
            prior_weights = prior_weights - constants.rate * along(sums, direction)
        steps = len(iterates) - 1
        sums *= plan.schedule.expected_groups / steps
        sums -= sums.mean(axis=1, keepdims=True)
        bias = tensors.get("class_bias", np.zeros(iterates.shape[2], np.float32))
        return cls(
            iterates[:-1],
            tensors["weight"],
            sums.astype(np.float32),
            plan.noise_std / math.sqrt(steps),
            plan.units,
            prior_weights.astype(np.float32),
            bias,
            np.float32(constants.own_bias) * bias,
            constants,
        )


class _Query:
    """The query documents, whatever was released.

    ``matched`` are those in the match, all or a fixed random choice of many, ``features`` their
    text rows, ``directions`` their main directions, and ``projected`` the rows in these.
    """

    def __init__(
        self, released: Released, graph: DocumentGraph, constants: MatchingConstants
    ) -> None:
        self.graph, self.constants = graph, constants
        self._prediction = released.settings.prediction
        disk, mean = mapping(graph.features) is not None, released.tensors.get("mean")
        self._ready = in_blocks(graph.features, lambda own: text_rows(own, mean), on_disk=disk)
        self.matched = _some(len(graph), constants.most_matched)
        self.features = self.some(self.matched)
        self.directions = principal_directions(
            self.features,
            constants.rank,
            oversampling=constants.oversampling,
            iterations=constants.iterations,
        )
        self.projected = np.asarray(self.features @ self.directions.basis)

    def some(self, rows: Rows | slice) -> Features:
        """Text rows of some documents."""
        if not isinstance(rows, slice):
            return picked(self._ready, rows)
        block = self._ready[rows].copy()
        unmap(self._ready)
        return block

    def product(self, table: Table, bias: Table, rows: Rows | None = None) -> Table:
        """Text rows of some documents, or of all, times a table, plus a bias."""
        out = room((len(self.graph if rows is None else rows), table.shape[1]), np.float32)
        for own in blocks(len(out)):
            out[own] = self.some(own if rows is None else rows[own]) @ table + bias
            unmap(out)
        return out

    def coordinates(self, rows: Rows | slice, columns: slice = slice(None)) -> Table:
        """Documents in their main directions; those without text lie at zero."""
        features = self.some(rows)
        basis = np.ascontiguousarray(self.directions.basis[:, :-1][:, columns])
        values = np.asarray(features @ basis) - self.directions.mean[columns]
        values[np.asarray(abs(features).sum(axis=1)) == 0] = 0.0
        return values

    def propagate(self, values: Table) -> Table:
        """Values of all documents, propagated along the edges."""
        prediction = self._prediction
        return personalised_pagerank(
            self.graph.propagation, values, prediction.restart, prediction.hops
        )


def _some(count: int, most: int) -> Rows:
    """All numbers below ``count``, or a fixed random choice of ``most`` of them."""
    if count <= most:
        return np.arange(count)
    # Of very many, those at equal distances: to permute all takes much memory.
    step = -(-count // _MOST_PERMUTED)
    return step * fixed_choice().permutation(count // step)[:most].astype(np.int64)


class _Embedding(NamedTuple):
    """Where documents lie among the others, and their scores before any match."""

    of: Callable[[Rows], Table]
    prior_scores: Table


def _text(query: _Query, informative: Table, prior_scores: Table) -> _Embedding:
    """By a document's own text, in the directions that tell classes apart."""
    matched = query.coordinates(query.matched) * informative
    along_axes = principal_axes(matched, query.constants.axis_power)
    return _Embedding(
        lambda rows: along_axes(query.coordinates(rows) * informative), prior_scores
    )


def _propagated(
    query: _Query, informative: Table, prior_scores: Table, asked: Rows
) -> _Embedding:
    """By what is propagated along the edges, for the matched and the asked documents.

    Few columns at a time: the tables that hops gather from stay small.
    """
    count, rank = len(query.graph), len(query.directions.mean)
    wanted = np.union1d(query.matched, asked)
    # A column after the other, as they are made.
    table = room((rank, len(wanted)), np.float32)
    matched = np.empty((len(query.matched), rank), np.float32)
    columns = min(_MOST_COLUMNS, max(_LEAST_COLUMNS, _NUMBERS_AT_ONCE // count))
    for begin in range(0, rank, columns):
        advance(begin, rank)
        own = slice(begin, min(begin + columns, rank))
        values = room((count, own.stop - begin), np.float32)
        for some in blocks(count):
            values[some] = query.coordinates(some, own)
            unmap(values)
        moved = query.propagate(values)
        matched[:, own] = picked(moved, query.matched)
        table[own] = picked(moved, wanted).T
        unmap(table)
    along_axes = principal_axes(matched * informative, query.constants.axis_power)

    def of(rows: Rows) -> Table:
        if rows is query.matched:
            return along_axes(matched * informative)
        near = np.searchsorted(wanted, rows)
        span = np.ascontiguousarray(table[:, near.min() : near.max() + 1].T)
        unmap(table)
        return along_axes(span[near - near.min()] * informative)

    return _Embedding(of, query.propagate(prior_scores))


@dataclass(frozen=True, eq=False)
class _Problem:
    """Match the released sum with the sum over the query documents.

    Attributes:
        projected: Documents in the match, ``[documents, r + 1]``.
        residuals: What each would add for each class, see ``mean_residuals``.
        target: The released sum, in the main directions, ``[classes, r + 1]``.
        spread: Standard deviation of its difference to a sum over other documents.
        noise_std: The noise alone.
        scale: Training units for each document in the match.
    """

    projected: Table
    residuals: Table
    target: Table
    spread: Table
    noise_std: float
    scale: float
    constants: MatchingConstants

    @classmethod
    def of(cls, moments: Moments, query: _Query) -> Self:
        """With the spread that any documents have."""
        documents, classes = len(query.matched), moments.weight.shape[1]
        units, clip_norm = moments.units, moments.constants.clip_norm
        chance = units * (1 + units / documents) * clip_norm**2 / classes
        squares = np.square(query.projected).mean(axis=0)
        spread = np.sqrt(moments.noise_std**2 + chance * squares).astype(np.float32)
        return cls(
            query.projected,
            mean_residuals(moments.iterates, query.features, clip_norm, moments.class_bias),
            np.ascontiguousarray(moments.mean_sum.T @ query.directions.basis),
            np.tile(spread, (classes, 1)),
            moments.noise_std,
            units / documents,
            moments.constants,
        )

    def informed(self, probabilities: Table) -> _Problem:
        """The same, with the spread that documents of these probabilities have.

        Labels of training documents vary around them, and the query documents are one choice
        of many. What both sums have in common does not vary.
        """
        documents = probabilities.shape[1]
        mean = np.einsum("km,kjm->jm", probabilities, self.residuals)
        square = np.einsum("km,kjm->jm", probabilities, np.square(self.residuals))
        squares = np.square(self.projected) / np.float32(documents)
        common = np.square(mean @ self.projected / np.float32(documents))
        labels = np.maximum(square - np.square(mean), 0.0) @ squares
        choice = np.maximum(np.square(mean) @ squares - common, 0.0) * (1 + self.scale)
        spread = np.sqrt(self.noise_std**2 + self.scale * documents * (labels + choice))
        return replace(self, spread=spread.astype(np.float32))

    def gap(self, probabilities: Table) -> Table:
        """By how many standard deviations the sum over query documents misses the target."""
        expected = np.einsum("km,kjm->jm", probabilities, self.residuals)
        total = np.float32(self.scale) * (expected @ self.projected)
        return np.asarray((total - self.target) / self.spread)


def _informative(problem: _Problem, query: _Query) -> Table:
    """Which main directions tell classes apart: one, or zero where they do not.

    Documents that follow a few templates differ most in which one they follow, whatever their
    class. In such directions the released sum is hardly more than noise, where elsewhere it
    grows with the variance of the documents: of the two, what is more likely.
    """
    constants, freedom = problem.constants, len(problem.target) - 1
    energy = np.square(problem.target[:, :-1].astype(np.float64)).sum(axis=0)
    energy /= problem.noise_std**2
    variances = np.square(query.projected[:, :-1] - query.directions.mean).mean(axis=0)
    relative = variances * len(variances)
    relative /= max(float(variances.sum()), 1e-30)
    signal = np.logspace(-4, 4, 41)[:, None] * relative

    def likelihood(signal: Floats) -> Floats:
        return np.asarray(-0.5 * (energy / (1 + signal) + freedom * np.log1p(signal)))

    informs = likelihood(signal) + math.log1p(-constants.uninformative)
    not_so = likelihood(constants.uninformative_signal * signal)
    not_so += math.log(constants.uninformative)
    best = int(np.logaddexp(informs, not_so).sum(axis=1).argmax())
    return np.asarray(informs[best] >= not_so[best], np.float32)


class _Match:
    """Weights over an embedding, found by L-BFGS."""

    def __init__(
        self,
        problem: _Problem,
        query: _Query,
        embedding: _Embedding,
        start: _Match | None = None,
    ) -> None:
        self.problem, self.embedding = problem, embedding
        self._unit = np.float32(problem.constants.prior_variance**0.5)
        self.points = self._unit * embedding.of(query.matched)
        self.prior_scores: Table = np.ascontiguousarray(
            picked(embedding.prior_scores, query.matched).T
        )
        classes = len(problem.target)
        self.weights = np.zeros((classes, self.points.shape[1]), np.float32)
        self.bias = np.zeros(classes, np.float32)
        if start is not None:
            self.weights, self.bias = start.weights, start.bias
        self.run(problem.constants.rounds, sharpening=0.0)

    def run(self, rounds: int, *, sharpening: float) -> None:
        """Minimises the negative log posterior, less certainty times ``sharpening``."""
        # A third of a second, which a process that matches nothing need not spend.
        from scipy.optimize import minimize

        def objective(flat: Floats) -> tuple[float, Floats]:
            values = flat.astype(np.float32)
            self.weights = values[: self.weights.size].reshape(self.weights.shape)
            self.bias = values[self.weights.size :]
            loss, by_weight, by_bias = self.loss(sharpening)
            return loss, np.concatenate([by_weight.ravel(), by_bias]).astype(np.float64)

        start = np.concatenate([self.weights.ravel(), self.bias]).astype(np.float64)
        tolerance = self.problem.constants.tolerance
        options = {"maxiter": rounds, "maxcor": 10, "ftol": tolerance}
        # Many small products: threads would wait for each other most of the time.
        with threadpool_limits(1):
            end = minimize(objective, start, jac=True, method="L-BFGS-B", options=options)
            objective(end.x)

    def loss(self, sharpening: float) -> tuple[float, Table, Table]:
        """The loss, and its gradients in the weights and the bias."""
        problem, variance = self.problem, np.float32(self.problem.constants.bias_variance)
        logs = log_softmax(self.scores_matched(), axis=0)
        likely = np.exp(logs)
        gap = problem.gap(likely)
        size = float(np.square(self.weights).sum() + np.square(self.bias).sum() / variance)
        loss = 0.5 * (float(np.square(gap).sum()) + size)
        slope = (np.float32(problem.scale) * gap / problem.spread) @ problem.projected.T
        by_probability = np.einsum("kjm,jm->km", problem.residuals, slope)
        if sharpening:
            loss -= sharpening * float((likely * logs).sum())
            by_probability -= np.float32(sharpening) * logs
        by_score = likely * (by_probability - (likely * by_probability).sum(axis=0))
        by_weight = by_score @ self.points + self.weights
        return loss, by_weight, by_score.sum(axis=1) + self.bias / variance

    def scores_matched(self) -> Table:
        """Scores of the documents in the match, ``[classes, documents]``."""
        return self.weights @ self.points.T + self.bias[:, None] + self.prior_scores

    def scores(self, rows: Rows) -> Table:
        """Scores ``[rows, classes]`` of some documents, also of those outside the match."""
        out = np.empty((len(rows), len(self.weights)), np.float32)
        for own in blocks(len(rows)):
            points = self._unit * self.embedding.of(rows[own])
            prior_scores = self.embedding.prior_scores[rows[own]]
            unmap(self.embedding.prior_scores)
            out[own] = points @ self.weights.T + self.bias + prior_scores
        return out


def mean_residuals(
    iterates: Table, rows: Features, clip_norm: float, class_bias: Table
) -> Table:
    """``[k, j, documents]``: coordinate j of the mean residual if the class were k."""
    classes = iterates.shape[2]
    total = np.zeros((classes, classes, rows.shape[0]), np.float32)
    for weights in iterates:
        likely = softmax(np.asarray(rows @ weights).T + class_bias[:, None], axis=0)
        # The squared length of probabilities minus a label, for each label.
        squares = np.maximum(1 - 2 * likely + np.square(likely).sum(axis=0), 1e-18)
        shortened = np.minimum(np.float32(clip_norm) / np.sqrt(squares), np.float32(1.0))
        for label in range(classes):
            total[label] += shortened[label] * likely
            total[label, label] -= shortened[label]
    total /= np.float32(len(iterates))
    return total


def _edges_inform(problem: _Problem, moments: Moments, query: _Query) -> bool:
    """Whether the trained weights' own scores tell more once they are propagated.

    What they tell is how well they predict the released sum, sharpened as fits best. The
    scores that predict it in one half of the main directions leave that half out, so that its
    noise has no part in them.
    """

    def misfit(half: slice, scores: Table) -> float:
        likely = (
            softmax(np.float32(p) * picked(scores, query.matched).T, axis=0) for p in _SHARPNESS
        )
        return min(0.5 * float(np.square(problem.gap(p)[:, half]).sum()) for p in likely)

    basis, gain = query.directions.basis, 0.0
    for half in (slice(0, None, 2), slice(1, None, 2)):
        left_out = basis[:, half]
        weight = moments.weight - left_out @ (left_out.T @ moments.weight)
        own = query.product(weight, moments.own_bias)
        gain += misfit(half, own) - misfit(half, query.propagate(own))
    return gain > moments.constants.evidence
