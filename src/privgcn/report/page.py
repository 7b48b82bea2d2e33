"""Pages: one self-contained HTML file about a run; no network, no script, works from disk.

    >>> from privgcn.config import Settings
    >>> scores = {"dataset": "archive", "classes": [], "modes": {"alone": {"micro_f1": 0.5}}}
    >>> page = run_page(Settings(), None, scores)
    >>> "archive, without differential privacy" in page
    True

The same input gives the same bytes.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from privgcn.config import MODES, Mode, Settings, to_toml
from privgcn.errors import ConfigError
from privgcn.privacy.statement import PrivacyStatement
from privgcn.privacy.wording import SHORT_UNIT, explained, round_up
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
from privgcn.report.text import rendered

if TYPE_CHECKING:
    from privgcn.audit.attacks import Attacks

_GENERATOR = b'<meta name="generator" content="privgcn">'


def run_page(
    settings: Settings,
    statement: PrivacyStatement | None,
    scores: Scores,
    *,
    name: str | None = None,
    checked: Sequence[str] = (),
    attacks: Attacks | None = None,
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
        ConfigError: The attacks are on other documents.
    """
    private, dataset = statement is not None, dataset_of(settings, scores)
    shown_attacks: dict[str, Any] | None = None
    if attacks is not None:
        from privgcn.report import attacks as attacked

        if attacks.source != dataset:
            raise ConfigError(
                f"The evidence of a report must be about the documents of its run, {dataset}. "
                f"Got {attacks.source}. Attack the run itself."
            )
        shown_attacks = {"figure": attacked.figure(attacks), "table": attacked.table(attacks)}
    claim: dict[str, Any] = {}
    if statement is not None:
        verdict = "releasable" if statement.releasable else "seeded"
        claim = {
            "words": explained(statement),
            "verdict": "void" if statement.void else verdict,
            "statement": statement,
            "epsilon": round_up(statement.epsilon),
            "short_epsilon": round_up(statement.epsilon, 3),
            "unit": SHORT_UNIT[statement.unit],
        }
    lead, deployed = leading(scores, private=private), deployment(scores)
    page = {
        "title": f"{dataset}, {'with' if private else 'without'} differential privacy",
        "name": name,
        "dataset": dataset,
        "settings": settings,
        "synthetic": scores.get("synthetic"),
        "lead": lead,
        "sees": MODES[lead].sees,
        "score": cells(scores["modes"][lead], "micro_f1"),
        "documents": documents(scores),
        "reference": scores.get("references", {}).get(lead),
        "baseline": baseline(scores, lead),
        "notices": [
            "working_copy" if private else "no_guarantee",
            *["synthetic"] * bool(scores.get("synthetic")),
        ],
        "claim": claim,
        "checked": checked,
        "tables": [
            table
            for table in (
                mode_table(scores, private=private),
                repeat_table(scores),
                reference_table(scores),
            )
            if table
        ],
        "score_figure": score_figure(scores, private=private),
        "deployment": deployed and {"tone": "info", "title": deployed[0], "text": deployed[1]},
        "probability_table": probability_table(scores),
        "reliability_figure": reliability_figure(scores),
        "class_names": scores.get("classes", []),
        "classes": _classes(scores, lead, private=private),
        "attacks": shown_attacks,
        "toml": to_toml(settings.model_dump()),
    }
    return rendered("run.html", page=page)


def dataset_of(settings: Settings, scores: Scores) -> str:
    """What a run was trained on."""
    return scores.get("dataset") or settings.data.source or "unnamed documents"


def is_report(path: Path) -> bool:
    """Whether a file begins as a page of ours."""
    with path.open("rb") as file:
        return _GENERATOR in file.read(1024)


def _classes(scores: Scores, lead: Mode, *, private: bool) -> list[dict[str, Any]]:
    """How well each class is told, by mode; the leading one first."""
    modes = scores["modes"]
    return [
        {
            "mode": mode,
            "words": MODES[mode].sees,
            "outside": private and not MODES[mode].covered,
            "lead": mode == lead,
            "table": class_table(modes[mode], mode),
            "confusion": modes[mode]["confusion"],
        }
        for mode in sorted(modes_of(modes), key=lambda mode: mode != lead)
        if modes[mode].get("per_class")
    ]
