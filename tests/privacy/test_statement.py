"""The statement says what the plan gives, reads back, and notices edits."""

import contextlib
import json
import math
from typing import Any

import pytest
from pydantic import ValidationError

from privacy.plans import RANDOM, SINGLE, plan, statement
from privgcn.errors import ConfigError, PrivacyContractError
from privgcn.privacy.plan import PartitionFacts, Schedule
from privgcn.privacy.statement import Fact, PrivacyStatement
from privgcn.privacy.wording import GAPS, PUBLIC, explained, guarantee_line, in_words, round_up

POISSON: dict[str, Any] = {
    "partition": RANDOM,
    "schedule": Schedule("poisson", 10, 0.2),
    "noise_multiplier": 8.0,
}
COLUMN: dict[str, Any] = {
    "partition": PartitionFacts(kind="column", groups=10, column="year"),
    "schedule": Schedule("epoch", 10),
}
GRAPH: dict[str, Any] = {"unit": "graph", "partition": SINGLE, "schedule": Schedule("all", 1)}


@pytest.fixture(scope="module")
def stated() -> PrivacyStatement:
    return PrivacyStatement.of(
        plan(**POISSON),
        releasable=True,
        assumed_public=["The column 'year'."],
        not_covered=["The vocabulary, fitted on training texts."],
        model_sha256="ab" * 32,
    )


def flat(text: object) -> str:
    return " ".join(str(text).split())


def test_it_claims_what_the_plan_gives(stated: PrivacyStatement) -> None:
    made = plan(**POISSON)
    assert stated.epsilon == made.epsilon
    assert stated.epsilon_without_amplification == made.epsilon_without_amplification
    assert stated.plan == made
    assert (stated.sensitivity, stated.steps, stated.units) == (2, 30, 100)
    stated.verify()


def test_it_reads_back_as_the_same(stated: PrivacyStatement) -> None:
    again = PrivacyStatement.from_json(stated.to_json())
    assert again == stated
    assert again.digest() == json.loads(stated.to_json())["digest"]
    again.verify()


# --- edits ----------------------------------------------------------------------------------


# Every leaf of the JSON, with another value of its type: none may pass.
def edits(record: Any, path: tuple[Any, ...] = ()) -> list[tuple[tuple[Any, ...], Any]]:
    if isinstance(record, dict):
        return [edit for key, value in record.items() for edit in edits(value, (*path, key))]
    if isinstance(record, list):
        inner = [e for at, value in enumerate(record) for e in edits(value, (*path, at))]
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


# hazard 28
def test_every_single_edit_is_noticed() -> None:
    original = PrivacyStatement.of(
        plan(partition=RANDOM, schedule=Schedule("all", 10)),
        releasable=True,
        not_covered=["More."],
    ).to_json()
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
    assert tried > 70


def verify_resealed(record: dict[str, Any]) -> None:
    """Gives an edited statement a matching digest, and verifies it."""
    digest = PrivacyStatement.from_json(json.dumps(record)).digest()
    PrivacyStatement.from_json(json.dumps({**record, "digest": digest})).verify()


# hazards 25 and 28
@pytest.mark.parametrize(
    "change",
    [
        {"epsilon": 0.1},
        {"plan": {"noise_multiplier": 80.0}},
        {"plan": {"steps": 3}},
        {"plan": {"delta": 1e-3}},
        {"plan": {"unit": "part"}},
        {"plan": {"schedule": {"name": "epoch", "groups": 10, "sampling_probability": None}}},
        {"plan": {"units": 5}},
        {"plan": {"units": 1_000_000}},
        {"plan": {"accountant": "rdp"}},
        {"plan": {"accountant": "moments"}},
        {"plan": {"unit": "part", "relation": "remove"}},
        {"epsilon_without_amplification": 0.1},
        {"not_covered": []},
        {"assumed_public": []},
        {"assumed_public": [{"code": "index_set"}, {"code": "partition"}]},
        {"not_covered": [{"code": "logs"}]},
        {"inference_modes": [{"mode": "full-graph", "covered": True}]},
        {"inference_modes": [{"mode": "alone", "covered": True}]},
        {"inference_modes": []},
    ],
    ids=str,
)
def test_an_edit_is_noticed_even_with_a_fresh_digest(
    stated: PrivacyStatement, change: dict[str, Any]
) -> None:
    record = {**json.loads(stated.to_json()), **change}
    verify_resealed(json.loads(stated.to_json()))
    record["plan"] = {**json.loads(stated.to_json())["plan"], **change.get("plan", {})}
    with pytest.raises(PrivacyContractError):
        verify_resealed(record)


