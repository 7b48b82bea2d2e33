"""A folder's files against each other."""

import json
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import save

from privgcn.config import to_toml
from privgcn.errors import DataError, PrivacyContractError
from privgcn.privacy.partition import PartitionFacts
from privgcn.privacy.plan import PrivacyPlan
from privgcn.privacy.schedule import AllParts
from privgcn.privacy.statement import PrivacyStatement
from privgcn.privacy.verification import DIGEST_KEY, weights_sha256
from privgcn.runs.folder import MODEL, SETTINGS, STATEMENT, WEIGHTS, read_folder, write_folder
from privgcn.runs.run import verify

TENSORS = {
    "weight": np.arange(6, dtype=np.float32).reshape(2, 3),
    "bias": np.ones(3, np.float32),
}
TREE = {
    "recipe": "auto",
    "seed": 0,
    "training": {"epochs": 3},
    "privacy": {
        "epsilon": 1.0,
        "delta": 1e-5,
        "unit": "document",
        "relation": "remove",
        "parts": "each",
        "sampling": "all",
        "clip_norm": 1.0,
        "accountant": "pld",
        "reproducible": False,
    },
}


@pytest.fixture
def run(tmp_path: Path) -> Path:
    plan = PrivacyPlan.for_epsilon(
        1.0,
        unit="document",
        relation="remove",
        partition=PartitionFacts(kind="each", parts=100),
        schedule=AllParts(100),
        clip_norm=1.0,
        steps=3,
        delta=1e-5,
        units=100,
    )
    statement = PrivacyStatement.of(
        plan, releasable=True, model_sha256=weights_sha256(save(TENSORS))
    )
    files = {
        STATEMENT: statement.to_json(),
        SETTINGS: to_toml(TREE),
        WEIGHTS: save(TENSORS, {DIGEST_KEY: statement.digest()}),
    }
    write_folder(tmp_path / "run", "run", files)
    return tmp_path / "run"


def seal(run: Path, name: str, content: str | bytes | None) -> None:
    """Replaces or removes a file, and gives the folder a manifest that fits."""
    files = {**read_folder(run).files}
    files.pop(name, None)
    if content is not None:
        files[name] = content.encode() if isinstance(content, str) else content
    write_folder(run, "run", files, overwrite=True)


def reseal(run: Path, **changes: object) -> None:
    """Edits the statement and gives it a matching digest."""
    record = {**json.loads((run / STATEMENT).read_text()), **changes}
    record["digest"] = PrivacyStatement.from_json(json.dumps(record)).digest()
    seal(run, STATEMENT, json.dumps(record))


def test_an_honest_run_holds(run: Path) -> None:
    for path in (run, run / "statement.json"):
        found = verify(path)
        assert found.checked == ("statement", "settings", "model", "weights", "manifest")
        assert 0.999 < found.statement.epsilon <= 1.0


def test_a_statement_alone_holds(run: Path, tmp_path: Path) -> None:
    alone = tmp_path / STATEMENT
    alone.write_bytes((run / STATEMENT).read_bytes())
    assert verify(alone).checked == ("statement",)


@pytest.mark.parametrize("name", [STATEMENT, SETTINGS, WEIGHTS])
def test_anything_edited_missing_or_added_is_noticed(run: Path, name: str) -> None:
    content = (run / name).read_bytes()
    # A space at the end of a text means nothing, and is an edit all the same.
    (run / name).write_bytes(content + b" ")
    with pytest.raises(DataError, match=rf"{name} was edited"):
        verify(run)
    (run / name).unlink()
    with pytest.raises(DataError, match=rf"{name} is missing"):
        verify(run)
    (run / name).write_bytes(content)
    verify(run)
    (run / "notes.txt").write_text("mine")
    with pytest.raises(DataError, match=r"notes\.txt was added"):
        verify(run / STATEMENT)


@pytest.mark.parametrize("name", ["noise", "package_version", "accountant_version"])
def test_a_resealed_statement_does_not_match_its_model(run: Path, name: str) -> None:
    # Nothing in epsilon depends on these: only the digest in the model file tells.
    reseal(run, **{name: "seeded" if name == "noise" else "other"})
    seal(run, SETTINGS, None)
    with pytest.raises(PrivacyContractError, match="digest of its statement"):
        verify(run)


