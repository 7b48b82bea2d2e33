"""Recipes, and which wish counts where two speak of one setting.

A recipe is a named, data-independent choice of every training setting. A setting can be said
by a flag (or a constructor parameter), by ``--set``, or in a settings file, in this order of
strength; the recipe says what nobody said. A setting of ``privacy`` may be said twice only if
both say the same: the weaker wish would otherwise be dropped, or the stronger one be a slip
that nobody notices.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from pydantic import ValidationError

from privgcn.config import (
    FeatureSettings,
    ModelSettings,
    PredictionSettings,
    PrivacySettings,
    Settings,
    TrainingSettings,
    flattened,
    parse_assignment,
    read_settings,
)
from privgcn.errors import ConfigError, PrivacyContractError

OptimizerName = Literal["sgd", "adam"]

PRIVACY = "privacy."

PAPER_EPOCHS: dict[OptimizerName, int] = {"sgd": 2000, "adam": 500}
"""Epochs of the paper, for private and non-private runs alike."""

PAPER_RATE = 0.01
"""Learning rate of the paper, but for Adam-DP."""

PAPER_LEARNING_RATES = (0.1, 1.0, 10.0, 50.0, 100.0)
"""The range in which the paper tuned Adam-DP; choosing among them costs privacy."""

AUTO_STEPS = 30
"""Steps of recipe ``auto``: enough to leave the first guess, few enough to stay exact."""

AUTO_REACH = 0.8
"""How far the noise alone may carry the weights of recipe ``auto``."""

AUTO_CLIP_NORM = 0.25
"""Clip norm of recipe ``auto``: a document speaks up to here, and less once it is learned."""

MODULE_STEPS = 30
"""Steps of recipe ``module``: each costs noise, and a module's own pace is unknown."""

MODULE_RATES: dict[OptimizerName, float] = {"adam": 0.02, "sgd": 1.0}
"""Learning rates of recipe ``module``."""

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
            optimizer=optimizer, reach=AUTO_REACH, epochs=AUTO_STEPS, patience=0
        ),
        prediction=PredictionSettings(method="matched"),
        privacy=PrivacySettings(
            unit="document", parts="each", sampling="all", clip_norm=AUTO_CLIP_NORM
        ),
    )


def module(optimizer: OptimizerName = "adam") -> Settings:
    """For a module that the user brings: each document (or owner) a part, Adam-DP."""
    return Settings(
        recipe="module",
        features=FeatureSettings(normalise="l2"),
        model=ModelSettings(kind="module", dropout=0.0),
        training=TrainingSettings(
            optimizer=optimizer,
            learning_rate=MODULE_RATES[optimizer],
            epochs=MODULE_STEPS,
            patience=0,
        ),
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
    "module": module,
}


def resolve(*wishes: Wishes) -> Settings:
    """The settings of a run: what the user wished for, and the recipe's own for the rest.

    Every way to a run goes through here. Recipe ``auto``, which nobody needs to name, is
    ``module`` for a module that the user brings, and ``plain`` without an epsilon: there is
    nothing to protect with.

    Args:
        wishes: The strongest first: flags or parameters, assignments, a settings file.

    Raises:
        ConfigError: A setting breaks its rule.
        PrivacyContractError: A wish for privacy cannot be kept, or contradicts another one.
    """
    said = merged(wishes)
    brought = said.get("model.kind") == "module"
    asked = str(said.pop("recipe", "module" if brought else "auto"))
    if asked not in RECIPES:
        raise ConfigError(f"The 'recipe' must be one of {', '.join(RECIPES)}. Got {asked!r}.")
    optimizer = said.pop("training.optimizer", None)
    if optimizer not in (None, "sgd", "adam"):
        raise ConfigError(f"The 'training.optimizer' must be sgd or adam. Got {optimizer!r}.")
    bounded = any(
        said.get(PRIVACY + name) is not None for name in ("epsilon", "noise_multiplier")
    )
    if not bounded and said.get("privacy.reproducible") is False:
        del said["privacy.reproducible"]  # not to seed the noise is no wish for any
    private = [name for name in said if name.startswith(PRIVACY)]
    # A run without privacy writes its privacy settings down as none.
    if "privacy" in said and (said.pop("privacy") is not None or private):
        raise ConfigError(
            "The 'privacy' of the settings is a section. Name its settings one by one, such "
            "as privacy.unit, or leave all of them out."
        )
    recipe = "plain" if asked in ("auto", "module") and not bounded else asked
    if recipe == "plain" and private:
        raise PrivacyContractError(
            f"The setting '{private[0]}' cannot be kept by training without privacy, which "
            + (
                "recipe 'plain' is. Use recipe 'auto', or leave the setting out."
                if asked == "plain"
                else "this is without an epsilon. Add --epsilon 1, or leave the setting out."
            )
        )
    if recipe != "plain" and not bounded:
        raise PrivacyContractError(
            f"Recipe '{recipe}' is private and needs an epsilon. Add --epsilon 1."
        )
    settings = RECIPES[recipe](optimizer) if optimizer else RECIPES[recipe]()
    return settings.changed(said)


