"""One training over parts that lie on several ranks.

Rank 0 cuts the graph and gives every rank a stretch of parts, itself included. In each step it
sends the parameters and the sample; every rank sums the clipped gradients of its own parts; and
the sums, whole multiples of the grid's step, are added up on rank 0 as integers. Noise, weights
and samples are rank 0's alone: it runs the very trainer of one process, for which this is one
more ``GradientSource``. Exact sums have no order, so the result has the same bits.
"""

from __future__ import annotations

import math
import os
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from privgcn import __version__
from privgcn.errors import PrivacyContractError, RankLostError
from privgcn.graph.dense_rows import DenseRows
from privgcn.graph.on_disk import RowsOnDisk, in_memory
from privgcn.graph.parts import PartitionedGraph
from privgcn.graph.rows import Rows
from privgcn.graph.sparse_rows import SparseRows
from privgcn.models.stack import Layer, LayerStack, dropout_mask
from privgcn.privacy.mechanism.centre import clipped_outline
from privgcn.privacy.mechanism.noise_grid import grid_of
from privgcn.privacy.mechanism.part_gradients import Samples, StackGradients
from privgcn.privacy.plan import PrivacyPlan
from privgcn.randomness import RandomSource, SeededReplicas, UniformBytes
from privgcn.training.ranks import Message, Ranks, Team

DROPOUT = "dropout from step {}"
"""What the masks of a seeded run are drawn for, on one rank or several."""

_END, _OUTLINE, _BEGIN, _GRADIENTS = range(4)
_EVERYTHING = -1


