"""Privacy-utility curves: what a smaller epsilon costs in score.

One run has one epsilon, and training at other epsilons would be further releases. So its own
scores are points, and the lines beside them are the outlook of ``privgcn plan``: between them
lie runs on other corpora that had about as many documents for as much noise. They follow from
numbers that the statement and the scores name; nothing else of the documents enters them.
"""

from __future__ import annotations

from privgcn.config import Settings
from privgcn.errors import PrivGCNError
from privgcn.privacy.statement import PrivacyStatement
from privgcn.privacy.statement_text import round_up
from privgcn.report.figures import Figure, Point, Series
from privgcn.report.scores import SCORE_AXIS, Scores, mode_label
from privgcn.training.outlook import MODE, Expectation, Setup

EPSILON_AXIS = "epsilon (smaller is more private)"
OUTLOOK = ("expected at least (outlook)", "expected at most (outlook)")
EPSILONS = (0.5, 1.0, 2.0, 4.0, 8.0)


def shown_epsilon(statement: PrivacyStatement) -> float:
    """Where a run is drawn: its epsilon, rounded up as the page says it."""
    return float(round_up(statement.epsilon, 3))


def run_curve(settings: Settings, statement: PrivacyStatement, scores: Scores) -> Figure | None:
    """The figure of a private run beside the outlook for its size; ``None`` without a score."""
    epsilon = shown_epsilon(statement)
    own = [
        Series(name=mode_label(mode, private=True), points=(Point(epsilon, entry.micro_f1),))
        for mode, entry in scores.ordered().items()
        if entry.micro_f1 is not None
    ]
    if not own:
        return None
    levels = [
        Series(name=name, points=(Point(None, entry.micro_f1),), role="reference")
        for name, entry in scores.baselines.items()
        if entry.micro_f1 is not None
    ]
    notes = ["Coloured points are the scores of this run on its own test documents."]
    setup = outlook_setup(settings, statement, scores)
    expected = [] if setup is None else outlook_lines(setup)
    if setup is not None and expected:
        levels = [*expected, *levels]
        notes += _outlook_notes(setup, statement.epsilon)
    return Figure(
        title="Score against epsilon",
        x_label=EPSILON_AXIS,
        y_label=SCORE_AXIS,
        series=(*own, *levels),
        notes=tuple(notes),
    )


def outlook_setup(
    settings: Settings, statement: PrivacyStatement, scores: Scores
) -> Setup | None:
    """What the outlook is asked about, or ``None`` where it cannot speak for such a run.

    It was measured with recipe ``auto``, every document or person its own part, and the whole
    budget spent on one training.
    """
    measured_alike = (
        settings.recipe == "auto"
        and statement.unit in ("document", "person")
        and statement.partition.kind == "each"
        and statement.selection is None
    )
    if not measured_alike or scores.features is None or len(scores.classes) < 2:
        return None
    return Setup(
        units=statement.units,
        classes=len(scores.classes),
        features=scores.features,
        delta=statement.delta,
        unit=statement.unit,
        relation=statement.relation,
    )


def outlook_lines(setup: Setup) -> list[Series]:
    """Both ends of the expected interval by epsilon, where runs like these were measured."""
    low, high = [], []
    for epsilon in EPSILONS:
        expected = _expected(setup, epsilon)
        if expected is not None and expected.measured:
            low.append(Point(epsilon, expected.interval[0]))
            high.append(Point(epsilon, expected.interval[1]))
    if len(low) < 2:
        return []
    ends = {OUTLOOK[0]: low, OUTLOOK[1]: high}
    return [
        Series(name=name, points=tuple(line), role="reference") for name, line in ends.items()
    ]


def _expected(setup: Setup, epsilon: float) -> Expectation | None:
    """What the planner expects; ``None`` where no plan has this epsilon."""
    try:
        return setup.expectation(epsilon)
    except PrivGCNError:
        return None


def _outlook_notes(setup: Setup, epsilon: float) -> list[str]:
    counted = "people" if setup.unit == "person" else "documents"
    notes = [
        "The grey lines are an outlook, not a measurement of this run or of your own "
        "documents. As in privgcn plan, four of five runs on other corpora (inference "
        f"{MODE}) lie between them, with {setup.units:,} training {counted}, {setup.classes} "
        f"classes and {setup.features:,} features. Your documents may behave differently."
    ]
    expected = _expected(setup, epsilon)
    if expected is not None and expected.measured:
        low, high = expected.interval
        notes.append(
            f"At the epsilon of this run that is a score of {low:.2f} to {high:.2f}, about "
            f"{expected.reach:.0%} of the way from guessing to the score without privacy."
        )
    return notes
