"""Privacy-utility curves: what a smaller epsilon costs in score.

One run has one epsilon, and training at other epsilons would be further releases. So its own
scores are points, and the line beside them is the outlook of ``privgcn plan``: what runs on
public corpora scored that had about as many documents for as much noise. It follows from
numbers that the statement and the scores name; nothing else of the documents enters it.
"""

from __future__ import annotations

from privgcn.config import Settings
from privgcn.errors import PrivGCNError
from privgcn.privacy.statement import PrivacyStatement
from privgcn.privacy.statement_text import round_up
from privgcn.report.figures import Figure, Point, Series
from privgcn.report.scores import SCORE_AXIS, Scores, mode_label
from privgcn.report.tables import MeanStd
from privgcn.training.outlook import Setup, expectation, nearest_runs

EPSILON_AXIS = "epsilon (smaller is more private)"
OUTLOOK = "public corpora of this size (outlook)"
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
    expected = () if setup is None else outlook_points(setup)
    if setup is not None and expected:
        levels.insert(0, Series(name=OUTLOOK, points=expected, role="reference"))
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


def outlook_points(setup: Setup) -> tuple[Point, ...]:
    """Mean and deviation of scores by epsilon, where measured runs come near; else nothing."""
    points = []
    for epsilon in EPSILONS:
        signal = _signal(setup, epsilon)
        if signal is not None and expectation(signal).measured:
            over = MeanStd.of([run.score for run in nearest_runs(signal)])
            points.append(Point(epsilon, over.mean, over.std))
    return tuple(points) if len(points) > 1 else ()


def _signal(setup: Setup, epsilon: float) -> float | None:
    """What runs are compared by; ``None`` where no plan has this epsilon."""
    try:
        return setup.signal(epsilon)
    except PrivGCNError:
        return None


def _outlook_notes(setup: Setup, epsilon: float) -> list[str]:
    counted = "people" if setup.unit == "person" else "documents"
    signal = _signal(setup, epsilon)
    near = [] if signal is None else nearest_runs(signal)
    notes = [
        "The grey line is an outlook, not a measurement of this run or of your own documents. "
        f"As in privgcn plan, it is the mean and deviation over the {len(near) or 'few'} runs "
        f"on public corpora (inference own-graph) whose signal is nearest to that of "
        f"{setup.units:,} training {counted}, {setup.classes} classes and {setup.features:,} "
        "features. Your documents may behave quite differently."
    ]
    expected = None if signal is None else expectation(signal)
    if expected is not None and expected.measured:
        notes.append(
            f"At the epsilon of this run, such runs kept {expected.share:.0%} of their score "
            f"without privacy ({expected.least:.0%} to {expected.most:.0%})."
        )
    return notes
