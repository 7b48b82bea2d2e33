"""Documents as tensors: features, links, labels and splits."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from privgcn.errors import DataError, MissingExtraError
from privgcn.graph.on_disk import RowsOnDisk, stretch_by_stretch
from privgcn.graph.propagation import propagation_of
from privgcn.graph.rows import Rows, rows_of

if TYPE_CHECKING:
    from privgcn.data import Corpus


@dataclass(frozen=True, eq=False)
class TextGraph:
    """A graph of documents, ready for a model.

    Attributes:
        features: One row per document.
        edges: ``[2, m]``, undirected, each link once with the smaller index first.
        labels: Class index of each document, -1 where there is none.
        classes: Number of classes.
        split: 0 train, 1 validation, 2 test, 3 outside.
        owners: Owner index of each document, or ``None``.
    """

    features: Rows
    edges: Tensor
    labels: Tensor
    classes: int
    split: Tensor
    owners: Tensor | None = None

    def __post_init__(self) -> None:
        documents = self.features.shape[0]
        for name in ("labels", "split", "owners"):
            value = getattr(self, name)
            if value is not None and len(value) != documents:
                raise DataError(
                    f"The '{name}' of TextGraph must have one entry per document "
                    f"({documents}). Got {len(value)}."
                )

    def __len__(self) -> int:
        return self.features.shape[0]

    @classmethod
    def from_corpus(cls, corpus: Corpus, features: Any) -> TextGraph:
        """Joins a corpus with the feature matrix made of it.

        Feature rows with a non-finite value count as empty.
        """
        rows = features if isinstance(features, RowsOnDisk) else rows_of(features)
        return cls(
            features=rows.finite(),
            edges=torch.as_tensor(corpus.edges, dtype=torch.int64),
            labels=torch.as_tensor(corpus.labels, dtype=torch.int64),
            classes=corpus.num_classes,
            split=torch.tensor(corpus.split, dtype=torch.int8),
            owners=None if corpus.owners is None else torch.as_tensor(corpus.owners),
        )

    def to(self, device: torch.device | str) -> TextGraph:
        """The same graph on another device."""
        return TextGraph(
            self.features.to(device),
            self.edges.to(device),
            self.labels.to(device),
            self.classes,
            self.split.to(device),
            None if self.owners is None else self.owners.to(device),
        )

    def propagation(self) -> Rows:
        """The normalised adjacency of the whole graph."""
        return propagation_of(self.edges, len(self))

    def induced(self, rows: Tensor) -> TextGraph:
        """The subgraph of the named documents, with the links among them only."""
        place = torch.full((len(self),), -1, dtype=torch.int64, device=self.edges.device)
        place[rows] = torch.arange(len(rows), device=self.edges.device)

        def moved(links: Tensor) -> Tensor:
            own = place[links]
            own = own[:, (own >= 0).all(0)]
            return torch.stack([own.amin(0), own.amax(0)])

        return TextGraph(
            self.features.select(rows),
            stretch_by_stretch(self.edges, moved),
            self.labels[rows],
            self.classes,
            self.split[rows],
            None if self.owners is None else self.owners[rows],
        )

    @classmethod
    def from_pyg(cls, data: Any) -> TextGraph:
        """Takes a PyTorch Geometric ``Data`` with ``x``; see ``Corpus.from_pyg``."""
        from privgcn.data import Corpus

        corpus = Corpus.from_pyg(data)
        if corpus.vectors is None:
            raise DataError("TextGraph.from_pyg needs a Data with 'x'. Got texts only.")
        return cls.from_corpus(corpus, corpus.vectors)

    def to_pyg(self) -> Any:
        """The same graph as a PyTorch Geometric ``Data``, links in both directions.

        Raises:
            MissingExtraError: ``torch-geometric`` is not installed.
        """
        try:
            from torch_geometric.data import Data
        except ImportError:
            raise MissingExtraError("TextGraph.to_pyg", "graph") from None

        both = torch.cat([self.edges, self.edges.flip(0)], dim=1)
        masks = {
            name: self.split == code
            for code, name in enumerate(("train_mask", "val_mask", "test_mask"))
        }
        extra = {} if self.owners is None else {"owners": self.owners}
        return Data(x=self.features.dense(), edge_index=both, y=self.labels, **masks, **extra)
