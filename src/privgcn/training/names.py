"""Class names as a free prior: the weights may move further along the names' vectors.

An encoder gives the name of a class a vector like that of a document. How much the names say
about the documents is not known beforehand: codes say nothing. So the names are no first guess
but one direction of the weights, in which a step is longer. It is a single number, for all
classes together, that each step's noisy gradient moves: noise hardly reaches it, names that
say nothing leave it near zero, and a rare class profits from what the others have shown.
All of it is post-processing of the gradients; the names are public.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from privgcn.config import TrainingSettings

# How far the noise of all steps may carry the strength of the names, and the longest step of
# it. Chosen on development corpora (docs/decisions/0007-recipe-auto.md).
_REACH = 1.0
_LONGEST_STEP = 20.0


def name_directions(vectors: Tensor, settings: TrainingSettings) -> Tensor | None:
    """The direction of the names ``[features, 1, classes]``, as long as its steps ask for.

    Args:
        vectors: A vector for each class, ``[classes, features]``.
        settings: With the learning rate and the reach that it came from.

    Returns:
        ``None`` where all names have one vector: they tell no class from another.
    """
    rate, reach = settings.learning_rate, settings.reach
    if rate is None or reach is None:
        raise ValueError("Steps along names need the large steps of 'training.reach'.")
    rows = torch.nn.functional.normalize(vectors.double())
    apart = (rows - rows.mean(0)).T[:, None]
    length = float(apart.norm())
    if length < 1e-6:
        return None
    step = min(_REACH * rate / (reach * length), _LONGEST_STEP)
    return torch.as_tensor(apart * math.sqrt(step / rate), dtype=torch.float32)


def pulled(gradient: Tensor, names: Tensor) -> Tensor:
    """A gradient ``[features, R, classes]``, longer along the names."""
    return gradient + along_names(gradient, names)


def along_names(gradient: Tensor, names: Tensor) -> Tensor:
    """What ``pulled`` adds to a gradient."""
    strength = (gradient.double() * names).sum((0, 2))[:, None]
    return (strength * names).float()


def unpulled(moved: Tensor, names: Tensor) -> Tensor:
    """The gradient of which ``pulled`` makes ``moved``."""
    return moved - along_names(moved, names) / (1.0 + float(names.double().square().sum()))
