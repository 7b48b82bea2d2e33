import dataclasses
import statistics
from types import SimpleNamespace

import pytest

from privgcn import Report
from privgcn.privacy.partition import PartitionFacts
from privgcn.privacy.plan import PrivacyPlan
from privgcn.privacy.schedule import make_schedule
from privgcn.privacy.statement import PrivacyStatement
from privgcn.report.own_curve import (
    EPSILONS,
    OUTLOOK,
    nearest,
    outlook_points,
    own_curve,
    public_facts,
)
from privgcn.report.score_tables import check_scores
from privgcn.runs.assumptions import assumed_public
from privgcn.training.outlook import expectation


def stated(units=800, classes=6, features=4096, **changes):
    plan = PrivacyPlan(
        **{
            "unit": "document",
            "relation": "remove",
            "partition": PartitionFacts(kind="each", parts=units),
            "schedule": make_schedule("all", changes.pop("parts", units), None),
            "clip_norm": 1.0,
            "noise_multiplier": 8.0,
            "steps": 3,
            "delta": 1e-5,
            "units": units,
            **changes,
        }
    )
    facts = assumed_public(
        SimpleNamespace(
            num_classes=classes,
            facts=SimpleNamespace(public_vectors=None, classes_declared=True),
        ),
        SimpleNamespace(dimension=features, kind="hashing"),
    )
    return PrivacyStatement.of(plan, releasable=True, assumed_public=facts)


def drawn(build, statement, **changes):
    settings = build.settings(statement, **changes)
    return own_curve(settings, statement, check_scores(build.scores()))


def by_name(figure):
    return {series["name"]: series for series in figure["series"]}


def test_the_facts_are_those_that_the_statement_declares_public(build):
    statement = stated(units=1208, classes=7, features=384)
    facts = public_facts(build.settings(statement), statement)

    assert dataclasses.asdict(facts) == {
        "units": 1208,
        "classes": 7,
        "features": 384,
        "unit": "document",
        "relation": "remove",
        "delta": 1e-5,
    }


def test_own_scores_are_points_and_baselines_are_levels(build):
    statement = stated()
    series = by_name(drawn(build, statement))

    for mode, value in (("alone", 0.6), ("own-graph", 0.7), ("full-graph", 0.8)):
        [[epsilon, score]] = series[f"this run, {mode}"]["points"]
        assert score == pytest.approx(value)
        assert epsilon >= statement.epsilon
    assert series["majority"] == {
        "name": "majority",
        "points": [[None, 0.5]],
        "role": "reference",
    }
    assert "random" in series


def test_the_outlook_is_what_plan_takes_its_expectation_from():
    for signal in (0.3, 1.0, 4.0):
        shares = [row["own_graph"] / row["plain"] for row in nearest(signal)]
        assert statistics.fmean(shares) == pytest.approx(expectation(signal).share)


def test_the_outlook_is_grey_over_epsilon_and_says_that_it_is_no_measurement(build):
    figure = drawn(build, stated())
    expected = by_name(figure)[OUTLOOK]

    assert expected["role"] == "reference"
    assert [point[0] for point in expected["points"]] == list(EPSILONS)
    assert expected["points"][0][1] < expected["points"][-1][1]
    notes = " ".join(figure["notes"])
    assert "not a measurement of this run or of your own documents" in notes
    assert "800 training documents, 6 classes and 4,096 features" in notes


def test_the_outlook_does_not_depend_on_scores(build):
    statement = stated()
    settings = build.settings(statement)
    low, high = (
        by_name(own_curve(settings, statement, check_scores(build.scores(best=best))))
        for best in (0.4, 0.9)
    )

    assert low[OUTLOOK] == high[OUTLOOK]


@pytest.mark.parametrize(
    ("facts", "settings"),
    [
        ({}, {"recipe": "paper-full"}),
        (
            {"unit": "graph", "partition": PartitionFacts(kind="single", parts=1), "parts": 1},
            {},
        ),
        ({"units": 10_000_000, "delta": 1e-9}, {}),
    ],
)
def test_where_the_outlook_cannot_speak_there_are_points_and_levels_only(
    build, facts, settings
):
    figure = drawn(build, stated(**facts), **settings)

    assert OUTLOOK not in by_name(figure)
    assert "this run, own-graph" in by_name(figure)
    assert "majority" in by_name(figure)
    assert "outlook" not in " ".join(figure["notes"])


def test_a_statement_without_the_facts_has_no_outlook(build, statement):
    assert OUTLOOK not in by_name(drawn(build, statement))


def test_few_or_many_documents_are_not_guessed_at(build):
    statement = stated(units=3)

    assert outlook_points(public_facts(build.settings(statement), statement)) == []


def test_pages_of_private_runs_have_the_curve_and_others_do_not(build, tmp_path):
    statement = stated()
    made = Report.of_run(build.settings(statement), statement, build.scores()).html()
    read = Report.of_folders([build.folder(tmp_path / "run", statement)]).html()
    plain = Report.of_run(build.settings(None), None, build.scores()).html()

    for html in (made, read):
        assert 'id="curve"' in html
        assert OUTLOOK in html
        assert "not a measurement of this run or of your own documents" in html
        assert "would be a further release" in html
    assert 'id="curve"' not in plain


def test_a_run_without_any_score_has_no_curve(build):
    statement = stated()
    scores = {"modes": {"alone": {"micro_f1": None}}, "baselines": {}}

    assert own_curve(build.settings(statement), statement, check_scores(scores)) is None
