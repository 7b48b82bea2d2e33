"""All that leaves training: what prediction, model files and reports are made of."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np
from numpy.typing import NDArray

from privgcn.config import Settings

if TYPE_CHECKING:
    from privgcn.privacy.plan import PrivacyPlan

Kind = Literal["linear", "gcn", "mlp", "module"]


@dataclass(frozen=True, eq=False)
class Released:
    """A trained model, without a way back to the documents it was trained on.

    Attributes:
        tensors: Of recipe ``auto``: ``weight``, ``iterates`` and, where there are any,
            ``mean``, ``class_bias`` and ``label_direction``. Of a network: its parameters.
        plan: What its guarantee rests on; ``None`` for a non-private run.
        releasable: Whether noise and samples came from a secret source.
        matching: The numbers that the prediction computes with, if they were saved with the
            model.
        title: The class of the module that the user brought, by name.

    Guarantees:
        Of a private run, every tensor is an answer of a ``Session``, or was computed from
        answers, the plan and what was declared public.
    """

    kind: Kind
    tensors: Mapping[str, NDArray[np.float32]]
    settings: Settings
    plan: PrivacyPlan | None = None
    releasable: bool = False
    matching: Mapping[str, float] | None = None
    title: str | None = None

    def serialised(self, metadata: dict[str, str] | None = None) -> bytes:
        """The tensors as safetensors bytes; the same tensors give the same bytes."""
        from safetensors.numpy import save

        tensors = sorted(self.tensors.items())
        contiguous = {name: np.ascontiguousarray(tensor) for name, tensor in tensors}
        return bytes(save(contiguous, metadata))
