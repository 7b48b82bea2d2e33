"""Recipes: named, data-independent choices of every training setting."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

from privgcn.config import (
    FeatureSettings,
    ModelSettings,
    PredictionSettings,
    PrivacySettings,
    Settings,
    TrainingSettings,
)
from privgcn.errors import ConfigError, PrivacyContractError

OptimizerName = Literal["sgd", "adam"]

PAPER_EPOCHS: dict[OptimizerName, int] = {"sgd": 2000, "adam": 500}
"""Epochs of the paper, for private and non-private runs alike."""

PAPER_RATE = 0.01
"""Learning rate of the paper, but for Adam-DP."""

PAPER_LEARNING_RATES = (0.1, 1.0, 10.0, 50.0, 100.0)
"""The range in which the paper tuned Adam-DP; choosing among them costs privacy."""

AUTO_STEPS = 30
"""Steps of recipe ``auto``: enough to leave the first guess, few enough to stay exact."""

AUTO_REACH = 1.5
"""How far the noise alone may carry the weights of recipe ``auto``."""

AUTO_AVERAGED = 2
"""Last iterates that are averaged: large steps swing to and fro, and two cancel."""

_PAPER_ADAM_DP = 10.0
_PAPER_PARTS = 10


def plain(optimizer: OptimizerName = "adam") -> Settings:
    """The paper's non-private GCN."""
    training = TrainingSettings(
        optimizer=optimizer, learning_rate=PAPER_RATE, epochs=PAPER_EPOCHS[optimizer]
    )
    return Settings(recipe="plain", training=training)


def paper_full(optimizer: OptimizerName = "adam") -> Settings:
    """The paper's private GCN on the whole graph as one part, done soundly.

    The unit is the graph and the relation its removal: what the paper's accountant counts.
    """
    settings = _paper_private("paper-full", optimizer)
    privacy = PrivacySettings(unit="graph", parts=1, sampling="all")
    return settings.model_copy(update={"privacy": privacy})


def paper_split(optimizer: OptimizerName = "adam") -> Settings:
    """The paper's private GCN on ten random parts, done soundly.

    The unit is a part, as in the paper; each step samples every part with probability one
    over their number, which is what the paper's accountant assumes.
    """
    settings = _paper_private("paper-split", optimizer)
    privacy = PrivacySettings(unit="part", parts=_PAPER_PARTS, sampling="poisson")
    return settings.model_copy(update={"privacy": privacy})


def auto(optimizer: OptimizerName = "sgd") -> Settings:
    """What works at epsilon 1 without tuning; ``docs/concepts/recipe.md`` has the reasons.

    Every document (or owner) is a part of its own, a linear model takes few large steps,
    and the links are used when predicting.
    """
    if optimizer != "sgd":
        raise ConfigError(
            "Recipe 'auto' takes plain steps, from which its predictions are computed. "
            f"Got optimizer {optimizer!r}. Use recipe 'paper-split' for Adam-DP."
        )
    return Settings(
        recipe="auto",
        features=FeatureSettings(normalise="l2"),
        model=ModelSettings(kind="linear", hops=0, dropout=0.0),
        training=TrainingSettings(
            optimizer=optimizer,
            reach=AUTO_REACH,
            unit_residuals=True,
            keep_path=True,
            epochs=AUTO_STEPS,
            patience=0,
            zero_start=True,
            average_last=AUTO_AVERAGED,
            centre=True,
        ),
        prediction=PredictionSettings(method="matched"),
        privacy=PrivacySettings(unit="document", parts="each", sampling="all"),
    )


def _paper_private(recipe: str, optimizer: OptimizerName) -> Settings:
    rate = _PAPER_ADAM_DP if optimizer == "adam" else PAPER_RATE
    training = TrainingSettings(
        optimizer=optimizer, learning_rate=rate, epochs=PAPER_EPOCHS[optimizer], patience=0
    )
    return Settings(recipe=recipe, training=training)


RECIPES: dict[str, Callable[..., Settings]] = {
    "auto": auto,
    "plain": plain,
    "paper-full": paper_full,
    "paper-split": paper_split,
}


def make_settings(
    recipe: str = "auto",
    *,
    epsilon: float | None = None,
    optimizer: str | None = None,
    seed: int = 0,
    changes: dict[str, Any] | None = None,
) -> Settings:
    """Settings of a recipe, with the user's own wishes on top.

    Recipe ``auto`` without an epsilon is ``plain``: there is nothing to protect with.

    Args:
        recipe: A name of ``RECIPES``.
        epsilon: The privacy target; ``None`` for a non-private run.
        optimizer: ``sgd`` or ``adam``; ``None`` takes the recipe's own.
        seed: Of partition and first weights.
        changes: Dotted settings to change, such as ``{"privacy.unit": "person"}``.
    """
    changes = {name: value for name, value in (changes or {}).items() if value is not None}
    if recipe not in RECIPES:
        raise ConfigError(f"The 'recipe' must be one of {', '.join(RECIPES)}. Got {recipe!r}.")
    noise = changes.get("privacy.noise_multiplier")
    if recipe == "auto" and epsilon is None and noise is None:
        recipe = "plain"
    if optimizer not in (None, "sgd", "adam"):
        raise ConfigError(f"The 'optimizer' must be sgd or adam. Got {optimizer!r}.")
    settings = RECIPES[recipe](optimizer) if optimizer else RECIPES[recipe]()
    if recipe == "plain":
        wishes = [name for name in changes if name.startswith("privacy.")]
        if epsilon is not None or wishes:
            raise PrivacyContractError(
                "Recipe 'plain' trains without privacy and cannot keep an epsilon. "
                f"Got {'epsilon' if epsilon is not None else wishes[0]}. "
                "Use recipe 'auto', or leave the privacy options out."
            )
    elif epsilon is None and noise is None:
        raise PrivacyContractError(
            f"Recipe '{recipe}' is private and needs an epsilon. Add --epsilon 1."
        )
    if epsilon is not None:
        changes["privacy.epsilon"] = epsilon
    changes["seed"] = seed
    return settings.changed(changes)
