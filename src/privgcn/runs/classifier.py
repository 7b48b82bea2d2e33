"""The classifier: scikit-learn's contract over documents with edges."""

from __future__ import annotations

import inspect
import math
import warnings
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from numbers import Real
from pathlib import Path
from traceback import walk_stack
from typing import TYPE_CHECKING, Any, Literal, Self

import numpy as np
from numpy.random import RandomState
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils import check_consistent_length, check_random_state
from sklearn.utils.validation import check_is_fitted

from privgcn import progress
from privgcn.config import (
    Mode,
    Settings,
    check_mode,
    flattened,
    recipe_settings,
    resolve,
    without_none,
)
from privgcn.data import Corpus
from privgcn.data.frames import is_missing
from privgcn.errors import (
    BudgetWarning,
    ConfigError,
    DataError,
    DataWarning,
    PrivacyWarning,
)
from privgcn.privacy.statement import Fact, PrivacyStatement
from privgcn.runs.documents_seen import vector_bytes
from privgcn.runs.folder import write_folder
from privgcn.runs.inputs import Documents, documents_in, training_documents, truth_beside
from privgcn.runs.model import Model, model_files
from privgcn.runs.prepare import prepare
from privgcn.runs.run import Run
from privgcn.runs.train import train

if TYPE_CHECKING:
    from torch import nn

# The setting that each parameter of the constructor names; seed and epsilon have rules of
# their own.
_PARAMETERS = {
    "delta": "privacy.delta",
    "unit": "privacy.unit",
    "relation": "privacy.relation",
    "parts": "privacy.parts",
    "recipe": "recipe",
    "optimizer": "training.optimizer",
    "balanced": "training.balanced",
    "features": "features.kind",
    "reproducible": "privacy.reproducible",
}
_SEARCH = "sklearn.model_selection"
_OVERLAP = 0.5


@dataclass
class _Fit:
    """A private fit: hashes of its documents, and whether other fits were on the same."""

    documents: frozenset[int]
    one_of_several: bool = False


_fits: list[_Fit] = []
"""All private fits of this process."""


