"""From a run to the values that its page shows; nothing here knows HTML."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from privgcn.config import Mode, Settings, facts_of
from privgcn.errors import ConfigError
from privgcn.evaluation.baselines import baselines_left_out
from privgcn.evidence.attack_record import Attacks
from privgcn.privacy.statement import PrivacyStatement
from privgcn.privacy.statement_text import SHORT_UNIT, round_up
from privgcn.report.curves import run_curve
from privgcn.report.evidence import attack_figure, attack_table
from privgcn.report.formats import number, score, setting
from privgcn.report.pages import citations, notice
from privgcn.report.scores import (
    Scores,
    class_table,
    confusion,
    mode_table,
    reference_table,
    repeat_table,
    score_figure,
)
from privgcn.report.wording import explained

_MODELS = {
    "gcn": "graph convolutional network",
    "linear": "linear model",
    "mlp": "network",
    "module": "module of the user's own",
}


def check_pair(settings: Settings, statement: PrivacyStatement | None, owner: str) -> None:
    """A page must neither miss a claim nor make one that the settings do not have."""
    if (settings.privacy is None) != (statement is None):
        got = "private settings without a statement"
        if statement is not None:
            got = "a statement without privacy settings"
        raise ConfigError(
            f"The settings and the statement of {owner} must belong together. Got {got}. "
            "Pass both, or neither for a run without privacy."
        )


def run_summary(
    settings: Settings,
    statement: PrivacyStatement | None,
    scores: Scores,
    *,
    checked: Sequence[str] = (),
    name: str | None = None,
    attacks: Attacks | None = None,
) -> dict[str, Any]:
    """Everything the page of one run shows; ``checked`` says what the claim was held to."""
    check_pair(settings, statement, f"run {name}" if name else "the run")
    if attacks is not None and attacks.source != scores.dataset:
        raise ConfigError(
            f"The evidence of a report must be about the documents of its run, "
            f"{scores.dataset}. Got {attacks.source}. Attack the run itself."
        )
    scores = scores.without_itself(settings)
    private = statement is not None
    lead = scores.leading(private=private)
    dataset = scores.dataset or settings.data.source or "unnamed documents"
    notices = [notice("working_copy" if private else "no_guarantee")]
    if scores.synthetic:
        notices.append(notice("synthetic", the="The"))
    for text in baselines_left_out(settings):
        notices.append({"tone": "info", "title": "A baseline is missing", "text": text})
    return {
        "title": f"{dataset}, {'with' if private else 'without'} differential privacy",
        "name": name,
        "synthetic": "SYNTHETIC" if scores.synthetic else None,
        "lede": _lede(settings, statement, scores, dataset, lead),
        "tiles": _tiles(statement, scores, lead),
        "notices": notices,
        "statement": None if statement is None else explained(statement),
        "verdict": None
        if statement is None
        else notice("releasable" if statement.releasable else "seeded"),
        "checked": list(checked),
        "score_table": mode_table(scores, private=private),
        "more_scores": [t for t in (repeat_table(scores), reference_table(scores)) if t],
        "score_figure": score_figure(scores, private=private),
        "curve": None if statement is None else run_curve(settings, statement, scores),
        "classes": _classes(scores, lead, private=private),
        "attack_figure": None if attacks is None else attack_figure(attacks),
        "attack_table": None if attacks is None else attack_table(attacks),
        "settings": effective_settings(settings),
        "citations": citations(),
    }


def effective_settings(settings: Settings) -> list[tuple[str, str]]:
    """Settings by dotted name; those that had no effect on the run are left out."""
    idle = {
        "training.parts": settings.privacy is not None,
        "model.hidden": settings.model.kind == "linear",
        "prediction.hops": settings.prediction.method == "direct",
        "prediction.restart": settings.prediction.method == "direct",
    }
    rows = _flat(settings.model_dump(exclude_none=True))
    return [(name, setting(value)) for name, value in rows if not idle.get(name)]


def _flat(tree: Mapping[str, Any], prefix: str = "") -> list[tuple[str, Any]]:
    rows: list[tuple[str, Any]] = []
    for key, value in tree.items():
        name = f"{prefix}{key}"
        rows += _flat(value, f"{name}.") if isinstance(value, Mapping) else [(name, value)]
    return rows


def _lede(
    settings: Settings,
    statement: PrivacyStatement | None,
    scores: Scores,
    dataset: str,
    lead: Mode,
) -> str:
    many = f" into {len(scores.classes)} classes" if scores.classes else ""
    value = scores.modes[lead].micro_f1
    scored = (
        "There were no test documents with a label, so nothing was scored. "
        if value is None
        else f"In mode {lead}, where it sees {facts_of(lead).sees}, its micro-F1 on the "
        f"{scores.documents()} is {score(value)}. "
    )
    text = (
        f"A {_MODELS[settings.model.kind]}, trained with the recipe “{settings.recipe}”, sorts "
        f"the documents of “{dataset}”{many}. {scored}"
    )
    if statement is None:
        return text + "It gives no privacy guarantee."
    return (
        text + f"It protects {SHORT_UNIT[statement.unit]} with epsilon at most "
        f"{round_up(statement.epsilon)} at delta {number(statement.delta)}."
    )


def _tiles(
    statement: PrivacyStatement | None, scores: Scores, lead: Mode
) -> list[tuple[str, str, str]]:
    """Label, value and note of each."""
    between = scores.modes[lead].cells("micro_f1")[1]
    sure = f"; 95\u00a0%: {between}" if between else ""
    tiles = [("Score", score(scores.modes[lead].micro_f1), f"micro-F1, inference {lead}{sure}")]
    if lead in scores.references:
        best = scores.references[lead].best
        value = score(scores.references[lead].scores[best].micro_f1)
        return [
            *tiles,
            ("Best without privacy", value, f"micro-F1, {best}"),
            ("Privacy", "none", "trained without privacy"),
        ]
    baselines = {name: row.micro_f1 or 0.0 for name, row in scores.baselines.items()}
    if baselines:
        best = max(baselines, key=baselines.__getitem__)
        value = score(scores.baselines[best].micro_f1)
        tiles.append(("Best baseline", value, f"micro-F1, {best}"))
    if statement is None:
        return [*tiles, ("Privacy", "none", "trained without privacy")]
    secret = "noise is secret" if statement.releasable else "must not be released"
    return [
        *tiles,
        (
            "Privacy",
            f"ε ≤ {round_up(statement.epsilon, 3)}",
            f"at δ = {number(statement.delta)}",
        ),
        ("Protects", SHORT_UNIT[statement.unit].removeprefix("the "), secret),
    ]


def _classes(scores: Scores, lead: str, *, private: bool) -> list[dict[str, Any]]:
    found = [
        {
            "mode": mode,
            "words": facts_of(mode).sees,
            "outside": private and not facts_of(mode).covered,
            "lead": mode == lead,
            "table": class_table(entry, mode),
            "confusion": confusion(entry, scores.classes),
        }
        for mode, entry in scores.ordered().items()
    ]
    found.sort(key=lambda entry: not entry["lead"])
    return [entry for entry in found if entry["table"] or entry["confusion"]]
