"""Optimisers, fed with gradients that are already noisy or plain."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from privgcn.config import TrainingSettings
from privgcn.errors import ConfigError
from privgcn.training.names import pulled


class Optimiser:
    """Moves parameters along given gradients; of large steps, it keeps the iterates.

    In private training the gradient it is fed is the noisy mean, so SGD-DP and Adam-DP, and
    what is made of the iterates, are all post-processing.

    Args:
        parameters: Where to begin.
        settings: Optimiser and learning rate.
        names: Along which the first weight moves further, ``[features, 1, classes]``.
    """

    def __init__(
        self,
        parameters: Sequence[Tensor],
        settings: TrainingSettings,
        names: Tensor | None = None,
    ) -> None:
        if settings.learning_rate is None:
            raise ConfigError(
                "The 'training' of the settings must have a 'learning_rate' or a 'reach'. "
                "Got neither."
            )
        self.parameters = [
            torch.nn.Parameter(p.clone(), requires_grad=False) for p in parameters
        ]
        self.rate = settings.learning_rate
        self._names = names
        # Plain steps are one line; PyTorch's take a second to import its compiler.
        self.inner: torch.optim.Optimizer | None = None
        if settings.optimizer == "adam":
            # On a device the count of steps lies there too, so that a step can be recorded.
            there = self.parameters[0].is_cuda
            self.inner = torch.optim.Adam(self.parameters, lr=self.rate, capturable=there)
        self.steps = 0
        self._path: list[Tensor] | None = [] if settings.large_steps else None

    def step(self, gradients: Sequence[Tensor]) -> None:
        """One step along ``gradients``."""
        if self._path is not None:
            self._path.append(self.parameters[0].detach().clone())
        for parameter, gradient in zip(self.parameters, gradients, strict=True):
            if self.inner is None:
                along = gradient if self._names is None else pulled(gradient, self._names)
                parameter.add_(along, alpha=-self.rate)
            else:
                parameter.grad = gradient.to(parameter.dtype)
        if self.inner is not None:
            self.inner.step()
        self.steps += 1

    def result(self) -> list[Tensor]:
        """The last iterate; of large steps, which swing to and fro, the mean of two."""
        path = self.path()
        if path is not None:
            return [path[-2:].mean(0)]
        return [parameter.detach().clone() for parameter in self.parameters]

    def path(self) -> Tensor | None:
        """All iterates of the first weight, where the settings keep them."""
        if self._path is None:
            return None
        return torch.stack([*self._path, self.parameters[0].detach()]).cpu()

    def state(self) -> dict[str, Tensor]:
        """Everything needed to go on later, as named tensors."""
        state = {"steps": torch.tensor(self.steps)}
        if self._path:
            state["path"] = torch.stack(self._path)
        for number, parameter in enumerate(self.parameters):
            state[f"parameter.{number}"] = parameter.detach().clone()
            for name, value in self._inner_state(parameter).items():
                if isinstance(value, Tensor):
                    state[f"{name}.{number}"] = value.clone()
        return state

    def restore(self, state: dict[str, Tensor]) -> None:
        """Goes on from ``state``."""
        self.steps = int(state["steps"])
        if self._path is not None and "path" in state:
            self._path = list(state["path"].to(self.parameters[0].device))
        for number, parameter in enumerate(self.parameters):
            parameter.copy_(state[f"parameter.{number}"])
            self._inner_state(parameter).update(
                {
                    name: state[f"{name}.{number}"].to(parameter.device, copy=True)
                    for name in ("step", "exp_avg", "exp_avg_sq")
                    if f"{name}.{number}" in state
                }
            )

    def _inner_state(self, parameter: Tensor) -> dict[str, Any]:
        return {} if self.inner is None else self.inner.state[parameter]