class GraphClassifier(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """Classifies documents by their text and edges, under differential privacy.

    A parameter at its default is left to ``settings``, and then to the recipe. Where both
    name a setting, the parameter counts; but two different wishes for privacy, such as
    ``unit="document"`` beside ``settings={"privacy.unit": "person"}``, are refused by
    ``fit``, and so is a wish for privacy without an epsilon.

    Args:
        epsilon: The privacy budget. ``None`` or ``math.inf``, written out, trains without
            privacy.
        delta: The delta of the guarantee; well below one over the number of units.
        unit: What is protected: ``document``, ``person``, ``part`` or ``graph``. Left out, it
            is the recipe's, ``document`` for ``auto``; documents with owners want it named.
        relation: How neighbouring data differ.
        recipe: A named choice of all other settings.
        parts: How training documents are grouped: ``each`` document (or owner) by itself, a
            number of parts, or ``column:NAME`` for a column declared public. ``None`` takes
            the recipe's own.
        optimizer: ``None`` takes the recipe's own.
        balanced: Whether rare classes count as much as frequent ones, for macro F1; recipe
            ``auto`` with an epsilon only.
        module: A model of your own: any ``torch.nn.Module`` that maps features
            ``[documents, features]`` and an ``edge_index`` to scores. Its scores for some
            documents must depend on these alone. It is copied, never changed.
        features: A feature kind; by default given vectors, or an encoder for text.
        random_state: Of partition and first weights, as in scikit-learn: ``None`` is another
            seed for each fit. Noise is never seeded by it, but with ``reproducible``.
        reproducible: Seeds noise and samples too; needs a ``random_state``, and such a model
            must not be released.
        verbose: Prints what was read, what to expect and what is being done.
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
    module_: nn.Module
    _model: Model
    _fit: _Fit | None = None

    def __init__(
        self,
        epsilon: float | None,
        delta: float = 1e-5,
        *,
        unit: Literal["document", "person", "part", "graph"] | None = None,
        relation: Literal["remove", "replace"] = "remove",
        recipe: Literal["auto", "plain", "paper-full", "paper-split"] = "auto",
        parts: int | str | None = None,
        optimizer: Literal["sgd", "adam"] | None = None,
        balanced: bool = False,
        module: nn.Module | None = None,
        features: str | None = None,
        random_state: int | RandomState | None = None,
        reproducible: bool = False,
        verbose: bool = False,
        settings: Mapping[str, Any] | None = None,
    ) -> None:
        self.epsilon = epsilon
        self.delta = delta
        self.unit = unit
        self.relation = relation
        self.recipe = recipe
        self.parts = parts
        self.optimizer = optimizer
        self.balanced = balanced
        self.module = module
        self.features = features
        self.random_state = random_state
        self.reproducible = reproducible
        self.verbose = verbose
        self.settings = settings

    def fit(
        self,
        X: Documents,
        y: Any = None,
        *,
        edges: Any = None,
        owners: Any = None,
        classes: Sequence[Any] | None = None,
    ) -> Self:
        """Trains on documents, in whatever form they are.

        Args:
            X: The documents. One of

                - texts: ``["an invoice", "a lost parcel"]``
                - a frame of pandas, polars, pyarrow or ``datasets``, or a mapping:
                  ``pd.read_csv("letters.csv")`` with the column ``text`` and optionally
                  ``label``, ``owner``, ``id`` and ``split``
                - a ``Corpus``, all of whose documents train: ``load_corpus("letters/").train``
                - a PyTorch Geometric ``Data``, whose ``train_mask`` counts
                - vectors, dense or sparse, one row for each document:
                  ``encoder.encode(texts)``
            y: Labels, where ``X`` has none.
            edges: Pairs of rows, or of ids where documents have an ``id``; a frame with
                ``source`` and ``target``; a square sparse matrix; or an ``edge_index``.
            owners: The person that each document belongs to, where ``X`` does not say it.
            classes: The class set, where it is public knowledge. Otherwise it is read off
                the labels, and the statement says so.

        Raises:
            ConfigError: A parameter breaks its rule, or documents have owners and no ``unit``
                was named.
        """
        if hasattr(self, "feature_names_in_"):
            del self.feature_names_in_
        documents, classes_ = training_documents(
            self, X, y, edges=edges, owners=owners, classes=classes
        )
        settings = self._make_settings()
        self._check_unit(documents, settings)
        fit, gaps = _recorded(documents, settings)
        names = getattr(self, "feature_names_in_", None)
        with progress.watched(progress.Printed()) if self.verbose else nullcontext():
            prepared = prepare(
                documents,
                settings,
                module=self.module,
                classes=classes_,
                feature_names=None if names is None else tuple(map(str, names)),
                gaps=gaps,
            )
            if self.verbose:
                print(prepared.corpus.summary)
                print(
                    f"Features: {prepared.featurizer.dimension:,}, {prepared.featurizer.kind}."
                )
            for remark in (documents.parent or documents).remarks or ():
                warnings.warn(remark, DataWarning, stacklevel=2)
            for line in prepared.advice:
                warnings.warn(line, BudgetWarning, stacklevel=2)
            self._take(train(prepared).model)
        self._fit = fit
        return self

    @property
    def statement_(self) -> PrivacyStatement | None:
        """What may be claimed about the model; ``None`` without privacy.

        It says so if a later fit of this process trained on the same documents.
        """
        statement = self._model.statement
        if statement is not None and self._fit is not None and self._fit.one_of_several:
            statement = statement.with_gap(Fact("one_of_several"))
            self._model = replace(self._model, statement=statement)
        return statement

    def predict_proba(
        self, X: Documents, *, edges: Any = None, inference: Mode = "own-graph"
    ) -> NDArray[np.float64]:
        """Class probabilities of each document.

        Args:
            X: Documents in any form that ``fit`` takes; labels are not read.
            edges: Edges among these documents.
            inference: ``alone``, ``own-graph``, or ``full-graph``, which needs a view of a
                larger corpus and is not covered by the guarantee. Neither is any mode if
                training documents are among ``X``. Fewer than 40 documents are answered as
                each one alone.
        """
        check_is_fitted(self, "_model")
        mode = check_mode(inference)
        return self._model.probabilities(documents_in(self, X, edges=edges), mode)

    def predict_log_proba(
        self, X: Documents, *, edges: Any = None, inference: Mode = "own-graph"
    ) -> NDArray[np.float64]:
        """The logarithm of ``predict_proba``."""
        with np.errstate(divide="ignore"):
            return np.log(self.predict_proba(X, edges=edges, inference=inference))

    def predict(
        self, X: Documents, *, edges: Any = None, inference: Mode = "own-graph"
    ) -> NDArray[Any]:
        """The class label of each document."""
        best = self.predict_proba(X, edges=edges, inference=inference).argmax(axis=1)
        return np.asarray(self.classes_[best])

    def score(
        self, X: Documents, y: Any = None, *, edges: Any = None, inference: Mode = "own-graph"
    ) -> float:
        """Accuracy, which is micro F1 for one label per document.

        Documents without a label do not count. Of a ``Data`` with a ``test_mask``, the test
        documents count.
        """
        check_is_fitted(self, "_model")
        documents, truth = truth_beside(X, y, self.classes_)
        predicted = self.predict(documents, edges=edges, inference=inference)
        check_consistent_length(truth, predicted)
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
        model = replace(self._model, statement=self.statement_)
        write_folder(Path(folder), "model", model_files(model), overwrite=overwrite)

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
        path = None if encoder is None else Path(encoder)
        saved = Run(Path(folder)).model(module=module, path=path)
        model = cls(**parameters_of(saved.settings), module=module)
        if saved.feature_names is not None:
            model.feature_names_in_ = np.asarray(saved.feature_names, dtype=object)
        return model._take(saved)

    def _take(self, model: Model) -> Self:
        self._model = model
        self.classes_ = model.classes
        self.n_features_in_ = model.featurizer.dimension
        self.settings_ = model.settings
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
        tags.non_deterministic = self.epsilon is not None and not self.reproducible
        return tags

    def _make_settings(self) -> Settings:
        defaults = inspect.signature(type(self)).parameters
        chosen = {
            setting: getattr(self, name)
            for name, setting in _PARAMETERS.items()
            if getattr(self, name) != defaults[name].default
        }
        if self.module is not None:
            chosen["model.kind"] = "module"
        own = flattened(self.settings or {})
        if isinstance(self.random_state, int | np.integer):
            chosen["seed"] = self.random_state
        elif "seed" not in own:
            chosen["seed"] = check_random_state(self.random_state).randint(np.iinfo("i4").max)
            if self.reproducible or own.get("privacy.reproducible"):
                raise ConfigError(
                    "The 'random_state' of GraphClassifier must be a whole number for a "
                    f"reproducible fit. Got {self.random_state!r}. Use random_state=0."
                )
        epsilon = {"privacy.epsilon": _bound(self.epsilon)}
        return resolve(("a parameter", without_none(chosen) | epsilon), ("'settings'", own))

    def _check_unit(self, documents: Corpus, settings: Settings) -> None:
        """Nothing that belongs to a person is protected by the document unasked."""
        if settings.privacy is None or settings.privacy.unit != "document":
            return
        if self.unit is not None or "privacy.unit" in flattened(self.settings or {}):
            return
        if documents.owners is not None:
            raise ConfigError(
                "The 'unit' of GraphClassifier must be named where documents have owners. Got "
                "None. Use unit='person' to protect all documents of an owner together, or "
                "unit='document' to protect each document by itself."
            )
        if documents.columns:
            warnings.warn(
                "No column is named 'owner', so no person is protected as a whole. If one of "
                f"{', '.join(map(repr, documents.columns))} says whose a document is, rename "
                "it and use unit='person'; else use unit='document'.",
                PrivacyWarning,
                stacklevel=3,
            )


def _bound(epsilon: Any) -> float | None:
    if epsilon is None:
        return None
    number = isinstance(epsilon, Real) and not isinstance(epsilon, bool | np.bool_)
    if not number or not epsilon > 0:
        raise ConfigError(
            "The 'epsilon' of GraphClassifier must be a number above 0, or None for training "
            f"without privacy. Got {epsilon!r}."
        )
    return None if math.isinf(epsilon) else float(epsilon)


def parameters_of(settings: Settings) -> dict[str, Any]:
    """Parameters of ``GraphClassifier`` that make these settings again, but for the data.

    What the recipe does not choose by itself and no parameter says is in ``settings``.
    """
    values = flattened(settings.model_dump(exclude={"data"}))
    own = recipe_settings(settings.recipe, settings.training.optimizer)
    usual = flattened(own.model_dump())
    named = {name: values.pop(setting, None) for name, setting in _PARAMETERS.items()}
    epsilon, seed = values.pop("privacy.epsilon", None), values.pop("seed")
    rest = {name: value for name, value in values.items() if value != usual.get(name)}
    fixed = {"epsilon": epsilon, "random_state": seed, "settings": rest or None}
    return {**without_none(named), **fixed}


def _recorded(corpus: Corpus, settings: Settings) -> tuple[_Fit | None, tuple[Fact, ...]]:
    """Records a fit, and warns where it looks like part of a search that nobody pays for.

    That is a fit inside of scikit-learn's model selection (``GridSearchCV``,
    ``cross_val_score``), or one on documents half of which trained a private model of this
    process before. Each such fit is a release of its own, and choosing among them is one more
    query. A reproducible fit must not be released anyway.

    Returns:
        What the model remembers of later fits, and what its statement has to say about
        earlier ones.
    """
    if settings.privacy is None or settings.privacy.reproducible:
        return None, ()
    # Hashes that mean nothing outside of this process.
    contents = vector_bytes(corpus.vectors) if corpus.texts is None else corpus.texts
    documents = frozenset(map(hash, contents))
    same = [
        fit
        for fit in _fits
        if len(documents & fit.documents) >= _OVERLAP * min(len(documents), len(fit.documents))
    ]
    own = _Fit(documents)
    for fit in (own, *same):
        fit.one_of_several = bool(same)
    _fits.append(own)
    modules = (str(frame.f_globals.get("__name__")) for frame, _ in walk_stack(None))
    searched = any(name.startswith(_SEARCH) for name in modules)
    if searched or same:
        warnings.warn(
            "These private documents are trained on more than once. The epsilon of each model "
            "counts that model alone, and to choose among them voids the claim. Use 'privgcn "
            "tune', whose epsilon covers the whole search, or choose settings on public "
            "documents with cross_validate.",
            PrivacyWarning,
            stacklevel=3,
        )
    return own, (Fact("unpaid_search"),) if searched else ()
