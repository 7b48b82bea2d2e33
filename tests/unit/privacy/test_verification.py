"""A folder's files against each other."""

import json
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import save

from privgcn.config import to_toml
from privgcn.errors import ConfigError, DataError, PrivacyContractError
from privgcn.privacy.partition_facts import PartitionFacts
from privgcn.privacy.plan import PrivacyPlan
from privgcn.privacy.schedule import AllParts
from privgcn.privacy.statement import PrivacyStatement
from privgcn.privacy.verification import DIGEST_KEY, verify_run, weights_sha256

WEIGHTS = {
    "weight": np.arange(6, dtype=np.float32).reshape(2, 3),
    "bias": np.ones(3, np.float32),
}
SETTINGS = {
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
        plan, releasable=True, model_sha256=weights_sha256(save(WEIGHTS))
    )
    (tmp_path / "statement.json").write_text(statement.to_json())
    (tmp_path / "settings.toml").write_text(to_toml(SETTINGS))
    (tmp_path / "model.safetensors").write_bytes(
        save(WEIGHTS, {DIGEST_KEY: statement.digest()})
    )
    return tmp_path


def reseal(run: Path, **changes: object) -> None:
    """Edits the statement and gives it a matching digest."""
    record = {**json.loads((run / "statement.json").read_text()), **changes}
    record["digest"] = PrivacyStatement.from_json(json.dumps(record)).digest()
    (run / "statement.json").write_text(json.dumps(record))


def test_an_honest_run_holds(run: Path) -> None:
    for path in (run, run / "statement.json"):
        found = verify_run(path)
        assert found.checked == ("statement", "settings", "model", "weights")
        assert 0.999 < found.statement.epsilon <= 1.0


def test_a_statement_alone_holds(run: Path) -> None:
    (run / "settings.toml").unlink()
    (run / "model.safetensors").unlink()
    assert verify_run(run).checked == ("statement",)


@pytest.mark.parametrize("name", ["releasable", "package_version", "accountant_version"])
def test_a_resealed_statement_does_not_match_its_model(run: Path, name: str) -> None:
    # Nothing in epsilon depends on these: only the digest in the model file tells.
    reseal(run, **{name: False if name == "releasable" else "other"})
    (run / "settings.toml").unlink()
    with pytest.raises(PrivacyContractError, match="digest of its statement"):
        verify_run(run)


def test_a_person_is_not_a_document(run: Path) -> None:
    # Same epsilon, same sensitivity: only words and the digest tell.
    record = json.loads((run / "statement.json").read_text())
    reseal(run, unit="person", partition={**record["partition"], "by": "owner"})
    with pytest.raises(PrivacyContractError):
        verify_run(run)


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
        ("[privacy]", "[secrecy]"),
    ],
)
def test_edited_settings_are_noticed(run: Path, old: str, new: str) -> None:
    text = (run / "settings.toml").read_text()
    assert old in text
    (run / "settings.toml").write_text(text.replace(old, new))
    with pytest.raises(PrivacyContractError):
        verify_run(run)


def test_settings_must_be_readable(run: Path) -> None:
    (run / "settings.toml").write_text("privacy = [")
    with pytest.raises(DataError, match="not valid TOML"):
        verify_run(run)
    (run / "settings.toml").write_text('[privacy]\nunit = "node"\n')
    with pytest.raises(ConfigError, match=r"privacy\.unit"):
        verify_run(run)


def test_a_model_saved_with_another_plan_is_noticed(run: Path) -> None:
    plan = verify_run(run).statement.plan().to_dict()
    (run / "model.json").write_text(json.dumps({"plan": plan, "releasable": True}))
    assert verify_run(run).checked[-1] == "record"
    for record in (
        {"plan": {**plan, "steps": 9}, "releasable": True},
        {"plan": None, "releasable": True},
        {"plan": plan, "releasable": False},
    ):
        (run / "model.json").write_text(json.dumps(record))
        with pytest.raises(PrivacyContractError):
            verify_run(run)
    for broken in ("{", "[]"):
        (run / "model.json").write_text(broken)
        with pytest.raises(DataError):
            verify_run(run)


def test_other_weights_are_noticed(run: Path) -> None:
    digest = verify_run(run).statement.digest()
    other = {**WEIGHTS, "bias": np.zeros(3, np.float32)}
    for blob in (
        save(other, {DIGEST_KEY: digest}),
        save(WEIGHTS),
        save(WEIGHTS, {DIGEST_KEY: "0" * 64}),
    ):
        (run / "model.safetensors").write_bytes(blob)
        with pytest.raises(PrivacyContractError):
            verify_run(run)


def test_metadata_does_not_enter_the_hash_of_weights() -> None:
    assert weights_sha256(save(WEIGHTS)) == weights_sha256(save(WEIGHTS, {"a": "b"}))
    renamed = {"weights": WEIGHTS["weight"], "bias": WEIGHTS["bias"]}
    assert weights_sha256(save(WEIGHTS)) != weights_sha256(save(renamed))


def test_missing_and_broken_files(run: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    with pytest.raises(DataError, match="without privacy has no statement"):
        verify_run(tmp_path_factory.mktemp("empty"))
    with pytest.raises(DataError):
        verify_run(run / "nothing.json")
    (run / "model.safetensors").write_bytes(b"not a model")
    with pytest.raises(DataError, match="safetensors"):
        verify_run(run)
    (run / "statement.json").write_bytes(b"\xff\xfe")
    with pytest.raises(DataError, match="UTF-8"):
        verify_run(run)
