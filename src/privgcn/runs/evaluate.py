"""Scores beyond those of one training: of other seeds and of other folds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from privgcn.config import MODES, Mode, make_settings
from privgcn.data import TEST, TRAIN, Corpus
from privgcn.errors import ConfigError, DataError, PrivacyContractError
from privgcn.evaluation import HEADLINE, over_seeds
from privgcn.privacy.accounting import epsilon_of_events
from privgcn.runs.train import TrainedRun, train, train_run


def repeated_scores(run: TrainedRun, count: int) -> dict[str, Any]:
    """Scores of a model and of the same training with other seeds: how much is luck.

    The model is that of the first seed, which the settings name before anything is trained.
    The others are trained, scored and forgotten; nobody chooses among them.

    Returns:
        The seeds; for each mode and score, the values with mean, deviation and interval; and
        what publishing all of them would cost together, at the plan's delta.
    """
    if run.prepared is None:
        raise ValueError("only a run that was trained just now can be repeated")
    first, plan = run.settings.seed, run.prepared.plan
    seeds = list(range(first, first + count))
    others = (train(run.prepared.reseeded(seed), run.graph) for seed in seeds[1:])
    tables = [run.scores, *(other.scores for other in others)]
    return {
        "seeds": seeds,
        "model": first,
        "modes": _over_tables(tables, int((run.truth >= 0).sum())),
        "composed_epsilon": None
        if plan is None
        else epsilon_of_events([plan.event] * count, delta=plan.delta, accountant="pld"),
    }


def cross_validate(
    corpus: Corpus,
    *,
    folds: int = 5,
    epsilon: float | None = None,
    recipe: str | None = None,
    features: str | None = None,
    seed: int = 0,
    settings: Mapping[str, Any] | None = None,
    public: bool = False,
) -> dict[str, Any]:
    """Scores of a recipe over folds: each document is a test document once.

    Every fold trains on most of the documents, and all folds together on each document several
    times. So this is for non-private training, and for documents that are public.

    Args:
        corpus: Documents with labels; their split is not used. Documents of one owner stay
            together.
        folds: How many.
        epsilon: The privacy budget of each fold, to see what a budget does to public
            documents; needs ``public``.
        recipe: As in ``GraphClassifier``.
        features: As in ``GraphClassifier``.
        seed: Of the folds and of training.
        settings: Further settings by dotted name.
        public: Your word that the documents are public.

    Returns:
        For each inference mode and score: the values of the folds, their mean, sample standard
        deviation and 95 % interval; and the number of documents.

    Raises:
        PrivacyContractError: A budget without ``public``: no epsilon would count the folds.
        ConfigError: There are fewer than two folds, or more than documents or owners.

    Examples:
        >>> from privgcn import cross_validate, load_corpus
        >>> table = cross_validate(
        ...     load_corpus("clinic"), folds=2, features="hashing",
        ...     settings={"training.epochs": 5},
        ... )
        >>> len(table["own-graph"]["micro_f1"]["values"])
        2
    """
    changes = {**({} if features is None else {"features.kind": features}), **(settings or {})}
    chosen = make_settings(recipe, epsilon=epsilon, seed=seed, changes=changes)
    if chosen.privacy is not None and not public:
        raise PrivacyContractError(
            "Cross-validation trains on each document several times, and no epsilon counts "
            "that. Got a privacy budget without public=True. Use 'privgcn tune' to choose "
            "settings with private documents, or declare documents public that are."
        )
    if bool((corpus.labels < 0).all()):
        raise DataError("Cross-validation needs labels, and no document here has one.")
    fold_of = _folds(corpus, folds, seed)
    tables = [
        train_run(corpus.with_split(np.where(fold_of == fold, TEST, TRAIN)), chosen).scores
        for fold in range(folds)
    ]
    documents = sum(table["alone"]["documents"] for table in tables)
    return {**_over_tables(tables, documents), "documents": documents, "folds": folds}


def _over_tables(tables: Sequence[Mapping[Mode, Any]], documents: int) -> dict[str, Any]:
    """For each mode and main score of several runs, mean, deviation and interval."""
    return {
        mode: {
            name: over_seeds([table[mode][name] for table in tables], documents)
            for name in (HEADLINE if documents else ())
        }
        for mode in MODES
    }


def _folds(corpus: Corpus, folds: int, seed: int) -> NDArray[np.int64]:
    """The fold of each document: owners or documents are dealt out at random."""
    of = np.arange(len(corpus)) if corpus.owners is None else np.asarray(corpus.owners)
    _, of = np.unique(of, return_inverse=True)
    units = int(of.max(initial=-1)) + 1
    if not 2 <= folds <= units:
        raise ConfigError(
            f"The 'folds' of cross_validate must be between 2 and {units}, the number of "
            f"{'documents' if corpus.owners is None else 'owners'}. Got {folds}."
        )
    dealt = np.random.default_rng(seed).permutation(np.arange(units) % folds)
    return np.asarray(dealt[of], dtype=np.int64)
