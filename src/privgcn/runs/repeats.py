"""The same training with several seeds: how much of a score is luck.

The model is that of the first seed, which the settings name before anything is trained. The
others are trained, scored and forgotten; nobody chooses among them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from privgcn.evaluation.intervals import over_seeds
from privgcn.evaluation.metrics import HEADLINE
from privgcn.privacy.accounting.epsilon import epsilon_of_releases
from privgcn.privacy.plan import PrivacyPlan
from privgcn.runs.train import Prepared, Trial


def repeated_scores(trial: Trial, count: int) -> dict[str, Any]:
    """Scores of a model and of the same training with other seeds.

    Args:
        trial: The model, of the settings' own seed.
        count: Seeds in all, the model's included.

    Returns:
        The seeds; for each mode and score, the values with mean, deviation and interval; and
        what publishing all of them would cost.
    """
    settings = trial.model.fitted.settings
    seeds = list(range(settings.seed, settings.seed + count))
    tables = [trial.scores[0]]
    if count > 1:
        ready = Prepared(trial.corpus, trial.model.featurizer, trial.graph)
        tables += ready.trial(ready.fit(settings, seeds[1:]), None).scores
    documents = next(iter(tables[0].values()))["documents"]
    return {
        "seeds": seeds,
        "model": settings.seed,
        "modes": {
            mode: {
                name: over_seeds([table[mode][name] for table in tables], documents)
                for name in (HEADLINE if documents else ())
            }
            for mode in tables[0]
        },
        "composed_epsilon": None if trial.plan is None else composed_epsilon(trial.plan, count),
    }


def composed_epsilon(plan: PrivacyPlan, count: int) -> float:
    """What so many runs of one plan on the same documents cost together, at its delta."""
    return epsilon_of_releases(plan.releases * count, delta=plan.delta, accountant="pld")


def repeat_lines(repeats: dict[str, Any], delta: float | None) -> list[str]:
    """The scores over seeds in words, and what publishing them would cost."""
    seeds: Sequence[int] = repeats["seeds"]
    lines = []
    for mode, rows in repeats["modes"].items():
        if "micro_f1" in rows:
            row = rows["micro_f1"]
            low, high = row["interval"]
            spread = "" if row["std"] is None else f" ± {row['std']:.3f}"
            lines.append(
                f"{mode}: micro-F1 {row['mean']:.3f}{spread} over {len(seeds)} seeds, 95 % "
                f"{low:.3f} to {high:.3f}; the model, seed {repeats['model']}: "
                f"{row['values'][0]:.3f}."
            )
    if repeats["composed_epsilon"] is not None:
        from privgcn.privacy.statement_text import round_up

        lines.append(
            f"Each seed trained on the private documents: publishing the scores of all "
            f"{len(seeds)} beside the model would be {len(seeds)} releases, epsilon at most "
            f"{round_up(repeats['composed_epsilon'])} together at delta {delta:g}. Keep them "
            "to yourself; the guarantee is that of the model alone."
        )
    return lines
