"""The classifier: scikit-learn's contract over documents with edges.

The rules for documents are those of ``privgcn.data``.
"""

from __future__ import annotations

import inspect
import math
import warnings
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from itertools import islice
from numbers import Real
from pathlib import Path
from traceback import walk_stack
from typing import TYPE_CHECKING, Any, Literal, Protocol, Self, TypeAlias

import numpy as np
from numpy.random import RandomState
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils import check_consistent_length, check_random_state
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, validate_data

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
from privgcn.data import NO_LABEL, TEST, TRAIN, VALIDATION, Corpus
from privgcn.data.documents import label_set
from privgcn.data.frames import columns_of, is_frame, is_missing, plain_list
from privgcn.data.pyg import is_pyg
from privgcn.errors import BudgetWarning, ConfigError, DataError, DataWarning, PrivacyWarning
from privgcn.privacy.statement import Fact, PrivacyStatement
from privgcn.runs.documents_seen import vector_bytes
from privgcn.runs.folder import write_folder
from privgcn.runs.prepare import features_remark, prepare, unit_remark
from privgcn.runs.run import Model, Run, model_files
from privgcn.runs.train import train

if TYPE_CHECKING:
    from scipy.sparse import sparray, spmatrix
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
    # A private fit of this process: hashes of its documents, and whether others had them.
    documents: frozenset[int]
    one_of_several: bool = False


_fits: list[_Fit] = []


class Named(Protocol):
    """A frame of pandas, polars, pyarrow or ``datasets``, or PyTorch Geometric's ``Data``."""

    def __getitem__(self, name: Any, /) -> Any:
        """A column."""


Documents: TypeAlias = (
    "Sequence[str] | Mapping[str, Any] | Named | Corpus | NDArray[Any] | spmatrix | sparray"
)
"""What a classifier takes for documents; an example of each is in ``GraphClassifier.fit``."""


