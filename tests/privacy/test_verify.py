"""Statement, settings, record and weights against each other."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import save

from privacy.plans import OWNERS, plan
from privgcn.config import parse_settings
from privgcn.errors import DataError, PrivacyContractError
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


RECORD: dict[str, Any] = {
    "classes": ["a", "b", "c"],
    "matching": {"rate": 0.5, "rounds": 3},
    "featurizer": {"kind": "hashing", "idf": None},
}
STATEMENT = PrivacyStatement.of(
    plan(), releasable=True, model_sha256=model_sha256(save(TENSORS), RECORD, SETTINGS)
)


def check(statement: PrivacyStatement = STATEMENT, **changes: Any) -> None:
    weights = save(TENSORS, {DIGEST_KEY: STATEMENT.digest})
    files = {"settings": SETTINGS, "record": RECORD, "weights": weights, **changes}
    check_claim(statement, **files, where=Path("run"))


def test_an_honest_run_holds_wherever_its_documents_came_from() -> None:
    check()
    check(settings=SETTINGS.changed({"data": {}}))


# hazard 28: every field and every tensor of a run are tried in tests/runs/test_verify.py
def test_another_record_other_settings_and_other_weights_are_noticed() -> None:
    named = {DIGEST_KEY: STATEMENT.digest}
    turned = {**TENSORS, "weight": TENSORS["weight"].reshape(3, 2)}  # the same bytes
    retyped = {**TENSORS, "bias": TENSORS["bias"].view(np.int32)}
    for change in (
        {"record": {**RECORD, "classes": ["c", "b", "a"]}},
        {"record": {**RECORD, "remark": 1}},
        {"settings": SETTINGS.changed({"seed": 1})},
        {"settings": SETTINGS.changed({"privacy": None})},
        {"weights": save(turned, named)},
        {"weights": save(retyped, named)},
        {"weights": save(TENSORS)},
        {"weights": save(TENSORS, {DIGEST_KEY: "0" * 64})},
    ):
        with pytest.raises(PrivacyContractError, match=r"SHA-256|\[privacy\]|digest"):
            check(**change)
    for blob in (b"not a model", b"\x08" + bytes(7) + b"[1, 2]  ", bytes(8)):
        with pytest.raises(DataError, match="safetensors"):
            check(weights=blob)


def test_a_resealed_statement_does_not_match_its_model() -> None:
    def resealed(**changes: Any) -> PrivacyStatement:
        made = replace(STATEMENT, **changes)
        return replace(made, digest=made.computed_digest())

    # Nothing in epsilon depends on these: only the digest in the model file tells.
    for change in ({"noise": "seeded"}, {"package_version": "other"}, {"model_sha256": None}):
        resealed(**change).verify()
        with pytest.raises(PrivacyContractError):
            check(resealed(**change))
    # Of a person, epsilon and sensitivity are the same: facts tell as well.
    person = replace(STATEMENT.plan, unit="person", partition=OWNERS)
    with pytest.raises(PrivacyContractError, match="told_by_other_people"):
        resealed(plan=person).verify()


def test_the_hash_is_the_same_before_and_after_the_disk() -> None:
    record = {"a": np.float64(0.5), "b": (1, 2), "d": {"e": None}, "f": {10: 1, 9: 2}}
    read = json.loads(json.dumps(dict(reversed(record.items()))))
    settings = parse_settings(SETTINGS.model_dump(exclude_none=True))
    made = model_sha256(save(TENSORS), record, SETTINGS)
    assert made == model_sha256(save(TENSORS, {"x": "y"}), read, settings)
    with pytest.raises(ValueError, match="not JSON compliant"):
        model_sha256(save(TENSORS), {"a": float("nan")}, SETTINGS)