def make_settings(
    recipe: str | None = None,
    *,
    epsilon: float | None = None,
    optimizer: str | None = None,
    seed: int | None = None,
    changes: Mapping[str, Any] | None = None,
) -> Settings:
    """Settings of a recipe, for experiments and scripts: ``resolve`` in one call.

    Args:
        recipe: A name of ``RECIPES``; default ``auto``.
        epsilon: The privacy target; ``None`` for a non-private run.
        optimizer: ``sgd`` or ``adam``; ``None`` takes the recipe's own.
        seed: Of partition and first weights.
        changes: Dotted settings to change, such as ``{"privacy.unit": "person"}``.
    """
    named = {
        "recipe": recipe,
        "privacy.epsilon": epsilon,
        "training.optimizer": optimizer,
        "seed": seed,
    }
    return resolve(by_parameter(named), by_mapping(changes, "changes"))


@dataclass(frozen=True)
class Wishes:
    """Settings that the user named in one place.

    Attributes:
        values: Dotted names (or nested sections) and what they are to be.
        words: How one of them, by name and value, was written: errors quote it.
    """

    values: Mapping[str, Any]
    words: Callable[[str, Any], str]


def by_flag(values: Mapping[str, Any]) -> Wishes:
    """Wishes of flags, by the setting they stand for; ``None`` for a flag nobody typed."""

    def words(name: str, value: Any) -> str:
        if isinstance(value, bool):
            return f"--{'' if value else 'no-'}{_last(name)}"
        return f"--{_last(name)} {value}"

    return Wishes(_said(values), words)


def by_parameter(values: Mapping[str, Any]) -> Wishes:
    """Wishes of parameters of a call; ``None`` for one that was left out."""
    return Wishes(_said(values), lambda name, value: f"{_last(name)}={value!r}")


def by_mapping(values: Mapping[str, Any] | None, name: str) -> Wishes:
    """Wishes in a parameter that takes dotted settings, such as ``settings``."""
    return Wishes(values or {}, lambda setting, value: f"{name}={{{setting!r}: {value!r}}}")


def by_command_line(
    flags: Mapping[str, Any], assignments: Sequence[str] | None, file: Path | None
) -> list[Wishes]:
    """Wishes of flags, of each ``--set a.b=c`` (the last is the strongest) and of a file."""
    wishes = [by_flag(flags)]
    for text in reversed(assignments or []):
        pair = dict([parse_assignment(text)])
        wishes.append(Wishes(pair, lambda name, value: f"--set {name}={value}"))
    if file is not None:
        tree = read_settings(file)
        wishes.append(Wishes(tree, lambda name, value: f"{name} = {value!r} in {file}"))
    return wishes


def merged(wishes: Sequence[Wishes]) -> dict[str, Any]:
    """The wishes that count, the weakest first, so that later names change earlier ones.

    Args:
        wishes: The strongest first.

    Raises:
        PrivacyContractError: Two wishes for one setting of ``privacy`` contradict each other.
    """
    said: dict[str, tuple[Any, str]] = {}
    for each in wishes:
        for name, value in flattened(each.values).items():
            words = each.words(name, value)
            known = said.setdefault(name, (value, words))
            if name.startswith(PRIVACY) and _read(name, known[0]) != _read(name, value):
                raise PrivacyContractError(
                    f"The setting '{name}' must have one value. Got {known[1]} "
                    f"and {words}. Leave one of them out."
                )
    return {name: value for name, (value, _) in reversed(said.items())}


def _said(values: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in values.items() if value is not None}


def _last(name: str) -> str:
    return name.rpartition(".")[2]


def _read(name: str, value: Any) -> str:
    """A setting of ``privacy`` as it will be understood: 10 is "10", and 1e-5 is "0.00001"."""
    field = name.removeprefix(PRIVACY)
    try:
        return str(getattr(PrivacySettings.model_validate({field: value}), field))
    except ValidationError:
        return repr(value)
