"""Every privacy setting by every entrance: the run that begins carries it, or none begins."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import typer
from typer.testing import CliRunner

from e2e.letters import letters
from privgcn import Corpus, GraphClassifier, load_corpus
from privgcn.cli.app import app
from privgcn.config import PrivacySettings
from privgcn.errors import PrivGCNError
from privgcn.runs.prepare import PreparedRun

stopped = pytest.mark.usefixtures("_stopped")


# For every field of the privacy settings a value that is no recipe's own, and what else it
# needs to make sense.
OVERRIDES: dict[str, tuple[Any, dict[str, Any]]] = {
    "epsilon": (3.0, {}),
    "delta": (1e-6, {}),
    "unit": ("person", {}),
    "relation": ("replace", {}),
    "parts": (7, {}),
    "sampling": ("poisson", {"privacy.parts": 7}),
    "sampling_probability": (0.25, {"privacy.sampling": "poisson", "privacy.parts": 7}),
    "clip_norm": (0.5, {}),
    "noise_multiplier": (40.0, {"privacy.epsilon": None}),
    "accountant": ("rdp", {}),
    "reproducible": (True, {}),
}
# What a search cannot keep, and says so.
NOT_SEARCHED = {"noise_multiplier": "epsilon", "reproducible": "reproducible"}
TUNE_FLAGS = {"epsilon", "delta", "unit", "relation"}
FLAGS = TUNE_FLAGS | {"parts", "sampling", "noise_multiplier", "reproducible"}
PARAMETERS = TUNE_FLAGS | {"parts", "reproducible"}
ENTRANCES = {
    "train flag": FLAGS,
    "train --set": set(OVERRIDES),
    "tune flag": TUNE_FLAGS,
    "tune --set": set(OVERRIDES),
    "GraphClassifier parameter": PARAMETERS,
    "GraphClassifier settings": set(OVERRIDES),
}
WALKS = [(way, field) for way, fields in ENTRANCES.items() for field in sorted(fields)]


class BegunError(Exception):
    """A run is about to read private documents."""

    def __init__(self, prepared: PreparedRun) -> None:
        super().__init__("a run begins")
        self.prepared = prepared


@pytest.fixture
def _stopped(monkeypatch: Any) -> None:
    """Runs stop where training would begin, and tell what they were about to do."""

    def begun(prepared: PreparedRun, *_: Any) -> None:
        raise BegunError(prepared)

    monkeypatch.setattr("privgcn.runs.train.fit", begun)


@pytest.fixture(scope="module")
def source(tmp_path_factory: Any) -> Path:
    return letters(tmp_path_factory.mktemp("overrides") / "letters", range(120), owners=120)


def begin(*words: object) -> None:
    done = CliRunner().invoke(app, list(map(str, words)), catch_exceptions=False)
    raise AssertionError(f"the run went on: {done.output}")


def assigned(changes: dict[str, Any]) -> list[str]:
    pairs = [(name, value) for name, value in changes.items() if value is not None]
    return [word for name, value in pairs for word in ("--set", f"{name}={json.dumps(value)}")]


def start(way: str, field: str, folder: Path, source: Path) -> None:
    """Starts a run with one override by one entrance, all else by settings."""
    value, more = OVERRIDES[field]
    base = {"privacy.epsilon": 2.0, "features.kind": "hashing", **more}
    base.pop(f"privacy.{field}", None)
    verb, entrance = way.split()
    flag, name = [], f"--{field.replace('_', '-')}"
    if entrance in ("flag", "parameter"):
        flag = [name] if value is True else [name, str(value)]
    else:
        base[f"privacy.{field}"] = value
    if verb != "GraphClassifier":
        begin(verb, source, *assigned(base), *flag, "--out", folder / "run")
    settings = {name: value for name, value in base.items() if value is not None}
    if field != "unit":
        settings["privacy.unit"] = "document"
    parameters = {"epsilon": settings.get("privacy.epsilon"), "random_state": 0}
    parameters |= {field: value} if flag else {}
    GraphClassifier(**parameters, settings=settings).fit(load_corpus(source).train)
    raise AssertionError("the fit went on")


def options_of(verb: str) -> set[str]:
    group = typer.main.get_command(app)
    return {str(option.name) for option in group.get_command(None, verb).params}


def test_every_privacy_setting_is_walked() -> None:
    assert set(OVERRIDES) == set(PrivacySettings.model_fields)
    assert options_of("train") & set(OVERRIDES) == FLAGS
    assert options_of("tune") & set(OVERRIDES) == TUNE_FLAGS
    assert options_of("audit") & set(OVERRIDES) == FLAGS - {"reproducible", "noise_multiplier"}
    assert options_of("attack") & set(OVERRIDES) == {"epsilon", "delta", "unit"}
    assert set(GraphClassifier(None).get_params()) & set(OVERRIDES) == PARAMETERS
    assert options_of("demo") & set(OVERRIDES) == {"epsilon"}
    beyond = {"sampling_probability", "accountant", "noise_multiplier"}
    assert options_of("plan") & set(OVERRIDES) == TUNE_FLAGS | beyond


@stopped
@pytest.mark.parametrize(("way", "field"), WALKS)
def test_an_override_of_privacy_reaches_the_run_or_is_refused(
    tmp_path: Path, source: Path, way: str, field: str
) -> None:
    if way.startswith("tune") and field in NOT_SEARCHED:
        with pytest.raises(PrivGCNError, match=NOT_SEARCHED[field]):
            start(way, field, tmp_path, source)
        return
    with pytest.raises(BegunError) as begun:
        start(way, field, tmp_path, source)
    _check(begun.value.prepared, field, searched=way.startswith("tune"))


def _check(prepared: PreparedRun, field: str, *, searched: bool = False) -> None:
    plan, privacy, value = prepared.plan, prepared.settings.privacy, OVERRIDES[field][0]
    assert plan is not None
    if searched and field == "epsilon":
        # A search turns its epsilon into the noise of its runs.
        assert plan.epsilon < value
        return
    assert getattr(privacy, field) == value
    if field == "epsilon":
        assert 0.98 * value < plan.epsilon <= value
        return
    carried = {
        "parts": plan.partition.groups,
        "sampling": plan.schedule.name,
        "sampling_probability": plan.schedule.sampling_probability,
        "reproducible": value,
    }
    if not (searched and field == "accountant"):
        assert carried.get(field, getattr(plan, field, None)) == value


@stopped
def test_the_demo_keeps_its_epsilon(tmp_path: Path) -> None:
    with pytest.raises(BegunError) as begun:
        begin("demo", "--epsilon", "3", "--out", tmp_path / "run")
    _check(begun.value.prepared, "epsilon")
    assert begun.value.prepared.plan.unit == "person"


@stopped
@pytest.mark.parametrize("verb", ["train", "tune"])
@pytest.mark.parametrize("way", ["--seed", "--set", "--config"])
def test_a_seed_is_never_ignored(
    monkeypatch: Any, tmp_path: Path, source: Path, verb: str, way: str
) -> None:
    splits: list[int] = []

    def loaded(source: str, **options: Any) -> Corpus:
        splits.append(options["seed"])
        return load_corpus(source, **options)

    monkeypatch.setattr("privgcn.data.load_corpus", loaded)
    (tmp_path / "my.toml").write_text("seed = 9\n")
    words = {
        "--seed": ["--seed", "9"],
        "--set": ["--set", "seed=9"],
        "--config": ["--config", tmp_path / "my.toml"],
    }
    more = ["--epsilon", "2", "--features", "hashing", "--out", tmp_path / "run"]
    with pytest.raises(BegunError) as begun:
        begin(verb, source, *words[way], *more)
    assert (begun.value.prepared.settings.seed, splits) == (9, [9])
