"""The noisy mean: what a step releases, and all that an optimiser ever sees."""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor

from privgcn.privacy.plan import PrivacyPlan
from privgcn.randomness import Draws


def noisy_mean(sums: Sequence[Tensor], plan: PrivacyPlan, source: Draws) -> list[Tensor]:
    """Adds the plan's noise to a sum of clipped gradients and divides by the expected size.

    Guarantees:
        Every coordinate of every tensor and replica gets its own draw of
        N(0, (noise_multiplier * clip_norm)^2), also where the sum is zero because no part
        was sampled. The divisor is the expected number of parts, never a realised one.
        Sums in float64 are rounded to float32 only after the noise is in.
    Assumes:
        ``sums`` are sums of part gradients clipped to ``plan.clip_norm``.
    """
    noise = source.normal([tensor.shape for tensor in sums], plan.noise_std)
    share = 1.0 / plan.schedule.expected_parts
    return [
        draw.to(tensor.device).add_(tensor).mul_(share)
        for tensor, draw in zip(sums, noise, strict=True)
    ]
