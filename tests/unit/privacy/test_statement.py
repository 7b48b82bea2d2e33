"""The statement says what the plan gives, reads back, and notices edits."""

import contextlib
import json
from typing import Any, get_args

import pytest
from pydantic import ValidationError

from privgcn.errors import ConfigError, PrivacyContractError
from privgcn.privacy.accounting.events import GaussianQuery
from privgcn.privacy.claim import Fact, Gap, Public
from privgcn.privacy.partition import PartitionFacts
from privgcn.privacy.plan import PrivacyPlan
from privgcn.privacy.schedule import AllParts, EpochParts, PoissonParts
from privgcn.privacy.statement import PrivacyStatement
from privgcn.privacy.statement_text import in_words, round_up


def plan(**changes: Any) -> PrivacyPlan:
    fields: dict[str, Any] = {
        "unit": "document",
        "relation": "remove",
        "partition": PartitionFacts(kind="random", parts=10, seed=4),
        "schedule": PoissonParts(10, 0.2),
        "clip_norm": 0.5,
        "noise_multiplier": 8.0,
        "steps": 30,
        "delta": 1e-5,
        "units": 100,
        "side_queries": (GaussianQuery("class counts", 40.0, 2),),
    }
    return PrivacyPlan(**{**fields, **changes})


@pytest.fixture(scope="module")
def statement() -> PrivacyStatement:
    return PrivacyStatement.of(
        plan(),
        releasable=True,
        assumed_public=["The column 'year'."],
        not_covered=["The vocabulary, fitted on training texts."],
        model_sha256="ab" * 32,
    )


def test_it_claims_what_the_plan_gives(statement: PrivacyStatement) -> None:
    assert statement.epsilon == plan().epsilon
    assert statement.epsilon_without_amplification == plan().epsilon_without_amplification
    assert statement.sensitivity == 2
    assert statement.noise_std == 4.0
    assert statement.delta_times_units == pytest.approx(1e-3)
    assert statement.plan == plan()
    statement.verify()


def test_it_reads_back_as_the_same(statement: PrivacyStatement) -> None:
    again = PrivacyStatement.from_json(statement.to_json())
    assert again == statement
    assert again.digest() == json.loads(statement.to_json())["digest"]
    again.verify()


# Every leaf of the JSON, with another value of its type: none may pass.
def edits(record: Any, path: tuple[Any, ...] = ()) -> list[tuple[tuple[Any, ...], Any]]:
    if isinstance(record, dict):
        return [edit for key, value in record.items() for edit in edits(value, (*path, key))]
    if isinstance(record, list):
        inner = [e for place, value in enumerate(record) for e in edits(value, (*path, place))]
        return [*inner, (path, record[:-1])] if record else inner
    if isinstance(record, bool):
        return [(path, not record)]
    if isinstance(record, int):
        return [(path, record + 1), (path, max(record - 1, 0))]
    if isinstance(record, float):
        return [(path, record * 1.001), (path, record * 0.5), (path, record + 1.0)]
    if isinstance(record, str):
        return [(path, record + "x"), (path, "")]
    return [(path, 1), (path, "x")]


def notices_every_edit(original: str) -> int:
    """Edits each field of a statement alone; returns how many edits there were."""
    tried = 0
    for path, value in edits(json.loads(original)):
        record = json.loads(original)
        node = record
        for key in path[:-1]:
            node = node[key]
        if node[path[-1]] == value:
            continue
        node[path[-1]] = value
        with pytest.raises(PrivacyContractError):
            PrivacyStatement.from_json(json.dumps(record)).verify()
        tried += 1
    return tried


def test_every_single_edit_is_noticed(statement: PrivacyStatement) -> None:
    assert notices_every_edit(statement.to_json()) > 70


def verify_resealed(record: dict[str, Any]) -> PrivacyStatement:
    """Gives an edited statement a matching digest, and verifies it."""
    digest = PrivacyStatement.from_json(json.dumps(record)).digest()
    statement = PrivacyStatement.from_json(json.dumps({**record, "digest": digest}))
    statement.verify()
    return statement


