"""The scores of a run as tables and charts: the dict of ``scores.json``, read as it is."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from privgcn.config import MODES, Mode
from privgcn.privacy.wording import round_up
from privgcn.report.charts import Figure, Point, Series
from privgcn.report.tables import Cell, MeanStd, Table
from privgcn.report.text import between

Scores = Mapping[str, Any]
COVERED, NOT_COVERED = "covered", "not covered"
#: What the guarantee covers or does not: the head of the column that says so.
COVERAGE = "training documents"
_MEASURES = {"micro_f1": "micro-F1", "macro_f1": "macro-F1"}
# A difference that chance gives less often than this is called one.
_RARE = 0.05


def modes_of(table: Mapping[str, Any]) -> list[Mode]:
    """The modes that a table of scores has, from the one that sees least."""
    return [mode for mode in MODES if mode in table]


def covered_modes(scores: Scores) -> list[Mode]:
    """Those of its modes that a guarantee covers."""
    return [mode for mode in modes_of(scores["modes"]) if MODES[mode].covered]


def leading(scores: Scores, *, private: bool) -> Mode:
    """The mode that leads: with privacy the one to deploy, else the best-informed one."""
    known = modes_of(scores["modes"])
    if not private:
        return known[-1]
    deployed = scores.get("deploy", {}).get("mode")
    return deployed if deployed in known else (covered_modes(scores) or known)[-1]


def baseline(scores: Scores, lead: Mode) -> tuple[str, float] | None:
    """What the leading score must beat: the best guess, or the same model without edges."""
    rows = dict(scores.get("baselines", {}))
    if lead != "alone" and "alone" in scores["modes"]:
        rows["graph-blind (mode alone)"] = scores["modes"]["alone"]
    known = {name: row["micro_f1"] for name, row in rows.items() if row["micro_f1"] is not None}
    return max(known.items(), key=lambda row: row[1], default=None)


def documents(scores: Scores) -> str:
    """What was scored, with the number."""
    count = next(iter(scores["modes"].values()))["documents"]
    return "1 test document" if count == 1 else f"{count:,} test documents"


def cells(entry: Mapping[str, Any], measure: str) -> tuple[float | None, str | None]:
    """A score, and its interval in words."""
    return entry.get(measure), between(entry.get("intervals", {}).get(measure))


def _entries(scores: Scores) -> Iterator[tuple[str, bool | None, str, Scores]]:
    for mode in modes_of(scores["modes"]):
        yield mode, MODES[mode].covered, MODES[mode].sees, scores["modes"][mode]
    for name, row in scores.get("baselines", {}).items():
        sees = "nothing: always predicts the most frequent class"
        yield f"baseline: {name}", None, sees, row


def mode_table(scores: Scores, *, private: bool) -> Table:
    """Modes and baselines, one row each, with what they see and whether that is covered."""
    verdicts = {True: COVERED, False: NOT_COVERED, None: None}
    rows: list[tuple[Cell, ...]] = []
    for name, covered, sees, entry in _entries(scores):
        measured = (*cells(entry, "micro_f1"), entry.get("macro_f1"))
        rows.append((name, *[verdicts[covered]] * private, *measured, sees))
    columns = ["mode", *[COVERAGE] * private, "micro-F1", "micro-F1, 95\u00a0%", "macro-F1"]
    notes = [
        "The 95 % intervals answer for the test documents, not for the luck of a seed. "
        "Accuracy is micro-F1 here, because each document has one class."
    ]
    if "alone" in scores["modes"]:
        notes.append("Mode alone is graph-blind: the baseline that the other modes must beat.")
    if private:
        notes.append(
            "The guarantee is for the training documents. Test, validation and new documents "
            "have none: scores and predictions may tell something about them."
        )
    dataset = f" of {scores['dataset']}" if scores.get("dataset") else ""
    dataset += " (synthetic)" if scores.get("synthetic") else ""
    title = f"Scores on the {documents(scores)}{dataset}, by inference mode and of baselines"
    return Table(title, (*columns, "what is seen"), rows, notes)


def deployment(scores: Scores) -> tuple[str, str] | None:
    """Whether edges help and which covered mode to deploy; and how that was decided."""
    made = scores.get("deploy")
    if made is None:
        return None
    alone, own, chance = made["alone_only"], made["own_graph_only"], made["p_value"]
    if own > alone:
        verdict = "Edges help" if chance < _RARE else "Edges seem to help, which may be chance"
    else:
        verdict = "Edges harm" if chance < _RARE else "Edges do not seem to help"
    if not made.get("edges", True):
        verdict = "There are no edges"
    flattered = "The same documents give the scores, so the better mode is a little flattered."
    how = flattered if made["decided_by"] == "test" else "The test documents had no say."
    return (
        f"{verdict}: deploy {made['mode']}",
        f"Of {made['documents']:,} {made['decided_by']} documents, own-graph gets {own:,} "
        f"right that alone gets wrong, and alone {alone:,} that own-graph gets wrong "
        f"(McNemar's exact test: p = {chance:.2g}). {how}",
    )


def reference_table(scores: Scores) -> Table | None:
    """Non-private models by inference mode; ``None`` for a run that has none."""
    references = scores.get("references", {})
    modes = modes_of(references)
    if not modes:
        return None
    names = references[modes[0]]["scores"]
    tables = [references[mode]["scores"] for mode in modes]
    rows = [(n, *(cell for own in tables for cell in cells(own[n], "micro_f1"))) for n in names]
    columns = ("model", *(head for mode in modes for head in (mode, f"{mode}, 95\u00a0%")))
    best = "; ".join(f"{mode}: {references[mode]['best']}" for mode in modes)
    notes = [f"The best on the validation documents, or else the training documents: {best}."]
    return Table("Micro-F1 without privacy, by inference mode", columns, rows, notes)


def repeat_table(scores: Scores) -> Table | None:
    """Scores over several seeds; ``None`` for a run with one seed."""
    repeats = scores.get("repeats")
    if repeats is None:
        return None
    seeds = repeats["seeds"]
    rows: list[tuple[Cell, ...]] = []
    for mode in modes_of(repeats["modes"]):
        for measure, name in _MEASURES.items():
            row = repeats["modes"][mode].get(measure)
            if row is not None:
                mean = MeanStd(row["mean"], row["std"])
                rows.append((mode, name, mean, between(row["interval"]), row["values"][0]))
    notes = [
        f"Seeds {seeds[0]} to {seeds[-1]}. The model is that of seed {repeats['model']}, named "
        "beforehand; the others were scored and forgotten."
    ]
    if repeats.get("composed_epsilon") is not None:
        notes.append(
            f"To publish anything of all {len(seeds)} seeds, their scores included, would cost "
            f"epsilon {round_up(repeats['composed_epsilon'])} together. Keep them to yourself."
        )
    columns = ("mode", "score", "mean ± deviation", "95\u00a0% interval", "of the model")
    return Table(f"Scores over {len(seeds)} seeds", columns, rows, notes)


def score_figure(scores: Scores, *, private: bool) -> Figure | None:
    """Micro-F1 as bars, because it is what the paper reports; ``None`` without any score."""
    series = []
    for name, covered, _, entry in _entries(scores):
        if entry.get("micro_f1") is not None:
            words = f"{name} ({NOT_COVERED})" if private and covered is False else name
            ends = entry.get("intervals", {}).get("micro_f1")
            point = Point(None, entry["micro_f1"], ends)
            series.append(Series(words, [point], reference=covered is None))
    title = "Micro-F1 by inference mode, and of the baselines"
    axis, notes = "micro-F1 on the test documents", ["Whiskers are 95 % intervals."]
    return Figure(title, series, y_label=axis, bars=True, notes=notes) if series else None


def probability_table(scores: Scores) -> Table | None:
    """How good the probabilities of the covered modes are; ``None`` where nobody measured."""
    names = ("confidence", "accuracy", "calibration_error", "log_loss")
    rows = [
        (mode, *(scores["modes"][mode].get(name) for name in names))
        for mode in covered_modes(scores)
        if scores["modes"][mode].get("log_loss") is not None
    ]
    notes = [
        "Confidence is the probability of the predicted class. The calibration error is the "
        "mean distance between confidence and accuracy over 15 bins of equal width."
    ]
    columns = ("mode", "mean confidence", "accuracy", "calibration error", "log loss")
    return Table("Probabilities", columns, rows, notes) if rows else None


def reliability_figure(scores: Scores) -> Figure:
    """Accuracy over confidence in the covered modes."""
    series = []
    for mode in covered_modes(scores):
        bins = scores["modes"][mode].get("reliability", [])
        series.append(Series(mode, [Point(row["confidence"], row["accuracy"]) for row in bins]))
    ideal = Series("as sure as right", [Point(0.0, 0.0), Point(1.0, 1.0)], reference=True)
    note = "Below the dashed line a mode is surer than it is right."
    labels = ("confidence", "accuracy of answers that sure")
    return Figure("Reliability of the probabilities", [*series, ideal], *labels, notes=[note])


def class_table(scores: Scores, mode: str) -> Table:
    """Precision, recall and F1 of each class."""
    keys = ("class", "precision", "recall", "f1", "support")
    columns = ("class", "precision", "recall", "F1", "test documents")
    rows = [tuple(row[key] for key in keys) for row in scores["modes"][mode]["per_class"]]
    return Table(f"Scores by class, inference {mode}", columns, rows)
