"""The classifier: scikit-learn's contract over a corpus of documents with edges."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.validation import check_is_fitted

from privgcn.config import (
    Settings,
    check_mode,
    flattened,
    recipe_settings,
    resolve,
    without_none,
)
from privgcn.data import TRAIN, VALIDATION, Corpus
from privgcn.data.ingest import is_missing
from privgcn.errors import ConfigError, DataError, PrivacyWarning
from privgcn.privacy.statement import Fact, PrivacyStatement
from privgcn.runs.documents_seen import vector_bytes
from privgcn.runs.folder import write_folder
from privgcn.runs.inputs import documents_in, training_documents, truth_beside
from privgcn.runs.model import Model, model_files
from privgcn.runs.prepare import prepare
from privgcn.runs.run import Run
from privgcn.runs.train import train

if TYPE_CHECKING:
    from torch import nn

# The setting that each parameter of the constructor names.
_PARAMETERS = {
    "epsilon": "privacy.epsilon",
    "delta": "privacy.delta",
    "unit": "privacy.unit",
    "relation": "privacy.relation",
    "parts": "privacy.parts",
    "recipe": "recipe",
    "optimizer": "training.optimizer",
    "balanced": "training.balanced",
    "features": "features.kind",
    "seed": "seed",
    "reproducible": "privacy.reproducible",
}
_SEARCH = "sklearn.model_selection"
# Hashes of the documents of this process's private fits, and the settings of each.
_earlier: list[tuple[frozenset[int], Settings]] = []


class GraphClassifier(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """Classifies documents by their text and edges, privately when given an epsilon.

    A parameter that is ``None`` is left to ``settings``, and then to the recipe. Where both
    name a setting, the parameter counts; but two different wishes for privacy, such as
    ``unit="document"`` beside ``settings={"privacy.unit": "person"}``, are refused by
    ``fit``, and so is a wish for privacy without an epsilon.

    Args:
        epsilon: The privacy budget; without one, training is without privacy.
        delta: The delta of the guarantee (recipes: 1e-5).
        unit: What is protected: ``document``, ``person``, ``part`` or ``graph``.
        relation: ``remove`` or ``replace``.
        recipe: ``auto`` (the default), ``plain``, ``paper-full`` or ``paper-split``.
        parts: How training documents are grouped: ``each`` document (or owner) by itself, a
            number of parts, or ``column:NAME`` for a column declared public.
        optimizer: ``sgd`` or ``adam``.
        balanced: Whether rare classes count as much as frequent ones, for macro F1; recipe
            ``auto`` with an epsilon only.
        module: A model of your own: any ``torch.nn.Module`` that maps features
            ``[documents, features]`` and an ``edge_index`` to scores. Its scores for some
            documents must depend on these alone. It is copied, never changed.
        features: A feature kind; by default given vectors, or an encoder for text.
        seed: Of partition and first weights (by default 0). Noise is never seeded by it.
        reproducible: Seeds noise and samples too; such a model must not be released.
        settings: Further settings by dotted name, such as ``{"training.epochs": 10}``.

    Attributes:
        classes_: The class labels.
        statement_: What may be claimed about the model; ``None`` without privacy.
        settings_: All settings of the fit.
        module_: The trained copy of ``module``.

    Examples:
        >>> from privgcn import GraphClassifier, load_corpus
        >>> corpus = load_corpus("clinic")
        >>> model = GraphClassifier(epsilon=1.0, unit="person", features="static")
        >>> labels = model.fit(corpus.train).predict(corpus.test, inference="own-graph")

        >>> texts, topics = ["the invoice", "a lost parcel"] * 50, ["billing", "delivery"] * 50
        >>> model = GraphClassifier(epsilon=2.0, delta=1e-4, features="static")
        >>> model = model.fit(texts, topics, classes=["billing", "delivery"])
        >>> model.predict(["an invoice is missing"]).tolist()
        ['billing']
    """

    classes_: NDArray[Any]
    statement_: PrivacyStatement | None
    module_: nn.Module

    def __init__(
        self,
        epsilon: float | None = None,
        delta: float | None = None,
        *,
        unit: str | None = None,
        relation: str | None = None,
        parts: int | str | None = None,
        recipe: str | None = None,
        optimizer: str | None = None,
        balanced: bool | None = None,
        module: nn.Module | None = None,
        features: str | None = None,
        seed: int | None = None,
        reproducible: bool | None = None,
        settings: Mapping[str, Any] | None = None,
    ) -> None:
        self.epsilon = epsilon
        self.delta = delta
        self.unit = unit
        self.relation = relation
        self.parts = parts
        self.recipe = recipe
        self.optimizer = optimizer
        self.balanced = balanced
        self.module = module
        self.features = features
        self.seed = seed
        self.reproducible = reproducible
        self.settings = settings

    def fit(
        self,
        X: Any,
        y: Any = None,
        *,
        edges: Any = None,
        owners: Any = None,
        classes: Sequence[Any] | None = None,
        validation: Corpus | None = None,
    ) -> Self:
        """Trains on documents, in whatever form they are.

        Args:
            X: Texts; a frame (pandas, polars, pyarrow, ``datasets``, or a mapping) with the
                column ``text`` and optionally ``label``, ``owner``, ``id`` and ``split``; a
                ``Corpus``, all of whose documents train; a PyTorch Geometric ``Data``, whose
                ``train_mask`` counts; or vectors.
            y: Labels, where ``X`` has none.
            edges: Pairs of rows, or of ids where documents have an ``id``; a frame with
                ``source`` and ``target``; a square sparse matrix; or an ``edge_index``.
            owners: The person that each document belongs to, where ``X`` does not say it.
            classes: The class set, where it is public knowledge. Otherwise it is read off
                the labels, and the statement says so.
            validation: Documents on which a non-private run may decide to stop; a private
                run never stops early.
        """
        if hasattr(self, "feature_names_in_"):
            del self.feature_names_in_
        documents, classes_ = training_documents(
            self, X, y, edges=edges, owners=owners, classes=classes
        )
        settings = self._make_settings()
        gaps = _unpaid_search(documents, settings)
        if validation is not None and settings.privacy is None:
            documents = _joined(X, validation)
        names = getattr(self, "feature_names_in_", None)
        prepared = prepare(
            documents,
            settings,
            module=self.module,
            classes=classes_,
            feature_names=None if names is None else tuple(map(str, names)),
            gaps=gaps,
        )
        return self._take(train(prepared).model)

    def predict_proba(
        self, X: Any, *, edges: Any = None, inference: str = "own-graph"
    ) -> NDArray[np.float64]:
        """Class probabilities of each document.

        Args:
            X: Documents in any form that ``fit`` takes; labels are not read.
            edges: Edges among these documents.
            inference: ``alone``, ``own-graph``, or ``full-graph``, which needs a view of a
                larger corpus and is not covered by the guarantee. Neither is any mode if
                training documents are among ``X``.
        """
        check_is_fitted(self, "_model")
        mode = check_mode(inference)
        return self._model.probabilities(documents_in(self, X, edges=edges), mode)

    def predict_log_proba(
        self, X: Any, *, edges: Any = None, inference: str = "own-graph"
    ) -> NDArray[np.float64]:
        """The logarithm of ``predict_proba``."""
        with np.errstate(divide="ignore"):
            return np.log(self.predict_proba(X, edges=edges, inference=inference))

    def predict(
        self, X: Any, *, edges: Any = None, inference: str = "own-graph"
    ) -> NDArray[Any]:
        """The class label of each document."""
        best = self.predict_proba(X, edges=edges, inference=inference).argmax(axis=1)
        return np.asarray(self.classes_[best])

    def score(
        self, X: Any, y: Any = None, *, edges: Any = None, inference: str = "own-graph"
    ) -> float:
        """Accuracy, which is micro F1 for one label per document.

        Documents without a label do not count. Of a ``Data`` with a ``test_mask``, the test
        documents count.
        """
        check_is_fitted(self, "_model")
        documents, truth = truth_beside(X, y, self.classes_)
        predicted = self.predict(documents, edges=edges, inference=inference)
        if len(truth) != len(predicted):
            raise DataError(
                f"Scoring needs one label for each of the {len(predicted)} documents. Got "
                f"{len(truth)}."
            )
        known = np.array([not is_missing(label) for label in truth], dtype=bool)
        if not known.any():
            raise DataError("Scoring needs labels, and no document here has one.")
        return float((predicted[known] == truth[known]).mean())

    def save(self, folder: str | Path, *, overwrite: bool = False) -> None:
        """Writes the model into a folder: safetensors and JSON, atomically, no pickle.

        Nothing in it tells which documents trained the model; a run folder remembers that.
        Settings of a run that was loaded stay as they were recorded, with the name of the
        folder that held the documents; ``privgcn release`` leaves such names out.

        Args:
            folder: Where.
            overwrite: Whether an earlier model, run or release may be replaced.
        """
        check_is_fitted(self, "_model")
        write_folder(Path(folder), "model", model_files(self._model), overwrite=overwrite)

    @classmethod
    def load(
        cls,
        folder: str | Path,
        *,
        module: nn.Module | None = None,
        encoder: str | Path | None = None,
    ) -> Self:
        """Reads a model that ``save``, ``privgcn train`` or ``privgcn release`` wrote.

        Its constructor parameters are those that make its settings again.

        Args:
            folder: Where.
            module: A module of the class that was trained, where it was your own: files
                hold weights and no code.
            encoder: Where the encoder of the features lies on this machine, if it is not
                installed: no path that a model file names is followed.

        Raises:
            ConfigError: It was a module of somebody's own, and ``module`` is no such module.
            DataError: A file was edited, removed or added, or cannot be read.
            PrivacyContractError: The claim does not hold.
        """
        return cls.of_run(Run(Path(folder)), module=module, encoder=encoder)

    @classmethod
    def of_run(
        cls, run: Run, *, module: nn.Module | None = None, encoder: str | Path | None = None
    ) -> Self:
        """The classifier as it was when the model was saved; its claim is checked first."""
        saved = run.model(module=module, path=None if encoder is None else Path(encoder))
        model = cls(**parameters_of(saved.settings), module=module)
        if saved.feature_names is not None:
            model.feature_names_in_ = np.asarray(saved.feature_names, dtype=object)
        return model._take(saved)

    def _take(self, model: Model) -> Self:
        self._model = model
        self.classes_ = model.classes
        self.n_features_in_ = model.featurizer.dimension
        self.settings_ = model.settings
        self.statement_ = model.statement
        if model.released.kind == "module":
            from privgcn.sgd.module import brought_module

            width, classes = model.featurizer.dimension, len(model.classes)
            self.module_ = brought_module(model.released, model.module, width, classes)
        return self

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "_model")

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        noisy = self.epsilon is not None or any(
            "privacy" in name for name in self.settings or ()
        )
        tags.non_deterministic = noisy and not self.reproducible
        return tags

    def _make_settings(self) -> Settings:
        parameters = {setting: getattr(self, name) for name, setting in _PARAMETERS.items()}
        parameters["model.kind"] = None if self.module is None else "module"
        given = without_none(parameters)
        return resolve(("a parameter", given), ("'settings'", self.settings or {}))


def _joined(train_documents: Corpus, validation: Corpus) -> Corpus:
    """Training and validation documents of one corpus, with all edges among them."""
    parent = train_documents.parent
    if parent is None or validation.parent is not parent:
        raise ConfigError(
            "The 'validation' of GraphClassifier.fit must be a view of the corpus that the "
            "training documents are a view of, such as corpus.validation."
        )
    rows = np.concatenate([train_documents.rows, validation.rows])
    codes = np.repeat([TRAIN, VALIDATION], [len(train_documents), len(validation)])
    return parent.select(rows).with_split(codes)


def parameters_of(settings: Settings) -> dict[str, Any]:
    """Parameters of ``GraphClassifier`` that make these settings again, but for the data.

    What the recipe does not choose by itself and no parameter says is in ``settings``.
    """
    values = flattened(settings.model_dump(exclude={"data"}))
    parameters = {name: values.pop(setting, None) for name, setting in _PARAMETERS.items()}
    own = recipe_settings(settings.recipe, settings.training.optimizer)
    usual = flattened(own.model_dump())
    rest = {name: value for name, value in values.items() if value != usual.get(name)}
    return {**parameters, "settings": rest or None}


def _unpaid_search(corpus: Corpus, settings: Settings) -> tuple[Fact, ...]:
    """Warns where a private fit looks like part of a search over settings that nobody pays.

    That is a fit inside of scikit-learn's model selection (``GridSearchCV``,
    ``cross_val_score``), or one with other settings on documents half of which trained a
    private model of this process before. Each such fit is a release of its own, and choosing
    among them is one more query. A reproducible fit must not be released anyway.

    Returns:
        What the statement has to say about it.
    """
    if settings.privacy is None or settings.privacy.reproducible:
        return ()
    # Hashes that mean nothing outside of this process.
    contents = vector_bytes(corpus.vectors) if corpus.texts is None else corpus.texts
    documents = frozenset(map(hash, contents))
    before = [
        other
        for others, other in _earlier
        if 2 * len(documents & others) >= min(len(documents), len(others))
    ]
    _earlier.append((documents, settings))
    frame = sys._getframe()
    callers = set()
    while frame.f_back is not None:
        frame = frame.f_back
        callers.add(str(frame.f_globals.get("__name__", "")))
    if any(name.startswith(_SEARCH) for name in callers):
        fact = Fact("unpaid_search")
        why = (
            "scikit-learn's model selection trains on the same private documents again and "
            "again, and the claim of a model that it chooses is void."
        )
    elif any(other != settings for other in before):
        fact = Fact(
            "other",
            detail="The same process trained another private model on these documents, "
            "with other settings. If this model was chosen among them by looking at the "
            "documents, nothing is claimed.",
        )
        why = (
            "These private documents were trained on before, with other settings. To choose "
            "among such models is a search that no epsilon counts, and the claim is void."
        )
    else:
        return ()
    remedy = (
        "The epsilon of each model counts that model alone. Use 'privgcn tune', whose epsilon "
        "covers the whole search, or choose settings on public documents with cross_validate."
    )
    warnings.warn(f"{why} {remedy}", PrivacyWarning, stacklevel=3)
    return (fact,)
