"""Statements that were written by schema 1 still read, verify and show edits."""

import json
from pathlib import Path
from typing import Any

import pytest

from privgcn.errors import PrivacyContractError
from privgcn.privacy.claim import Fact
from privgcn.privacy.statement import PrivacyStatement
from privgcn.privacy.verification import check_claim
from privgcn.runs.run import verify
from unit.privacy.test_statement import notices_every_edit, verify_resealed

FOLDER = Path(__file__).parent / "schema1"
FILES = sorted(FOLDER.glob("*.json"))


def read(name: str) -> PrivacyStatement:
    return PrivacyStatement.from_json((FOLDER / f"{name}.json").read_text(encoding="utf-8"))


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_a_statement_of_schema_1_verifies_and_keeps_its_digest(path: Path) -> None:
    record = json.loads(path.read_text(encoding="utf-8"))
    statement = PrivacyStatement.from_json(path.read_text(encoding="utf-8"))
    statement.verify()
    assert statement.digest() == statement.stored_digest == record["digest"]
    assert statement.to_json() == path.read_text(encoding="utf-8")
    for name in ("epsilon", "delta", "unit", "relation", "steps", "releasable", "sensitivity"):
        assert getattr(statement, name) == record[name]
    for line in (record["epsilon"], "NOT covered", record["digest"]):
        assert (line if isinstance(line, str) else "epsilon <=") in str(statement)


def test_the_recipes_units_relations_and_schedules_are_among_them() -> None:
    found = [PrivacyStatement.from_json(path.read_text(encoding="utf-8")) for path in FILES]
    kinds = {(one.unit, one.relation) for one in found}
    assert kinds >= {
        ("document", "remove"),
        ("document", "replace"),
        ("person", "remove"),
        ("person", "replace"),
        ("part", "remove"),
        ("graph", "remove"),
    }
    assert {one.sampling for one in found} == {"all", "poisson", "epoch"}
    assert {one.partition.kind for one in found} == {"each", "random", "column", "single"}
    assert {one.selection is None for one in found} == {True, False}


def test_sentences_that_every_statement_had_become_codes() -> None:
    statement = read("auto-person")
    codes = [fact.code for fact in (*statement.assumed_public, *statement.not_covered)]
    assert {"index_set", "cut", "unit_count", "told_by_other_people", "logs"} <= set(codes)
    assert statement.notes == ("releases_add_up", "noisy_sums", "one_grid")
    assert Fact("other", detail="Features: 4096 of kind 'hashing'.") in statement.assumed_public
    assert "partition_column" in [fact.code for fact in read("column").assumed_public]
    public = read("tune-public-validation").assumed_public
    assert "public_validation" in [fact.code for fact in public]


@pytest.mark.parametrize("name", ["auto-document", "tune", "paper-split-poisson"])
def test_every_single_edit_of_a_schema_1_statement_is_noticed(name: str) -> None:
    original = (FOLDER / f"{name}.json").read_text(encoding="utf-8")
    assert notices_every_edit(original) > 50


@pytest.mark.parametrize(
    "change",
    [
        {"epsilon": 0.1},
        {"noise_multiplier": 80.0},
        {"relation": "replace", "sensitivity": 1},
        {"sampling_probability": 0.01},
        {"sensitivity": 1.0},
        {"noise_std": 3.0},
        {"accounted_steps": 1},
        {"weak_delta": True},
        {"delta_times_units": 0.001},
        {"notes": []},
        {"not_covered": []},
        {"assumed_public": []},
        {"inference_modes": [{"mode": "full-graph", "covered": True, "sees": "all"}]},
        {"plan": {}},
        {"releasable": 1.5},
        {"partition": None},
        {"notes": 3},
    ],
    ids=str,
)
def test_an_edit_is_noticed_even_with_a_fresh_digest(change: dict[str, Any]) -> None:
    original = (FOLDER / "auto-document.json").read_text(encoding="utf-8")
    record = {**json.loads(original), **change}
    with pytest.raises(PrivacyContractError):
        verify_resealed(record)


def test_a_changed_copy_does_not_verify() -> None:
    for change in ({"noise": "seeded"}, {"not_covered": ()}, {"package_version": "other"}):
        with pytest.raises(PrivacyContractError):
            read("auto-document").model_copy(update=change).verify()


def test_a_run_of_schema_1_holds_together() -> None:
    run = FOLDER / "run"
    statement = PrivacyStatement.from_json((run / "statement.json").read_text("utf-8"))
    weights = (run / "model.safetensors").read_bytes()
    found = verify(run)
    assert found.statement == statement
    assert found.checked == ("statement", "settings", "model", "weights", "record", "manifest")
    with pytest.raises(PrivacyContractError, match="digest of its statement"):
        check_claim(read("auto-document"), weights=weights, where=run)
