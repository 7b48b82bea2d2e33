"""Pages: one self-contained HTML file about a run; no network, no script, works from disk.

The same input gives the same bytes.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING

from privgcn.config import MODES, Settings, to_toml
from privgcn.errors import ConfigError
from privgcn.privacy.statement import PrivacyStatement
from privgcn.privacy.wording import SHORT_UNIT, explained
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

    ``scores`` is the content of ``scores.json``, ``name`` that of the folder, ``checked`` the
    files that the claim was held to, ``attacks`` what ``privgcn attack --out`` wrote about the
    same documents.
    """
    private, dataset = statement is not None, dataset_of(settings, scores)
    shown_attacks = None
    if attacks is not None:
        from privgcn.report import attacks as attacked

        if attacks.source != dataset:
            raise ConfigError(
                f"The evidence of a report must be about the documents of its run, {dataset}. "
                f"Got {attacks.source}. Attack the run itself."
            )
        shown_attacks = attacked.figure(attacks), attacked.table(attacks)
    lead, known = leading(scores, private=private), modes_of(scores["modes"])
    page = {
        "title": f"{dataset}, {'with' if private else 'without'} differential privacy",
        "name": name,
        "dataset": dataset,
        "settings": settings,
        "toml": to_toml(settings.model_dump()),
        "statement": statement,
        "words": statement and explained(statement),
        "unit": statement and SHORT_UNIT[statement.unit],
        "checked": checked,
        "synthetic": scores.get("synthetic"),
        "modes": MODES,
        "lead": lead,
        "scores": scores,
        "score": cells(scores["modes"][lead], "micro_f1"),
        "documents": documents(scores),
        "reference": scores.get("references", {}).get(lead),
        "baseline": baseline(scores, lead),
        "deployment": deployment(scores),
        "score_figure": score_figure(scores, private=private),
        "tables": (
            mode_table(scores, private=private),
            repeat_table(scores),
            reference_table(scores),
        ),
        "probability_table": probability_table(scores),
        "reliability_figure": reliability_figure(scores),
        "class_names": scores.get("classes", []),
        "class_table": partial(class_table, scores),
        # The leading mode first.
        "classes": [
            mode
            for mode in sorted(known, key=lambda mode: mode != lead)
            if scores["modes"][mode].get("per_class")
        ],
        "attacks": shown_attacks,
    }
    return rendered("run.html", page=page)


def dataset_of(settings: Settings, scores: Scores) -> str:
    """What a run was trained on."""
    return scores.get("dataset") or settings.data.source or "unnamed documents"
