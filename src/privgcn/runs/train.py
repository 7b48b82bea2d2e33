"""The one road from documents to a model.

The classifier, ``train``, ``tune`` and experiments take it: documents are made ready
(:class:`Prepared`), parameters are fitted to them, and the model is put beside its documents
to be scored (:class:`Trial`).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import nn

from privgcn.config import MODES, Mode, Settings
from privgcn.data import Corpus
from privgcn.data.corpus import TEST, TRAIN, VALIDATION
from privgcn.evaluation.baselines import majority, sees_no_links, uniform
from privgcn.evaluation.intervals import with_intervals
from privgcn.evaluation.metrics import HEADLINE, classification_scores
from privgcn.evaluation.references import references
from privgcn.features import Featurizer, make_featurizer
from privgcn.features.base import PublicVectors
from privgcn.graph.textgraph import TextGraph
from privgcn.prediction.inference import scores_in_mode
from privgcn.privacy.plan import PrivacyPlan
from privgcn.privacy.statement import PrivacyStatement
from privgcn.progress import advance, begin
from privgcn.runs.assumptions import check_owners, statement_of
from privgcn.runs.model import Model, graph_of
from privgcn.training.fit import fit, fit_together
from privgcn.training.fitted import Fit
from privgcn.training.private import Progress
from privgcn.training.ranks import Team


@dataclass(frozen=True, eq=False)
class Prepared:
    """A corpus made ready for training.

    Attributes:
        corpus: Documents with their split.
        featurizer: Fitted on the training documents only.
        graph: All documents, with their features.
    """

    corpus: Corpus
    featurizer: Featurizer
    graph: TextGraph

    @classmethod
    def of(cls, corpus: Corpus, settings: Settings) -> Prepared:
        """Makes the features that the settings name."""
        features, train = settings.features, corpus.train
        featurizer = make_featurizer(
            features.kind,
            features.options,
            train,
            language=features.language,
            documents=public_size(corpus, settings),
        ).fit(train)
        return cls(corpus, featurizer, graph_of(corpus, featurizer, settings))

    @cached_property
    def train(self) -> TextGraph:
        """The training documents and the links among them."""
        return self.graph.induced(rows_with_split(self.graph, TRAIN))

    def fit(
        self,
        settings: Settings,
        seeds: Sequence[int] | None = None,
        *,
        progress: Progress | None = None,
        checkpoint_folder: Path | None = None,
        module: nn.Module | None = None,
        team: Team | None = None,
    ) -> Fit:
        """Trains on the training documents; validation documents may stop a plain run."""
        visible = None
        if settings.privacy is None:
            visible = self.graph.induced(rows_with_split(self.graph, TRAIN, VALIDATION))
        return fit(
            self.train,
            settings,
            seeds=seeds,
            visible=visible,
            columns=self.corpus.train.columns,
            class_vectors=self._class_vectors(settings),
            progress=progress,
            checkpoint_folder=checkpoint_folder,
            module=module,
            team=team,
        )

    def _class_vectors(self, settings: Settings) -> torch.Tensor | None:
        """The names of the classes as the encoder sees them, where they are public."""
        public = self.corpus.facts.classes_declared and settings.training.large_steps
        if not public or not isinstance(self.featurizer, PublicVectors):
            return None
        return torch.from_numpy(self.featurizer.names_encoded(self.corpus.classes))

    def trial(self, fitted: Fit, statement: PrivacyStatement | None) -> Trial:
        """What was fitted beside these documents."""
        classes = np.asarray(self.corpus.classes)
        model = Model(fitted, self.featurizer, classes, statement)
        return Trial(model, self.corpus, self.graph)


@dataclass(frozen=True, eq=False)
class Trial:
    """A model beside documents, ready to be scored on the test documents."""

    model: Model
    corpus: Corpus
    graph: TextGraph

    @property
    def plan(self) -> PrivacyPlan | None:
        """What the guarantee rests on; ``None`` for a non-private run."""
        return self.model.fitted.plan

    def predictions(self, mode: Mode) -> npt.NDArray[np.int64]:
        """Predicted class of each test document, ``[R, documents]``."""
        begin(f"prediction {mode}")
        rows = rows_with_split(self.graph, TEST)
        scores = scores_in_mode(self.model.fitted, self.graph, rows, mode)
        return np.asarray(scores.argmax(-1).T.numpy())

    @cached_property
    def truth(self) -> npt.NDArray[np.int64]:
        """Class of each test document."""
        return np.asarray(self.corpus.labels[self.corpus.split == TEST])

    @cached_property
    def scores(self) -> list[dict[Mode, dict[str, Any]]]:
        """For each replica and inference mode, the scores on the test documents."""
        return self.scored(MODES)

    def scored(self, modes: Iterable[Mode]) -> list[dict[Mode, dict[str, Any]]]:
        """For each replica and some modes, the scores on the test documents."""
        tables: list[dict[Mode, dict[str, Any]]] = [
            {} for _ in range(self.model.fitted.replicas)
        ]
        for mode in modes:
            for table, predicted in zip(tables, self.predictions(mode), strict=True):
                table[mode] = self._table(predicted)
        return tables

    def headline(self, predicted: npt.NDArray[np.int64]) -> dict[str, Any]:
        """The main scores of predictions for the test documents, with their intervals."""
        table = self._table(predicted)
        return {key: table[key] for key in (*HEADLINE, "documents", "intervals")}

    def _table(self, predicted: npt.NDArray[np.int64]) -> dict[str, Any]:
        return with_intervals(classification_scores(self.truth, predicted, self.corpus.classes))


def train(
    corpus: Corpus,
    settings: Settings,
    seeds: Sequence[int] | None = None,
    *,
    progress: Progress | None = None,
    checkpoint_folder: Path | None = None,
    module: nn.Module | None = None,
    team: Team | None = None,
) -> Trial:
    """Trains on the training documents of a corpus.

    Args:
        corpus: Documents with their split; features are fitted on the training ones.
        settings: Everything that decides the run.
        seeds: One replica each, in one pass, for experiments. A released model is one
            replica, of the settings' own seed: replicas have no statement.
        progress: Called with steps done and steps in all; default ``privgcn.progress``.
        checkpoint_folder: Where a private run leaves its state to be resumed.
        module: The user's own model, where ``model.kind`` is ``module``.
        team: The ranks that a private run shares its parts with; this is rank 0.

    Raises:
        DataError: Nobody could train on the corpus.
        PrivacyContractError: What is wished for cannot be promised.
    """
    corpus.check_trainable()
    check_owners(corpus, settings.privacy.unit if settings.privacy else None)
    begin("features")
    ready = Prepared.of(corpus, settings)
    begin("training")
    fitted = ready.fit(
        settings,
        seeds,
        progress=advance if progress is None else progress,
        checkpoint_folder=checkpoint_folder,
        module=module,
        team=team,
    )
    alone = seeds is None
    return ready.trial(
        fitted, statement_of(fitted, corpus.train, ready.featurizer) if alone else None
    )


def train_together(
    corpus: Corpus, runs: Sequence[tuple[Settings, Sequence[int]]]
) -> list[Trial]:
    """Trains as several private settings with the same features say, in one pass if it can be.

    For experiments: the models have no statement.
    """
    corpus.check_trainable()
    for settings, _ in runs:
        check_owners(corpus, settings.privacy.unit if settings.privacy else None)
    ready = Prepared.of(corpus, runs[0][0])
    fits = fit_together(ready.train, runs, columns=corpus.train.columns)
    return [ready.trial(fitted, None) for fitted in fits]


def score_table(trial: Trial) -> dict[str, Any]:
    """The content of ``scores.json``: scores by inference mode, beside what they must beat.

    Guarantees:
        The private documents of a private run are not trained on again.
    """
    corpus, settings = trial.corpus, trial.model.fitted.settings
    table = {
        "dataset": corpus.name,
        "synthetic": corpus.facts.synthetic,
        "features": trial.model.featurizer.dimension,
        "classes": list(corpus.classes),
        "modes": trial.scores[0],
        "baselines": baseline_scores(trial),
    }
    if settings.privacy is None:
        table["references"] = reference_scores(trial)
    return table


def baseline_scores(trial: Trial) -> dict[str, dict[str, Any]]:
    """Scores that a result must beat, and that cost nothing: majority, random, graph-blind.

    For a linear model without hops in training, the graph-blind baseline is the released
    model itself, scoring each document alone.
    """
    truth, classes = trial.truth, trial.corpus.classes
    settings = trial.model.fitted.settings
    named = {
        "majority": majority(truth, len(classes)),
        "random": uniform(truth, len(classes), settings.seed),
    }
    if sees_no_links(settings):
        named["graph-blind linear"] = trial.predictions("alone")[0]
    return {name: trial.headline(predicted) for name, predicted in named.items()}


def reference_scores(trial: Trial) -> dict[Mode, dict[str, Any]]:
    """For each inference mode, the non-private references and which of them is the best.

    They are trained on the training documents, so only a non-private run has them.
    """
    begin("references")
    fitted = trial.model.fitted
    found = references(trial.graph, fitted.settings, fitted=fitted)
    return {
        mode: {
            "best": one.best,
            "validation": one.validation,
            "scores": {name: trial.headline(row) for name, row in one.predicted.items()},
        }
        for mode, one in found.items()
    }


def public_size(corpus: Corpus, settings: Settings) -> int:
    """How many documents there are, or owners where unit ``person`` makes that private."""
    if settings.privacy is not None and settings.privacy.unit == "person":
        return len(corpus.owner_names or ())
    return len(corpus)


def rows_with_split(graph: TextGraph, *codes: int) -> torch.Tensor:
    """Rows of the documents whose split is one of ``codes``."""
    return torch.nonzero(torch.isin(graph.split, torch.tensor(codes, dtype=torch.int8)))[:, 0]


def with_split(corpus: Corpus, codes: npt.ArrayLike) -> Corpus:
    """The same documents with another split: one code for all, or one for each."""
    split = np.broadcast_to(np.asarray(codes, dtype=np.int8), (len(corpus),))
    return replace(corpus, split=split)
