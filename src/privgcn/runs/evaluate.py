"""Scores beyond those of one training: other seeds, other folds, documents added later."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from privgcn.config import MODES, Mode, check_mode, make_settings
from privgcn.data import OUTSIDE, TEST, TRAIN, Corpus
from privgcn.errors import ConfigError, DataError, PrivacyContractError
from privgcn.evaluation import HEADLINE, over_seeds
from privgcn.privacy.accounting import epsilon_of_events
from privgcn.runs.predictions import check_full_graph
from privgcn.runs.run import Run
from privgcn.runs.train import TrainedRun, baselines, train, train_run


def score_documents(
    run: Run,
    source: str | None = None,
    inference: str = "all",
    *,
    encoder: Path | None = None,
    reading: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """Scores of a model on documents that it was not trained on, with intervals.

    Of its own corpus these are the test documents. A random split would be made anew, and
    differently where documents came or went, so the run's memory decides: what it was not
    trained on and did not validate with. Of other documents these are all but exact copies
    of training documents, whatever their split.

    Args:
        run: A run folder; for other documents than its own also a saved model or a release.
        source: Labelled documents, or a dataset; ``None`` takes the run's own.
        inference: A mode, or ``all`` that these documents have.
        encoder: Where the encoder of the features lies, if it is not installed.
        reading: Options of ``load_corpus``, where the run has others or, as a release, none.

    Returns:
        What ``--json`` prints.
    """
    model, seen = run.model(path=encoder), run.documents_seen
    own = source is None or run.is_own_source(source)
    corpus = run.corpus(None if own else source, reading)
    if own and seen is None:
        raise DataError(
            f"The {run.stored.kind} {run.folder} does not know which documents it was "
            "trained on. Evaluate the run folder, or name other documents."
        )
    trained = np.zeros(len(corpus), bool) if seen is None else seen.among(corpus, own=own)
    test, left_out = ~trained, trained
    if own and seen is not None:
        left_out = trained & (corpus.split == TEST)
        random = corpus.facts.split_origin == "random"
        test &= ~seen.validated(corpus) if random else corpus.split == TEST
    if not test.any():
        raise DataError(
            f"There are no documents in {source or run.settings.data.source} to evaluate that "
            f"the run {run.folder} was not trained on. Add some with split 'test'."
        )
    if not own and not (corpus.labels[test] >= 0).any():
        raise DataError(
            f"Evaluation needs labels, and no document of {source} has one. Add a column "
            "'label', or use 'privgcn predict'."
        )
    there = bool(trained.any())
    modes = [mode for mode in MODES if there or mode != "full-graph"]
    if inference != "all":
        modes = [check_full_graph(run, source, check_mode(inference), there=there)]
    corpus = corpus.with_split(np.where(test, TEST, np.where(trained, TRAIN, OUTSIDE)))
    scored = TrainedRun(model, corpus, model.graph(corpus))
    return {
        "run": str(run.folder),
        "dataset": corpus.name,
        "synthetic": corpus.facts.synthetic,
        "left_out": int(left_out.sum()),
        "scores": {mode: scored.score(mode) for mode in modes},
        "baselines": baselines(scored),
    }


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
        "modes": over_tables(tables, int((run.truth >= 0).sum())),
        "composed_epsilon": None
        if plan is None
        else epsilon_of_events([plan.event] * count, delta=plan.delta, accountant="pld"),
    }


def over_tables(tables: Sequence[Mapping[Mode, Any]], documents: int) -> dict[str, Any]:
    """For each mode and main score of several runs, mean, deviation and interval."""
    return {
        mode: {
            name: over_seeds([table[mode][name] for table in tables], documents)
            for name in (HEADLINE if documents else ())
        }
        for mode in MODES
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
    fold_of = _folds(corpus, folds, seed)
    if bool((corpus.labels < 0).all()):
        raise DataError("Cross-validation needs labels, and no document here has one.")
    tables = [
        train_run(corpus.with_split(np.where(fold_of == fold, TEST, TRAIN)), chosen).scores
        for fold in range(folds)
    ]
    documents = sum(table["alone"]["documents"] for table in tables)
    return {**over_tables(tables, documents), "documents": documents, "folds": folds}


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
