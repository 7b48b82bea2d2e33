"""Text to numbers: feature kinds behind one interface.

Examples:
    >>> from privgcn.features import featurizer_from_state, make_featurizer
    >>> from privgcn.data import Corpus
    >>> letters = Corpus.from_texts(["Heart attack.", "A sonata."], labels=["a", "b"])
    >>> words = make_featurizer("hashing", {"dimension": 64}, letters).fit(letters)
    >>> featurizer_from_state(words.state()).transform(letters).shape
    (2, 64)
"""

from privgcn.features.base import Featurizer, PublicVectors
from privgcn.features.choose import (
    NAMED,
    choose,
    feature_kinds,
    featurizer_from_state,
    make_featurizer,
)

__all__ = [
    "NAMED",
    "Featurizer",
    "PublicVectors",
    "choose",
    "feature_kinds",
    "featurizer_from_state",
    "make_featurizer",
]
