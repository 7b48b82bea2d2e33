"""Pages: one self-contained HTML file about a run; no network, no script, works from disk.

    >>> from privgcn.config import Settings
    >>> scores = {"dataset": "archive", "classes": [], "modes": {"alone": {"micro_f1": 0.5}}}
    >>> page = run_page(Settings(), None, scores)
    >>> "archive, without differential privacy" in page
    True

The same input gives the same bytes.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any

from privgcn import __version__
from privgcn.config import MODES, Settings, flattened
from privgcn.errors import ConfigError
from privgcn.privacy.statement import PrivacyStatement
from privgcn.privacy.wording import SHORT_UNIT, explained, round_up
from privgcn.report import attacks as attacked
from privgcn.report.scores import (
    Scores,
    baseline,
    cells,
    class_table,
    confusion,
    deployment,
    documents,
    leading,
    mode_table,
    modes_of,
    probability_table,
    reference_table,
    reliability_figure,
    repeat_table,
    score_figure,
)
from privgcn.report.text import number, rendered, score, setting

_GENERATOR = b'<meta name="generator" content="privgcn">'
_MODELS = {
    "gcn": "graph convolutional network",
    "linear": "linear model",
    "mlp": "network",
    "module": "module of the user's own",
}


@dataclass(frozen=True)
class RunRecord:
    """One run, as far as a page needs it.

    Attributes:
        settings: Of the run.
        statement: ``None`` for a run without privacy, and the page says so.
        scores: The content of ``scores.json``.
        name: Of its folder.
        checked: The files that the claim was held to.

    Raises:
        ConfigError: Settings and statement do not belong together: a page must neither miss a
            claim nor make one that the settings do not have.
    """

    settings: Settings
    statement: PrivacyStatement | None
    scores: Scores
    name: str | None = None
    checked: Sequence[str] = ()

    def __post_init__(self) -> None:
        if (self.settings.privacy is None) != (self.statement is None):
            got = "private settings without a statement"
            if self.statement is not None:
                got = "a statement without privacy settings"
            owner = f"run {self.name}" if self.name else "the run"
            raise ConfigError(
                f"The settings and the statement of {owner} must belong together. Got {got}. "
                "Pass both, or neither for a run without privacy."
            )

    @property
    def dataset(self) -> str:
        """What the run was trained on."""
        return self.scores.get("dataset") or self.settings.data.source or "unnamed documents"


def run_page(
    settings: Settings,
    statement: PrivacyStatement | None,
    scores: Scores,
    *,
    name: str | None = None,
    checked: Sequence[str] = (),
    attacks: Mapping[str, Any] | None = None,
) -> str:
    """The page of one run; a working copy for the owner of the data.

    Args:
        settings: Of the run.
        statement: ``None`` for a run without privacy, and the page says so.
        scores: The content of ``scores.json``.
        name: Of its folder.
        checked: The files that the claim was held to.
        attacks: What ``privgcn attack --out`` wrote about the same documents.

    Raises:
        ConfigError: Settings and statement, or scores and attacks, do not belong together.
    """
    run = RunRecord(settings, statement, scores, name, checked)
    if attacks is not None and attacks["source"] != run.dataset:
        raise ConfigError(
            f"The evidence of a report must be about the documents of its run, {run.dataset}. "
            f"Got {attacks['source']}. Attack the run itself."
        )
    private = statement is not None
    notices = [notice("working_copy" if private else "no_guarantee")]
    if scores.get("synthetic"):
        notices.append(notice("synthetic", the="The"))
    words = verdict = None
    if statement is not None:
        words = explained(statement)
        verdict = notice(
            "void" if statement.void else "releasable" if statement.releasable else "seeded"
        )
    deployed = deployment(scores)
    page = {
        "title": f"{run.dataset}, {'with' if private else 'without'} differential privacy",
        "name": name,
        "synthetic": "SYNTHETIC" if scores.get("synthetic") else None,
        "lede": _lede(run),
        "tiles": _tiles(run),
        "notices": notices,
        "statement": words,
        "verdict": verdict,
        "checked": list(checked),
        "score_table": mode_table(scores, private=private),
        "more_scores": [t for t in (repeat_table(scores), reference_table(scores)) if t],
        "score_figure": score_figure(scores, private=private),
        "deployment": deployed and {"tone": "info", "title": deployed[0], "text": deployed[1]},
        "probability_table": probability_table(scores),
        "reliability_figure": reliability_figure(scores),
        "classes": _classes(run),
        "attack_figure": None if attacks is None else attacked.figure(attacks),
        "attack_table": None if attacks is None else attacked.table(attacks),
        "settings": effective_settings(settings),
    }
    return render("run.html", page)


def is_report(path: Path) -> bool:
    """Whether a file begins as a page of ours."""
    with path.open("rb") as file:
        return _GENERATOR in file.read(1024)


def effective_settings(settings: Settings) -> list[tuple[str, str]]:
    """Settings by dotted name; those that had no effect on the run are left out."""
    idle = {
        "training.parts": settings.privacy is not None,
        "model.hidden": settings.model.kind == "linear",
        "prediction.hops": settings.prediction.method == "direct",
        "prediction.restart": settings.prediction.method == "direct",
    }
    rows = flattened(settings.model_dump(exclude_none=True)).items()
    return [(n, setting(v)) for n, v in rows if not idle.get(n) and v != {}]


@cache
def texts() -> Mapping[str, Any]:
    """What pages and cards say beside the statement, as a tree."""
    return tomllib.loads(resources.files(__package__).joinpath("texts.toml").read_text("utf-8"))


def notice(name: str, **values: str) -> dict[str, str]:
    """A notice: its tone, title and text."""
    return {key: text.format(**values) for key, text in texts()["notices"][name].items()}


def render(template: str, page: Mapping[str, Any]) -> str:
    """One page, with the method's paper and this program to cite, in words and as BibTeX."""
    citations = [
        {key: text.format(version=__version__) for key, text in entry.items()}
        for entry in texts()["citations"]
    ]
    return rendered(template, page={"citations": citations, **page}, version=__version__)


