"""Text to numbers: feature kinds behind one interface and one registry."""

from privgcn.features.base import Featurizer, class_vectors
from privgcn.features.default import Choice, choose
from privgcn.features.registry import FEATURES, featurizer_from_state, make_featurizer

__all__ = [
    "FEATURES",
    "Choice",
    "Featurizer",
    "choose",
    "class_vectors",
    "featurizer_from_state",
    "make_featurizer",
]
