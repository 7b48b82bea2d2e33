"""Cross-validation, for documents that need no protection."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from privgcn.config import MODES, make_settings
from privgcn.data import Corpus
from privgcn.data.corpus import TEST, TRAIN
from privgcn.errors import ConfigError, DataError, PrivacyContractError
from privgcn.evaluation.intervals import over_seeds
from privgcn.evaluation.metrics import HEADLINE
from privgcn.runs.train import train, with_split


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
        >>> found = cross_validate(
        ...     load_corpus("clinic"), folds=2, features="hashing",
        ...     settings={"training.epochs": 5},
        ... )
        >>> len(found["own-graph"]["micro_f1"]["values"])
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
    where = _folds(corpus, folds, seed)
    if bool((corpus.labels < 0).all()):
        raise DataError("Cross-validation needs labels, and no document here has one.")
    tables = []
    for fold in range(folds):
        split = np.where(where == fold, TEST, TRAIN)
        tables.append(train(with_split(corpus, split), chosen).scored(MODES)[0])
    documents = sum(table["alone"]["documents"] for table in tables)
    return {
        mode: {
            name: over_seeds([table[mode][name] for table in tables], documents)
            for name in HEADLINE
        }
        for mode in MODES
    } | {"documents": documents, "folds": folds}


def _folds(corpus: Corpus, folds: int, seed: int) -> npt.NDArray[np.int64]:
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
