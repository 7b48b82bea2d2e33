"""The paper's networks, as PyTorch modules over the tensors of a graph.

A layer is Z = P^k X W + b, with P = D^-1/2 (A + I) D^-1/2 and k hops. ``gcn`` is Kipf and
Welling's network: two layers of one hop each, with ReLU and dropout between them. ``mlp`` is
the same without edges, and ``linear`` is softmax regression on propagated features.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.sparse import csr_array, issparse
from torch import Tensor, nn

from privgcn.graph import DocumentGraph
from privgcn.sgd.module import brought_module, module_inputs

if TYPE_CHECKING:
    from privgcn.config import ModelSettings
    from privgcn.released import Released

# Documents that are scored alone at a time: what bounds the memory of a dense copy.
_ROWS = 4096


class Network(nn.Module):
    """A stack of layers, each of whose outputs is propagated along ``hops`` edges."""

    def __init__(
        self, widths: list[int], *, hops: int, dropout: float = 0.0, bias: bool = True
    ) -> None:
        super().__init__()
        self.hops, self.dropout = hops, dropout
        self.layers: Any = nn.ModuleList(_Layer(*pair, bias=bias) for pair in pairwise(widths))

    @classmethod
    def of(cls, model: ModelSettings, *, features: int, classes: int, seed: int) -> Self:
        """The network that the settings name, with the first weights of a seed.

        A linear model begins at zero and has no bias, which earns less than clipping takes.
        """
        if model.kind == "linear":
            return cls([features, classes], hops=model.hops, bias=False)
        hops = 1 if model.kind == "gcn" else 0
        network = cls([features, model.hidden, classes], hops=hops, dropout=model.dropout)
        return network.begun(seed)

    def begun(self, seed: int) -> Self:
        """The same network with Glorot's uniform weights from a seed."""
        generator = torch.Generator().manual_seed(seed)
        with torch.no_grad():
            for layer in self.layers:
                bound = math.sqrt(6.0 / sum(layer.weight.shape))
                first = torch.rand(layer.weight.shape, generator=generator)
                layer.weight.copy_(first * (2 * bound) - bound)
        return self

    @classmethod
    def trained(cls, released: Released) -> Self:
        """The network with released parameters, ready to predict."""
        tensors = {name: torch.tensor(value) for name, value in released.tensors.items()}
        shapes = [value.shape for name, value in sorted(tensors.items()) if "weight" in name]
        widths = [shapes[0][0], *(shape[1] for shape in shapes)]
        hops = {"gcn": 1, "mlp": 0}.get(released.kind, released.settings.model.hops)
        network = cls(widths, hops=hops, bias="layers.0.bias" in tensors)
        network.load_state_dict(tensors)
        return network.eval().requires_grad_(False)

    def inputs(self, graph: DocumentGraph) -> tuple[Tensor, ...]:
        """What the network is called with: features, their transpose, propagation matrix."""
        features = _tensor(graph.features)
        transposed = _tensor(graph.features.T) if issparse(graph.features) else features.T
        return features, transposed, *([_tensor(graph.propagation)] if self.hops else [])

    def forward(self, features: Tensor, transposed: Tensor, *propagation: Tensor) -> Tensor:
        """Scores ``[documents, classes]``."""
        hidden = features
        for number, layer in enumerate(self.layers):
            if number == 0:
                hidden = product(features, transposed, layer.weight)
            else:
                hidden = self._dropped(hidden.relu()) @ layer.weight
            for _ in range(self.hops):
                hidden = product(*propagation, *propagation, hidden)
            if layer.bias is not None:
                hidden = hidden + layer.bias
        return hidden

    def _dropped(self, hidden: Tensor) -> Tensor:
        # One random byte per value, as ``bernoulli_`` takes longer than a step.
        if not (self.training and self.dropout):
            return hidden
        passing = kept_fraction(self.dropout)
        words = torch.empty(-(-hidden.numel() // 8), dtype=torch.int64, device=hidden.device)
        drawn = words.random_(-(2**63), None).view(torch.uint8)[: hidden.numel()]
        return hidden * ((drawn < round(256 * passing)).view_as(hidden) / passing)


def kept_fraction(dropout: float) -> float:
    """The fraction that a dropout mask passes on, in steps of 1/256."""
    return min(255, max(1, round(256 * (1.0 - dropout)))) / 256


def network_scores(
    released: Released,
    graph: DocumentGraph,
    *,
    module: nn.Module | None = None,
    alone: bool = False,
) -> NDArray[np.float32]:
    """Scores ``[documents, classes]`` of all documents of a graph, and nothing but the graph.

    Each by itself (``alone``): no edge and no other document changes a bit.
    """
    scores: list[NDArray[np.float32]] = []
    with torch.no_grad():
        if released.kind == "module":
            own = brought_module(released, module, graph.width, graph.classes)
            rows, edges = module_inputs(graph)
            calls = [(row[None], edges[:, :0]) for row in rows] if alone else [(rows, edges)]
            scores = [own(*call).float().numpy() for call in calls]
        elif alone:
            layers = Network.trained(released).layers
            for begin in range(0, len(graph), _ROWS):
                values: Any = graph.features[begin : begin + _ROWS]
                for number, layer in enumerate(layers):
                    values = np.maximum(values, 0.0) if number else values
                    # SciPy adds up the products of a sparse row in the row's order.
                    values = csr_array(values).astype(np.float32) @ layer.weight.numpy()
                    values = values if layer.bias is None else values + layer.bias.numpy()
                scores.append(values)
        else:
            network = Network.trained(released)
            scores = [network(*network.inputs(graph)).numpy()]
    return np.concatenate([*scores, np.empty((0, graph.classes), np.float32)])


@contextmanager
def seeded(seed: int, device: torch.device) -> Iterator[None]:
    """PyTorch's generators with a seed, and afterwards as they were."""
    with torch.random.fork_rng(devices=[device] if device.type == "cuda" else []):
        torch.manual_seed(seed)
        yield


class _Layer(nn.Module):
    def __init__(self, inputs: int, outputs: int, *, bias: bool) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(inputs, outputs))
        self.bias = nn.Parameter(torch.zeros(outputs)) if bias else None


class _Product(torch.autograd.Function):
    # PyTorch's own derivative of a sparse product transposes the matrix anew in every step.

    @staticmethod
    def forward(ctx: Any, matrix: Tensor, transposed: Tensor, table: Tensor) -> Tensor:
        ctx.transposed = transposed
        return _times(matrix, table)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[None, None, Tensor]:
        return None, None, _times(ctx.transposed, gradient.contiguous())


product: Any = _Product.apply
"""A constant matrix, given with its transpose, times a table."""


def _times(matrix: Tensor, table: Tensor) -> Tensor:
    if matrix.layout != torch.sparse_csr:
        return matrix @ table
    # A weighted sum of embeddings takes half the time of ``matrix @ table``.
    where, values = (matrix.col_indices(), matrix.crow_indices()), matrix.values()
    return torch.embedding_bag(table, *where, False, 0, False, values, True)[0]


def _tensor(matrix: Any) -> Tensor:
    if not issparse(matrix):
        # A memmap that may only be read is copied: PyTorch knows no such memory.
        return torch.from_numpy(np.require(matrix, np.float32, ["C", "W"]))
    rows = csr_array(matrix, dtype=np.float32)
    index = np.int32 if max(rows.nnz, *rows.shape) < 2**31 else np.int64
    parts = rows.indptr.astype(index), rows.indices.astype(index), rows.data
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Sparse CSR tensor support is in beta")
        begins, columns, values = map(torch.from_numpy, parts)
        return torch.sparse_csr_tensor(
            begins, columns, values, size=rows.shape, check_invariants=False
        )
