from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

from privgcn.config import (
    RECIPES,
    Settings,
    flattened,
    make_settings,
    parse_assignment,
    parse_settings,
    read_settings,
    to_toml,
)
from privgcn.errors import ConfigError, PrivacyContractError


@pytest.mark.parametrize("recipe", sorted(RECIPES))
def test_settings_survive_the_way_to_disk_and_back(recipe: str) -> None:
    epsilon = None if recipe == "plain" else 1.0
    settings = make_settings(
        recipe, epsilon=epsilon, changes={"features.options": {"a": [1, 2]}}
    )
    again = parse_settings(tomllib.loads(to_toml(settings.model_dump())))
    assert again == settings


def test_text_with_quotes_and_newlines_survives() -> None:
    settings = Settings().changed({"data.source": 'a"b\\c\nd é', "data.classes": ["x,y", "'"]})
    assert parse_settings(tomllib.loads(to_toml(settings.model_dump()))) == settings


@pytest.mark.parametrize(
    ("name", "value"),
    [("training.epochs", "many"), ("training.speed", 1), ("colour", "red"), ("a.b", 1)],
)
def test_a_wrong_setting_is_named(name: str, value: object) -> None:
    with pytest.raises(ConfigError, match=name.split(".")[-1] if "." in name else name):
        Settings().changed({name: value})


@pytest.mark.parametrize(
    ("name", "value", "rule"),
    [
        ("privacy.epsilon", float("inf"), "finite"),
        ("privacy.clip_norm", float("nan"), "finite"),
        ("features.language", "", "at least 1 character"),
    ],
)
def test_a_value_that_means_nothing_is_refused_at_once(
    name: str, value: object, rule: str
) -> None:
    with pytest.raises(ConfigError, match=rf"'{name}' .*{rule}"):
        Settings().changed({name: value})


def test_assignments_read_toml_values_or_plain_words() -> None:
    assert parse_assignment("a.b=1e-3") == ("a.b", 0.001)
    assert parse_assignment("privacy.parts=each") == ("privacy.parts", "each")
    assert parse_assignment("x=[1, 2]") == ("x", [1, 2])
    with pytest.raises(ConfigError, match=r"a\.b=c"):
        parse_assignment("nonsense")


def test_a_settings_file_becomes_dotted_names(tmp_path) -> None:
    path = tmp_path / "my.toml"
    path.write_text("seed = 3\n[training]\nepochs = 7\n[features.options]\ndimension = 64\n")
    assert read_settings(path) == {
        "seed": 3,
        "training.epochs": 7,
        "features.options": {"dimension": 64},
    }
    path.write_text("seed = = 3")
    with pytest.raises(ConfigError, match="not valid TOML"):
        read_settings(path)
    with pytest.raises(ConfigError, match="does not exist"):
        read_settings(tmp_path / "none.toml")


def test_nested_settings_become_dotted_names_and_the_given_ones_stay_as_they_were() -> None:
    options = {"dimension": 64}
    tree = {
        "privacy": {"unit": "person"},
        "training.epochs": 3,
        "features": {"options": options},
    }
    found = flattened(tree)
    assert found == {
        "privacy.unit": "person",
        "training.epochs": 3,
        "features.options": {"dimension": 64},
    }
    found["features.options"]["dimension"] = 2
    assert options == {"dimension": 64}


def test_a_setting_that_is_both_dotted_and_nested_is_refused(tmp_path) -> None:
    tree = {"privacy.unit": "person", "privacy": {"unit": "document"}}
    with pytest.raises(ConfigError, match=r"'privacy\.unit' must be given once"):
        flattened(tree)
    path = tmp_path / "my.toml"
    path.write_text('"privacy.unit" = "person"\n[privacy]\nunit = "document"\n')
    with pytest.raises(ConfigError, match="given once"):
        read_settings(path)


def test_private_recipes_ask_for_an_epsilon() -> None:
    with pytest.raises(PrivacyContractError, match="needs an epsilon"):
        make_settings("paper-full")


def test_the_papers_settings_are_the_papers() -> None:
    plain = make_settings("plain", optimizer="sgd")
    assert (plain.model.kind, plain.model.hidden, plain.model.dropout) == ("gcn", 32, 0.5)
    assert (plain.training.epochs, plain.training.learning_rate) == (2000, 0.01)
    assert plain.training.patience == 20
    split = make_settings("paper-split", epsilon=1.0, optimizer="adam")
    assert split.training.epochs == 500
    assert split.training.patience == 0
    assert split.privacy is not None
    assert (split.privacy.parts, split.privacy.sampling) == (10, "poisson")
    assert split.privacy.clip_norm == 1.0


@pytest.mark.parametrize(
    "change",
    [
        {"training.learning_rate": 0.1},
        {"training.noise_scale": None, "training.learning_rate": 0.1},
        {"model.kind": "mlp"},
    ],
)
def test_settings_that_do_not_fit_together_are_refused(change) -> None:
    with pytest.raises(ConfigError, match="do not fit together"):
        make_settings("auto", epsilon=1.0, changes=change)


def test_an_epsilon_beside_a_noise_multiplier_is_never_dropped() -> None:
    settings = make_settings(epsilon=0.1, changes={"privacy.noise_multiplier": 0.5})
    assert settings.privacy is not None
    assert settings.privacy.epsilon == 0.1


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (f"seed = {'9' * 5_000}", "not valid TOML"),
        (f"seed = 0x{'f' * 5_000}", "too many digits"),
        (f"{'a' * 5_000} = 1", "There is no setting"),
    ],
)
def test_a_hostile_settings_file_is_one_short_line(
    tmp_path: Path, text: str, words: str
) -> None:
    path = tmp_path / "settings.toml"
    path.write_text(text)
    with pytest.raises(ConfigError, match=words) as caught:
        parse_settings(read_settings(path))
    assert len(str(caught.value)) < 1_000