@dataclass(frozen=True)
class Share:
    """The parts of one rank: those from ``first`` on, up to but without ``last``.

    Guarantees:
        Over all ranks every part is in exactly one share. How many parts there are decides,
        never what is in them.
    """

    first: int
    last: int

    @classmethod
    def of(cls, parts: int, ranks: Ranks) -> Share:
        """Shares differ by one part at most; if there are few, the first ranks have them."""
        first, last = (-(-parts * n // ranks.size) for n in (ranks.number, ranks.number + 1))
        return cls(first, last)

    def __len__(self) -> int:
        return self.last - self.first

    def own(self, samples: Samples) -> Samples:
        """The sampled parts of this share, by their number in it."""
        if samples is None:
            return None
        return [p[(p >= self.first) & (p < self.last)] - self.first for p in samples]


class SharedMasks:
    """Of the masks that one process would draw for all ranks, those of one share.

    Every rank has the same seeded source and draws the masks of every sampled part. A secret
    source is never shared; then each rank draws its own.
    """

    def __init__(
        self, source: UniformBytes, sizes: npt.NDArray[np.int64], share: Share
    ) -> None:
        self._source = source
        self._sizes = sizes
        self._share = share
        self._before = self._after = 0

    def expect(self, samples: Samples) -> None:
        """Says which parts the next step samples."""
        used = np.arange(len(self._sizes))
        if samples is not None:
            used = np.unique(np.concatenate(samples))
        self._before = int(self._sizes[used[used < self._share.first]].sum())
        self._after = int(self._sizes[used[used >= self._share.last]].sum())

    def uniform_bytes(self, shape: Sequence[int]) -> npt.NDArray[np.uint8] | Tensor:
        """The bytes of this share's rows."""
        rows, *rest = shape
        drawn = self._source.uniform_bytes((self._before + rows + self._after, *rest))
        return drawn[self._before : self._before + rows]


class Task(NamedTuple):
    """What every rank must know of a training, besides its own parts.

    Attributes:
        model: The layer stack.
        plan: What the run was accounted for.
        seeds: Of the replicas.
        begun: The step it goes on from.
        shared_masks: Whether the ranks draw the dropout masks of a seeded run.
        short_residuals: Whether residuals are shortened to the clip norm.
    """

    model: LayerStack
    plan: PrivacyPlan
    seeds: Sequence[int]
    begun: int
    shared_masks: bool
    short_residuals: bool

    def masks(self, sizes: npt.NDArray[np.int64], share: Share) -> UniformBytes:
        """Where a rank's dropout masks come from."""
        if not self.shared_masks:
            return RandomSource.secret()
        source = SeededReplicas(self.seeds, DROPOUT.format(self.begun))
        return SharedMasks(source, sizes, share)

    def to_dict(self) -> dict[str, Any]:
        """In plain values."""
        return {**self._asdict(), "model": asdict(self.model), "plan": self.plan.to_dict()}

    @classmethod
    def from_dict(cls, record: Mapping[str, Any]) -> Task:
        """Read back."""
        fields = dict(record["model"])
        layers = tuple(Layer(*layer) for layer in fields.pop("layers"))
        model = LayerStack(layers=layers, **fields)
        return cls(**{**record, "model": model, "plan": PrivacyPlan.from_dict(record["plan"])})


class OwnParts:
    """The parts of one rank, and exact sums over them as whole steps of the grid."""

    def __init__(
        self, task: Task, graph: PartitionedGraph, share: Share, masks: UniformBytes
    ) -> None:
        self.task = task
        self.graph = graph
        self.share = share
        self.masks = masks
        self.bias: Tensor | None = None
        self._gradients: StackGradients | None = None

    @property
    def centred(self) -> int:
        """How many numbers a centre has: none where rows are sparse."""
        return self.graph.features.width if self.graph.features.is_dense else 0

    def outline(self, samples: Samples) -> Tensor:
        """The sum of the mean directions and of the mean labels of the sampled parts."""
        if not len(self.share):
            return torch.zeros(self.centred + self.graph.classes, dtype=torch.int64)
        sums = clipped_outline(self.graph, self.task.plan, self.share.own(samples))
        return self._whole(sums)

    def begin(self, released: Tensor) -> None:
        """Takes the released centre off every row, and adds the bias that follows it."""
        centre, bias = torch.split(released, [self.centred, self.graph.classes])
        if self.centred:
            self.graph = self.graph.with_features(self.graph.features.centred(centre))
        self.bias = bias[None]

    def clipped_sum(self, parameters: Sequence[Tensor], samples: Samples) -> Tensor:
        """The sum of the clipped gradients of the sampled parts."""
        task, own = self.task, self.share.own(samples)
        if isinstance(self.masks, SharedMasks):
            self.masks.expect(samples)
        if not len(self.share) or (own is not None and not any(len(p) for p in own)):
            # The other ranks' masks are drawn all the same: the next step's come after them.
            if isinstance(self.masks, SharedMasks):
                for layer in task.model.layers[:-1]:
                    nothing = torch.empty(0, len(task.seeds), layer.outputs)
                    dropout_mask(nothing, task.model.dropout, self.masks)
            return torch.zeros(sum(p.numel() for p in parameters), dtype=torch.int64)
        if self._gradients is None:
            self._gradients = StackGradients(
                task.model,
                self.graph,
                task.plan,
                self.masks,
                short_residuals=task.short_residuals,
                bias=self.bias,
            )
        return self._whole(self._gradients.clipped_sum(parameters, own))

    def _whole(self, sums: Sequence[Tensor]) -> Tensor:
        """Multiples of the grid's step, counted."""
        per_unit = 1.0 / grid_of(self.task.plan).step
        return torch.cat([(tensor * per_unit).long().reshape(-1) for tensor in sums])


class SharedGradients:
    """Rank 0's view of a training over all ranks: a ``GradientSource`` like any other.

    Guarantees:
        The sums are those of one process, to the bit: every part is on one rank, and integers
        are added. The others learn the parameters and the samples, and draw no noise.
    """

    def __init__(
        self, team: Team, graph: PartitionedGraph, task: Task, device: torch.device
    ) -> None:
        self.plan = task.plan
        self.parts = graph.parts
        sizes = np.asarray(graph.sizes.cpu())
        mine, *others = (
            Share.of(graph.parts, Ranks(n, team.ranks.size)) for n in range(team.ranks.size)
        )
        for rank, share in enumerate(others, 1):
            team.send(_message(_selected(graph, share), task, share, sizes), rank)
        self._own = OwnParts(task, _selected(graph, mine), mine, task.masks(sizes, mine))
        self._team = team
        team.open_steps(device)

    @property
    def graph(self) -> PartitionedGraph:
        """Rank 0's own parts."""
        return self._own.graph

    def outline(
        self, graph: PartitionedGraph, plan: PrivacyPlan, samples: Samples
    ) -> list[Tensor]:
        """Clipped sums of the mean directions and labels of all parts, as in one process."""
        self._order(_OUTLINE, samples)
        total = self._collected(self._own.outline(samples)).to(graph.offsets.device)
        rows, labels = torch.split(total, [self._own.centred, graph.classes])
        return [rows[:, None], labels[None]] if self._own.centred else [labels[None]]

    def begin(self, centre: Tensor | None, bias: Tensor) -> None:
        """Has every rank take the released centre off its rows, and add the bias."""
        self._order(_BEGIN, None)
        pieces = [bias] if centre is None else [centre, bias]
        released = torch.cat([piece.reshape(-1) for piece in pieces])
        self._team.from_leader(released.to(self._team.device, copy=True))
        self._own.begin(released)

    def clipped_sum(self, parameters: Sequence[Tensor], samples: Samples) -> list[Tensor]:
        """The sum over the sampled parts of all ranks."""
        self._order(_GRADIENTS, samples, torch.cat([p.reshape(-1) for p in parameters]))
        total = self._collected(self._own.clipped_sum(parameters, samples))
        pieces = torch.split(total, [p.numel() for p in parameters])
        return [
            piece.view(p.shape).to(p.device)
            for piece, p in zip(pieces, parameters, strict=True)
        ]

    def close(self) -> None:
        """Ends the training on all ranks; all steps are taken, so none is missed any more."""
        with suppress(RankLostError):
            self._order(_END, None)
        self._team.end_steps()

    def _order(self, what: int, samples: Samples, parameters: Tensor | None = None) -> None:
        device, task = self._team.device, self._own.task
        counts = [_EVERYTHING] if samples is None else [len(parts) for parts in samples]
        head = torch.tensor([what, *counts, *[0] * (len(task.seeds) - len(counts))])
        if parameters is None:
            parameters = torch.zeros(_parameter_count(task.model, len(task.seeds)))
        pieces = (head.to(device), parameters.to(device))
        self._team.from_leader(torch.cat([piece.view(torch.uint8) for piece in pieces]))
        if samples is not None:
            self._team.from_leader(torch.from_numpy(np.concatenate(samples)).to(device))

    def _collected(self, own: Tensor) -> Tensor:
        total = self._team.sum_for_leader(own.to(self._team.device))
        return total.double().mul_(grid_of(self.plan).step)


def assist(ranks: Ranks) -> None:
    """What every rank but the first does: it serves trainings until rank 0 has no more.

    Raises:
        RankLostError: Another rank is gone; without a word, where rank 0 can say so.
    """
    with Team(ranks) as team:
        try:
            while (message := team.receive()) is not None:
                _serve(team, message)
        except RankLostError:
            if ranks.number == 1 and team.leader_was_lost():
                raise RankLostError(
                    "Rank 0 was lost. Run the same command again, with or without torchrun, "
                    "to go on from its last checkpoint."
                ) from None
            raise RankLostError from None


def _serve(team: Team, message: Message) -> None:
    theirs = message.words["version"]
    if theirs != __version__:
        # Another version may sum on another grid, and that is not what was accounted for.
        raise PrivacyContractError(
            f"All ranks must have the same version of privgcn. Rank {team.ranks.number} has "
            f"{__version__}, and rank 0 has {theirs}."
        )
    task = Task.from_dict(message.words["task"])
    share = Share(*message.words["share"])
    cuda = message.words["device"] == "cuda" and torch.cuda.is_available()
    device = torch.device("cuda" if cuda else "cpu")
    if cuda:
        # Processes of one machine have a GPU each, as far as there are so many.
        local = int(os.environ.get("LOCAL_RANK", "0"))
        torch.cuda.set_device(local % torch.cuda.device_count())
    graph = _graph_of(message, device)
    own = OwnParts(task, graph, share, task.masks(message.tensors["sizes"].numpy(), share))
    shapes = [p.shape for p in task.model.initial(task.seeds, zero=True)]
    sizes = [math.prod(shape) for shape in shapes]
    del message, graph
    team.open_steps(device)
    replicas = len(task.seeds)
    order = torch.empty(8 * (1 + replicas) + 4 * sum(sizes), dtype=torch.uint8)
    order = order.to(team.device)
    with torch.no_grad():
        while True:
            team.from_leader(order)
            what, *counts = order[: 8 * (1 + replicas)].view(torch.int64).tolist()
            if what == _END:
                team.end_steps()
                return
            if what == _BEGIN:
                numbers = own.centred + own.graph.classes
                released = torch.empty(numbers, device=team.device)
                own.begin(team.from_leader(released).to(device))
                continue
            samples = None
            if counts[0] != _EVERYTHING:
                drawn = torch.empty(sum(counts), dtype=torch.int64, device=team.device)
                parts = team.from_leader(drawn).cpu().numpy()
                samples = np.split(parts, np.cumsum(counts)[:-1])
            if what == _OUTLINE:
                sums = own.outline(samples)
            else:
                flat = order[8 * (1 + replicas) :].view(torch.float32).to(device)
                pieces = torch.split(flat, sizes)
                parameters = [p.view(s) for p, s in zip(pieces, shapes, strict=True)]
                sums = own.clipped_sum(parameters, samples)
            team.sum_for_leader(sums.to(team.device))


def _parameter_count(model: LayerStack, replicas: int) -> int:
    return replicas * sum((n.inputs + model.bias) * n.outputs for n in model.layers)


def _selected(graph: PartitionedGraph, share: Share) -> PartitionedGraph:
    """A rank's own parts, in memory: rows on disk are read here, a share after another."""
    own = graph.select(torch.arange(share.first, share.last, device=graph.offsets.device))
    if isinstance(own.features, RowsOnDisk):
        own = own.with_features(in_memory(own.features))
    return own


def _message(
    graph: PartitionedGraph, task: Task, share: Share, sizes: npt.NDArray[np.int64]
) -> Message:
    tensors = {"labels": graph.labels, "offsets": graph.offsets, "order": graph.order}
    # Only shared masks need to know how many rows the others have.
    tensors["sizes"] = torch.from_numpy(sizes if task.shared_masks else sizes[:0])
    for name, rows in (("features", graph.features), ("matrix", graph.matrix)):
        if isinstance(rows, DenseRows):
            tensors[name] = rows.values
        elif isinstance(rows, SparseRows):
            parts = (rows.offsets, rows.columns, rows.values)
            tensors |= {f"{name}.{n}": part for n, part in enumerate(parts)}
    words = {
        "version": __version__,
        "task": task.to_dict(),
        "share": [share.first, share.last],
        "classes": graph.classes,
        "width": graph.features.width,
        "device": graph.offsets.device.type,
    }
    return Message(tensors, words)


def _graph_of(message: Message, device: torch.device) -> PartitionedGraph:
    tensors = {name: value.to(device) for name, value in message.tensors.items()}

    def sparse(name: str, width: int) -> SparseRows:
        offsets, columns, values = (tensors[f"{name}.{n}"] for n in range(3))
        return SparseRows(offsets, columns, values, width)

    features: Rows
    if "features" in tensors:
        features = DenseRows(tensors["features"])
    else:
        features = sparse("features", message.words["width"])
    rows = features.shape[0]
    return PartitionedGraph(
        features,
        sparse("matrix", rows) if "matrix.0" in tensors else None,
        tensors["labels"],
        message.words["classes"],
        tensors["offsets"],
        tensors["order"],
    )
