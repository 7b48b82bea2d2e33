"""Scores beyond those of one training: other seeds, other folds, documents added later."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from privgcn.config import MODES, make_settings
from privgcn.data import OUTSIDE, TEST, TRAIN, Corpus
from privgcn.errors import ConfigError, DataError, PrivacyContractError
from privgcn.evaluation import HEADLINE, over_seeds
from privgcn.privacy.accounting import epsilon_of_events
from privgcn.privacy.plan import PrivacyPlan
from privgcn.runs.run import Run
from privgcn.runs.train import TrainedRun, train, train_run


class Evaluation(NamedTuple):
    """A model beside documents that it was not trained on.

    Attributes:
        run: Ready to be scored.
        left_out: How many documents the split now calls test that trained the model.
    """

    run: TrainedRun
    left_out: int


def evaluation_of(run: Run, *, encoder: Path | None = None) -> Evaluation:
    """The model of a run beside the test documents that it was not trained on.

    A random split would be made anew, and differently where documents came or went. So the
    run's memory decides: what it was not trained on and did not validate with.

    Args:
        run: A run folder.
        encoder: Where the encoder of the features lies, if it is not installed.

    Raises:
        DataError: The folder does not know, or there are no such documents.
    """
    model, corpus, seen = run.model(path=encoder), run.corpus(), run.documents_seen
    if seen is None:
        raise DataError(
            f"The {run.stored.kind} {run.folder} does not know which documents it was "
            "trained on. Evaluate the run folder."
        )
    trained = seen.among(corpus, own=True)
    test = (corpus.split == TEST) & ~trained
    if corpus.facts.split_origin == "random":
        test = ~trained & ~seen.validated(corpus)
    if not test.any():
        raise DataError(
            f"There are no documents in {run.settings.data.source} to evaluate that the "
            f"run {run.folder} was not trained on. Add some with split 'test'."
        )
    documents = corpus.with_split(np.where(test, TEST, np.where(trained, TRAIN, OUTSIDE)))
    left_out = int((trained & (corpus.split == TEST)).sum())
    return Evaluation(TrainedRun(model, documents, model.graph(documents)), left_out)


def repeated_scores(run: TrainedRun, count: int) -> dict[str, Any]:
    """Scores of a model and of the same training with other seeds: how much is luck.

    The model is that of the first seed, which the settings name before anything is trained.
    The others are trained, scored and forgotten; nobody chooses among them.

    Args:
        run: The model, of the settings' own seed.
        count: Seeds in all, the model's included.

    Returns:
        The seeds; for each mode and score, the values with mean, deviation and interval; and
        what publishing all of them would cost.
    """
    if run.prepared is None:
        raise ValueError("only a run that was trained just now can be repeated")
    first = run.settings.seed
    seeds = list(range(first, first + count))
    others = (train(run.prepared.reseeded(seed), run.graph) for seed in seeds[1:])
    tables = [run.scores, *(other.scores for other in others)]
    documents, plan = len(run.truth[run.truth >= 0]), run.prepared.plan
    return {
        "seeds": seeds,
        "model": first,
        "modes": {
            mode: {
                name: over_seeds([table[mode][name] for table in tables], documents)
                for name in (HEADLINE if documents else ())
            }
            for mode in MODES
        },
        "composed_epsilon": None if plan is None else composed_epsilon(plan, count),
    }


def composed_epsilon(plan: PrivacyPlan, count: int) -> float:
    """What so many runs of one plan on the same documents cost together, at its delta."""
    return epsilon_of_events([plan.event] * count, delta=plan.delta, accountant="pld")


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
    fold_of = _folds(corpus, folds, seed)
    if bool((corpus.labels < 0).all()):
        raise DataError("Cross-validation needs labels, and no document here has one.")
    tables = [
        train_run(corpus.with_split(np.where(fold_of == fold, TEST, TRAIN)), chosen).scores
        for fold in range(folds)
    ]
    documents = sum(table["alone"]["documents"] for table in tables)
    return {
        mode: {
            name: over_seeds([table[mode][name] for table in tables], documents)
            for name in HEADLINE
        }
        for mode in MODES
    } | {"documents": documents, "folds": folds}


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
    dealt = np.arange(units) % folds
    return np.asarray(np.random.default_rng(seed).permutation(dealt)[of], dtype=np.int64)