def test_a_person_is_not_a_document(run: Path) -> None:
    # Same epsilon, same sensitivity: only facts and the digest tell.
    plan = json.loads((run / "statement.json").read_text())["plan"]
    partition = {**plan["partition"], "by": "owner"}
    reseal(run, plan={**plan, "unit": "person", "partition": partition})
    with pytest.raises(PrivacyContractError):
        verify(run)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("epsilon = 1.0", "epsilon = 0.5"),
        ("epsilon = 1.0", "epsilon = 2.0"),
        ("epsilon = 1.0", ""),
        ("epsilon = 1.0", "noise_multiplier = 100.0"),
        ("delta = 1e-05", "delta = 1e-06"),
        ('unit = "document"', 'unit = "person"'),
        ('relation = "remove"', 'relation = "replace"'),
        ('parts = "each"', "parts = 10"),
        ('parts = "each"', 'parts = "column:year"'),
        ('sampling = "all"', 'sampling = "poisson"'),
        ("clip_norm = 1.0", "clip_norm = 2.0"),
        ('accountant = "pld"', 'accountant = "rdp"'),
        ("reproducible = false", "reproducible = true"),
        ("epochs = 3", "epochs = 30"),
    ],
)
def test_edited_settings_are_noticed(run: Path, old: str, new: str) -> None:
    text = (run / "settings.toml").read_text()
    assert old in text
    seal(run, SETTINGS, text.replace(old, new))
    with pytest.raises(PrivacyContractError):
        verify(run)


def test_a_claim_needs_private_settings(run: Path) -> None:
    text = (run / "settings.toml").read_text()
    seal(run, SETTINGS, text[: text.index("[privacy]")])
    with pytest.raises(PrivacyContractError, match=r"\[privacy\]"):
        verify(run)


def test_settings_must_be_readable(run: Path) -> None:
    for broken, words in (
        ("privacy = [", "not valid TOML"),
        ("a = " + "[" * 5000, "not valid TOML"),
        ('[privacy]\nunit = "node"\n', r"privacy\.unit"),
        ("[secrecy]\na = 1\n", "secrecy"),
    ):
        seal(run, SETTINGS, broken)
        with pytest.raises(DataError, match=words):
            verify(run)


def test_a_model_saved_with_another_plan_is_noticed(run: Path) -> None:
    plan = verify(run).statement.plan.to_dict()
    seal(run, MODEL, json.dumps({"plan": plan, "releasable": True}))
    assert "record" in verify(run).checked
    for record in (
        {"plan": {**plan, "steps": 9}, "releasable": True},
        {"plan": None, "releasable": True},
        {"plan": plan, "releasable": False},
        {},
    ):
        seal(run, MODEL, json.dumps(record))
        with pytest.raises(PrivacyContractError):
            verify(run)
    for broken in ("{", "[]", "[" * 100_000, '{"plan": 1, "plan": 2}'):
        seal(run, MODEL, broken)
        with pytest.raises(DataError):
            verify(run)


def test_other_weights_are_noticed(run: Path) -> None:
    digest = verify(run).statement.digest()
    other = {**TENSORS, "bias": np.zeros(3, np.float32)}
    for blob in (
        save(other, {DIGEST_KEY: digest}),
        save(TENSORS),
        save(TENSORS, {DIGEST_KEY: "0" * 64}),
    ):
        seal(run, WEIGHTS, blob)
        with pytest.raises(PrivacyContractError):
            verify(run)


def test_metadata_does_not_enter_the_hash_of_weights() -> None:
    assert weights_sha256(save(TENSORS)) == weights_sha256(save(TENSORS, {"a": "b"}))
    renamed = {"weights": TENSORS["weight"], "bias": TENSORS["bias"]}
    assert weights_sha256(save(TENSORS)) != weights_sha256(save(renamed))


def test_missing_and_broken_files(run: Path, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    with pytest.raises(DataError, match="has no manifest"):
        verify(tmp_path / "empty")
    with pytest.raises(DataError, match="does not exist"):
        verify(tmp_path / "nothing.json")
    deep = tmp_path / STATEMENT
    deep.write_text("[" * 100_000)
    with pytest.raises(PrivacyContractError, match="nested too deeply"):
        verify(deep)
    deep.write_bytes(b"\xff\xfe")
    with pytest.raises(DataError, match="UTF-8"):
        verify(deep)
    for blob in (b"not a model", b"\x08" + bytes(7) + b"[1, 2]  ", bytes(8)):
        seal(run, WEIGHTS, blob)
        with pytest.raises(DataError, match="safetensors"):
            verify(run)
    seal(run, STATEMENT, b"\xff\xfe")
    with pytest.raises(DataError, match="UTF-8"):
        verify(run)


def test_a_run_without_privacy_has_nothing_to_verify(tmp_path: Path) -> None:
    write_folder(tmp_path / "run", "run", {SETTINGS: to_toml({"recipe": "plain"})})
    with pytest.raises(DataError, match="trained without privacy"):
        verify(tmp_path / "run")
