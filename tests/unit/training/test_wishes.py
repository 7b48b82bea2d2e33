"""Flag, then --set, then --config, then recipe; and no wish for privacy is ever dropped."""

from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel

from privgcn.config import (
    RECIPES,
    Overrides,
    PrivacySettings,
    Settings,
    make_settings,
    recipe_settings,
    resolve,
    to_toml,
)
from privgcn.errors import ConfigError, PrivacyContractError

#: Three values for every setting but those of privacy, none of them recipe paper-split's own.
VALUES: dict[str, tuple[Any, Any, Any]] = {
    "recipe": ("paper-full", "auto", "paper-split"),
    "seed": (7, 8, 9),
    "data.source": ("a", "b", "c"),
    "data.classes": (["a", "b"], ["c", "d"], ["e", "f"]),
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
    "training.reach": (1.1, 1.2, 1.3),
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
    "training.reach": "auto",
    "training.balanced": "auto",
    "prediction.method": "auto",
}


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

    def found(flags: dict[str, Any], *assignments: str) -> Any:
        return value_of(resolve(*Overrides.command_line(flags, assignments, file)), name)

    written = assigned
    if isinstance(assigned, bool):
        written = str(assigned).lower()
    elif isinstance(assigned, dict):
        written = "{a = 2}"
    text = f"{name}={written}"
    assert found({name: None}) == filed
    assert found({name: None}, text) == assigned
    assert found({name: flag}, text) == flag
    if name == "training.optimizer":
        return
    own = resolve(Overrides.typed({**base, name: None}, flags=True))
    expected = recipe_settings(own.recipe)
    assert value_of(own, name) == value_of(expected, name)


def test_the_last_of_two_assignments_counts() -> None:
    settings = resolve(
        *Overrides.command_line({}, ["training.epochs=3", "training.epochs=4"], None)
    )
    assert settings.training.epochs == 4


def test_a_stronger_option_of_features_changes_a_weaker_set_of_them(tmp_path: Path) -> None:
    file = tmp_path / "my.toml"
    file.write_text("[features.options]\ndimension = 64\nwords = 2\n")
    wishes = Overrides.command_line({}, ["features.options.words=1"], file)
    assert resolve(*wishes).features.options == {"dimension": 64, "words": 1}


def test_an_optimizer_means_the_same_through_every_door() -> None:
    flag = resolve(
        Overrides.typed({"recipe": "plain", "training.optimizer": "sgd"}, flags=True)
    )
    assert flag.training.epochs == 2000
    assert (
        resolve(*Overrides.command_line({"recipe": "plain"}, ["training.optimizer=sgd"], None))
        == flag
    )
    with pytest.raises(ConfigError, match="takes plain steps"):
        make_settings(epsilon=1.0, changes={"training.optimizer": "adam"})


@pytest.mark.parametrize("recipe", sorted(RECIPES))
def test_the_settings_of_a_run_are_a_settings_file(tmp_path: Path, recipe: str) -> None:
    made = make_settings(recipe, epsilon=None if recipe == "plain" else 2.0, seed=5)
    file = tmp_path / "settings.toml"
    file.write_text(to_toml(made.model_dump()))
    assert resolve(*Overrides.command_line({}, None, file)) == made
    assert resolve(Overrides.mapping(made.model_dump(), "settings")) == made


CONTRADICTIONS = [
    (
        {"privacy.delta": 1e-5},
        ["privacy.delta=1e-6"],
        {},
        ["--delta 1e-05", "--set privacy.delta"],
    ),
    (
        {"privacy.unit": "document"},
        [],
        {"privacy.unit": "person"},
        ["--unit document", "my.toml"],
    ),
    (
        {},
        ["privacy.unit=part"],
        {"privacy.unit": "person"},
        ["--set privacy.unit=part", "my.toml"],
    ),
    ({}, ["privacy.delta=1e-6", "privacy.delta=1e-5"], {}, ["1e-06", "1e-05"]),
    ({"privacy.parts": "4"}, ["privacy.parts=5"], {}, ["--parts 4", "privacy.parts=5"]),
    (
        {"privacy.reproducible": False},
        ["privacy.reproducible=true"],
        {},
        ["--no-reproducible", "--set"],
    ),
    (
        {"privacy.epsilon": 1.0},
        ['privacy={epsilon = 2.0, unit = "part"}'],
        {},
        ["--epsilon 1.0"],
    ),
]


@pytest.mark.parametrize(("flags", "assignments", "filed", "words"), CONTRADICTIONS)
def test_two_wishes_for_privacy_that_contradict_each_other_are_refused(
    tmp_path: Path,
    flags: dict[str, Any],
    assignments: list[str],
    filed: dict[str, Any],
    words: list[str],
) -> None:
    file = file_with(tmp_path, {"recipe": "paper-split", **filed})
    wishes = Overrides.command_line({"privacy.epsilon": 1.0, **flags}, assignments, file)
    with pytest.raises(PrivacyContractError, match="must have one value") as refused:
        resolve(*wishes)
    for word in words:
        assert word in str(refused.value)


def test_the_same_wish_twice_is_one_wish(tmp_path: Path) -> None:
    file = file_with(tmp_path, {"privacy.delta": 1e-6, "privacy.parts": 10})
    flags = {"privacy.epsilon": 1.0, "privacy.parts": "10"}
    privacy = resolve(*Overrides.command_line(flags, ['privacy.delta="1e-6"'], file)).privacy
    assert privacy is not None
    assert (privacy.delta, str(privacy.parts)) == (1e-6, "10")


WISHES = {
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


def test_every_wish_is_walked() -> None:
    assert {*WISHES, "epsilon", "noise_multiplier"} == set(PrivacySettings.model_fields)


@pytest.mark.parametrize("field", WISHES)
@pytest.mark.parametrize("recipe", [None, "auto", "plain"])
def test_a_wish_for_privacy_without_an_epsilon_is_refused(
    tmp_path: Path, field: str, recipe: str | None
) -> None:
    changes = {f"privacy.{field}": WISHES[field]}
    file = file_with(tmp_path, changes)
    nested = {"privacy": {field: WISHES[field]}}
    for wishes in (
        Overrides.typed(changes, flags=True),
        Overrides.typed(changes),
        Overrides.mapping(nested, "settings"),
    ):
        with pytest.raises(PrivacyContractError, match=f"'privacy.{field}' cannot be kept"):
            resolve(Overrides.typed({"recipe": recipe}, flags=True), wishes)
    for assignments, path in (([f"privacy.{field}={WISHES[field]}"], None), ([], file)):
        with pytest.raises(PrivacyContractError, match="without privacy"):
            resolve(*Overrides.command_line({"recipe": recipe}, assignments, path))


@pytest.mark.parametrize("name", ["epsilon", "noise_multiplier"])
def test_plain_keeps_no_epsilon_and_no_noise(tmp_path: Path, name: str) -> None:
    file = file_with(tmp_path, {f"privacy.{name}": 3.0, "recipe": "auto"})
    with pytest.raises(PrivacyContractError, match="recipe 'plain'"):
        resolve(*Overrides.command_line({"recipe": "plain"}, None, file))


@pytest.mark.parametrize("value", [None, 5, "person"])
def test_a_section_is_no_setting(value: Any) -> None:
    with pytest.raises(ConfigError, match="section"):
        resolve(
            Overrides.typed({"privacy.epsilon": 1.0}),
            Overrides.mapping({"privacy": value}, "settings"),
        )


def test_not_to_seed_the_noise_is_no_wish_for_any() -> None:
    assert resolve(Overrides.typed({"privacy.reproducible": False})).privacy is None
