"""What the planner says of a run, from public numbers alone, before and after it."""

from __future__ import annotations

from typing import Any

import numpy as np

from privgcn.config import Settings
from privgcn.data import Corpus
from privgcn.data.corpus import TRAIN
from privgcn.features import Featurizer, make_featurizer
from privgcn.runs.assumptions import check_owners
from privgcn.runs.train import Trial, public_size
from privgcn.training.outlook import MODE, Outlook, outlook
from privgcn.training.planning import plan_for_units


def check_plan(corpus: Corpus, settings: Settings) -> None:
    """Refuses what could not be promised before any text is encoded.

    Raises:
        ConfigError: The budget cannot be kept.
        PrivacyContractError: Owners, parts or delta do not fit the documents.
    """
    privacy = settings.privacy
    check_owners(corpus, privacy.unit if privacy else None)
    if privacy is not None:
        plan_for_units(
            privacy,
            _units(corpus, settings),
            epochs=settings.training.epochs,
            seed=settings.seed,
            columns=corpus.train.columns,
        )


def outlook_of(corpus: Corpus, settings: Settings) -> Outlook | None:
    """The outlook of a run that has not begun; ``None`` where nothing was measured like it.

    Features that learn from the documents have no size before that.
    """
    if settings.privacy is None:
        return None
    train, features = corpus.train, settings.features
    featurizer = make_featurizer(
        features.kind,
        features.options,
        train,
        language=features.language,
        documents=public_size(corpus, settings),
    )
    if featurizer.learns and featurizer.kind != "given":
        return None
    units = _units(corpus, settings)
    return _outlook(settings, units, corpus.num_classes, featurizer.fit(train))


def _units(corpus: Corpus, settings: Settings) -> int:
    """Training documents, or training owners where persons are protected."""
    train = corpus.split == TRAIN
    if settings.privacy is None or settings.privacy.unit != "person":
        return int(train.sum())
    return 0 if corpus.owners is None else len(np.unique(corpus.owners[train]))


def expected_score(trial: Trial) -> dict[str, Any] | None:
    """The interval in which the score of a run was expected, beside the score."""
    plan, model = trial.plan, trial.model
    if plan is None:
        return None
    settings = model.fitted.settings
    found = _outlook(settings, plan.units, trial.corpus.num_classes, model.featurizer)
    score = trial.scores[0][MODE]["micro_f1"]
    if found is None or score is None:
        return None
    return {"mode": MODE, "interval": list(found.expected.interval), "score": score}


def _outlook(
    settings: Settings, units: int, classes: int, featurizer: Featurizer
) -> Outlook | None:
    privacy = settings.privacy
    measured_alike = (
        settings.recipe == "auto"
        and privacy is not None
        and privacy.epsilon is not None
        and privacy.unit in ("document", "person")
        and privacy.parts == "each"
    )
    if privacy is None or privacy.epsilon is None or not measured_alike or units == 0:
        return None
    return outlook(
        units,
        classes,
        privacy.epsilon,
        features=featurizer.dimension,
        kind=featurizer.kind,
        delta=privacy.delta,
        unit=privacy.unit,
        relation=privacy.relation,
    )