def test_a_resealed_statement_without_edits_verifies(statement: PrivacyStatement) -> None:
    record = json.loads(statement.to_json())
    assert verify_resealed(record).digest() == record["digest"]


@pytest.mark.parametrize(
    "change",
    [
        {"epsilon": 0.1},
        {"plan": {"noise_multiplier": 80.0}},
        {"plan": {"steps": 3}},
        {"plan": {"delta": 1e-3}},
        {"plan": {"unit": "part"}},
        {"plan": {"schedule": {"name": "epoch", "parts": 10}}},
        {"plan": {"units": 5}},
        {"plan": {"units": 1_000_000}},
        {"plan": {"accountant": "rdp"}},
        {"plan": {"accountant": "moments"}},
        {"plan": {"side_queries": []}},
        {"plan": {"unit": "part", "relation": "remove"}},
        {"epsilon_without_amplification": 0.1},
        {"notes": []},
        {"notes": ["one_grid", "noisy_sums"]},
        {"not_covered": []},
        {"assumed_public": []},
        {"assumed_public": [{"code": "index_set"}, {"code": "cut"}]},
        {"not_covered": [{"code": "logs"}]},
        {"inference_modes": [{"mode": "full-graph", "covered": True}]},
        {"inference_modes": [{"mode": "alone", "covered": True}]},
        {"inference_modes": []},
    ],
    ids=str,
)
def test_an_edit_is_noticed_even_with_a_fresh_digest(
    statement: PrivacyStatement, change: dict[str, Any]
) -> None:
    record = {**json.loads(statement.to_json()), **change}
    record["plan"] = {**json.loads(statement.to_json())["plan"], **change.get("plan", {})}
    with pytest.raises(PrivacyContractError):
        verify_resealed(record)


def test_reading_is_strict(statement: PrivacyStatement) -> None:
    text = statement.to_json()
    record = json.loads(text)
    for broken in (
        "",
        "[]",
        "{",
        text.replace('"steps": 30', '"steps": 30, "steps": 3'),
        text.replace('"steps": 30', '"steps": "30"'),
        text.replace('"steps": 30', '"steps": 30.5'),
        text.replace('"epsilon":', '"epsilon": NaN, "old":'),
        json.dumps({**record, "remark": "none"}),
        json.dumps({key: value for key, value in record.items() if key != "plan"}),
        json.dumps({**record, "epsilon": None}),
        json.dumps({**record, "schema_version": 3}),
        json.dumps({**record, "noise": "none"}),
        json.dumps({**record, "assumed_public": ["The number of features."]}),
        json.dumps({**record, "not_covered": [{"code": "anything"}]}),
        json.dumps({**record, "not_covered": [{"code": "logs", "count": 3}]}),
        json.dumps({**record, "not_covered": [{"code": "classes_from_labels"}]}),
        json.dumps({key: record[key] for key in record if key != "model_sha256"}),
    ):
        with pytest.raises(PrivacyContractError):
            PrivacyStatement.from_json(broken)


def test_it_is_frozen_and_made_from_plans_only(statement: PrivacyStatement) -> None:
    with pytest.raises(ValidationError):
        statement.epsilon = 0.1
    with pytest.raises(PrivacyContractError):
        PrivacyStatement.of({"epsilon": 1.0}, releasable=True)  # type: ignore[arg-type]
    with pytest.raises(ConfigError):
        PrivacyStatement.of(plan(), releasable="no")  # type: ignore[arg-type]
    with pytest.raises(ConfigError):
        PrivacyStatement.of(plan(), releasable=True, model_sha256="abc")
    with pytest.raises(ConfigError):
        PrivacyStatement.of(plan(), releasable=True, not_covered=[3])  # type: ignore[list-item]


