"""Several seeds of one configuration in one pass, scored on the test documents.

For experiments: a released model is one replica, and every replica that is released adds
to what was spent.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from privgcn.config import Settings
from privgcn.corpus import Corpus
from privgcn.corpus.corpus import TEST, TRAIN, VALIDATION
from privgcn.evaluation.baselines import majority, sees_no_links, uniform
from privgcn.evaluation.metrics import HEADLINE, classification_scores
from privgcn.features import Featurizer
from privgcn.graph.textgraph import TextGraph
from privgcn.prediction.inference import MODES, Mode, scores_in_mode
from privgcn.privacy.plan import PrivacyPlan
from privgcn.runs.assumptions import check_owners
from privgcn.runs.prepare import fitted_featurizer, graph_of, rows_with_split
from privgcn.training.fit import Fit, fit

Progress = Callable[[int, int], None]


@dataclass(frozen=True, eq=False)
class Replicas:
    """Trained replicas and the corpus they are scored on."""

    corpus: Corpus
    graph: TextGraph
    featurizer: Featurizer
    fitted: Fit
    seeds: tuple[int, ...]

    @property
    def plan(self) -> PrivacyPlan | None:
        """What the guarantee rests on; ``None`` for a non-private run."""
        return self.fitted.plan

    def predictions(self, mode: Mode) -> npt.NDArray[np.int64]:
        """Predicted class of each test document, ``[R, documents]``."""
        rows = rows_with_split(self.graph, TEST)
        scores = scores_in_mode(self.fitted, self.graph, rows, mode)
        return np.asarray(scores.argmax(-1).T.numpy())

    @cached_property
    def truth(self) -> npt.NDArray[np.int64]:
        """Class of each test document."""
        return np.asarray(self.corpus.labels[self.corpus.split == TEST])

    @cached_property
    def scores(self) -> list[dict[Mode, dict[str, Any]]]:
        """For each seed and inference mode, the scores on the test documents."""
        return self.scored(MODES)

    def scored(self, modes: Sequence[Mode]) -> list[dict[Mode, dict[str, Any]]]:
        """For each seed and some modes, the scores on the test documents."""
        tables: list[dict[Mode, dict[str, Any]]] = [{} for _ in self.seeds]
        for mode in modes:
            for table, predicted in zip(tables, self.predictions(mode), strict=True):
                table[mode] = classification_scores(self.truth, predicted, self.corpus.classes)
        return tables


def train_replicas(
    corpus: Corpus,
    settings: Settings,
    seeds: Sequence[int] | None = None,
    *,
    progress: Progress | None = None,
    checkpoint_folder: Path | None = None,
) -> Replicas:
    """Trains on the training documents of a corpus, one replica per seed.

    Args:
        corpus: Documents with their split; features are fitted on the training ones.
        settings: Everything that decides the run.
        seeds: Default: the settings' own seed alone.
        progress: Called with steps done and steps in all.
        checkpoint_folder: Where a private run leaves its state to be resumed.
    """
    corpus.check_trainable()
    check_owners(corpus, settings.privacy.unit if settings.privacy else None)
    chosen = [settings.seed] if seeds is None else list(seeds)
    featurizer = fitted_featurizer(corpus.train, settings, documents=len(corpus))
    graph = graph_of(corpus, featurizer, settings)
    fitted = fit(
        graph.induced(rows_with_split(graph, TRAIN)),
        settings,
        seeds=chosen,
        visible=graph.induced(rows_with_split(graph, TRAIN, VALIDATION)),
        columns=corpus.train.columns,
        progress=progress,
        checkpoint_folder=checkpoint_folder,
    )
    return Replicas(corpus, graph, featurizer, fitted, tuple(chosen))


def baseline_scores(replicas: Replicas) -> dict[str, dict[str, Any]]:
    """Scores that a result must beat: majority, random, and the same recipe without links.

    For a linear model without hops in training, the graph-blind baseline is the released
    model itself, scoring each document alone. Otherwise a graph-blind ``mlp`` is trained,
    if there is no privacy to lose.

    Guarantees:
        The private documents of a private run are not trained on again.
    """
    truth, classes = replicas.truth, replicas.corpus.classes
    settings = replicas.fitted.settings
    named = {
        "majority": majority(truth, len(classes)),
        "random": uniform(truth, len(classes), settings.seed),
    }
    if sees_no_links(settings):
        named["graph-blind linear"] = replicas.predictions("alone")[0]
    elif settings.privacy is None:
        blind = settings.changed({"model.kind": "mlp"})
        trained = train_replicas(replicas.corpus, blind)
        named["graph-blind mlp"] = trained.predictions("alone")[0]
    tables = {n: classification_scores(truth, p, classes) for n, p in named.items()}
    return {n: {key: table[key] for key in HEADLINE} for n, table in tables.items()}
