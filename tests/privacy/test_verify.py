"""Statement, settings, record and weights against each other."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import save

from privacy.plans import plan
from privgcn.config import parse_settings
from privgcn.errors import DataError, PrivacyContractError
from privgcn.privacy.plan import PrivacyPlan
from privgcn.privacy.statement import PrivacyStatement
from privgcn.privacy.verify import DIGEST_KEY, check_claim, model_sha256

pytestmark = pytest.mark.quick

TENSORS = {
    "weight": np.arange(6, dtype=np.float32).reshape(2, 3),
    "bias": np.ones(3, np.float32),
}
SETTINGS = parse_settings(
    {
        "recipe": "auto",
        "data": {"source": "letters"},
        "features": {"kind": "hashing", "options": {"size": 64, "words": [1, 2]}},
        "training": {"epochs": 30},
        "privacy": {"epsilon": 1.0, "clip_norm": 0.5, "accountant": "pld"},
    }
)
WHERE = Path("run")


class Files:
    """What the folder of a run holds."""

    def __init__(self) -> None:
        fields = {name: getattr(plan(), name) for name in PrivacyPlan.__dataclass_fields__}
        del fields["noise_multiplier"]
        made = PrivacyPlan.for_epsilon(1.0, **fields)
        self.settings = SETTINGS
        self.record: dict[str, Any] = {
            "classes": ["a", "b", "c"],
            "matching": {"rate": 0.5, "rounds": 3},
            "featurizer": {"kind": "hashing", "idf": None},
        }
        hashed = model_sha256(save(TENSORS), self.record, SETTINGS.model_dump())
        self.statement = PrivacyStatement.of(made, releasable=True, model_sha256=hashed)
        self.weights = save(TENSORS, {DIGEST_KEY: self.statement.digest()})

    def check(self, **changes: Any) -> tuple[str, ...]:
        given = {
            "settings": self.settings,
            "record": self.record,
            "weights": self.weights,
            **changes,
        }
        return check_claim(given.pop("statement", self.statement), **given, where=WHERE)


@pytest.fixture
def files() -> Files:
    return Files()


def test_an_honest_run_holds(files: Files) -> None:
    assert files.check() == ("statement", "settings", "record", "model")
    assert check_claim(files.statement, where=WHERE) == ("statement",)


# hazard 28
@pytest.mark.parametrize(
    "change",
    [
        {"classes": ["c", "b", "a"]},
        {"classes": ["a", "b"]},
        {"matching": {"rate": 0.9, "rounds": 3}},
        {"matching": {"rate": 0.5, "rounds": 4}},
        {"matching": None},
        {"featurizer": {"kind": "static", "idf": None}},
        {"featurizer": {"kind": "hashing"}},
        {"remark": 1},
    ],
    ids=str,
)
def test_an_edited_record_is_noticed(files: Files, change: dict[str, Any]) -> None:
    with pytest.raises(PrivacyContractError):
        files.check(record={**files.record, **change})
    for name in files.record:
        with pytest.raises(PrivacyContractError):
            files.check(record={k: v for k, v in files.record.items() if k != name})


# hazard 28
@pytest.mark.parametrize(
    "change",
    [
        {"seed": 1},
        {"features.options": {"size": 32}},
        {"prediction.hops": 3},
        {"privacy.epsilon": None},
        {"privacy.unit": "person"},
        {"privacy.parts": "column:year"},
        {"privacy.reproducible": True},
        {"privacy": None},
        {"training.epochs": 3},
    ],
    ids=str,
)
def test_edited_settings_are_noticed(files: Files, change: dict[str, Any]) -> None:
    with pytest.raises(PrivacyContractError):
        files.check(settings=SETTINGS.changed(change))


def test_where_the_documents_came_from_is_no_part_of_a_model(files: Files) -> None:
    public = SETTINGS.changed({"data": {}})
    assert files.check(settings=public) == files.check()


# hazard 28
def test_other_weights_are_noticed(files: Files) -> None:
    digest = files.statement.digest()
    other = {**TENSORS, "bias": np.zeros(3, np.float32)}
    renamed = {"weights": TENSORS["weight"], "bias": TENSORS["bias"]}
    for blob in (
        save(other, {DIGEST_KEY: digest}),
        save(renamed, {DIGEST_KEY: digest}),
        save(TENSORS),
        save(TENSORS, {DIGEST_KEY: "0" * 64}),
    ):
        with pytest.raises(PrivacyContractError):
            files.check(weights=blob)
    for blob in (b"not a model", b"\x08" + bytes(7) + b"[1, 2]  ", bytes(8)):
        with pytest.raises(DataError, match="safetensors"):
            files.check(weights=blob)


@pytest.mark.parametrize("name", ["noise", "package_version", "model_sha256"])
def test_a_resealed_statement_does_not_match_its_model(files: Files, name: str) -> None:
    # Nothing in epsilon depends on these: only the digest in the model file tells.
    value = {"noise": "seeded", "package_version": "other", "model_sha256": None}[name]
    record = {**json.loads(files.statement.to_json()), name: value}
    record["digest"] = PrivacyStatement.from_json(json.dumps(record)).digest()
    resealed = PrivacyStatement.from_json(json.dumps(record))
    resealed.verify()
    with pytest.raises(PrivacyContractError):
        files.check(statement=resealed)


def test_a_person_is_not_a_document(files: Files) -> None:
    # Same epsilon, same sensitivity: only facts and the digest tell.
    record = json.loads(files.statement.to_json())
    record["plan"]["unit"] = "person"
    record["plan"]["partition"]["by"] = "owner"
    record["digest"] = PrivacyStatement.from_json(json.dumps(record)).digest()
    with pytest.raises(PrivacyContractError, match="told_by_other_people"):
        check_claim(PrivacyStatement.from_json(json.dumps(record)), where=WHERE)


def test_the_hash_is_the_same_before_and_after_the_disk() -> None:
    record = {"a": np.float64(0.5), "b": (1, 2), "c": np.arange(3), "d": {"e": None}}
    read = json.loads(json.dumps({"b": [1, 2], "a": 0.5, "d": {"e": None}, "c": [0, 1, 2]}))
    tree = SETTINGS.model_dump()
    again = parse_settings(SETTINGS.model_dump(exclude_none=True)).model_dump()
    assert model_sha256(save(TENSORS), record, tree) == model_sha256(
        save(TENSORS, {"x": "y"}), read, again
    )
    with pytest.raises(ValueError, match="plain values"):
        model_sha256(save(TENSORS), {"a": object()}, tree)
    with pytest.raises(ValueError, match="not JSON compliant"):
        model_sha256(save(TENSORS), {"a": float("nan")}, tree)
