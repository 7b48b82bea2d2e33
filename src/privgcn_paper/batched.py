"""The paper's method, done soundly, for many seeds and noise levels at once on one device.

**For experiments only**: noise comes from PyTorch's seeded generator in float32, one stream for
all trials of a batch, and samples from NumPy's. A run that is to be released goes through
``Session``; a test holds this module to it.

A trial is a seed with a noise multiplier and a learning rate. A step takes the pairs
(trial, group) that were sampled, of all trials side by side: its cost is that of launching some
sixty kernels, so a whole table of scores trains in the time of one run. On a GPU they are one
captured graph.
Trial r with pairs p of weight 1 (padding has 0) moves its weights along

    sum_p s_p g_p + noise_multiplier_r C N(0, 1),    s_p = C / max(|g_p|, C),

over the expected number of groups. Subgraphs are padded to one size, with zero rows; they
are propagated once, so that a step multiplies (P X) W. One group is shared by all trials,
and stays sparse. Where each document is a group, the norm of its gradient follows from its
rows, |x d^T| = |x| |d|, and no gradient of its own is made.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from privgcn.graph import DocumentGraph, random_groups
from privgcn.sgd.gcn import Network, kept_fraction, seeded

# Steps before the rest is captured: what PyTorch sets up once must not be part of a graph.
_WARM = 3
# Replays between two looks at whether all have ended, each of which waits for the device.
_ASKED = 50


class Trial(NamedTuple):
    """One of the runs that train side by side; its seed is of groups, weights and samples."""

    seed: int
    noise_multiplier: float
    learning_rate: float


@dataclass(frozen=True)
class Method:
    """What the trials of a batch have in common.

    As many groups as documents make each document a group. The optimizer is ``sgd`` or
    ``adam``; a step takes ``all`` groups or a ``poisson`` sample.
    """

    groups: int
    steps: int
    optimizer: str
    schedule: str = "all"
    sampling_probability: float = 1.0
    clip_norm: float = 1.0
    hidden: int = 32
    dropout: float = 0.5


def train_batched(
    train: DocumentGraph, method: Method, trials: Sequence[Trial], device: str = "cpu"
) -> list[dict[str, NDArray[np.float32]]]:
    """Trains all trials, and returns the tensors of each by their names in ``Network``."""
    place = torch.device(device)
    with seeded(trials[0].seed, place), torch.no_grad():
        batch = _Batch(train, method, trials, place)
        advance(batch.step, method.steps, place)
    names = [f"layers.{number}.{kind}" for number in (0, 1) for kind in ("weight", "bias")]
    tensors = [parameter.cpu().numpy() for parameter in batch.parameters]
    return [
        {name: tensor[number].copy() for name, tensor in zip(names, tensors, strict=True)}
        for number in range(len(trials))
    ]


def advance(
    step: Callable[[], None],
    steps: int,
    place: torch.device,
    ended: Callable[[], bool] = lambda: False,
) -> None:
    """Takes the steps; on a GPU, all but the first few are replays of a captured graph.

    A step reads and writes tensors of fixed shape alone. ``ended`` says, now and then, whether
    no further step would change a thing.
    """
    if place.type != "cuda":
        for _ in range(steps):
            step()
            if ended():
                return
        return
    stream: torch.cuda.Stream = torch.cuda.Stream(place)  # type: ignore[no-untyped-call]
    stream.wait_stream(torch.cuda.current_stream(place))
    with torch.cuda.stream(stream):
        for _ in range(min(_WARM, steps)):
            step()
        if steps > _WARM:
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph, stream=stream):
                step()
            for number in range(steps - _WARM):
                graph.replay()
                if number % _ASKED == 0 and ended():
                    break
    torch.cuda.synchronize(place)


class Descent:
    """SGD or Adam on parameters ``[trials, ...]``; a trial of rate 0 stands still."""

    def __init__(
        self,
        parameters: Sequence[Tensor],
        optimizer: str,
        rates: Tensor,
        weight_decay: float = 0.0,
    ) -> None:
        self.parameters, self.rates, self.decay = parameters, rates, weight_decay
        self.adam = optimizer == "adam"
        self.taken = torch.zeros((), device=rates.device)
        self.means = [torch.zeros_like(parameter) for parameter in parameters]
        self.squares = [torch.zeros_like(parameter) for parameter in parameters]

    def step(self, gradients: Sequence[Tensor]) -> None:
        """One step of every trial, as PyTorch's optimisers take it."""
        self.taken.add_(1)
        for number, (parameter, gradient) in enumerate(
            zip(self.parameters, gradients, strict=True)
        ):
            move = gradient.add(parameter, alpha=self.decay) if self.decay else gradient
            if self.adam:
                mean = self.means[number].lerp_(move, 0.1)
                square = self.squares[number].mul_(0.999).addcmul_(move, move, value=0.001)
                root = (square / (1 - 0.999**self.taken)).sqrt_().add_(1e-8)
                move = mean / (1 - 0.9**self.taken) / root
            parameter.sub_(by_trial(self.rates, move) * move)


