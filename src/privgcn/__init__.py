"""Text classification on graphs of documents, under differential privacy.

Public names are imported when they are first used: torch and its friends take seconds.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

__version__ = "0.2.0"

_PUBLIC = {
    "Corpus": "privgcn.data",
    "GraphClassifier": "privgcn.runs.classifier",
    "PrivacyPlan": "privgcn.privacy.plan",
    "PrivacyStatement": "privgcn.privacy.statement",
    "Session": "privgcn.mechanism",
    "calibrate": "privgcn.privacy.accounting",
    "cross_validate": "privgcn.runs.train",
    "epsilon_of": "privgcn.privacy.accounting",
    "load_corpus": "privgcn.data",
}

__all__ = ["__version__", *_PUBLIC]


def __getattr__(name: str) -> Any:
    if name in _PUBLIC:
        return getattr(import_module(_PUBLIC[name]), name)
    raise AttributeError(f"module 'privgcn' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
