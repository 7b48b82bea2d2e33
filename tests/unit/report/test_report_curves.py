import pytest

from privgcn import Report
from privgcn.privacy.partition import PartitionFacts
from privgcn.privacy.plan import PrivacyPlan
from privgcn.privacy.schedule import make_schedule
from privgcn.privacy.statement import PrivacyStatement
from privgcn.report.curves import EPSILONS, OUTLOOK, outlook_lines, outlook_setup, run_curve
from privgcn.report.scores import Scores
from privgcn.training.outlook import Setup


def stated(units=800, **changes):
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
    return PrivacyStatement.of(plan, releasable=True)


def scored(build, classes=6, features=4096, **changes):
    names = tuple(f"class {i}" for i in range(classes))
    return {**build.scores(names, **changes), "features": features}


def drawn(build, statement, scores=None, **changes):
    read = Scores.read(scores or scored(build), "a run")
    return run_curve(build.settings(statement, **changes), statement, read)


def by_name(figure):
    return {series.name: series for series in figure.series}


def test_the_outlook_is_asked_with_numbers_and_parses_no_sentence(build):
    statement = stated(units=1208)
    scores = Scores.read(scored(build, classes=7, features=384), "a run")

    assert outlook_setup(build.settings(statement), statement, scores) == Setup(
        units=1208, classes=7, features=384, delta=1e-5, unit="document", relation="remove"
    )


def test_own_scores_are_points_and_baselines_are_levels(build):
    statement = stated()
    series = by_name(drawn(build, statement))

    values = {"alone": 0.6, "own-graph": 0.7, "full-graph (not covered)": 0.8}
    for name, value in values.items():
        [point] = series[name].points
        assert point.y == pytest.approx(value)
        assert point.x >= statement.epsilon
    assert series["majority"].role == "reference"
    assert series["majority"].points == ((None, 0.5, None),)
    assert "random" in series


def test_the_outlook_is_what_plan_says():
    setup = Setup(800, 6, 4096, 1e-5, "document", "remove")
    low, high = outlook_lines(setup)
    for place, epsilon in enumerate(EPSILONS):
        ends = (low.points[place].y, high.points[place].y)
        assert ends == setup.expectation(epsilon).interval


def test_the_outlook_is_grey_over_epsilon_and_says_that_it_is_no_measurement(build):
    figure = drawn(build, stated())
    for name in OUTLOOK:
        expected = by_name(figure)[name]
        assert expected.role == "reference"
        assert [point.x for point in expected.points] == list(EPSILONS)
        assert expected.points[0].y < expected.points[-1].y
    notes = " ".join(figure.notes)
    assert "not a measurement of this run or of your own documents" in notes
    assert "800 training documents, 6 classes and 4,096 features" in notes


def test_the_outlook_does_not_depend_on_scores(build):
    low, high = (
        by_name(drawn(build, stated(), scored(build, best=best))) for best in (0.4, 0.9)
    )

    assert all(low[name] == high[name] for name in OUTLOOK)


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

    assert not set(OUTLOOK) & set(by_name(figure))
    assert "own-graph" in by_name(figure)
    assert "majority" in by_name(figure)
    assert "outlook" not in " ".join(figure.notes)


def test_a_run_that_does_not_know_its_features_has_no_outlook(build, statement):
    assert not set(OUTLOOK) & set(by_name(drawn(build, statement, build.scores())))


def test_few_or_many_documents_are_not_guessed_at():
    assert outlook_lines(Setup(3, 60, 4096, 1e-5, "document", "remove")) == []


def test_pages_of_private_runs_have_the_curve_and_others_do_not(build, tmp_path):
    statement = stated()
    made = Report.of_run(build.settings(statement), statement, scored(build)).html()
    read = Report.of_folders([build.folder(tmp_path / "run", statement, scored(build))]).html()
    plain = Report.of_run(build.settings(None), None, scored(build)).html()

    for html in (made, read):
        assert 'id="curve"' in html
        assert all(name in html for name in OUTLOOK)
        assert "not a measurement of this run or of your own documents" in html
        assert "would be a further release" in html
    assert 'id="curve"' not in plain


def test_a_run_without_any_score_has_no_curve(build):
    scores = {"modes": {"alone": {"micro_f1": None}}, "baselines": {}}

    assert drawn(build, stated(), scores) is None
