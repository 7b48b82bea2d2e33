"""Text to numbers: feature kinds behind one interface and one registry."""

from privgcn.features.base import Featurizer
from privgcn.features.default import Choice, choose
from privgcn.features.registry import FEATURES, featurizer_from_state, make_featurizer

__all__ = [
    "FEATURES",
    "Choice",
    "Featurizer",
    "choose",
    "featurizer_from_state",
    "make_featurizer",
]
