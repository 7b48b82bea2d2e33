"""What a classifier must be constructed with to train as a run's settings say."""

from __future__ import annotations

from typing import Any

from privgcn.config import Settings
from privgcn.training.recipes import make_settings

_SECTIONS = ("features", "model", "training", "prediction", "privacy")


def parameters_of(settings: Settings) -> dict[str, Any]:
    """Parameters of ``GraphClassifier`` that make these settings again, but for the data.

    What the recipe does not choose by itself and no parameter says is in ``settings``.
    """
    privacy = settings.privacy
    parameters: dict[str, Any] = {
        "recipe": settings.recipe,
        "optimizer": settings.training.optimizer,
        "features": settings.features.kind,
        "seed": settings.seed,
    }
    changes: dict[str, Any] = {"features.kind": settings.features.kind}
    if privacy is not None:
        said = ("epsilon", "delta", "unit", "relation", "reproducible")
        parameters |= {name: getattr(privacy, name) for name in said}
        changes |= {f"privacy.{name}": getattr(privacy, name) for name in said[1:]}
        if privacy.noise_multiplier is not None:
            changes["privacy.noise_multiplier"] = privacy.noise_multiplier
    usual = make_settings(
        settings.recipe,
        epsilon=None if privacy is None else privacy.epsilon,
        optimizer=settings.training.optimizer,
        seed=settings.seed,
        changes=changes,
    )
    rest = {
        f"{section}.{name}": value
        for section in _SECTIONS
        if getattr(settings, section) is not None
        for name, value in getattr(settings, section).model_dump().items()
        if value != getattr(getattr(usual, section), name)
    }
    if privacy is not None and privacy.noise_multiplier is not None:
        rest["privacy.noise_multiplier"] = privacy.noise_multiplier
    return {**parameters, "settings": rest or None}
