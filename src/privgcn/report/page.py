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
from privgcn.config import MODES, Mode, Settings, flattened
from privgcn.errors import ConfigError
from privgcn.privacy.statement import PrivacyStatement
from privgcn.privacy.wording import SHORT_UNIT, explained, round_up
from privgcn.report import attacks as attacked
from privgcn.report.scores import (
    Scores,
    baseline,
    cells,
    class_table,
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
from privgcn.report.text import rendered, setting

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
    """

    settings: Settings
    statement: PrivacyStatement | None
    scores: Scores
    name: str | None = None
    checked: Sequence[str] = ()

    @property
    def dataset(self) -> str:
        """What the run was trained on."""
        return self.scores.get("dataset") or self.settings.data.source or "unnamed documents"


def run_page(
    settings: Settings,
    statement: PrivacyStatement | None,
    scores: Scores,
    *,
    attacks: Mapping[str, Any] | None = None,
    **more: Any,
) -> str:
    """The page of one run; a working copy for the owner of the data.

    Args:
        settings: See :class:`RunRecord`.
        statement: See :class:`RunRecord`.
        scores: See :class:`RunRecord`.
        attacks: What ``privgcn attack --out`` wrote about the same documents.
        more: See :class:`RunRecord`.

    Raises:
        ConfigError: The attacks are on other documents.
    """
    run = RunRecord(settings, statement, scores, **more)
    if attacks is not None and attacks["source"] != run.dataset:
        raise ConfigError(
            f"The evidence of a report must be about the documents of its run, {run.dataset}. "
            f"Got {attacks['source']}. Attack the run itself."
        )
    private = statement is not None
    notices = [notice("working_copy" if private else "no_guarantee")]
    if scores.get("synthetic"):
        notices.append(notice("synthetic", the="The"))
    claim: dict[str, Any] = {}
    if statement is not None:
        name = "void" if statement.void else "releasable" if statement.releasable else "seeded"
        claim = {
            "words": explained(statement),
            "verdict": notice(name),
            "epsilon": round_up(statement.epsilon),
            "short_epsilon": round_up(statement.epsilon, 3),
            "unit": SHORT_UNIT[statement.unit],
        }
    lead, deployed = leading(scores, private=private), deployment(scores)
    page = {
        "title": f"{run.dataset}, {'with' if private else 'without'} differential privacy",
        "run": run,
        "model": _MODELS[settings.model.kind],
        "synthetic": "SYNTHETIC" if scores.get("synthetic") else None,
        "lead": lead,
        "sees": MODES[lead].sees,
        "score": cells(scores["modes"][lead], "micro_f1"),
        "documents": documents(scores),
        "reference": scores.get("references", {}).get(lead),
        "baseline": baseline(scores, lead),
        "notices": notices,
        "claim": claim,
        "score_table": mode_table(scores, private=private),
        "more_scores": [t for t in (repeat_table(scores), reference_table(scores)) if t],
        "score_figure": score_figure(scores, private=private),
        "deployment": deployed and {"tone": "info", "title": deployed[0], "text": deployed[1]},
        "probability_table": probability_table(scores),
        "reliability_figure": reliability_figure(scores),
        "class_names": scores.get("classes", []),
        "classes": _classes(scores, lead, private=private),
        "attack_figure": attacks and attacked.figure(attacks),
        "attack_table": attacks and attacked.table(attacks),
        "settings": shown_settings(settings),
    }
    return render("run.html", page)


def is_report(path: Path) -> bool:
    """Whether a file begins as a page of ours."""
    with path.open("rb") as file:
        return _GENERATOR in file.read(1024)


def shown_settings(settings: Settings) -> list[tuple[str, str]]:
    """Settings by dotted name, as a reader expects them."""
    rows = flattened(settings.model_dump(exclude_none=True)).items()
    return [(name, setting(value)) for name, value in rows if value != {}]


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


def _classes(scores: Scores, lead: Mode, *, private: bool) -> list[dict[str, Any]]:
    """How well each class is told, by mode; the leading one first."""
    modes = scores["modes"]
    entries = [
        {
            "mode": mode,
            "words": MODES[mode].sees,
            "outside": private and not MODES[mode].covered,
            "lead": mode == lead,
            "table": class_table(modes[mode], mode),
            "confusion": modes[mode].get("confusion"),
        }
        for mode in sorted(modes_of(modes), key=lambda mode: mode != lead)
    ]
    return [entry for entry in entries if entry["table"] or entry["confusion"]]
