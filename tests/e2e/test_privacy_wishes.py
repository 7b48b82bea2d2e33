"""Every privacy setting through every door: the run that begins carries it, or none begins."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from privgcn import Corpus, GraphClassifier, load_corpus
from privgcn.cli import app
from privgcn.config import PrivacySettings, Settings, to_toml
from privgcn.errors import PrivacyContractError, PrivGCNError
from privgcn.privacy.plan import PrivacyPlan
from privgcn.runs.tune import _Runs
from privgcn.training import fit as fitting
from privgcn.training.outlook import outlook
from privgcn.training.planning import make_plan

stopped = pytest.mark.usefixtures("_stopped")


@dataclass(frozen=True)
class Wish:
    """A value that is no recipe's own, and what else it needs to make sense."""

    value: Any
    beside: dict[str, Any]


#: One wish for every field of the privacy settings.
WISHES = {
    "epsilon": Wish(3.0, {}),
    "delta": Wish(1e-6, {}),
    "unit": Wish("person", {}),
    "relation": Wish("replace", {}),
    "parts": Wish(7, {}),
    "sampling": Wish("poisson", {"privacy.parts": 7}),
    "sampling_probability": Wish(0.25, {"privacy.sampling": "poisson", "privacy.parts": 7}),
    "clip_norm": Wish(0.5, {}),
    "noise_multiplier": Wish(40.0, {"privacy.epsilon": None}),
    "accountant": Wish("rdp", {}),
    "reproducible": Wish(True, {}),
}
#: What a search cannot keep, and says so.
NOT_SEARCHED = {"noise_multiplier": "epsilon", "reproducible": "reproducible"}
FLAGS = {"epsilon", "delta", "unit", "relation", "parts", "sampling", "reproducible"}
TUNE_FLAGS = {"epsilon", "delta", "unit", "relation"}
PARAMETERS = {"epsilon", "delta", "unit", "relation", "parts", "reproducible"}


class BegunError(Exception):
    """A run is about to touch documents: its settings and its plan."""

    def __init__(self, privacy: PrivacySettings, plan: PrivacyPlan, seed: int = 0) -> None:
        super().__init__("a run begins")
        self.privacy, self.plan, self.seed = privacy, plan, seed


@pytest.fixture
def _stopped(monkeypatch: Any) -> None:
    """Runs stop where training would begin, and tell what they were about to do."""

    def planned(privacy: PrivacySettings, *arguments: Any, **options: Any) -> PrivacyPlan:
        raise BegunError(privacy, make_plan(privacy, *arguments, **options), options["seed"])

    def drawn(self: _Runs, number: int) -> None:
        candidate = self.candidates[number]
        assert candidate.privacy is not None
        raise BegunError(candidate.privacy, self.plans[number], candidate.seed)

    monkeypatch.setattr(fitting, "make_plan", planned)
    monkeypatch.setattr(_Runs, "train", drawn)