def test_reading_is_strict(stated: PrivacyStatement) -> None:
    text = stated.to_json()
    record = json.loads(text)
    for broken in (
        "",
        "[]",
        "{",
        "[" * 100_000,
        text.replace('"steps": 30', '"steps": 30, "steps": 3'),
        text.replace('"steps": 30', '"steps": "30"'),
        text.replace('"steps": 30', '"steps": 30.5'),
        text.replace('"epsilon":', '"epsilon": NaN, "old":'),
        *(json.dumps({k: v for k, v in record.items() if k != name}) for name in record),
        *(
            json.dumps({**record, **change})
            for change in (
                {"remark": "none"},
                {"epsilon": None},
                {"schema_version": 2},
                {"noise": "none"},
                {"assumed_public": ["The number of features."]},
                {"not_covered": [{"code": "anything"}]},
                {"not_covered": [{"code": "logs", "count": 3}]},
                {"not_covered": [{"code": "classes_from_labels"}]},
            )
        ),
    ):
        with pytest.raises(PrivacyContractError):
            PrivacyStatement.from_json(broken)


# hazard 30
@pytest.mark.parametrize(
    "change",
    [
        {"assumed_public": [{"code": "other", "detail": f"{at}"} for at in range(10_000)]},
        {"not_covered": [{"code": "other", "detail": "x" * 30_000}]},
        {"inference_modes": [{"mode": "alone", "covered": True}] * 1000},
        {"package_version": "x" * 1000},
    ],
    ids=lambda change: next(iter(change)),
)
def test_lists_and_texts_are_bounded(stated: PrivacyStatement, change: dict[str, Any]) -> None:
    record = {**json.loads(stated.to_json()), **change}
    with pytest.raises(PrivacyContractError, match="at most") as caught:
        PrivacyStatement.from_json(json.dumps(record))
    assert len(str(caught.value)) < 1000


def test_it_is_frozen_and_strict(stated: PrivacyStatement) -> None:
    with pytest.raises(ValidationError):
        stated.epsilon = 0.1
    assert not PrivacyStatement.of(plan(), releasable="no").releasable  # type: ignore[arg-type]
    with pytest.raises(ConfigError):
        PrivacyStatement.of(plan(), releasable=True, model_sha256="abc")
    with pytest.raises(ConfigError):
        PrivacyStatement.of(plan(), releasable=True, not_covered=[3])  # type: ignore[list-item]


# --- what it says ---------------------------------------------------------------------------


# hazards 25 and 32
def test_what_voids_a_claim_stands_in_the_statement() -> None:
    honest = statement()
    assert honest.void == ()
    assert Fact("test_scores") in honest.not_covered
    void = PrivacyStatement.of(plan(), releasable=True, not_covered=[Fact("unpaid_search")])
    void.verify()
    assert void.void == (Fact("unpaid_search"),)
    assert guarantee_line(void).startswith("No valid guarantee")
    assert guarantee_line(void) in void.text()
    assert any("VOID" in line for line in explained(void)["warnings"])
    # It cannot be taken out without anybody noticing.
    with pytest.raises(PrivacyContractError, match="digest"):
        void.model_copy(update={"not_covered": honest.not_covered}).verify()


def test_one_wording_for_line_text_and_page(stated: PrivacyStatement) -> None:
    line = guarantee_line(stated)
    assert line == (
        f"Guarantee: epsilon at most {round_up(stated.epsilon)} at delta 1e-5 for one "
        "document, relation remove."
    )
    words = explained(stated)
    assert words["claim"] == line
    assert stated.text().splitlines()[2] == line
    text = flat(stated)
    for part in (words["promise"], *words["meaning"], *words["not_covered"], *words["notes"]):
        assert flat(part) in text
    for name, value in words["facts"]:
        assert name in text
        assert flat(value) in text
    assert guarantee_line(None).startswith("No privacy guarantee")


