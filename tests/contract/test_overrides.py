"""Flag, --set, settings file, constructor, recipe: one precedence for every setting.

And no setting of privacy is ever dropped: it is honoured or refused, through every entrance.
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pydantic import BaseModel

from privgcn.config import (
    RECIPES,
    PrivacySettings,
    Settings,
    command_line,
    make_settings,
    recipe_settings,
    resolve,
    to_toml,
    without_none,
)
from privgcn.errors import ConfigError, PrivacyContractError
from privgcn.runs.classifier import GraphClassifier

#: Three values for every setting but those of privacy, none of them recipe paper-split's own.
VALUES: dict[str, tuple[Any, Any, Any]] = {
    "recipe": ("paper-full", "auto", "paper-split"),
    "seed": (7, 8, 9),
    "data.source": ("a", "b", "c"),
    "data.classes": (["a", "b"], ["c", "d"], ["e", "f"]),
    "data.id": ("a", "b", "c"),
    "data.text": ("a", "b", "c"),
    "data.label": ("a", "b", "c"),
    "data.owner": ("a", "b", "c"),
    "data.split": ("a", "b", "c"),
    "data.edges": ("a", "b", "c"),
    "data.encoding": ("a", "b", "c"),
    "features.kind": ("bow", "tfidf", "hashing"),
    "features.normalise": ("l1", "l2", "l1"),
    "features.language": ("slovak", "german", "czech"),
    "features.options": ({"a": 1}, {"a": 2}, {"a": 3}),
    "model.kind": ("linear", "mlp", "linear"),
    "model.hidden": (7, 8, 9),
    "model.hops": (3, 4, 5),
    "model.dropout": (0.1, 0.2, 0.3),
    "training.optimizer": ("sgd", "adam", "sgd"),
    "training.learning_rate": (0.1, 0.2, 0.3),
    "training.noise_scale": (1.1, 1.2, 1.3),
    "training.balanced": (True, False, True),
    "training.epochs": (7, 8, 9),
    "training.patience": (7, 8, 9),
    "training.memory": (1.5, 2.5, 3.5),
    "training.parts": (2, 3, 4),
    "training.device": ("auto", "cuda", "auto"),
    "prediction.method": ("direct", "matched", "direct"),
    "prediction.hops": (7, 8, 9),
    "prediction.restart": (0.2, 0.3, 0.4),
}
RECIPE_OF = {
    "training.noise_scale": "auto",
    "training.balanced": "auto",
    "prediction.method": "auto",
}


def flags_of(values: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    return "a flag", without_none(values)


def leaves(model: type[BaseModel], prefix: str = "") -> list[str]:
    names: list[str] = []
    for name, field in model.model_fields.items():
        kind = field.annotation
        if isinstance(kind, type) and issubclass(kind, BaseModel):
            names += leaves(kind, f"{prefix}{name}.")
        else:
            names.append(prefix + name)
    return names


def value_of(settings: Settings, name: str) -> Any:
    for key in name.split("."):
        settings = getattr(settings, key)
    return settings


def file_with(folder: Path, changes: dict[str, Any]) -> Path:
    tree: dict[str, Any] = {}
    for name, value in changes.items():
        section, dot, last = name.partition(".")
        if dot:
            tree.setdefault(section, {})[last] = value
        else:
            tree[name] = value
    path = folder / "my.toml"
    path.write_text(to_toml(tree))
    return path


def test_the_table_has_every_setting() -> None:
    assert set(VALUES) == set(leaves(Settings)) - {"privacy"}


@pytest.mark.parametrize("name", VALUES)
def test_one_precedence_for_every_setting(tmp_path: Path, name: str) -> None:
    flag, assigned, filed = VALUES[name]
    recipe = {} if name == "recipe" else {"recipe": RECIPE_OF.get(name, "paper-split")}
    base = {"privacy.epsilon": 1.0, **recipe}
    file = file_with(tmp_path, {**base, name: filed})

    def value(flags: dict[str, Any], *assignments: str) -> Any:
        return value_of(resolve(*command_line(flags, assignments, file)), name)

    written = assigned
    if isinstance(assigned, bool):
        written = str(assigned).lower()
    elif isinstance(assigned, dict):
        written = "{a = 2}"
    text = f"{name}={written}"
    assert value({name: None}) == filed
    assert value({name: None}, text) == assigned
    assert value({name: flag}, text) == flag
    if name == "training.optimizer":
        return
    own = resolve(flags_of({**base, name: None}))
    expected = recipe_settings(own.recipe)
    assert value_of(own, name) == value_of(expected, name)


def test_a_stronger_option_of_features_changes_a_weaker_set_of_them(tmp_path: Path) -> None:
    file = tmp_path / "my.toml"
    file.write_text("[features.options]\ndimension = 64\nwords = 2\n")
    overrides = command_line({}, ["features.options.words=1"], file)
    assert resolve(*overrides).features.options == {"dimension": 64, "words": 1}


def test_an_optimizer_means_the_same_through_every_entrance() -> None:
    flag = resolve(flags_of({"recipe": "plain", "training.optimizer": "sgd"}))
    assert flag.training.epochs == 2000
    assert resolve(*command_line({"recipe": "plain"}, ["training.optimizer=sgd"], None)) == flag
    with pytest.raises(ConfigError, match="takes plain steps"):
        make_settings(epsilon=1.0, changes={"training.optimizer": "adam"})


@pytest.mark.parametrize("recipe", sorted(RECIPES))
def test_the_settings_of_a_run_are_a_settings_file(tmp_path: Path, recipe: str) -> None:
    made = make_settings(recipe, epsilon=None if recipe == "plain" else 2.0, seed=5)
    file = tmp_path / "settings.toml"
    file.write_text(to_toml(made.model_dump()))
    assert resolve(*command_line({}, None, file)) == made
    assert resolve(("settings", made.model_dump())) == made


CONTRADICTIONS = [
    (
        {"privacy.delta": 1e-5},
        ["privacy.delta=1e-6"],
        {},
        ["1e-05 from a flag", "1e-06 from --set"],
    ),
    (
        {"privacy.unit": "document"},
        [],
        {"privacy.unit": "person"},
        ["'document' from a flag", "'person' from", "my.toml"],
    ),
    (
        {},
        ["privacy.unit=part"],
        {"privacy.unit": "person"},
        ["'part' from --set", "'person' from", "my.toml"],
    ),
    ({}, ["privacy.delta=1e-6", "privacy.delta=1e-5"], {}, ["1e-06", "1e-05"]),
    ({"privacy.parts": "4"}, ["privacy.parts=5"], {}, ["'4' from a flag", "5 from --set"]),
    (
        {"privacy.reproducible": False},
        ["privacy.reproducible=true"],
        {},
        ["False from a flag", "True from --set"],
    ),
    (
        {"privacy.epsilon": 1.0},
        ['privacy={epsilon = 2.0, unit = "part"}'],
        {},
        ["1.0 from a flag", "2.0 from --set"],
    ),
]


@pytest.mark.parametrize(("flags", "assignments", "filed", "words"), CONTRADICTIONS)
def test_two_settings_for_privacy_that_contradict_each_other_are_refused(
    tmp_path: Path,
    flags: dict[str, Any],
    assignments: list[str],
    filed: dict[str, Any],
    words: list[str],
) -> None:
    file = file_with(tmp_path, {"recipe": "paper-split", **filed})
    overrides = command_line({"privacy.epsilon": 1.0, **flags}, assignments, file)
    with pytest.raises(PrivacyContractError, match="must have one value") as refused:
        resolve(*overrides)
    for word in words:
        assert word in str(refused.value)


def test_the_same_setting_twice_is_one_and_the_last_assignment_counts(tmp_path: Path) -> None:
    settings = resolve(*command_line({}, ["training.epochs=3", "training.epochs=4"], None))
    assert settings.training.epochs == 4
    file = file_with(tmp_path, {"privacy.delta": 1e-6, "privacy.parts": 10})
    flags = {"privacy.epsilon": 1.0, "privacy.parts": "10"}
    privacy = resolve(*command_line(flags, ['privacy.delta="1e-6"'], file)).privacy
    assert privacy is not None
    assert (privacy.delta, str(privacy.parts)) == (1e-6, "10")


CHOSEN = {
    "delta": 1e-6,
    "unit": "person",
    "relation": "replace",
    "parts": 3,
    "sampling": "epoch",
    "sampling_probability": 0.5,
    "clip_norm": 2.0,
    "accountant": "rdp",
    "reproducible": True,
}


@pytest.mark.parametrize("field", CHOSEN)
@pytest.mark.parametrize("recipe", [None, "plain"])
def test_a_setting_of_privacy_without_an_epsilon_is_refused(
    tmp_path: Path, field: str, recipe: str | None
) -> None:
    assert {*CHOSEN, "epsilon", "noise_multiplier"} == set(PrivacySettings.model_fields)
    changes = {f"privacy.{field}": CHOSEN[field]}
    file = file_with(tmp_path, changes)
    nested = {"privacy": {field: CHOSEN[field]}}
    for overrides in (flags_of(changes), ("settings", nested)):
        with pytest.raises(PrivacyContractError, match=f"'privacy.{field}' cannot be kept"):
            resolve(flags_of({"recipe": recipe}), overrides)
    for assignments, path in (([f"privacy.{field}={CHOSEN[field]}"], None), ([], file)):
        with pytest.raises(PrivacyContractError, match="without privacy"):
            resolve(*command_line({"recipe": recipe}, assignments, path))


def test_what_asks_for_nothing_or_says_nothing() -> None:
    # Not to seed the noise asks for no privacy.
    assert resolve(flags_of({"privacy.reproducible": False})).privacy is None
    for name in ("epsilon", "noise_multiplier"):
        with pytest.raises(PrivacyContractError, match="recipe 'plain'"):
            resolve(flags_of({"recipe": "plain"}), ("a file", {f"privacy.{name}": 3.0}))
    for value in (None, 5, "person"):
        with pytest.raises(ConfigError, match="section"):
            resolve(flags_of({"privacy.epsilon": 1.0}), ("settings", {"privacy": value}))


@pytest.mark.parametrize("name", [name for name in VALUES if not name.startswith("data.")])
def test_the_constructor_keeps_the_same_order(name: str) -> None:
    """A parameter is stronger than ``settings``, and ``settings`` than the recipe."""
    strong, weak, _ = VALUES[name]
    base = {"epsilon": 1.0, "recipe": RECIPE_OF.get(name, "paper-split")}
    last = name.rpartition(".")[2]
    parameter = {"kind": "features", "seed": "random_state"}.get(last, last)
    if name == "recipe":
        base.pop("recipe")
    made = GraphClassifier(**base, settings={name: weak})._make_settings()
    assert value_of(made, name) == weak
    if name in ("recipe", "seed", "features.kind", "training.optimizer", "training.balanced"):
        both = GraphClassifier(**{**base, parameter: strong}, settings={name: weak})
        assert value_of(both._make_settings(), name) == strong


@pytest.mark.parametrize("field", CHOSEN)
def test_the_constructor_refuses_what_it_cannot_keep(field: str) -> None:
    nested = {f"privacy.{field}": CHOSEN[field]}
    with pytest.raises(PrivacyContractError, match="without an epsilon"):
        GraphClassifier(None, random_state=0, settings=nested)._make_settings()
    plain = GraphClassifier(1.0, recipe="plain", random_state=0, settings=nested)
    with pytest.raises(PrivacyContractError, match="recipe 'plain'"):
        plain._make_settings()
    other = {"delta": 1e-7, "unit": "part", "parts": 4}
    if field in other:
        with pytest.raises(PrivacyContractError, match="must have one value"):
            GraphClassifier(1.0, settings=nested, **{field: other[field]})._make_settings()
    if field in ("relation", "reproducible"):  # a default is no override
        chosen = GraphClassifier(1.0, random_state=0, settings=nested)._make_settings()
        assert getattr(chosen.privacy, field) == CHOSEN[field]


@pytest.mark.parametrize(
    ("epsilon", "settings", "private"),
    [
        (None, {}, False),
        (math.inf, {}, False),
        (np.float32(2), {}, True),
        (2, {"privacy.epsilon": 2.0}, True),
        (None, {"privacy.noise_multiplier": 4.0}, True),
    ],
)
def test_privacy_is_chosen_by_a_number_or_by_none_written_out(
    epsilon: Any, settings: dict[str, Any], private: bool
) -> None:
    made = GraphClassifier(epsilon, settings=settings)._make_settings()
    assert (made.privacy is not None) == private


@pytest.mark.parametrize("epsilon", ["1", "inf", True, 0, -1.0, math.nan, [1.0]])
def test_an_epsilon_that_is_no_positive_number_is_refused(epsilon: Any) -> None:
    with pytest.raises(ConfigError, match="must be a number above 0, or None"):
        GraphClassifier(epsilon)._make_settings()
    with pytest.raises(TypeError, match="epsilon"):
        GraphClassifier()  # type: ignore[call-arg]
    with pytest.raises(PrivacyContractError, match="Got None from a parameter"):
        GraphClassifier(None, settings={"privacy.epsilon": 1.0})._make_settings()


def test_a_random_state_is_scikit_learns() -> None:
    def seed(random_state: Any, **settings: Any) -> int:
        model = GraphClassifier(None, random_state=random_state, settings=settings)
        return model._make_settings().seed

    assert seed(7) == seed(np.int32(7), seed=8) == 7
    assert seed(None, seed=8) == 8
    assert len({seed(None) for _ in range(5)}) > 1
    assert seed(np.random.RandomState(3)) == seed(np.random.RandomState(3))
    with pytest.raises(ConfigError, match="whole number for a reproducible fit"):
        GraphClassifier(1.0, reproducible=True)._make_settings()
