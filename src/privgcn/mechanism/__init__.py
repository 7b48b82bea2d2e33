"""The trusted base: all code that touches private rows between the plan and the release.

``Session`` answers ``SoftmaxGradient``, ``Statistics`` and ``ModuleGradient`` about ``Groups``.
"""

from typing import TYPE_CHECKING, Any

from privgcn.mechanism.groups import Groups as Groups
from privgcn.mechanism.noise import RandomSource as RandomSource
from privgcn.mechanism.questions import SoftmaxGradient as SoftmaxGradient
from privgcn.mechanism.questions import Statistics as Statistics
from privgcn.mechanism.ranks import Ranks as Ranks
from privgcn.mechanism.session import Session as Session

if TYPE_CHECKING:
    from privgcn.mechanism.module_gradient import ModuleGradient as ModuleGradient


def __getattr__(name: str) -> Any:
    if name != "ModuleGradient":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    # The one question that needs PyTorch, which takes a second to import.
    from privgcn.mechanism.module_gradient import ModuleGradient

    return ModuleGradient