class GraphClassifier(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """Classifies documents by their text and edges, under differential privacy.

    A parameter at its default is left to ``settings``, and then to the recipe. Where both
    name a setting, the parameter counts; but ``fit`` refuses two different wishes for privacy,
    and a wish for privacy without an epsilon.

    Args:
        epsilon: The privacy budget; ``None`` or ``math.inf`` trains without privacy.
        delta: The delta of the guarantee; well below one over the number of units.
        unit: What is protected. Left out, it is the recipe's, ``document`` for ``auto``;
            documents with owners want it named.
        relation: How neighbouring data differ.
        recipe: A named choice of all other settings.
        parts: ``each`` document (or owner) by itself, a number of parts, or ``column:NAME``
            for a column declared public; like ``optimizer`` the recipe's own if left out.
        balanced: Whether rare classes count as much as frequent ones, for macro F1; recipe
            ``auto`` with an epsilon only.
        module: A model of your own: any ``torch.nn.Module`` that maps features
            ``[documents, features]`` and an ``edge_index`` to scores of these documents. It is
            copied, never changed.
        features: A feature kind; by default given vectors, or an encoder for text.
        random_state: Of partition and first weights, as in scikit-learn; never of noise.
        reproducible: Seeds noise and samples too, by ``random_state``; such a model must not
            be released.
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
                - vectors, dense or sparse, one row each: ``encoder.encode(texts)``
            y: Labels, where ``X`` has none.
            edges: Pairs of rows, or of ids where documents have an ``id``; a frame with
                ``source`` and ``target``; a square sparse matrix; or an ``edge_index``.
            owners: The person that each document belongs to, where ``X`` does not say it.
            classes: The class set, where it is public knowledge; else it is taken from the
                labels, and the statement says so.
        """
        if hasattr(self, "feature_names_in_"):
            del self.feature_names_in_
        given = {"edges": edges, "owners": owners}
        documents, classes_ = _training_documents(self, X, y, classes, **given)
        settings = self._make_settings()
        self._check_unit(documents, settings)
        fit, gaps = _recorded(documents, settings)
        names = getattr(self, "feature_names_in_", None)
        with progress.watched(progress.Printed()) if self.verbose else nullcontext():
            prepared = replace(
                prepare(documents, settings, module=self.module),
                classes=classes_,
                feature_names=None if names is None else tuple(map(str, names)),
                gaps=gaps,
            )
            if self.verbose:
                print(documents.summary, features_remark(prepared), sep="\n")
            for remark in (documents.parent or documents).remarks or ():
                warnings.warn(remark, DataWarning, stacklevel=2)
            for line in prepared.advice:
                warnings.warn(line, BudgetWarning, stacklevel=2)
            self._take(train(prepared).model)
        self._fit = fit
        return self

    @property
    def statement_(self) -> PrivacyStatement | None:
        """What may be claimed, as later fits of this process leave it; ``None`` if nothing."""
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
                larger corpus. No guarantee covers it, nor any mode if training documents are
                among ``X``. Fewer than 40 are answered as each one alone.
        """
        check_is_fitted(self, "classes_")
        mode = check_mode(inference)
        return self._model.probabilities(_documents_in(self, X, edges), mode)

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

        Documents without a label do not count; of a ``Data``, the test documents do.
        """
        check_is_fitted(self, "classes_")
        documents, truth = _truth_beside(X, y, self.classes_)
        predicted = self.predict(documents, edges=edges, inference=inference)
        check_consistent_length(truth, predicted)
        known = np.array([not is_missing(label) for label in truth], dtype=bool)
        if not known.any():
            raise DataError("Scoring needs labels, and no document here has one.")
        return float((predicted[known] == truth[known]).mean())

    def save(self, folder: str | Path, *, overwrite: bool = False) -> None:
        """Writes the model into a folder: safetensors and JSON, atomically, no pickle.

        Nothing in it tells which documents trained the model. Settings of a run that was
        loaded keep the name of their folder; ``privgcn release`` leaves such names out. With
        ``overwrite``, an earlier model, run or release is replaced.
        """
        check_is_fitted(self, "classes_")
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

        Its parameters are those that make its settings again. Files hold no code, so that a
        ``module`` of your own has to be given; and no path that they name is followed:
        ``encoder`` says where one lies that is not installed.

        Raises:
            DataError: A file was edited, removed or added, or cannot be read.
            PrivacyContractError: The claim does not hold.
        """
        path = None if encoder is None else Path(encoder)
        saved = Run(Path(folder)).model(module=module, path=path)
        model = cls(**_parameters_of(saved.settings), module=module)
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
        epsilon: Any = self.epsilon
        number = isinstance(epsilon, Real) and not isinstance(epsilon, bool | np.bool_)
        if epsilon is not None and not (number and epsilon > 0):
            raise ConfigError(
                "The 'epsilon' of GraphClassifier must be a number above 0, or None for "
                f"training without privacy. Got {epsilon!r}."
            )
        epsilon = None if epsilon in (None, math.inf) else float(epsilon)
        chosen = without_none(chosen) | {"privacy.epsilon": epsilon}
        return resolve(("a parameter", chosen), ("'settings'", own))

    def _check_unit(self, documents: Corpus, settings: Settings) -> None:
        named = self.unit is not None or "privacy.unit" in flattened(self.settings or {})
        remark = "" if named else unit_remark(documents, settings)
        if remark and documents.owners is not None:
            raise ConfigError(
                "The 'unit' of GraphClassifier must be named where documents have owners. Got "
                "None. Use unit='person' to protect all documents of an owner together, or "
                "unit='document' to protect each document by itself."
            )
        if remark:
            remark += " If none does, use unit='document'."
            warnings.warn(remark, PrivacyWarning, stacklevel=3)


def _recorded(corpus: Corpus, settings: Settings) -> tuple[_Fit | None, tuple[Fact, ...]]:
    """Records a fit, and warns where it looks like part of a search that nobody pays for.

    That is one inside of scikit-learn's model selection, or on documents half of which trained
    a private model of this process before. A reproducible fit must not be released anyway.
    """
    if settings.privacy is None or settings.privacy.reproducible:
        return None, ()
    # Hashes that mean nothing outside of this process.
    contents = vector_bytes(corpus.vectors) if corpus.texts is None else corpus.texts
    own = _Fit(frozenset(map(hash, contents)))
    for fit in _fits:
        least = min(len(own.documents), len(fit.documents))
        if len(own.documents & fit.documents) >= _OVERLAP * least:
            own.one_of_several = fit.one_of_several = True
    _fits.append(own)
    modules = (str(frame.f_globals.get("__name__")) for frame, _ in walk_stack(None))
    searched = any(name.startswith(_SEARCH) for name in modules)
    if searched or own.one_of_several:
        warnings.warn(
            "These private documents are trained on more than once. The epsilon of each model "
            "counts that model alone, and to choose among them voids the claim. Use 'privgcn "
            "tune', whose epsilon covers the whole search, or choose settings on public "
            "documents with cross_validate.",
            PrivacyWarning,
            stacklevel=3,
        )
    return own, (Fact("unpaid_search"),) if searched else ()


def _training_documents(
    estimator: BaseEstimator, X: Any, y: Any, classes: Sequence[Any] | None, **given: Any
) -> tuple[Corpus, NDArray[Any]]:
    # Without a ``split`` column or masks all documents train; else those for training do, and
    # those for validation may stop a run without privacy. Class labels have their own type.
    corpus = _made_already(X, y=y, classes=classes, **given)
    if corpus is not None and corpus is X:
        return corpus.with_split(TRAIN), np.asarray(corpus.classes)
    if corpus is not None:
        typed = np.arange(corpus.num_classes)
    else:
        columns, vectors = _as_frame(X), None
        labels = (columns or {}).get("label") if y is None else y
        if labels is None:
            raise ConfigError(
                "GraphClassifier requires y to be passed, but the target y is None: give "
                "labels, or a frame with a column 'label'."
            )
        if columns is None:
            vectors, labels = validate_data(estimator, X, y, accept_sparse="csr")
            y = labels
        typed = label_set([v for v in plain_list(labels) if v is not None], classes)
        if classes is None and len(typed):
            check_classification_targets(typed)
        if len(typed) < 2:
            raise ConfigError(
                f"GraphClassifier needs at least two classes. Got {len(typed)} class: "
                f"{typed.tolist()}. Add documents of another class, or declare the classes."
            )
        corpus = _corpus(columns, vectors, labels=y, classes=classes, **given)
        if corpus.facts.split_origin == "random":
            return corpus.with_split(TRAIN), typed
    return corpus.select(np.isin(corpus.split, (TRAIN, VALIDATION))), typed


def _documents_in(estimator: BaseEstimator, X: Any, edges: Any) -> Corpus:
    corpus = _made_already(X, edges=edges)
    if corpus is not None:
        return corpus
    columns, vectors = _as_frame(X), None
    if columns is None:
        vectors = validate_data(estimator, X, reset=False, accept_sparse="csr")
    else:
        columns = {n: v for n, v in columns.items() if n not in ("label", "split", "owner")}
    return _corpus(columns, vectors, edges=edges)


def _truth_beside(X: Any, y: Any, classes: NDArray[Any]) -> tuple[Any, NDArray[Any]]:
    """What a score is computed on, and its labels; of a ``Data``, the test documents."""
    corpus = _made_already(X, y=y)
    if corpus is not None:
        if corpus is not X and bool((corpus.split == TEST).any()):
            corpus = corpus.test
        names = np.asarray([*classes.tolist(), None], dtype=object)
        return corpus, names[np.where(corpus.labels < len(classes), corpus.labels, NO_LABEL)]
    if y is None and is_frame(X):
        y = columns_of(X).get("label")
    if y is None:
        raise ConfigError("Scoring needs labels: give y, or a frame with a column 'label'.")
    return X, np.asarray(plain_list(y), dtype=object)


def _made_already(X: Any, **given: Any) -> Corpus | None:
    if not (isinstance(X, Corpus) or is_pyg(X)):
        return None
    for name, value in given.items():
        if value is not None:
            raise ConfigError(
                f"The '{name}' of GraphClassifier must be left out beside a Corpus or a Data, "
                "which has its own. Change the documents instead."
            )
    return X if isinstance(X, Corpus) else Corpus.from_pyg(X)


def _corpus(columns: Mapping[str, Any] | None, vectors: Any, **given: Any) -> Corpus:
    if columns is not None:
        return Corpus.from_frame(columns, **given)
    corpus = Corpus.from_frame({"text": ["-"] * vectors.shape[0]}, **given)
    with np.errstate(over="ignore"):
        # Too large for float32 becomes infinite, and such a row counts as empty.
        return replace(corpus, texts=None, vectors=vectors.astype(np.float32))


def _as_frame(X: Any) -> dict[str, Any] | None:
    # None where documents are vectors.
    if isinstance(X, str):
        raise ConfigError(
            "Documents must be a list of texts. Got a single text. Put it in a list; for a "
            "folder or a dataset, give load_corpus of it."
        )
    if is_frame(X):
        columns = columns_of(X)
        worded = "text" in columns or isinstance(X, Mapping)
        heads = (plain_list(values[:100]) for values in columns.values())
        if worded or any(isinstance(value, str) for head in heads for value in head):
            return columns
        return None
    if hasattr(X, "tocsr") or hasattr(X, "detach") or not hasattr(X, "__len__"):
        return None
    # An array of rows of numbers has rows, not texts, in it. The first text may be missing.
    flat = X.ndim == 1 if hasattr(X, "ndim") else True
    texts = flat and any(isinstance(value, str) for value in islice(X, 100))
    return {"text": X} if texts or (flat and len(X) == 0) else None


def _parameters_of(settings: Settings) -> dict[str, Any]:
    """Parameters of ``GraphClassifier`` that make these settings again, but for the data."""
    values = flattened(settings.model_dump(exclude={"data"}))
    usual = flattened(
        recipe_settings(settings.recipe, settings.training.optimizer).model_dump()
    )
    named = {name: values.pop(setting, None) for name, setting in _PARAMETERS.items()}
    epsilon, seed = values.pop("privacy.epsilon", None), values.pop("seed")
    rest = {name: value for name, value in values.items() if value != usual.get(name)}
    fixed = {"epsilon": epsilon, "random_state": seed, "settings": rest or None}
    return {**without_none(named), **fixed}
