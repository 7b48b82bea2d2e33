"""A search in plan, statement and ledger: it costs what it costs, and verifies alone."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from privgcn.errors import ConfigError, PrivacyContractError
from privgcn.privacy.accounting.epsilon import epsilon_of_releases
from privgcn.privacy.accounting.events import GaussianQuery, GaussianRelease
from privgcn.privacy.accounting.paid_search import Selection, calibrate_search
from privgcn.privacy.accounting.selection import LAWS, RunCount
from privgcn.privacy.ledger import Ledger
from privgcn.privacy.partition import PartitionFacts
from privgcn.privacy.plan import PrivacyPlan
from privgcn.privacy.schedule import AllParts
from privgcn.privacy.statement import PrivacyStatement

SCORE = GaussianQuery("validation score", 8.0, 1)
SHORT, LONG = GaussianRelease(20.0, 10), GaussianRelease(40.0, 40)


def selection(**changes: Any) -> Selection:
    fields: dict[str, Any] = {
        "law": "poisson",
        "expected_runs": 5,
        "candidates": (SHORT, LONG),
        "score": SCORE,
        "validation_units": 30,
    }
    return Selection(**{**fields, **changes})


def plan(**changes: Any) -> PrivacyPlan:
    fields: dict[str, Any] = {
        "unit": "document",
        "relation": "remove",
        "partition": PartitionFacts(kind="each", parts=100),
        "schedule": AllParts(100),
        "clip_norm": 1.0,
        "noise_multiplier": 20.0,
        "steps": 10,
        "delta": 1e-4,
        "units": 100,
        "accountant": "rdp",
        "selection": selection(),
    }
    return PrivacyPlan(**{**fields, **changes})


def test_the_plan_costs_what_the_search_costs() -> None:
    alone = plan(selection=None)
    assert plan().epsilon > alone.epsilon
    assert plan().epsilon_without_amplification == plan().epsilon
    assert plan().protected_units == 130
    # A dearer candidate that did not win counts too, and so does a dear score.
    weak = selection(candidates=(SHORT, GaussianRelease(2.0, 10)))
    assert plan(selection=weak).epsilon > plan().epsilon
    loud = selection(score=GaussianQuery("validation score", 0.5, 1))
    assert plan(selection=loud).epsilon > plan().epsilon


def test_a_plan_reads_back_as_the_same() -> None:
    for made in (plan(), plan(selection=selection(score=None, validation_units=0))):
        assert PrivacyPlan.from_dict(json.loads(json.dumps(made.to_dict()))) == made


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"accountant": "pld"}, "must be rdp"),
        ({"accountant": "moments"}, "must be rdp"),
        ({"noise_multiplier": 10.0}, "one of the candidates"),
        ({"steps": 11}, "one of the candidates"),
        ({"relation": "replace"}, "one of the candidates"),
        ({"unit": "part", "relation": "remove"}, "document or person"),
        ({"side_queries": (SCORE,)}, "side queries"),
        ({"selection": {"law": "poisson"}}, "must be an instance of Selection"),
        ({"delta": 1 / 120}, "1/130"),
    ],
)
def test_a_plan_refuses_a_search_it_did_not_run(changes: dict[str, Any], words: str) -> None:
    with pytest.raises((ConfigError, PrivacyContractError), match=words):
        plan(**changes)


@pytest.mark.parametrize(
    "changes",
    [
        {"law": "fixed"},
        {"expected_runs": 1},
        {"candidates": ()},
        {"candidates": (SHORT, SHORT)},
        {"candidates": (SCORE,)},
        {"score": SHORT},
        {"score": None},
        {"validation_units": 0},
        {"validation_units": True},
    ],
)
def test_a_search_refuses_nonsense(changes: dict[str, Any]) -> None:
    with pytest.raises(ConfigError):
        selection(**changes)


@pytest.mark.parametrize("law", LAWS)
@pytest.mark.parametrize("private_score", [True, False])
def test_calibration_keeps_the_budget(law: str, private_score: bool) -> None:
    shapes = [GaussianRelease(1.0, 30), GaussianRelease(1.0, 90, 1.0, 2)]
    count = RunCount(law, 5.0)
    found = calibrate_search(1.0, shapes, count, private_score=private_score, delta=1e-5)
    assert 0.999 < found.epsilon <= 1.0
    assert (found.score is not None) == private_score
    # Candidates without sampling cost the same, and so does a score.
    assert found.training[1] == pytest.approx(found.training[0] * 2 * 3**0.5, rel=1e-4)
    if found.score is not None:
        assert found.score == pytest.approx(found.training[0] / 30**0.5, rel=1e-4)
    made = Selection(
        law=law,
        expected_runs=5.0,
        candidates=tuple(
            GaussianRelease(noise, one.count, 1.0, one.sensitivity)
            for noise, one in zip(found.training, shapes, strict=True)
        ),
        score=None if found.score is None else GaussianQuery("score", found.score, 1),
        validation_units=int(private_score),
    )
    again = epsilon_of_releases([made.release], delta=1e-5, accountant="rdp")
    assert again == pytest.approx(found.epsilon, rel=1e-9)


def test_sampled_candidates_are_calibrated_too() -> None:
    shapes = [GaussianRelease(1.0, 30), GaussianRelease(1.0, 300, 0.1)]
    found = calibrate_search(
        2.0, shapes, RunCount("poisson", 3.0), private_score=False, delta=1e-5
    )
    assert 0.99 < found.epsilon <= 2.0


@pytest.fixture(scope="module")
def statement() -> PrivacyStatement:
    return PrivacyStatement.of(plan(), releasable=True, model_sha256="ab" * 32)


def test_the_statement_carries_the_search(statement: PrivacyStatement) -> None:
    again = PrivacyStatement.from_json(statement.to_json())
    assert again == statement
    assert again.plan == plan()
    again.verify()
    assert "secret number of runs, 5 on average (poisson)" in statement.text()
    assert "30 documents, protected as well" in statement.text()
    assert statement.delta_times_units == pytest.approx(130e-4)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("expected_runs", 2.0),
        ("law", "geometric"),
        ("validation_units", 29),
        ("score", None),
        ("candidates", []),
    ],
)
def test_an_edited_search_is_noticed(
    statement: PrivacyStatement, name: str, value: object
) -> None:
    record = json.loads(statement.to_json())
    record["plan"]["selection"][name] = value
    with pytest.raises(PrivacyContractError):
        PrivacyStatement.from_json(json.dumps(record)).verify()


def test_forgetting_the_search_is_noticed_even_with_a_new_digest(
    statement: PrivacyStatement,
) -> None:
    forged = statement.model_copy(update={"plan": replace(statement.plan, selection=None)})
    forged = forged.model_copy(update={"stored_digest": forged.digest()})
    with pytest.raises(PrivacyContractError, match="'epsilon'"):
        forged.verify()


def test_the_ledger_adds_a_search_to_other_releases(
    tmp_path: Path, statement: PrivacyStatement
) -> None:
    ledger = Ledger(tmp_path / "ledger.jsonl")
    other = replace(plan(selection=None), accountant="pld")
    first = ledger.record(PrivacyStatement.of(other, releasable=True))
    both = ledger.record(statement)
    assert first < statement.epsilon < both
    assert ledger.spent(1e-4) == pytest.approx(both)
