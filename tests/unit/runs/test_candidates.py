"""Search spaces: read from files and options, and fenced in."""

from pathlib import Path

import pytest

from privgcn.config import Settings, make_settings
from privgcn.errors import ConfigError
from privgcn.runs.candidates import SearchSpace


def test_values_are_read_as_numbers_and_words() -> None:
    space = SearchSpace.of(
        "auto", None, ["training.reach=1,1.5", "features.kind=hashing,minilm", "model.hops=0"]
    )
    assert space.choices == {
        "training.reach": (1, 1.5),
        "features.kind": ("hashing", "minilm"),
        "model.hops": (0,),
    }
    assert len(space.candidates(make_settings(epsilon=1.0))) == 4
    assert str(space).startswith("training.reach from 1, 1.5; features.kind from hashing")


def test_a_file_names_lists_and_options_come_on_top(tmp_path: Path) -> None:
    file = tmp_path / "space.toml"
    file.write_text("[training]\nreach = [1, 2]\nepochs = 30\n")
    space = SearchSpace.of("auto", file, ["training.reach=3,4"])
    assert space.choices == {"training.reach": (3, 4), "training.epochs": (30,)}


@pytest.mark.parametrize("recipe", ["auto", "paper-full", "paper-split"])
def test_every_private_recipe_has_a_space(recipe: str) -> None:
    assert len(SearchSpace.of(recipe, None, []).combinations()) >= 2


@pytest.mark.parametrize(
    "text",
    [
        "privacy.epsilon=1,2",
        "privacy.noise_multiplier=1,2",
        "privacy.delta=1e-5,1e-4",
        "privacy.unit=document,person",
        "privacy.relation=remove,replace",
        "privacy.accountant=rdp,pld",
        "privacy.reproducible=true,false",
        "recipe=auto,paper-split",
        "seed=1,2,3",
        "data.source=a,b",
        "training.reach=1",
        "training.reach",
        "training.reach=",
    ],
)
def test_what_must_not_be_searched_is_refused(text: str) -> None:
    with pytest.raises(ConfigError):
        SearchSpace.of("auto", None, [text])


def test_unknown_settings_are_refused() -> None:
    with pytest.raises(ConfigError):
        SearchSpace.of("auto", None, ["training.wings=1,2"]).candidates(Settings())


def test_what_is_fixed_is_not_searched_over() -> None:
    space = SearchSpace.of("auto", None, ["privacy.clip_norm=1,2"])
    with pytest.raises(ConfigError, match=r"'privacy\.clip_norm' must be fixed or searched"):
        space.check_wishes({"privacy.clip_norm": 0.5})
    space.check_wishes({"privacy.unit": "person"})


def test_a_run_without_privacy_has_no_space() -> None:
    with pytest.raises(ConfigError, match="epsilon"):
        SearchSpace.of("plain", None, [])


def test_the_words_of_a_space_do_not_tell_where_files_lie(tmp_path: Path) -> None:
    places = [str(tmp_path / "clients" / name) for name in ("a.vec", "b.vec")]
    space = SearchSpace.of("auto", None, [f"features.options.source={','.join(places)}"])
    assert str(space) == "features.options.source from a.vec, b.vec"
    elsewhere = SearchSpace.of("auto", None, ["features.options.source=clients/a.vec,b.vec"])
    assert str(elsewhere) == str(space)
