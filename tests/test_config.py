"""Settings: rules, files and assignments; what is wrong is named in one line."""

import pytest

from privgcn.config import (
    Settings,
    make_settings,
    parse_assignment,
    parse_settings,
    read_settings,
)
from privgcn.errors import ConfigError, DataError, PrivacyContractError


@pytest.mark.parametrize(
    ("name", "value", "rule"),
    [
        ("training.epochs", "many", "'training.epochs'"),
        ("training.epoch", 1, "no setting 'training.epoch'.* mean 'training.epochs'"),
        ("a.b", 1, "no setting 'a.b'"),
        ("privacy.epsilon", float("inf"), "'privacy.epsilon' .*finite"),
    ],
)
def test_a_wrong_setting_is_named(name, value, rule):
    with pytest.raises(ConfigError, match=rule):
        Settings().changed({name: value})


@pytest.mark.parametrize(
    "change",
    [
        {"training.learning_rate": 0.1},
        {"training.noise_scale": None, "training.learning_rate": 0.1},
        {"model.kind": "mlp"},
    ],
)
def test_settings_that_do_not_fit_together_are_refused(change):
    with pytest.raises(ConfigError, match="do not fit together"):
        make_settings("auto", epsilon=1.0, changes=change)


def test_assignments_read_toml_values_or_plain_words():
    assert parse_assignment("a.b=1e-3") == ("a.b", 0.001)
    assert parse_assignment("privacy.parts=each") == ("privacy.parts", "each")
    assert parse_assignment("x=[1, 2]") == ("x", [1, 2])
    with pytest.raises(ConfigError, match=r"a\.b=c"):
        parse_assignment("nonsense")


def test_a_settings_file_becomes_dotted_names_given_once(tmp_path):
    path = tmp_path / "my.toml"
    path.write_text("seed = 3\n[training]\nepochs = 7\n[features.options]\ndimension = 64\n")
    assert read_settings(path) == {
        "seed": 3,
        "training.epochs": 7,
        "features.options": {"dimension": 64},
    }
    for text, words in (
        ("seed = = 3", "not valid TOML"),
        ('"privacy.unit" = "person"\n[privacy]\nunit = "document"\n', "must be given once"),
    ):
        path.write_text(text)
        with pytest.raises(ConfigError, match=words):
            read_settings(path)
    with pytest.raises(DataError, match="does not exist"):
        read_settings(tmp_path / "none.toml")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (f"seed = {'9' * 5_000}", "not valid TOML"),
        (f"seed = 0x{'f' * 5_000}", "too many digits"),
        (f"{'a' * 5_000} = 1", "There is no setting"),
    ],
)
def test_a_hostile_settings_file_is_one_short_line(tmp_path, text, words):
    path = tmp_path / "settings.toml"
    path.write_text(text)
    with pytest.raises(ConfigError, match=words) as caught:
        parse_settings(read_settings(path))
    assert len(str(caught.value)) < 1_000


def test_the_papers_settings_are_the_papers():
    plain = make_settings("plain", optimizer="sgd")
    assert (plain.model.kind, plain.model.hidden, plain.model.dropout) == ("gcn", 32, 0.5)
    assert (plain.training.epochs, plain.training.learning_rate) == (2000, 0.01)
    assert plain.training.patience == 20
    split = make_settings("paper-split", epsilon=1.0, optimizer="adam")
    assert (split.training.epochs, split.training.patience) == (500, 0)
    assert split.privacy is not None
    assert (split.privacy.parts, split.privacy.sampling) == (10, "poisson")
    assert split.privacy.clip_norm == 1.0
    with pytest.raises(PrivacyContractError, match="needs an epsilon"):
        make_settings("paper-full")


def test_an_epsilon_beside_a_noise_multiplier_is_never_dropped():
    settings = make_settings(epsilon=0.1, changes={"privacy.noise_multiplier": 0.5})
    assert settings.privacy is not None
    assert settings.privacy.epsilon == 0.1
