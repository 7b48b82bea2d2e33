"""Flag, --set, settings file, constructor, recipe: one precedence for every setting.

And no setting of privacy is ever dropped: it is honoured or refused, through every entrance.
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from privgcn.config import (
    RECIPES,
    PrivacySettings,
    Settings,
    command_line,
    flattened,
    make_settings,
    recipe_settings,
    resolve,
    to_toml,
)
from privgcn.errors import ConfigError, PrivacyContractError
from privgcn.runs.classifier import _PARAMETERS, GraphClassifier

#: Three values of some settings, none of them recipe paper-split's own.
VALUES: dict[str, tuple[Any, Any, Any]] = {
    "recipe": ("paper-full", "auto", "paper-split"),
    "seed": (7, 8, 9),
    "data.classes": (["a", "b"], ["c", "d"], ["e", "f"]),
    "features.kind": ("bow", "tfidf", "hashing"),
    "features.options": ({"a": 1}, {"a": 2}, {"a": 3}),
    "model.dropout": (0.1, 0.2, 0.3),
    "training.optimizer": ("sgd", "adam", "sgd"),
    "training.balanced": (True, False, True),
    "training.epochs": (7, 8, 9),
}

#: A value of each setting of privacy but those that ask for it.
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


def value_of(settings: Settings, name: str) -> Any:
    return flattened(settings.model_dump())[name]


def file_with(folder: Path, changes: dict[str, Any]) -> Path:
    path = folder / "my.toml"
    path.write_text(to_toml(changes))
    return path


def test_the_tables_have_every_parameter_and_every_setting_of_privacy() -> None:
    assert {*_PARAMETERS.values()} <= {*VALUES, *(f"privacy.{name}" for name in CHOSEN)}
    assert {*CHOSEN, "epsilon", "noise_multiplier"} == set(PrivacySettings.model_fields)


@pytest.mark.parametrize("name", VALUES)
def test_one_precedence_for_every_setting(tmp_path: Path, name: str) -> None:
    flag, assigned, filed = VALUES[name]
    recipe = {} if name == "recipe" else {"recipe": "paper-split"}
    recipe |= {"recipe": "auto"} if name == "training.balanced" else {}
    base = {"privacy.epsilon": 1.0, **recipe}
    file = file_with(tmp_path, {**base, name: filed})
    written = {bool: str(assigned).lower(), dict: "{a = 2}"}.get(type(assigned), assigned)
    text = f"{name}={written}"

    def value(flag: Any, *assignments: str) -> Any:
        return value_of(resolve(*command_line({name: flag}, assignments, file)), name)

    assert value(None) == filed
    assert value(None, text) == assigned
    assert value(flag, text) == flag
    if name != "training.optimizer":
        own = resolve(("a flag", base))
        assert value_of(own, name) == value_of(recipe_settings(own.recipe), name)
    # A parameter of the constructor is stronger than ``settings``, and these than the recipe.
    if name.startswith("data."):
        return
    more = {"epsilon": 1.0, **recipe}
    made = GraphClassifier(**more, settings={name: assigned})._make_settings()
    assert value_of(made, name) == assigned
    parameter = {"seed": "random_state", **{s: p for p, s in _PARAMETERS.items()}}.get(name)
    if parameter is not None:
        both = GraphClassifier(**{**more, parameter: flag}, settings={name: assigned})
        assert value_of(both._make_settings(), name) == flag


def test_assignments_change_files_and_the_last_of_them_counts(tmp_path: Path) -> None:
    file = file_with(tmp_path, {"features.options": {"dimension": 64, "words": 2}})
    overrides = command_line({}, ["features.options.words=1"], file)
    assert resolve(*overrides).features.options == {"dimension": 64, "words": 1}
    settings = resolve(*command_line({}, ["training.epochs=3", "training.epochs=4"], None))
    assert settings.training.epochs == 4
    # An optimizer brings its own pace through every entrance.
    flag = resolve(("a flag", {"recipe": "plain", "training.optimizer": "sgd"}))
    assert flag.training.epochs == 2000
    assert resolve(*command_line({"recipe": "plain"}, ["training.optimizer=sgd"], None)) == flag
    with pytest.raises(ConfigError, match=r"Did you mean 'training\.epochs'\?"):
        resolve(*command_line({}, ["training.epoch=3"], None))
    with pytest.raises(ConfigError, match="needs privacy, optimizer sgd"):
        make_settings(epsilon=1.0, changes={"training.optimizer": "adam"})


@pytest.mark.parametrize("recipe", sorted(RECIPES))
def test_the_settings_of_a_run_are_a_settings_file(tmp_path: Path, recipe: str) -> None:
    options = {"features.options": {"a": [1, 2]}, "data.source": 'a"b\\c\nd é'}
    epsilon = None if recipe == "plain" else 2.0
    made = make_settings(recipe, epsilon=epsilon, seed=5, changes=options)
    file = file_with(tmp_path, made.model_dump())
    assert resolve(*command_line({}, None, file)) == made
    assert resolve(("settings", made.model_dump())) == made


@pytest.mark.parametrize(
    ("flags", "assignments", "filed", "words"),
    [
        ({"unit": "document"}, [], {"unit": "person"}, ["'document' from a flag", "my.toml"]),
        ({}, ["delta=1e-6", "delta=1e-5"], {}, ["1e-06", "1e-05"]),
        ({"parts": "4"}, ["parts=5"], {}, ["'4' from a flag", "5 from --set"]),
        ({"reproducible": False}, ["reproducible=true"], {}, ["False from", "True from"]),
    ],
)
def test_two_settings_for_privacy_that_contradict_each_other_are_refused(
    tmp_path: Path, flags: Any, assignments: list[str], filed: Any, words: list[str]
) -> None:
    file = file_with(tmp_path, {f"privacy.{name}": value for name, value in filed.items()})
    typed = {f"privacy.{name}": value for name, value in {"epsilon": 1.0, **flags}.items()}
    overrides = command_line(typed, [f"privacy.{text}" for text in assignments], file)
    with pytest.raises(PrivacyContractError, match="must have one value") as refused:
        resolve(*overrides)
    for word in words:
        assert word in str(refused.value)


def test_the_same_setting_of_privacy_twice_is_one(tmp_path: Path) -> None:
    file = file_with(tmp_path, {"privacy.delta": 1e-6, "privacy.parts": 10})
    flags = {"privacy.epsilon": 1.0, "privacy.parts": "10"}
    privacy = resolve(*command_line(flags, ['privacy.delta="1e-6"'], file)).privacy
    assert privacy is not None
    assert (privacy.delta, str(privacy.parts)) == (1e-6, "10")


@pytest.mark.parametrize("field", CHOSEN)
def test_a_setting_of_privacy_is_kept_or_refused(field: str) -> None:
    value = CHOSEN[field]
    changes = {f"privacy.{field}": value}
    for recipe in (None, "plain"):
        for given in (changes, {"privacy": {field: value}}):
            overrides = [*command_line({"recipe": recipe}, None, None), ("settings", given)]
            with pytest.raises(PrivacyContractError, match=f"'privacy.{field}' cannot be kept"):
                resolve(*overrides)
    model = GraphClassifier(None, random_state=0, settings=changes)
    with pytest.raises(PrivacyContractError, match="without an epsilon"):
        model._make_settings()
    other = {"delta": 1e-7, "unit": "part", "parts": 4}
    if field in other:
        with pytest.raises(PrivacyContractError, match="must have one value"):
            GraphClassifier(1.0, settings=changes, **{field: other[field]})._make_settings()
    # A default is no override.
    chosen = model.set_params(epsilon=1.0)._make_settings()
    assert getattr(chosen.privacy, field) == value


def test_what_asks_for_nothing_or_says_nothing() -> None:
    # Not to seed the noise asks for no privacy.
    assert resolve(("a flag", {"privacy.reproducible": False})).privacy is None
    for name in ("epsilon", "noise_multiplier"):
        with pytest.raises(PrivacyContractError, match="recipe 'plain'"):
            resolve(("a flag", {"recipe": "plain"}), ("a file", {f"privacy.{name}": 3.0}))
    for value in (None, 5, "person"):
        with pytest.raises(ConfigError, match="section"):
            resolve(("a flag", {"privacy.epsilon": 1.0}), ("settings", {"privacy": value}))


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
    for wrong in ("1", "inf", True, 0, -1.0, math.nan, [1.0]):
        with pytest.raises(ConfigError, match="must be a number above 0, or None"):
            GraphClassifier(wrong)._make_settings()  # type: ignore[arg-type]
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
