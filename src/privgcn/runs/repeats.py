"""The same training with several seeds: how much of a score is luck.

The model is that of the first seed, which the settings name before anything is trained. The
others are trained, scored and forgotten; nobody chooses among them.
"""

from __future__ import annotations

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