def test_a_changed_copy_does_not_verify(statement: PrivacyStatement) -> None:
    with pytest.raises(PrivacyContractError):
        statement.model_copy(update={"epsilon": 0.01}).verify()
    with pytest.raises(PrivacyContractError):
        statement.model_copy(update={"noise": "seeded"}).verify()


def test_the_page_begins_with_the_claim(statement: PrivacyStatement) -> None:
    page = str(statement)
    lines = page.splitlines()
    assert lines[2].startswith(f"epsilon <= {round_up(statement.epsilon)} at delta = 1e-05")
    assert "without amplification" in lines[3]
    for words in (
        "one document",
        "Not covered",
        "The vocabulary, fitted on training texts.",
        "NOT covered",
        "Assumed to be public",
        "The column 'year'.",
        "add up",
        "multiples of one step size",
        "dp-accounting",
        "class counts",
        "may be released",
        statement.digest(),
    ):
        assert words in page
    assert "MUST NOT" not in page
    assert "weak" not in page


def test_the_page_warns() -> None:
    seeded = PrivacyStatement.of(plan(delta=5e-3), releasable=False)
    assert "MUST NOT BE RELEASED" in str(seeded)
    assert "delta is weak" in str(seeded)
    graph = PrivacyStatement.of(
        plan(
            unit="graph",
            partition=PartitionFacts(kind="single", parts=1),
            schedule=AllParts(1),
            accountant="moments",
        ),
        releasable=True,
    )
    assert "everything at once" in str(graph)
    assert "comparison with published figures" in str(graph)
    column = PrivacyStatement.of(
        plan(
            partition=PartitionFacts(kind="column", parts=10, column="year"),
            schedule=EpochParts(10),
        ),
        releasable=True,
    )
    assert "column 'year', declared public" in str(column)
    assert "30 noisy sums, accounted as 3" in str(column)
    assert Fact("partition_column") in column.assumed_public


def test_no_sentence_is_stored_but_those_that_somebody_declared() -> None:
    """What is verified are codes and numbers: other words for a code change no statement."""
    record = json.loads(PrivacyStatement.of(plan(), releasable=True).to_json())
    for name in ("assumed_public", "not_covered"):
        assert all(set(fact) == {"code"} for fact in record[name])
    assert record["notes"] == ["releases_add_up", "noisy_sums", "one_grid"]
    assert record["plan"] == plan().to_dict()
    assert not set(record) & set(record["plan"])


def test_every_code_has_words_that_fit_its_parameters(statement: PrivacyStatement) -> None:
    for code in {*get_args(Public), *get_args(Gap)}:
        found = None
        for parameters in (
            {},
            {"count": 12345},
            {"detail": "some {braces} here"},
            {"count": 12345, "kind": "hashing"},
        ):
            with contextlib.suppress(ConfigError):
                found = Fact(code, **parameters)
                words = in_words(statement, [found])[0]
                assert words
                assert all(str(value) in words for value in parameters.values())
        assert found is not None, code


@pytest.mark.parametrize("unit", ["document", "person", "part", "graph"])
def test_the_page_says_who_is_protected(unit: str) -> None:
    by = "owner" if unit == "person" else "document"
    made = plan(
        unit=unit,
        partition=PartitionFacts(kind="single", parts=1, by=by),  # type: ignore[arg-type]
        schedule=AllParts(1),
        accountant="rdp",
    )
    page = " ".join(str(PrivacyStatement.of(made, releasable=True)).split())
    name = "The whole training graph" if unit == "graph" else f"One {unit}"
    assert f"{name} is protected: " in page


def test_numbers_for_people_are_rounded_up() -> None:
    assert round_up(0.99999) == "1.000"
    assert round_up(1.0) == "1.000" or round_up(1.0) == "1"
    assert round_up(2.4019) == "2.402"
    assert round_up(2.40201) == "2.403"
    assert round_up(0.0) == "0"
    assert float(round_up(1.23456e-9)) >= 1.23456e-9
    assert float(round_up(5.000001e13)) >= 5.000001e13
