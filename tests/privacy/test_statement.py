"""The statement says what the plan gives, reads back, and notices edits."""

import contextlib
import json
import math
from dataclasses import replace
from typing import Any

import pytest

from privacy.plans import RANDOM, SINGLE, plan, statement
from privgcn.errors import ConfigError, PrivacyContractError
from privgcn.privacy.plan import PartitionFacts, Schedule
from privgcn.privacy.statement import Fact, PrivacyStatement
from privgcn.privacy.wording import (
    SENTENCES,
    explained,
    guarantee_line,
    in_words,
    round_up,
)

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


def test_it_claims_what_the_plan_gives_and_reads_back_as_the_same(
    stated: PrivacyStatement,
) -> None:
    made = plan(**POISSON)
    assert (stated.plan, stated.epsilon) == (made, made.epsilon)
    assert stated.epsilon_without_amplification == made.epsilon_without_amplification
    again = PrivacyStatement.from_json(stated.to_json())
    assert again == stated
    again.verify()


# Every leaf of the JSON, with another value of its type: none may pass.
def edits(record: Any, path: tuple[Any, ...] = ()) -> list[tuple[tuple[Any, ...], Any]]:
    if isinstance(record, dict | list):
        items = record.items() if isinstance(record, dict) else enumerate(record)
        inner = [edit for key, value in items for edit in edits(value, (*path, key))]
        return [*inner, (path, record[:-1])] if isinstance(record, list) and record else inner
    if isinstance(record, bool):
        return [(path, not record)]
    if isinstance(record, str):
        return [(path, record + "x"), (path, "")]
    others = {int: (record or 0) + 1, float: (record or 0) * 1.001}.get(type(record), "x")
    return [(path, others), (path, 1.0)]


# hazard 28
def test_every_single_edit_is_noticed() -> None:
    original = PrivacyStatement.of(
        plan(partition=RANDOM, schedule=Schedule("all", 10)),
        releasable=True,
        not_covered=["More."],
    ).to_json()
    tried = 0
    for path, value in edits(json.loads(original)):
        node = record = json.loads(original)
        for key in path[:-1]:
            node = node[key]
        if node[path[-1]] == value:
            continue
        node[path[-1]] = value
        with pytest.raises(PrivacyContractError):
            PrivacyStatement.from_json(json.dumps(record)).verify()
        tried += 1
    assert tried > 70


# hazards 25 and 28
@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("plan.noise_multiplier", 80.0),
        ("plan.steps", 3),
        ("plan.delta", 1e-3),
        ("plan.unit", "part"),
        ("plan.schedule.name", "epoch"),
        ("plan.schedule.sampling_probability", 0.1),
        ("plan.units", 1_000_000),
        ("plan.accountant", "rdp"),
        ("plan.accountant", "moments"),
        ("epsilon", 0.1),
        ("epsilon_without_amplification", 0.1),
        ("gaussian_mu", 0.1),
        ("detected_at_1_percent", 0.01),
        ("not_covered", []),
        ("assumed_public", []),
        ("inference_modes", [{"mode": "alone", "covered": True}]),
        ("inference_modes", []),
    ],
)
def test_an_edit_is_noticed_even_with_a_fresh_digest(
    stated: PrivacyStatement, name: str, value: Any
) -> None:
    node = record = json.loads(stated.to_json())
    *path, last = name.split(".")
    for key in path:
        node = node[key]
    node[last] = value
    with pytest.raises(PrivacyContractError):  # noqa: PT012
        made = PrivacyStatement.from_json(json.dumps(record))
        replace(made, digest=made.computed_digest()).verify()


def test_reading_is_strict(stated: PrivacyStatement) -> None:
    text = stated.to_json()
    record = json.loads(text)
    for broken in (
        "",
        "[]",
        "[" * 100_000,
        text.replace('"steps": 30', '"steps": 30, "steps": 3'),
        text.replace('"epsilon":', '"epsilon": NaN, "old":'),
        *(json.dumps({k: v for k, v in record.items() if k != name}) for name in record),
        *(
            json.dumps({**record, **change})
            for change in (
                {"remark": "none"},
                {"schema_version": 2},
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
def test_lists_and_texts_are_bounded(stated: PrivacyStatement) -> None:
    for name, value in (
        ("assumed_public", [{"code": "other", "detail": f"{at}"} for at in range(10_000)]),
        ("not_covered", [{"code": "other", "detail": "x" * 30_000}]),
        ("inference_modes", [{"mode": "alone", "covered": True}] * 1000),
        ("package_version", "x" * 1000),
    ):
        record = {**json.loads(stated.to_json()), name: value}
        with pytest.raises(PrivacyContractError, match="at most") as caught:
            PrivacyStatement.from_json(json.dumps(record))
        assert len(str(caught.value)) < 1000


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
        replace(void, not_covered=honest.not_covered).verify()


def test_one_wording_for_line_text_and_page(stated: PrivacyStatement) -> None:
    # Codes and numbers are stored, not sentences: other words change no statement.
    assert {"code": "new_documents"} in json.loads(stated.to_json())["not_covered"]
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


def test_the_text_warns() -> None:
    # Only what is known to be secret is releasable.
    seeded = flat(statement(releasable="no", delta=5e-3))  # type: ignore[arg-type]
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
    # (1 + delta e^-epsilon) / (1 + e^-epsilon), for two equally likely neighbours.
    made = statement()
    inverse = math.exp(-made.epsilon)
    guess = 100 * (1 + made.delta * inverse) / (1 + inverse)
    said = float(explained(made)["meaning"][1].split("at most ")[1].split("%")[0])
    assert guess <= said <= guess + 0.1
    strong = explained(statement(noise_multiplier=0.05))["meaning"]
    assert "possibly more than a million times" in strong[0]
    assert "at most 100%" in strong[1]
    assert round_up(0.99999) == "1.000"
    assert round_up(2.4019) == "2.402"
    assert round_up(2.40201) == "2.403"
    assert round_up(0.0) == "0"
    for value in (1e-5, 1.1, 4.0, 0.1 + 0.2, 1.23456e-9, 5.000001e13):
        assert float(round_up(value)) >= value
    # As it was typed, though the nearest binary number is a little larger.
    assert [*map(round_up, (1e-5, 1.1, 4.0))] == ["1e-5", "1.1", "4"]
    assert "at delta 1.235e-5 for" in guarantee_line(statement(delta=1.2341e-5))
    assert "at delta 1e-5 for" in guarantee_line(statement(delta=1e-5))
    assert "adds up to 0.0011," in explained(statement(delta=1.1e-5))["meaning"][3]


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


def test_every_code_has_words_that_fit_its_parameters(stated: PrivacyStatement) -> None:
    given = ({}, {"count": 12345}, {"detail": "{braces}"}, {"count": 12345, "kind": "hashing"})
    for code in SENTENCES:
        said = []
        for parameters in given:
            with contextlib.suppress(ConfigError):
                (words,) = in_words(stated, [Fact(code, **parameters)])  # type: ignore[arg-type]
                said.append(all(str(value) in words for value in parameters.values()))
        assert said == [True], code


@pytest.mark.parametrize("unit", ["document", "person", "part", "graph"])
def test_it_says_who_is_protected(unit: str) -> None:
    by: Any = "owner" if unit == "person" else "document"
    single = PartitionFacts(kind="single", groups=1, by=by)
    made = statement(unit=unit, partition=single, schedule=Schedule("all", 1), accountant="rdp")
    name = "the whole training graph" if unit == "graph" else f"one {unit}"
    assert f"The guarantee protects {name}: " in flat(made)
