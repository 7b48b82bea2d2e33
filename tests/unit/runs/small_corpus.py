"""A small corpus of texts or vectors for the tests of this folder."""

from __future__ import annotations

from typing import Any

import numpy as np

from privgcn.data import Corpus

DOCUMENTS = 120
WORDS = ("pulse pressure valve beat", "rash itch cream spot")


def small_corpus(*, texts: bool = True, **changes: Any) -> Corpus:
    """Two classes; 60 documents train, 30 validate and 30 test; chains of links."""
    number = np.arange(DOCUMENTS)
    labels = number % 2
    generator = np.random.default_rng(0)
    vectors = generator.normal(size=(DOCUMENTS, 6)).astype(np.float32)
    vectors[:, 0] += 3.0 * (2 * labels - 1)
    fields: dict[str, Any] = {
        "name": "small",
        "ids": number.astype(str),
        "texts": tuple(f"{WORDS[i % 2]} letter {i % 7}" for i in number) if texts else None,
        "vectors": None if texts else vectors,
        "labels": labels.astype(np.int64),
        "classes": ("heart", "skin"),
        "edges": np.stack([number[:-4], number[4:]]),
        "split": np.select([number % 4 < 2, number % 4 == 2], [0, 1], 2).astype(np.int8),
    }
    return Corpus(**{**fields, **changes})
