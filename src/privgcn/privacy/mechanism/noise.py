"""Noise: the one function that adds it, and the noisy mean that an optimiser sees."""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor

from privgcn.privacy.mechanism.noise_grid import AnyGrid, grid_of
from privgcn.privacy.mechanism.together import AnyPlan
from privgcn.randomness import Draws


def noisy(
    sums: Sequence[Tensor], grid: AnyGrid, noise_multiplier: float | Tensor, source: Draws
) -> list[Tensor]:
    """Adds Gaussian noise to sums on the grid; all are float64, in units of the clip norm.

    Guarantees:
        Every coordinate of every tensor and replica gets its own draw of
        N(0, noise_multiplier^2), rounded half up to the grid, also where the sum is zero. The
        result is what rounding the real noisy sum to the grid would give, so its bits tell no
        more than the real sum does.
    Assumes:
        The sums are multiples of the grid's step.
    """
    draws = source.normal([tensor.shape for tensor in sums])
    # Half up, not half to even: only so does rounding commute with adding a grid value.
    scale = noise_multiplier / grid.step
    return [
        draw.mul_(scale).add_(0.5).floor_().mul_(grid.step).to(tensor.device).add_(tensor)
        for tensor, draw in zip(sums, draws, strict=True)
    ]


def noisy_mean(sums: Sequence[Tensor], plan: AnyPlan, source: Draws) -> list[Tensor]:
    """What a step releases: the noisy sum over the expected number of parts, in float32.

    Guarantees:
        The divisor is the expected number of parts, never a realised one. Only grid values
        are rounded to float32: that is post-processing.
    Assumes:
        ``sums`` are sums of part gradients clipped to the plan's norm, in units of it.
    """
    share = plan.clip_norm / plan.schedule.expected_parts
    released = noisy(sums, grid_of(plan), plan.noise_multiplier, source)
    return [tensor.mul_(share).float() for tensor in released]
