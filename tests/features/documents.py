"""What feature kinds read of a corpus."""

from __future__ import annotations

from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import numpy as np


@dataclass
class Documents:
    """Documents with texts, with vectors, or with both."""

    texts: tuple[str, ...] | None
    vectors: Any = None
    public_vectors: str | None = None
    name: str = "small"
    facts: Any = field(init=False)

    def __post_init__(self) -> None:
        self.facts = SimpleNamespace(public_vectors=self.public_vectors)

    def __len__(self) -> int:
        return len(self.vectors if self.texts is None else self.texts)


def of_texts(*texts: str) -> Any:
    """Documents with these texts."""
    return Documents(texts)


def of_vectors(vectors: np.ndarray, public: str | None = None) -> Any:
    """Documents with these vectors."""
    return Documents(None, vectors, public)
