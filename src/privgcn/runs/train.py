"""From documents to a model, and the model beside its documents to be scored.

    run = train(prepare(corpus, settings))
    run.scores["own-graph"]["micro_f1"]

A private run goes through one ``Session``; whatever else stands here is post-processing of
what was released, or looks at test documents alone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from privgcn import progress
from privgcn.config import MODES, Mode, make_settings
from privgcn.data import TEST, TRAIN, VALIDATION, Corpus
from privgcn.errors import PrivacyContractError
from privgcn.evaluation import (
    HEADLINE,
    better_mode,
    classification_scores,
    majority,
    over_seeds,
    probability_scores,
    references,
)
from privgcn.features import Featurizer, PublicVectors
from privgcn.graph import DocumentGraph, partition
from privgcn.privacy.accounting import epsilon_of_events
from privgcn.privacy.statement import Fact, PrivacyStatement
from privgcn.privacy.verify import model_sha256
from privgcn.released import Released
from privgcn.runs.prepare import PreparedRun, graph_of, prepare
from privgcn.runs.run import Model, bound_settings, likelihoods

if TYPE_CHECKING:
    from privgcn.mechanism import Ranks

_SHARED_ROWS = 1 << 14


@dataclass(frozen=True, eq=False)
class TrainedRun:
    """A model beside documents with their split, ready to be scored on the test documents."""

    model: Model
    corpus: Corpus
    graph: DocumentGraph
    _answers: dict[Mode, NDArray[np.float64]] = field(
        init=False, repr=False, default_factory=dict
    )

    @cached_property
    def test_rows(self) -> NDArray[np.int64]:
        """The test documents."""
        return np.flatnonzero(self.graph.split == TEST)

    @property
    def truth(self) -> NDArray[np.int64]:
        """Class of each test document."""
        return self.graph.labels[self.test_rows]

    def probabilities(self, mode: Mode) -> NDArray[np.float64]:
        """Class probabilities of each test document; each mode is computed once."""
        if mode not in self._answers:
            progress.begin(f"prediction {mode}")
            scores = self.model.scores(self.graph, self.test_rows, mode)
            self._answers[mode] = likelihoods(scores)
        return self._answers[mode]

    def predictions(self, mode: Mode) -> NDArray[np.int64]:
        """Predicted class of each test document."""
        return np.asarray(self.probabilities(mode).argmax(1))

    def compared(self, predicted: NDArray[np.int64]) -> dict[str, Any]:
        """Any predictions for the test documents against their classes."""
        return classification_scores(self.truth, predicted, self.corpus.classes)

    def score(self, mode: Mode) -> dict[str, Any]:
        """The scores on the test documents in one inference mode."""
        probable = probability_scores(self.truth, self.probabilities(mode))
        return {**self.compared(self.predictions(mode)), **probable}

    @cached_property
    def scores(self) -> dict[Mode, dict[str, Any]]:
        """Those of every mode."""
        return {mode: self.score(mode) for mode in MODES}

    @property
    def baselines(self) -> dict[str, dict[str, Any]]:
        """What a score must beat, beside that of mode ``alone``."""
        return {"majority": self.compared(majority(self.truth, self.corpus.num_classes))}


def train(prepared: PreparedRun, graph: DocumentGraph | None = None) -> TrainedRun:
    """Trains on the training documents of a prepared run.

    ``graph`` has the documents with their features, where they are there already. With ranks,
    every rank has the model, and the first one all documents.
    """
    ranks = prepared.ranks
    if graph is None:
        progress.begin("features")
        graph = _encoded(prepared)
    progress.begin("training")
    released = fit(prepared, graph)
    if ranks is not None and isinstance(prepared.featurizer, PublicVectors):
        _gather(graph, ranks)
    names, module = prepared.feature_names, prepared.module
    model = Model(released, prepared.featurizer, prepared.classes, None, names, module)
    return TrainedRun(_stated(model, prepared), prepared.corpus, graph)


def fit(prepared: PreparedRun, graph: DocumentGraph) -> Released:
    """The parameters: private documents are read here and nowhere later."""
    from privgcn.mechanism import Groups, RandomSource, Session

    settings, plan, ranks = prepared.settings, prepared.plan, prepared.ranks
    rows = np.flatnonzero(graph.split == TRAIN)
    if plan is None or settings.privacy is None:
        from privgcn.sgd.train import train_plain

        visible = np.flatnonzero(np.isin(graph.split, (TRAIN, VALIDATION)))
        stops = len(visible) > len(rows) and settings.training.patience > 0
        return train_plain(
            graph.induced(rows),
            graph.induced(visible) if stops else None,
            settings,
            module=prepared.module,
        )
    columns = prepared.corpus.train.columns
    groups = Groups.of_plan(plan, graph, rows=rows, columns=columns, ranks=ranks)
    source = None
    if ranks is None or ranks.leads:
        source = RandomSource.secret()
        if settings.privacy.reproducible:
            source = RandomSource.seeded(settings.seed, "noise")
    session = Session(plan, groups, source)
    if settings.training.large_steps:
        from privgcn.auto.train import train as train_auto

        return train_auto(session, settings, label_vectors=_label_vectors(prepared))
    from privgcn.sgd.train import train_private

    return train_private(session, settings, module=prepared.module)


def _label_vectors(prepared: PreparedRun) -> NDArray[Any] | None:
    encoder = prepared.featurizer
    if not prepared.corpus.facts.classes_declared or not isinstance(encoder, PublicVectors):
        return None
    return encoder.names_encoded(prepared.corpus.classes)


def _stated(model: Model, prepared: PreparedRun) -> Model:
    released, featurizer = model.released, prepared.featurizer
    if released.plan is None:
        return model
    public = [*prepared.public, *assumed_public(prepared.corpus, featurizer)]
    if released.title is not None:
        public.append(Fact("own_module", detail=released.title))
    weights, settings = released.serialised(), bound_settings(model.settings)
    statement = PrivacyStatement.of(
        released.plan,
        releasable=released.releasable,
        assumed_public=public,
        not_covered=[*not_covered(prepared.corpus, featurizer), *prepared.gaps],
        model_sha256=model_sha256(weights, model.record, settings),
    )
    return replace(model, statement=statement)


def assumed_public(corpus: Corpus, featurizer: Featurizer) -> list[Fact]:
    """Facts that anybody may know, in every neighbouring dataset alike."""
    facts = [Fact("features", count=featurizer.dimension, kind=featurizer.kind)]
    if corpus.facts.classes_declared:
        facts.append(Fact("classes_declared", count=corpus.num_classes))
    if corpus.facts.public_vectors is not None and featurizer.kind == "given":
        facts.append(Fact("vectors_made", detail=corpus.facts.public_vectors))
    return facts


def not_covered(corpus: Corpus, featurizer: Featurizer) -> list[Fact]:
    """What the guarantee says nothing about."""
    gaps: list[Fact] = []
    if not corpus.facts.classes_declared:
        gaps.append(Fact("classes_from_labels", count=corpus.num_classes))
    if corpus.facts.split_origin == "stratified":
        gaps.append(Fact("split_by_label"))
    if featurizer.learned is not None:
        gaps.append(Fact("learned_features", detail=featurizer.learned))
    return gaps + [Fact("other", detail=gap) for gap in corpus.facts.not_covered]


def score_table(run: TrainedRun) -> dict[str, Any]:
    """The content of ``scores.json``: scores by inference mode, beside what they must beat.

    Guarantees:
        The private documents of a private run are not trained on again.
    """
    corpus, released = run.corpus, run.model.released
    table = {
        "dataset": corpus.name,
        "synthetic": corpus.facts.synthetic,
        "features": run.model.featurizer.dimension,
        "classes": list(corpus.classes),
        "modes": run.scores,
        "baselines": run.baselines,
    }
    if (run.truth >= 0).any() and released.settings.privacy is not None:
        table["deploy"] = _deployment(run)
    elif (run.truth >= 0).any():
        progress.begin("references")
        table["references"] = {
            mode: {
                "best": each["best"],
                "scores": {n: run.compared(found) for n, found in each["predicted"].items()},
            }
            for mode, each in references(run.graph, released.settings, released).items()
        }
    return table


def _deployment(run: TrainedRun) -> dict[str, Any]:
    graph, test, edges = run.graph, run.test_rows, run.graph.edges.size > 0
    checked = np.flatnonzero((graph.split == VALIDATION) & (graph.labels >= 0))
    if not len(checked):
        modes = (run.predictions("alone"), run.predictions("own-graph"))
        return {**better_mode(run.truth, *modes), "decided_by": "test", "edges": edges}
    progress.begin("which mode to deploy")
    alone = run.model.scores(graph, checked, "alone").argmax(1)
    # As many documents are asked about as will be, and edges lead to all of them.
    both = np.concatenate([checked, test])
    own_graph = run.model.scores(graph, both, "own-graph")[: len(checked)].argmax(1)
    better = better_mode(graph.labels[checked], alone, own_graph)
    return {**better, "decided_by": "validation", "edges": edges}


def repeated_scores(run: TrainedRun, count: int) -> dict[str, Any]:
    """Scores of a model and of the same training with other seeds: how much is luck.

    The model is that of the first seed; the others are scored and forgotten, and nobody chooses
    among them. Publishing all would cost ``composed_epsilon``, at the plan's delta.
    """
    model, plan = run.model, run.model.released.plan
    first, tables = model.settings.seed, [run.scores]
    seeds = list(range(first, first + count))
    for seed in seeds[1:]:
        other = prepare(
            run.corpus,
            model.settings.changed({"seed": seed}),
            module=model.module,
            featurizer=model.featurizer,
        )
        tables.append(train(other, run.graph).scores)
    cost = None
    if plan is not None:
        cost = epsilon_of_events([plan.event] * count, delta=plan.delta, accountant="pld")
    modes = _over_tables(tables, int((run.truth >= 0).sum()))
    return {"seeds": seeds, "model": first, "modes": modes, "composed_epsilon": cost}


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

    This trains on each document several times: without privacy, or on documents that are
    ``public`` by your word, with ``epsilon`` as the budget of each fold. Documents of one owner
    stay together; their split is not used. Other arguments are as in ``GraphClassifier``.

    Returns:
        For each inference mode and score: the values of the folds, their mean, sample standard
        deviation and 95 % interval; and the number of documents.

    Examples:
        >>> from privgcn import cross_validate, load_corpus
        >>> table = cross_validate(
        ...     load_corpus("clinic"), folds=2, features="hashing",
        ...     settings={"training.epochs": 5},
        ... )
        >>> len(table["own-graph"]["micro_f1"]["values"])
        2
    """
    changes = {"features.kind": features, **(settings or {})}
    chosen = make_settings(recipe, epsilon=epsilon, seed=seed, changes=changes)
    if chosen.privacy is not None and not public:
        raise PrivacyContractError(
            "Cross-validation trains on each document several times, and no epsilon counts "
            "that. Got a privacy budget without public=True. Use 'privgcn tune' to choose "
            "settings with private documents, or declare documents public that are."
        )
    from sklearn.model_selection import GroupKFold

    units = np.arange(len(corpus)) if corpus.owners is None else corpus.owners
    dealt = GroupKFold(folds, shuffle=True, random_state=seed).split(units, groups=units)
    tables = []
    for train_rows, _ in dealt:
        split = np.full(len(corpus), TEST)
        split[train_rows] = TRAIN
        tables.append(train(prepare(corpus.with_split(split), chosen)).scores)
    documents = sum(table["alone"]["documents"] for table in tables)
    return {**_over_tables(tables, documents), "documents": documents, "folds": folds}


