"""The trusted base: all code that touches private rows between the plan and the release.

``Session`` is the door, ``Groups`` are the documents behind it, and ``SoftmaxGradient``,
``Statistics`` and ``ModuleGradient`` are what may be asked.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from privgcn.mechanism.groups import Groups
from privgcn.mechanism.noise import RandomSource, sampler_error
from privgcn.mechanism.questions import SoftmaxGradient, Statistics
from privgcn.mechanism.ranks import Ranks
from privgcn.mechanism.session import Session

if TYPE_CHECKING:
    from privgcn.mechanism.module_gradient import ModuleGradient

__all__ = [
    "Groups",
    "ModuleGradient",
    "RandomSource",
    "Ranks",
    "Session",
    "SoftmaxGradient",
    "Statistics",
    "sampler_error",
]


def __getattr__(name: str) -> Any:
    # The one question that needs PyTorch, which takes a second to import.
    if name == "ModuleGradient":
        from privgcn.mechanism.module_gradient import ModuleGradient

        return ModuleGradient
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
