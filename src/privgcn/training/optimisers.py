"""Optimisers: plain PyTorch ones, fed with gradients that are already noisy or plain."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from privgcn.config import TrainingSettings
from privgcn.errors import ConfigError


class Optimiser:
    """Moves parameters along given gradients and, on request, averages the iterates.

    In private training the gradient it is fed is the noisy mean, so SGD-DP and Adam-DP,
    momentum and averaging are all post-processing.
    """

    def __init__(self, parameters: Sequence[Tensor], settings: TrainingSettings) -> None:
        if settings.learning_rate is None:
            raise ConfigError(
                "The 'training' of the settings must have a 'learning_rate' or a 'reach'. "
                "Got neither."
            )
        self.parameters = [
            torch.nn.Parameter(p.clone(), requires_grad=False) for p in parameters
        ]
        if settings.optimizer == "adam":
            self.inner: torch.optim.Optimizer = torch.optim.Adam(
                self.parameters, lr=settings.learning_rate
            )
        else:
            self.inner = torch.optim.SGD(
                self.parameters, lr=settings.learning_rate, momentum=settings.momentum
            )
        self.steps = 0
        self._path: list[Tensor] | None = [] if settings.keep_path else None
        self._average_last = settings.average_last
        self._mean = [torch.zeros_like(p) for p in parameters] if settings.averaging else None

    def step(self, gradients: Sequence[Tensor]) -> None:
        """One step along ``gradients``."""
        if self._path is not None:
            self._path.append(self.parameters[0].detach().clone())
        for parameter, gradient in zip(self.parameters, gradients, strict=True):
            parameter.grad = gradient
        self.inner.step()
        self.steps += 1
        if self._mean is not None:
            for mean, parameter in zip(self._mean, self.parameters, strict=True):
                mean.lerp_(parameter, 1.0 / self.steps)

    def result(self) -> list[Tensor]:
        """The last iterate, or the mean of all, or that of the last ones."""
        source = self.parameters if self._mean is None else self._mean
        made = [parameter.detach().clone() for parameter in source]
        path = self.path()
        if path is not None and self._average_last > 1:
            made[0] = path[-self._average_last :].mean(0)
        return made

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
            if self._mean is not None:
                state[f"mean.{number}"] = self._mean[number].clone()
            for name, value in self.inner.state[parameter].items():
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
            if self._mean is not None:
                self._mean[number].copy_(state[f"mean.{number}"])
            self.inner.state[parameter] = {
                name: state[f"{name}.{number}"].clone()
                for name in ("momentum_buffer", "step", "exp_avg", "exp_avg_sq")
                if f"{name}.{number}" in state
            }
