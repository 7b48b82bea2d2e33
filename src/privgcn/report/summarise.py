"""From a run to the plain values of its page; nothing here knows HTML."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from privgcn.config import Settings
from privgcn.errors import ConfigError
from privgcn.evaluation.baselines import baselines_left_out
from privgcn.privacy.statement import PrivacyStatement
from privgcn.privacy.statement_text import SHORT_UNIT, round_up
from privgcn.report.citation import citations
from privgcn.report.curve import curve_figure
from privgcn.report.figures import Figure
from privgcn.report.formats import MODE_WORDS, number, score, setting
from privgcn.report.own_curve import own_curve
from privgcn.report.score_tables import (
    check_scores,
    class_table,
    confusion,
    covered,
    headline_mode,
    score_figure,
    score_rows,
)
from privgcn.report.wording import explained

WORKING_COPY = {
    "tone": "warn",
    "title": "Working copy, not for release",
    "text": "This page is for the owner of the data. Its full-graph scores and its counts are "
    "not covered by the guarantee. The command `privgcn release` puts together what may leave "
    "the house.",
}
NO_GUARANTEE = {
    "tone": "bad",
    "title": "No privacy guarantee",
    "text": "This model was trained without privacy. It may repeat what any training document "
    "says, and so may its predictions and these scores. Do not release any of it where "
    "the documents are confidential. Train with `--epsilon` for a guarantee.",
}
SYNTHETIC = {
    "tone": "info",
    "title": "Synthetic documents",
    "text": "The documents were generated; no real person wrote or is described in them. "
    "Scores on them show that the program works, not how well it does on real text.",
}


def check_pair(settings: Settings, statement: PrivacyStatement | None, owner: str) -> None:
    """A page must neither miss a claim nor make one that the settings do not have.

    Raises:
        ConfigError: One of the two is private and the other is not.
    """
    if (settings.privacy is None) != (statement is None):
        got = "private settings without a statement"
        if statement is not None:
            got = "a statement without privacy settings"
        raise ConfigError(
            f"The settings and the statement of {owner} must belong together. Got {got}. "
            "Hand over both, or neither for a run without privacy."
        )


def run_summary(
    settings: Settings,
    statement: PrivacyStatement | None,
    scores: Mapping[str, Any],
    curve: Sequence[Mapping[str, Any]] | None = None,
    *,
    checked: Sequence[str] = (),
    name: str | None = None,
) -> dict[str, Any]:
    """Everything the page of one run shows.

    Args:
        settings: Of the run.
        statement: ``None`` for a run without privacy.
        scores: The content of ``scores.json``.
        curve: Points of the privacy-utility curve, where they are known; else a private run
            is drawn beside the outlook for its size.
        checked: Which files the claim was checked against.
        name: Of the run, for the page's title.
    """
    owner = f"run {name}" if name else "the run"
    check_pair(settings, statement, owner)
    record = check_scores(scores, owner)
    private = statement is not None
    lead = headline_mode(record, private=private)
    dataset = str(record.get("dataset") or settings.data.source or "unnamed documents")
    synthetic = record.get("synthetic") is True
    notices = [WORKING_COPY if private else NO_GUARANTEE]
    if synthetic:
        notices.append(SYNTHETIC)
    for text in baselines_left_out(settings):
        notices.append({"tone": "info", "title": "A baseline is missing", "text": text})
    return {
        "kind": "run",
        "title": f"{dataset}, {'with' if private else 'without'} differential privacy",
        "name": name,
        "dataset": dataset,
        "private": private,
        "synthetic": "SYNTHETIC" if synthetic else None,
        "lede": _lede(settings, statement, record, dataset, lead),
        "tiles": _tiles(statement, record, lead),
        "notices": notices,
        "statement": None if statement is None else explained(statement),
        "checked": list(checked),
        "score_table": score_rows(record, private=private),
        "score_figure": _figure_or_none(score_figure(record, private=private)),
        "curve": _curve(curve, settings, statement, record, lead),
        "measured_curve": bool(curve),
        "classes": _classes(record, lead, private=private),
        "settings": settings_rows(settings.model_dump()),
        "citations": citations(),
    }


def settings_rows(tree: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Settings by dotted name, in their own order."""
    rows: list[tuple[str, str]] = []
    for key, value in tree.items():
        if isinstance(value, Mapping):
            inner = settings_rows(value) or [("", "none")]
            rows += [(f"{key}.{name}" if name else key, text) for name, text in inner]
        else:
            rows.append((key, setting(value)))
    return rows


