"""Documents as a graph of tensors: features, propagation and the cut into parts."""

from privgcn.graph.dense_rows import DenseRows
from privgcn.graph.parts import PartitionedGraph, cut, links_within, random_parts
from privgcn.graph.propagation import propagate, propagation_matrix
from privgcn.graph.rows import Rows, normalised, rows_of
from privgcn.graph.sparse_rows import SparseRows
from privgcn.graph.textgraph import TextGraph

__all__ = [
    "DenseRows",
    "PartitionedGraph",
    "Rows",
    "SparseRows",
    "TextGraph",
    "cut",
    "links_within",
    "normalised",
    "propagate",
    "propagation_matrix",
    "random_parts",
    "rows_of",
]