@pytest.fixture(scope="module")
def letters(tmp_path_factory: Any) -> Path:
    folder = tmp_path_factory.mktemp("letters")
    words = {"heart": "pulse pressure valve beat", "skin": "rash itch cream spot"}
    lines = []
    for number in range(120):
        kind = ("heart", "skin")[number % 2]
        split = ("train", "train", "train", "train", "validation", "test")[number // 2 % 6]
        record = {"id": f"d{number}", "text": words[kind], "label": kind, "split": split}
        lines.append(json.dumps({**record, "owner": f"p{number}"}))
    (folder / "documents.jsonl").write_text("\n".join(lines) + "\n")
    return folder


def call(*arguments: str) -> None:
    done = CliRunner().invoke(app, list(arguments), catch_exceptions=False)
    raise AssertionError(f"the run went on: {done.output}")


def said(changes: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in changes.items() if value is not None}


def assigned(changes: dict[str, Any]) -> list[str]:
    texts = [f"{name}={json.dumps(value)}" for name, value in said(changes).items()]
    return [word for text in texts for word in ("--set", text)]


def filed(folder: Path, changes: dict[str, Any]) -> list[str]:
    path = folder / "my.toml"
    settings = {name.removeprefix("privacy."): value for name, value in changes.items()}
    path.write_text(to_toml({"privacy": settings}))
    return ["--config", str(path)]


def flagged(field: str, value: Any) -> list[str]:
    return [f"--{field}"] if value is True else [f"--{field}", str(value)]


def begin(door: str, field: str, folder: Path, letters: Path) -> None:
    """Starts a run with one wish through one door, all else through ``--set``."""
    wish = WISHES[field]
    base = {"privacy.epsilon": 2.0, **wish.beside}
    base.pop(f"privacy.{field}", None)
    own = {f"privacy.{field}": wish.value}
    verb, way = door.split()
    source = str(letters)
    if verb == "GraphClassifier":
        parameters = {field: wish.value} if way == "parameter" else {}
        settings = {**said(base), **({} if way == "parameter" else own)}
        GraphClassifier(**parameters, settings=settings).fit(load_corpus(source).train)
        raise AssertionError("the fit went on")
    words = {
        "flag": [*assigned(base), *flagged(field, wish.value)],
        "--set": assigned({**base, **own}),
        "--config": [*assigned(base), *filed(folder, own)],
    }[way]
    call(verb, source, *words, "--out", str(folder / "run"))


DOORS = {
    "train flag": FLAGS,
    "train --set": set(WISHES),
    "train --config": set(WISHES),
    "tune flag": TUNE_FLAGS,
    "tune --set": set(WISHES),
    "tune --config": set(WISHES),
    "GraphClassifier parameter": PARAMETERS,
    "GraphClassifier settings": set(WISHES),
}
WALKS = [(door, field) for door, fields in DOORS.items() for field in sorted(fields)]


def test_every_privacy_setting_is_walked() -> None:
    assert set(WISHES) == set(PrivacySettings.model_fields)
    options = {option.replace("-", "_") for option in _options("train")}
    assert options & set(WISHES) == FLAGS
    assert {option.replace("-", "_") for option in _options("tune")} & set(WISHES) == TUNE_FLAGS
    assert set(GraphClassifier().get_params()) & set(WISHES) == PARAMETERS
    assert _options("demo") & set(WISHES) == {"epsilon"}
    assert _options("plan") & set(WISHES) == {"epsilon", "delta", "unit", "relation"}


def _options(verb: str) -> set[str]:
    import typer

    command = typer.main.get_command(app).commands[verb]
    return {str(option.name) for option in command.params}


@stopped
@pytest.mark.parametrize(("door", "field"), WALKS)
def test_a_wish_for_privacy_reaches_the_run_or_is_refused(
    tmp_path: Path, letters: Path, door: str, field: str
) -> None:
    if door.startswith("tune") and field in NOT_SEARCHED:
        with pytest.raises(PrivGCNError, match=NOT_SEARCHED[field]):
            begin(door, field, tmp_path, letters)
        return
    with pytest.raises(BegunError) as begun:
        begin(door, field, tmp_path, letters)
    _check(begun.value, field, searched=door.startswith("tune"))


def _check(begun: BegunError, field: str, *, searched: bool) -> None:
    plan, value = begun.plan, WISHES[field].value
    if not (searched and field == "epsilon"):
        # A search turns its epsilon into the noise of its runs.
        assert getattr(begun.privacy, field) == value
    carried = {
        "parts": plan.partition.parts,
        "sampling": plan.schedule.name,
        "sampling_probability": getattr(plan.schedule, "sampling_probability", None),
        "reproducible": begun.privacy.reproducible,
    }
    if field == "epsilon":
        assert 0.98 * value < plan.epsilon <= value
    else:
        assert carried.get(field, getattr(plan, field, None)) == value


@pytest.mark.parametrize("field", ["epsilon", "delta", "unit", "relation"])
def test_an_outlook_keeps_every_wish(field: str) -> None:
    wishes = {"epsilon": 2.0, field: WISHES[field].value}
    plan = outlook(100, 2, **wishes).plan
    _check(BegunError(PrivacySettings(**wishes), plan), field, searched=False)


@stopped
def test_the_demo_keeps_its_epsilon(tmp_path: Path) -> None:
    with pytest.raises(BegunError) as begun:
        call("demo", "--epsilon", "3", "--out", str(tmp_path / "run"))
    _check(begun.value, "epsilon", searched=False)
    assert begun.value.plan.unit == "person"


@stopped
@pytest.mark.parametrize("verb", ["train", "tune"])
@pytest.mark.parametrize("way", ["--seed", "--set", "--config"])
def test_a_seed_is_never_ignored(
    monkeypatch: Any, tmp_path: Path, letters: Path, verb: str, way: str
) -> None:
    splits: list[int] = []

    def loaded(source: str, **options: Any) -> Corpus:
        splits.append(options["seed"])
        return load_corpus(source, **options)

    monkeypatch.setattr("privgcn.data.load_corpus", loaded)
    file = tmp_path / "my.toml"
    file.write_text("seed = 9\n")
    words = {"--seed": ["--seed", "9"], "--set": ["--set", "seed=9"]}
    words["--config"] = ["--config", str(file)]
    with pytest.raises(BegunError) as begun:
        call(verb, str(letters), "--epsilon", "2", *words[way], "--out", str(tmp_path / "run"))
    assert (begun.value.seed, splits) == (9, [9])


@stopped
def test_the_seed_of_a_classifier_is_never_ignored(letters: Path) -> None:
    train = load_corpus(str(letters)).train
    for model in (GraphClassifier(2.0, seed=9), GraphClassifier(2.0, settings={"seed": 9})):
        with pytest.raises(BegunError) as begun:
            model.fit(train)
        assert begun.value.seed == 9
    assert _resolved(GraphClassifier(seed=4, settings={"seed": 9})).seed == 4


def _resolved(model: GraphClassifier) -> Settings:
    return model._make_settings()


def test_a_recipe_in_the_settings_of_a_classifier_is_that_recipe() -> None:
    by_settings = GraphClassifier(2.0, settings={"recipe": "paper-split"})
    assert _resolved(by_settings) == _resolved(GraphClassifier(2.0, recipe="paper-split"))


@pytest.mark.parametrize(
    ("parameters", "settings", "words"),
    [
        ({"unit": "document"}, {"privacy.unit": "person"}, ["unit='document'", "'person'"]),
        ({"delta": 1e-5}, {"privacy": {"delta": 1e-6}}, ["delta=1e-05", "1e-06"]),
        ({"relation": "remove"}, {"privacy.relation": "replace"}, ["'remove'", "'replace'"]),
        ({"reproducible": False}, {"privacy.reproducible": True}, ["reproducible=False"]),
    ],
)
def test_a_classifier_refuses_contradictions(
    letters: Path, parameters: dict[str, Any], settings: dict[str, Any], words: list[str]
) -> None:
    model = GraphClassifier(2.0, **parameters, settings=settings)
    with pytest.raises(PrivacyContractError, match="must have one value") as refused:
        model.fit(load_corpus(str(letters)).train)
    assert all(word in str(refused.value) for word in words)


def test_a_delta_without_an_epsilon_is_refused(letters: Path) -> None:
    with pytest.raises(PrivacyContractError, match="without an epsilon"):
        GraphClassifier(delta=1e-6).fit(load_corpus(str(letters)).train)


@pytest.mark.parametrize("verb", ["train", "tune"])
def test_contradictions_of_a_command_line_are_refused(
    tmp_path: Path, letters: Path, verb: str
) -> None:
    config = filed(tmp_path, {"privacy.unit": "person"})
    with pytest.raises(
        PrivacyContractError, match=r"--unit document and privacy\.unit = 'person'"
    ):
        call(verb, str(letters), "--epsilon", "2", "--unit", "document", *config)


@pytest.mark.parametrize("verb", ["train", "tune"])
def test_the_statement_of_a_run_carries_every_wish(
    tmp_path: Path, letters: Path, verb: str
) -> None:
    config = filed(tmp_path, {"relation": "replace", "delta": 1e-6, "clip_norm": 0.5})
    words = ["--epsilon", "8", *config, "--set", "privacy.unit=person", "--set", "seed=9"]
    out = tmp_path / "run"
    done = CliRunner().invoke(
        app, [verb, str(letters), *words, "--out", str(out), "--json"], catch_exceptions=False
    )
    record = json.loads(done.stdout)
    statement = record["statement"]
    assert statement["epsilon"] <= 8
    plan = statement["plan"]
    assert (plan["unit"], plan["relation"]) == ("person", "replace")
    assert (plan["delta"], plan["clip_norm"]) == (1e-6, 0.5)
    assert record["settings"]["seed"] == 9