def _lede(run: RunRecord) -> str:
    settings, statement, scores = run.settings, run.statement, run.scores
    lead = leading(scores, private=statement is not None)
    many = f" into {len(scores['classes'])} classes" if scores.get("classes") else ""
    value = scores["modes"][lead].get("micro_f1")
    scored = (
        "There were no test documents with a label, so nothing was scored. "
        if value is None
        else f"In mode {lead}, where it sees {MODES[lead].sees}, its micro-F1 on the "
        f"{documents(scores)} is {score(value)}. "
    )
    text = (
        f"A {_MODELS[settings.model.kind]}, trained with the recipe “{settings.recipe}”, sorts "
        f"the documents of “{run.dataset}”{many}. {scored}"
    )
    if statement is None:
        return text + "It gives no privacy guarantee."
    return (
        text + f"It protects {SHORT_UNIT[statement.unit]} with epsilon at most "
        f"{round_up(statement.epsilon)} at delta {number(statement.delta)}."
    )


def _tiles(run: RunRecord) -> list[tuple[str, str, str]]:
    """Label, value and note of each."""
    statement, scores = run.statement, run.scores
    lead = leading(scores, private=statement is not None)
    value, between = cells(scores["modes"][lead], "micro_f1")
    interval = f"; 95\u00a0%: {between}" if between else ""
    tiles = [("Score", score(value), f"micro-F1, inference {lead}{interval}")]
    reference = scores.get("references", {}).get(lead)
    beaten = baseline(scores, lead)
    if reference is not None:
        best = reference["best"]
        other = score(reference["scores"][best].get("micro_f1"))
        tiles.append(("Best without privacy", other, f"micro-F1, {best}"))
    elif beaten is not None:
        name, level = beaten
        tiles.append(("Baseline to beat", score(level), f"micro-F1, {name}"))
    if statement is None:
        return [*tiles, ("Privacy", "none", "trained without privacy")]
    secret = "noise is secret" if statement.releasable else "must not be released"
    delta = f"at δ = {number(statement.delta)}"
    return [
        *tiles,
        ("Privacy", f"ε ≤ {round_up(statement.epsilon, 3)}", delta),
        ("Protects", SHORT_UNIT[statement.unit].removeprefix("the "), secret),
    ]


def _classes(run: RunRecord) -> list[dict[str, Any]]:
    modes, private = run.scores["modes"], run.statement is not None
    lead = leading(run.scores, private=private)
    entries = [
        {
            "mode": mode,
            "words": MODES[mode].sees,
            "outside": private and not MODES[mode].covered,
            "lead": mode == lead,
            "table": class_table(modes[mode], mode),
            "confusion": confusion(modes[mode], run.scores.get("classes", [])),
        }
        for mode in modes_of(modes)
    ]
    entries.sort(key=lambda entry: not entry["lead"])
    return [entry for entry in entries if entry["table"] or entry["confusion"]]