def by_trial(values: Tensor, like: Tensor) -> Tensor:
    """One value for each trial, in a shape to multiply a tensor ``[trials, ...]`` with."""
    return values.view(-1, *[1] * (like.dim() - 1))


def first_weights(trials: Sequence[Trial], widths: list[int]) -> list[Tensor]:
    """The first weights of all trials, stacked, each as its seed gives them."""
    first = [Network(widths, hops=0).begun(own.seed).parameters() for own in trials]
    return [torch.stack([part.detach() for part in same]) for same in zip(*first, strict=True)]


class _Batch:
    """Weights ``[trials, ...]``, documents, and which groups each step takes."""

    inputs: Tensor
    targets: Tensor
    weights: Tensor

    def __init__(
        self, train: DocumentGraph, method: Method, trials: Sequence[Trial], place: torch.device
    ) -> None:
        self.method, self.place = method, place
        widths = [train.width, method.hidden, train.classes]
        self.parameters = [tensor.to(place) for tensor in first_weights(trials, widths)]
        rates = self._tensor([own.learning_rate for own in trials])
        self.descent = Descent(self.parameters, method.optimizer, rates)
        rate = 1.0 if method.schedule == "all" else method.sampling_probability
        self.expected_groups = method.groups * rate
        self.noise = self._tensor([own.noise_multiplier for own in trials]) * method.clip_norm
        self.each = method.groups == len(train)
        self.samples = torch.from_numpy(_samples(method, trials, self.each)).to(place)
        self.taken = torch.zeros(1, dtype=torch.int64, device=place)
        if self.each:
            train = replace(train, edges=np.empty((2, 0), np.int64))
        # One group is the same for all seeds; so are documents of which all are taken.
        self.shared = method.groups == 1 or (self.each and method.schedule == "all")
        seeds = sorted({own.seed for own in trials})
        self.home = self._tensor([seeds.index(own.seed) for own in trials]).long()
        if self.each or method.groups == 1:
            self._hold([train])
            self.inputs, self.targets, self.weights = (
                tensor[0] for tensor in (self.inputs, self.targets, self.weights)
            )
            matrix = train.propagation
            self.sparse = [self._tensor(array) for array in (matrix.indices, matrix.indptr)]
            self.sparse = [*map(torch.Tensor.long, self.sparse), self._tensor(matrix.data)]
            if self.each:
                self.weights = (self.weights > 0).float()
            return
        groups = method.groups
        graphs = [
            graph
            for seed in seeds
            for graph in train.subgraphs(random_groups(len(train), groups, seed), groups)
        ]
        self._hold(graphs)
        most = self.inputs.shape[1]
        matrices = np.zeros((len(graphs), most, most), np.float32)
        for matrix, graph in zip(matrices, graphs, strict=True):
            matrix[: len(graph), : len(graph)] = graph.propagation.toarray()
        self.matrices = self._tensor(matrices)

    def _hold(self, graphs: Sequence[DocumentGraph]) -> None:
        """Propagated rows, one-hot labels and weights in the mean loss, padded with zeros."""
        most, width, classes = max(map(len, graphs)), graphs[0].width, graphs[0].classes
        inputs = np.zeros((len(graphs), most, width), np.float32)
        targets = np.zeros((len(graphs), most, classes), np.float32)
        weights = np.zeros((len(graphs), most, 1), np.float32)
        for number, graph in enumerate(graphs):
            rows = graph.propagation @ graph.features
            inputs[number, : len(graph)] = rows if graph.dense else rows.toarray()
            known = np.flatnonzero(graph.labels >= 0)
            targets[number, known, graph.labels[known]] = 1.0
            weights[number, known] = 1.0 / max(1, len(known))
        held = (self._tensor(array) for array in (inputs, targets, weights))
        self.inputs, self.targets, self.weights = held

    def _tensor(self, array: object) -> Tensor:
        return torch.from_numpy(np.asarray(array, np.float32)).to(self.place)

    def step(self) -> None:
        """Clip, sum, noise, step; no number comes back to the host."""
        chosen = self.samples.index_select(0, self.taken)[0]
        self.taken.add_(1).remainder_(len(self.samples))
        sums = self.document_sums(chosen) if self.each else self.group_sums(chosen)
        self.descent.step(
            [
                (total + by_trial(self.noise, total) * torch.randn_like(total))
                / self.expected_groups
                for total in sums
            ]
        )

    def group_sums(self, chosen: Tensor) -> list[Tensor]:
        """The sum of each trial's clipped gradients of subgraphs; ``chosen`` holds pairs."""
        there, pairs = chosen >= 0, chosen.clamp(min=0)
        trial = pairs // self.method.groups
        own = [parameter.index_select(0, trial) for parameter in self.parameters]
        documents = self.inputs, self.targets, self.weights
        spread: Callable[[Tensor], Tensor] = self._spread_shared
        if not self.shared:
            subgraph = self.home[trial] * self.method.groups + pairs % self.method.groups
            inputs, targets, weights = (held.index_select(0, subgraph) for held in documents)
            documents = inputs, targets, weights
            spread = self.matrices.index_select(0, subgraph).bmm
        hidden, inner, back, residuals = self._passes(own, *documents, spread)
        letters = "nf,pnh->pfh" if self.shared else "pnf,pnh->pfh"
        gradients = (
            torch.einsum(letters, documents[0], inner),
            inner.sum(1),
            hidden.mT @ back,
            residuals.sum(1),
        )
        squares = [gradient.flatten(1).square().sum(1) for gradient in gradients]
        factors = self._factors(torch.stack(squares).sum(0)) * there
        everyone = torch.arange(len(self.home), device=self.place)[:, None]
        factors = factors * (trial == everyone)
        return [
            (factors @ gradient.flatten(1)).view(-1, *gradient.shape[1:])
            for gradient in gradients
        ]

    def document_sums(self, chosen: Tensor) -> list[Tensor]:
        """The same where each document is a group: ``chosen`` holds documents by trial."""
        documents = self.inputs, self.targets, self.weights
        there = torch.ones(1, device=self.place)
        if not self.shared:
            there, rows = (chosen >= 0).float(), chosen.clamp(min=0)
            documents = self.inputs[rows], self.targets[rows], self.weights[rows]
        inputs = documents[0]
        hidden, inner, _, residuals = self._passes(self.parameters, *documents, lambda z: z)
        lengths = [rows.square().sum(-1) for rows in (inputs, inner, hidden, residuals)]
        squares = (lengths[0] + 1) * lengths[1] + (lengths[2] + 1) * lengths[3]
        factors = (self._factors(squares) * there)[..., None]
        inner, residuals = inner * factors, residuals * factors
        letters = "nf,pnh->pfh" if self.shared else "pnf,pnh->pfh"
        return [
            torch.einsum(letters, inputs, inner),
            inner.sum(1),
            hidden.mT @ residuals,
            residuals.sum(1),
        ]

    def _factors(self, squares: Tensor) -> Tensor:
        clip_norm = self.method.clip_norm
        return clip_norm / squares.sqrt().clamp(min=clip_norm)

    def _passes(
        self,
        own: Sequence[Tensor],
        inputs: Tensor,
        targets: Tensor,
        weights: Tensor,
        spread: Callable[[Tensor], Tensor],
    ) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Hidden values, and the gradients of the loss in them, behind and in the scores."""
        first, first_bias, second, second_bias = own
        letters = "nf,pfh->pnh" if self.shared else "pnf,pfh->pnh"
        hidden = torch.einsum(letters, inputs, first) + first_bias[:, None]
        passing = (hidden > 0).float()
        if self.method.dropout:
            keep = kept_fraction(self.method.dropout)
            passing = passing * (torch.rand_like(hidden) < keep) / keep
        hidden = hidden * passing
        scores = spread(hidden @ second) + second_bias[:, None]
        residuals = (scores.softmax(-1) - targets) * weights
        back = spread(residuals)
        return hidden, (back @ second.mT) * passing, back, residuals

    def _spread_shared(self, values: Tensor) -> Tensor:
        """The propagation of one graph for all trials: values ``[pairs, documents, k]``."""
        columns, begins, entries = self.sparse
        pairs, documents, width = values.shape
        table = values.transpose(0, 1).reshape(documents, pairs * width)
        summed = torch.embedding_bag(table, columns, begins, False, 0, False, entries, True)[0]
        return summed.view(documents, pairs, width).transpose(0, 1)


def _samples(method: Method, trials: Sequence[Trial], each: bool) -> NDArray[np.int64]:
    """What each step takes: pairs ``trial * groups + group``; -1 pads.

    Of documents that are groups, ``[steps, trials, documents]``. Fewer rows than steps are
    taken again from the first.
    """
    groups, count = method.groups, len(trials)
    if method.schedule == "all":
        return np.arange(count * (1 if each else groups))[None]
    samples = [_poisson(method, trial.seed) for trial in trials]
    if each:
        tables = [_table(steps, taken, method.steps) for steps, taken in samples]
        most = max(table.shape[1] for table in tables)
        padded = [
            np.pad(table, ((0, 0), (0, most - table.shape[1])), constant_values=-1)
            for table in tables
        ]
        return np.stack(padded, axis=1)
    steps = np.concatenate([steps for steps, _ in samples])
    pairs = np.concatenate([taken + n * groups for n, (_, taken) in enumerate(samples)])
    order = np.argsort(steps, kind="stable")
    return _table(steps[order], pairs[order], method.steps)


def _poisson(method: Method, seed: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Steps and groups of independent samples: gaps between successes are geometric."""
    draw = np.random.default_rng([seed, 1])
    total = method.steps * method.groups
    expected = total * method.sampling_probability
    gaps = draw.geometric(method.sampling_probability, int(expected + 12 * expected**0.5 + 50))
    taken = np.cumsum(gaps) - 1
    taken = taken[taken < total]
    return taken // method.groups, taken % method.groups


def _table(
    steps: NDArray[np.int64], values: NDArray[np.int64], count: int
) -> NDArray[np.int64]:
    sizes = np.bincount(steps, minlength=count)
    table = np.full((count, max(1, sizes.max())), -1)
    table[steps, np.arange(len(steps)) - np.repeat(np.cumsum(sizes) - sizes, sizes)] = values
    return table