def _lede(
    settings: Settings,
    statement: PrivacyStatement | None,
    record: Mapping[str, Any],
    dataset: str,
    lead: str,
) -> str:
    kind = {"gcn": "graph convolutional network", "linear": "linear model", "mlp": "network"}
    classes = record.get("classes") or []
    many = f" into {len(classes)} classes" if classes else ""
    text = (
        f"A {kind[settings.model.kind]} was trained with the recipe “{settings.recipe}” to "
        f"sort the documents of “{dataset}”{many}. "
    )
    value = score(record["modes"][lead].get("micro_f1"))
    text += f"It reaches a micro-F1 of {value}, seeing {MODE_WORDS[lead]}. "
    if statement is None:
        return text + "It gives no privacy guarantee."
    return (
        text + f"It protects {SHORT_UNIT[statement.unit]} with epsilon at most "
        f"{round_up(statement.epsilon)} at delta {number(statement.delta)}."
    )


def _tiles(
    statement: PrivacyStatement | None, record: Mapping[str, Any], lead: str
) -> list[dict[str, str]]:
    tiles = [
        {
            "label": "Score",
            "value": score(record["modes"][lead].get("micro_f1")),
            "note": f"micro-F1, inference {lead}",
        }
    ]
    best = sorted(
        (name for name in record["baselines"]),
        key=lambda name: -(record["baselines"][name].get("micro_f1") or 0.0),
    )
    for name in best[:1]:
        value = score(record["baselines"][name].get("micro_f1"))
        tiles.append({"label": "Best baseline", "value": value, "note": f"micro-F1, {name}"})
    if statement is None:
        tiles.append({"label": "Privacy", "value": "none", "note": "trained without privacy"})
        return tiles
    tiles.append(
        {
            "label": "Privacy",
            "value": f"ε ≤ {round_up(statement.epsilon, 3)}",
            "note": f"at δ = {number(statement.delta)}",
        }
    )
    tiles.append(
        {
            "label": "Protects",
            "value": SHORT_UNIT[statement.unit].removeprefix("the "),
            "note": "noise is secret" if statement.releasable else "must not be released",
        }
    )
    return tiles


def _figure_or_none(record: Mapping[str, Any]) -> Figure | None:
    return Figure.from_dict(record) if record["series"] else None


def _curve(
    curve: Sequence[Mapping[str, Any]] | None,
    settings: Settings,
    statement: PrivacyStatement | None,
    record: Mapping[str, Any],
    lead: str,
) -> Figure | None:
    if not curve:
        drawn = own_curve(settings, statement, record)
        return None if drawn is None else Figure.from_dict(drawn)
    value = record["modes"][lead].get("micro_f1")
    own = None if statement is None or value is None else (statement.epsilon, float(value))
    return Figure.from_dict(curve_figure(curve, own=own))


def _classes(record: Mapping[str, Any], lead: str, *, private: bool) -> list[dict[str, Any]]:
    names = [str(name) for name in record.get("classes") or []]
    found = []
    for mode in sorted(record["modes"], key=lambda mode: mode != lead):
        entry = record["modes"][mode]
        table, matrix = class_table(entry, mode), confusion(entry, names)
        if table is not None or matrix is not None:
            outside = private and not covered(mode)
            found.append(
                {
                    "mode": mode,
                    "words": MODE_WORDS[mode],
                    "outside": outside,
                    "lead": mode == lead,
                    "table": table,
                    "confusion": matrix,
                }
            )
    return found
