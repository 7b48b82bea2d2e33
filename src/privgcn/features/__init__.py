"""Text to numbers: feature kinds behind one interface."""

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
