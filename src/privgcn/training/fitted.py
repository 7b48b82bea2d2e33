"""What training leaves: parameters, what was released beside them, and the plan."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from torch import Tensor

from privgcn.config import Settings
from privgcn.graph.textgraph import TextGraph
from privgcn.models import AnyModel
from privgcn.privacy.plan import PrivacyPlan
from privgcn.training.class_bias import ClassBias

PATH = "path"
"""Name of the kept iterates among a model's tensors."""

NAMES = "names"
"""Name of the direction of the class names among a model's tensors."""

BIAS = "bias"
"""Name of the bias from the released class shares among a model's tensors."""

CENTRE = "centre"
"""Name of the released centre among a model's tensors."""


@dataclass(frozen=True, eq=False)
class Fit:
    """A trained model.

    Attributes:
        model: Its layers.
        parameters: One replica per seed.
        settings: What it was trained with.
        plan: What its guarantee rests on; ``None`` for a non-private run.
        path: All iterates, ``[steps + 1, inputs, R, outputs]``, where they were kept. They
            come from noisy gradients alone and are released with the model.
        centre: What was released of the rows' mean and is taken off every row, ``[inputs, R]``.
        bias: What the released shares of the classes add to scores.
        releasable: Whether noise and samples came from a secret source.
        names: The direction of the class names along which steps were longer, if any.
        matching: The numbers that prediction by matching computes with, as they were saved
            with the model; ``None`` takes those of this version.
    """

    model: AnyModel
    parameters: list[Tensor]
    settings: Settings
    plan: PrivacyPlan | None = None
    releasable: bool = False
    path: Tensor | None = None
    centre: Tensor | None = None
    matching: Mapping[str, float] | None = None
    names: Tensor | None = None
    bias: ClassBias | None = None

    @property
    def replicas(self) -> int:
        """How many seeds were trained."""
        return self.parameters[0].shape[-2]

    def replica(self, number: int) -> Fit:
        """One replica alone."""
        chosen = [p[..., number : number + 1, :].contiguous() for p in self.parameters]
        path = None if self.path is None else self.path[..., number : number + 1, :]
        centre = None if self.centre is None else self.centre[:, number : number + 1]
        bias = None if self.bias is None else self.bias.replica(number)
        return replace(self, parameters=chosen, path=path, centre=centre, bias=bias)

    def seen(self, graph: TextGraph) -> TextGraph:
        """Documents as the model sees them; of one replica, as each has its own centre."""
        if self.centre is None:
            return graph
        return replace(graph, features=graph.features.centred(self.centre[:, 0]))

    def serialised(self, metadata: dict[str, str] | None = None) -> bytes:
        """The parameters by name, as safetensors bytes."""
        from safetensors.torch import save

        tensors = self.model.named(self.parameters)
        if self.path is not None:
            tensors[PATH] = self.path
        if self.centre is not None:
            tensors[CENTRE] = self.centre
        if self.bias is not None:
            tensors[BIAS] = self.bias.values
        if self.names is not None:
            tensors[NAMES] = self.names
        return save({name: value.contiguous() for name, value in tensors.items()}, metadata)