def test_the_text_holds_all_that_a_reader_needs(stated: PrivacyStatement) -> None:
    text = flat(stated)
    for words in (
        "one document: its text, its label and all its edges",
        "The vocabulary, fitted on training texts.",
        "full-graph: NOT covered",
        "The column 'year'.",
        "Releases add up",
        "multiples of one step size",
        "drawn exactly from the law",
        "dp-accounting",
        "joins a step with probability 0.2",
        "even for someone who knows which groups each step used",
        "labels of test documents without noise",
        stated.digest(),
    ):
        assert words in text
    assert "MUST NOT" not in text
    assert "weak" not in text


def test_the_text_warns() -> None:
    seeded = flat(statement(releasable=False, delta=5e-3))
    assert "MUST NOT BE RELEASED" in seeded
    assert "Delta is weak" in seeded
    graph = flat(statement(**GRAPH, accountant="moments"))
    assert "everything at once" in graph
    assert "comparison with published figures" in graph
    assert "Epsilon is large" in flat(statement(noise_multiplier=0.5))
    column = statement(**COLUMN, steps=30)
    assert "column 'year', declared public" in flat(column)
    assert "30 noisy sums, accounted as 3" in flat(column)
    assert Fact("partition_column") in column.assumed_public


def test_numbers_are_rounded_against_the_claim() -> None:
    weak = explained(statement(noise_multiplier=1e4))["meaning"]
    assert "at most 1.01 times as likely" in weak[0]
    assert "at most 50.1%" in weak[1]
    strong = explained(statement(noise_multiplier=0.05))["meaning"]
    assert "possibly more than a million times" in strong[0]
    assert "at most 100%" in strong[1]
    assert round_up(0.99999) == "1.000"
    assert round_up(2.4019) == "2.402"
    assert round_up(2.40201) == "2.403"
    assert round_up(0.0) == "0"
    for value in (1.23456e-9, 5.000001e13):
        assert float(round_up(value)) >= value


def test_the_guess_is_what_the_guarantee_allows() -> None:
    """(1 + delta e^-epsilon) / (1 + e^-epsilon), for two equally likely neighbours."""
    made = statement()
    guess = (1 + made.delta * math.exp(-made.epsilon)) / (1 + math.exp(-made.epsilon))
    text = explained(made)["meaning"][1]
    percent = float(text.split("at most ")[1].split("%")[0])
    assert 100 * guess <= percent <= 100 * guess + 0.1


# hazard 31
def test_nothing_that_somebody_declared_steers_a_terminal() -> None:
    facts = PartitionFacts(kind="column", groups=10, column="ward\x1b[2J")
    made = PrivacyStatement.of(
        plan(partition=facts, schedule=Schedule("all", 10)),
        releasable=True,
        assumed_public=[
            "A\x1b]0;owned\x07 title.\r",
            Fact("features", count=2, kind="\u202ex"),
        ],
    )
    assert all(c.isprintable() or c == "\n" for c in made.text())
    assert "ward [2J" in made.text()
    assert "\x1b" not in str(explained(made))


def test_no_sentence_is_stored_but_those_that_somebody_declared() -> None:
    """What is verified are codes and numbers: other words for a code change no statement."""
    record = json.loads(statement().to_json())
    for name in ("assumed_public", "not_covered"):
        assert all(set(fact) == {"code"} for fact in record[name])
    assert not set(record) & set(record["plan"])


def test_every_code_has_words_that_fit_its_parameters(stated: PrivacyStatement) -> None:
    for code in {*PUBLIC, *GAPS}:
        fact = None
        for parameters in (
            {},
            {"count": 12345},
            {"detail": "some {braces} here"},
            {"count": 12345, "kind": "hashing"},
        ):
            with contextlib.suppress(ConfigError):
                fact = Fact(code, **parameters)
                words = in_words(stated, [fact])[0]
                assert words
                assert all(str(value)[1:] in words for value in parameters.values())
        assert fact is not None, code


@pytest.mark.parametrize("unit", ["document", "person", "part", "graph"])
def test_it_says_who_is_protected(unit: str) -> None:
    by: Any = "owner" if unit == "person" else "document"
    single = PartitionFacts(kind="single", groups=1, by=by)
    made = statement(unit=unit, partition=single, schedule=Schedule("all", 1), accountant="rdp")
    name = "the whole training graph" if unit == "graph" else f"one {unit}"
    assert f"The guarantee protects {name}: " in flat(made)