def _over_tables(tables: Sequence[Mapping[Mode, Any]], documents: int) -> dict[str, Any]:
    return {
        mode: {
            # A fold may have no labelled documents, and then has no scores.
            name: over_seeds([t[mode][name] for t in tables if t[mode]["documents"]], documents)
            for name in (HEADLINE if documents else ())
        }
        for mode in MODES
    }


def _encoded(prepared: PreparedRun) -> DocumentGraph:
    # Of several ranks each encodes its own texts; words and given vectors take no time.
    corpus, ranks, plan = prepared.corpus, prepared.ranks, prepared.plan
    encoded, shares = None, isinstance(prepared.featurizer, PublicVectors)
    if ranks is not None and plan is not None and shares:
        train = corpus.train
        groups = partition(plan.partition, len(train), train.owners, train.columns)
        mine = ranks.holds(np.arange(len(corpus)))
        mine[corpus.split == TRAIN] = ranks.holds(groups)
        encoded = np.flatnonzero(mine)
    return graph_of(corpus, prepared.featurizer, prepared.settings, encoded)


def _gather(graph: DocumentGraph, ranks: Ranks) -> None:
    # The first rank alone scores.
    for begin in range(0, len(graph), _SHARED_ROWS):
        block = slice(begin, begin + _SHARED_ROWS)
        total = ranks.sum(graph.features[block].astype(np.float64))
        if ranks.leads:
            graph.features[block] = total
