"""The privacy-utility curve of one run, which has one epsilon.

Training at other epsilons would be further releases. So the run's own scores are points, and
the line beside them is the outlook of ``privgcn plan``: what runs on public corpora scored
that had about as many documents for as much noise. It is read off numbers that the statement
names; nothing else of the run's documents enters it.
"""

from __future__ import annotations

import functools
import math
import statistics
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import resources
from typing import Any

from privgcn.config import Settings
from privgcn.errors import PrivGCNError
from privgcn.privacy.statement import PrivacyStatement
from privgcn.privacy.statement_text import round_up
from privgcn.report.curve import TITLE
from privgcn.report.formats import is_number
from privgcn.training.outlook import Measured, expectation, signal_of
from privgcn.training.planning import plan_for_units
from privgcn.training.recipes import make_settings
from privgcn.training.stepping import one_shot_noise

OUTLOOK = "public corpora of this size (outlook)"
EPSILONS = (0.5, 1.0, 2.0, 4.0, 8.0)
NEAREST = 7


@dataclass(frozen=True)
class PublicFacts:
    """What the outlook is asked with: numbers that the statement names."""

    units: int
    classes: int
    features: int
    unit: str
    relation: str
    delta: float


def own_curve(
    settings: Settings, statement: PrivacyStatement | None, scores: Mapping[str, Any]
) -> dict[str, Any] | None:
    """The figure of a private run; ``None`` without privacy or without a score.

    Args:
        settings: Of the run.
        statement: Of the run.
        scores: Checked scores.
    """
    if statement is None or not is_number(statement.epsilon):
        return None
    epsilon = float(round_up(statement.epsilon, 3))
    own = [
        {"name": f"this run, {mode}", "points": [[epsilon, entry["micro_f1"]]]}
        for mode, entry in scores["modes"].items()
        if is_number(entry["micro_f1"])
    ]
    if not own:
        return None
    levels = [
        {"name": name, "points": [[None, entry["micro_f1"]]], "role": "reference"}
        for name, entry in scores["baselines"].items()
        if is_number(entry["micro_f1"])
    ]
    facts = public_facts(settings, statement)
    expected = [] if facts is None else outlook_points(facts)
    notes = ["Coloured points are this run's scores on its own test documents."]
    if facts is not None and expected:
        levels.insert(0, {"name": OUTLOOK, "points": expected, "role": "reference"})
        notes += _outlook_notes(facts, statement.epsilon)
    return {
        "title": TITLE,
        "x_label": "epsilon (smaller is more private)",
        "y_label": "micro-F1 on the test documents",
        "series": [*own, *levels],
        "notes": notes,
    }


def public_facts(settings: Settings, statement: PrivacyStatement) -> PublicFacts | None:
    """The facts, or ``None`` where the outlook cannot speak for such a run.

    It was measured with recipe ``auto``, every document or person its own part, and the whole
    budget spent on one training.
    """
    counts = {
        fact.code: fact.count for fact in statement.assumed_public + statement.not_covered
    }
    features = counts.get("features") or 0
    classes = counts.get("classes_declared") or counts.get("classes_from_labels") or 0
    measured_alike = (
        settings.recipe == "auto"
        and statement.unit in ("document", "person")
        and statement.partition.kind == "each"
        and statement.selection is None
    )
    if features < 1 or classes < 2 or not measured_alike:
        return None
    return PublicFacts(
        statement.units,
        classes,
        features,
        statement.unit,
        statement.relation,
        statement.delta,
    )


def outlook_points(facts: PublicFacts) -> list[list[float]]:
    """Epsilon, mean and deviation of scores, where measured runs come near; else nothing."""
    points = []
    for epsilon in EPSILONS:
        signal = _signal(facts, epsilon)
        if signal is not None and expectation(signal).measured:
            near = [float(row["own_graph"]) for row in nearest(signal)]
            points.append([epsilon, statistics.fmean(near), statistics.stdev(near)])
    return points if len(points) > 1 else []


def nearest(signal: float) -> Sequence[Mapping[str, Any]]:
    """The measured runs that ``expectation`` takes the mean of."""
    return sorted(
        _measured_rows(), key=lambda row: abs(math.log(Measured.of(row).signal / signal))
    )[:NEAREST]


@functools.cache
def _measured_rows() -> tuple[dict[str, Any], ...]:
    text = resources.files("privgcn.training").joinpath("outlook.toml").read_text("utf-8")
    return tuple(tomllib.loads(text)["measured"])


def _signal(facts: PublicFacts, epsilon: float) -> float | None:
    """What runs are compared by; ``None`` where no plan has this epsilon."""
    changes = {
        "privacy.delta": facts.delta,
        "privacy.unit": facts.unit,
        "privacy.relation": facts.relation,
    }
    settings = make_settings("auto", epsilon=epsilon, changes=changes)
    if settings.privacy is None:
        return None
    try:
        plan = plan_for_units(
            settings.privacy, facts.units, epochs=settings.training.epochs, seed=0, columns={}
        )
    except PrivGCNError:
        return None
    return signal_of(facts.units, facts.classes, facts.features, one_shot_noise(plan))


def _outlook_notes(facts: PublicFacts, epsilon: float) -> list[str]:
    counted = "people" if facts.unit == "person" else "documents"
    notes = [
        "The grey line is an outlook, not a measurement of this run or of your own documents: "
        f"as in privgcn plan, mean and standard deviation of the {NEAREST} runs on public "
        "corpora (inference own-graph) that come nearest to the signal of "
        f"{facts.units:,} training {counted}, {facts.classes} classes and "
        f"{facts.features:,} features. It may be far off for yours."
    ]
    signal = _signal(facts, epsilon)
    expected = None if signal is None else expectation(signal)
    if expected is not None and expected.measured:
        notes.append(
            f"At this run's epsilon, such runs kept {expected.share:.0%} of their score "
            f"without privacy ({expected.least:.0%} to {expected.most:.0%})."
        )
    return notes
