"""The classifier: scikit-learn's contract over a corpus of linked documents."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Self

import numpy as np
import numpy.typing as npt
import torch
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, validate_data

from privgcn.config import Settings
from privgcn.corpus import Corpus
from privgcn.corpus.corpus import NO_LABEL, TRAIN, VALIDATION
from privgcn.errors import ConfigError, DataError
from privgcn.modes import check_mode
from privgcn.prediction.inference import scores_in_mode
from privgcn.privacy.statement import PrivacyStatement
from privgcn.runs.folder import write_folder
from privgcn.runs.model import Model, model_files
from privgcn.runs.repeated_fits import warn_of_unpaid_search
from privgcn.runs.run import Run
from privgcn.runs.train import train, with_split
from privgcn.training.recipes import by_mapping, by_parameter, make_settings, resolve

_SECTIONS = ("features", "model", "training", "prediction", "privacy")


class GraphClassifier(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """Classifies documents by their text and links, privately when given an epsilon.

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
        optimizer: ``sgd`` or ``adam``.
        balanced: Whether rare classes count as much as frequent ones, for macro F1; recipe
            ``auto`` with an epsilon only.
        features: A feature kind; by default given vectors, or an encoder for text.
        seed: Of partition and first weights (by default 0). Noise is never seeded by it.
        reproducible: Seeds noise and samples too; such a model must not be released.
        settings: Further settings by dotted name, such as ``{"training.epochs": 10}``.

    Attributes:
        classes_: The class labels.
        statement_: What may be claimed about the model; ``None`` without privacy.
        settings_: All settings of the fit.

    Examples:
        >>> from privgcn import GraphClassifier, load_corpus
        >>> corpus = load_corpus("clinic")
        >>> model = GraphClassifier(epsilon=1.0, unit="person").fit(corpus.train)
        >>> labels = model.predict(corpus.test, inference="own-graph")
    """

    classes_: npt.NDArray[Any]
    statement_: PrivacyStatement | None

    def __init__(
        self,
        epsilon: float | None = None,
        delta: float | None = None,
        *,
        unit: str | None = None,
        relation: str | None = None,
        recipe: str | None = None,
        optimizer: str | None = None,
        balanced: bool | None = None,
        features: str | None = None,
        seed: int | None = None,
        reproducible: bool | None = None,
        settings: Mapping[str, Any] | None = None,
    ) -> None:
        self.epsilon = epsilon
        self.delta = delta
        self.unit = unit
        self.relation = relation
        self.recipe = recipe
        self.optimizer = optimizer
        self.balanced = balanced
        self.features = features
        self.seed = seed
        self.reproducible = reproducible
        self.settings = settings

    def fit(self, X: Any, y: Any = None, *, validation: Corpus | None = None) -> Self:
        """Trains on the documents of a corpus, or on arrays of vectors and labels.

        Args:
            X: A ``Corpus``; all its documents train. Or vectors, without links.
            y: Labels, where ``X`` are vectors.
            validation: Documents on which a non-private run may decide to stop; a private
                run never stops early.
        """
        corpus = X if isinstance(X, Corpus) else self._corpus_of_arrays(X, y)
        if isinstance(X, Corpus):
            self.classes_ = np.asarray(corpus.classes)
        settings = self._make_settings()
        warn_of_unpaid_search(corpus, settings)
        documents = with_split(corpus, TRAIN)
        if validation is not None and settings.privacy is None:
            documents = _joined(corpus, validation)
        return self._take(replace(train(documents, settings).model, classes=self.classes_))

    def predict_proba(self, X: Any, *, inference: str = "own-graph") -> npt.NDArray[np.float64]:
        """Class probabilities of each document.

        Args:
            X: A ``Corpus`` of new documents, or vectors.
            inference: ``alone``, ``own-graph``, or ``full-graph``, which needs a view of a
                whole corpus and is not covered by the guarantee.
        """
        check_is_fitted(self, "_model")
        mode = check_mode(inference)
        corpus = X
        if not isinstance(X, Corpus):
            vectors = validate_data(self, X, reset=False, accept_sparse="csr")
            corpus = corpus_of_arrays(vectors, None, self._model.classes)
        rows = torch.arange(len(corpus))
        if mode == "full-graph":
            if corpus.whole is None:
                raise ConfigError(
                    "Inference 'full-graph' needs a view such as corpus.test, so that the "
                    "rest of the corpus can be seen. Got a whole corpus. Use 'own-graph'."
                )
            rows, corpus = torch.as_tensor(corpus.rows), corpus.whole
        model = self._model
        scores = scores_in_mode(model.fitted, model.graph(corpus), rows, mode)[:, 0]
        return np.asarray(scores.double().softmax(-1).numpy())

    def predict(self, X: Any, *, inference: str = "own-graph") -> npt.NDArray[Any]:
        """The class label of each document."""
        best = self.predict_proba(X, inference=inference).argmax(axis=1)
        return np.asarray(self.classes_[best])

    def score(self, X: Any, y: Any = None, *, inference: str = "own-graph") -> float:
        """Accuracy, which is micro F1 for one label per document."""
        predicted = self.predict(X, inference=inference)
        if isinstance(X, Corpus):
            known = X.labels >= 0
            if not known.any():
                raise DataError("Scoring needs labels, and no document here has one.")
            return float((predicted[known] == self.classes_[X.labels[known]]).mean())
        return float((predicted == np.asarray(y)).mean())

    def save(self, folder: str | Path, *, overwrite: bool = False) -> None:
        """Writes the model into a folder: safetensors and JSON, atomically, no pickle.

        Nothing in it tells which documents trained the model; a run folder remembers that.

        Args:
            folder: Where.
            overwrite: Whether an earlier model, run or release may be replaced.
        """
        check_is_fitted(self, "_model")
        names = getattr(self, "feature_names_in_", None)
        saved = replace(
            self._model,
            parameters=self.get_params(),
            feature_names=None if names is None else tuple(map(str, names)),
        )
        write_folder(Path(folder), "model", model_files(saved), overwrite=overwrite)

    @classmethod
    def load(cls, folder: str | Path) -> Self:
        """Reads a model that ``save``, ``privgcn train`` or ``privgcn release`` wrote.

        Raises:
            DataError: A file was edited, removed or added, or cannot be read.
            PrivacyContractError: The claim does not hold.
        """
        return cls.of_run(Run(Path(folder)))

    @classmethod
    def of_run(cls, run: Run) -> Self:
        """The classifier as it was when the model was saved; its claim is checked first."""
        statement = run.statement  # checked before anything else is read
        saved = replace(run.model, statement=statement)
        parameters = saved.parameters
        if parameters is None:
            parameters = parameters_of(saved.fitted.settings)
        try:
            model = cls(**parameters)
        except TypeError as error:
            raise DataError(f"The model has unknown parameters: {error}.") from None
        if saved.feature_names is not None:
            model.feature_names_in_ = np.asarray(saved.feature_names, dtype=object)
        return model._take(saved)

    def _take(self, model: Model) -> Self:
        self._model = model
        self.classes_ = model.classes
        self.n_features_in_ = model.featurizer.dimension
        self.settings_ = model.fitted.settings
        self.statement_ = model.statement
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
        parameters = {
            "recipe": self.recipe,
            "seed": self.seed,
            "training.optimizer": self.optimizer,
            "training.balanced": self.balanced,
            "features.kind": self.features,
            "privacy.epsilon": self.epsilon,
            "privacy.delta": self.delta,
            "privacy.unit": self.unit,
            "privacy.relation": self.relation,
            "privacy.reproducible": self.reproducible,
        }
        return resolve(by_parameter(parameters), by_mapping(self.settings, "settings"))

    def _corpus_of_arrays(self, X: Any, y: Any) -> Corpus:
        if y is None:
            raise ValueError(
                "GraphClassifier requires y to be passed, but the target y is None: "
                "give a Corpus, or vectors and labels."
            )
        X, y = validate_data(self, X, y, accept_sparse="csr")
        check_classification_targets(y)
        self.classes_ = np.unique(y)
        if len(self.classes_) < 2:
            raise ValueError(
                "GraphClassifier needs at least two classes to tell apart. "
                f"Got {len(self.classes_)} class: {self.classes_}."
            )
        return corpus_of_arrays(X, y, self.classes_)


def _joined(train: Corpus, validation: Corpus) -> Corpus:
    """Training and validation documents of one whole corpus, with all links among them."""
    whole = train.whole
    if whole is None or validation.whole is not whole:
        raise ConfigError(
            "The 'validation' of GraphClassifier.fit must be a view of the corpus that the "
            "training documents are a view of, such as corpus.validation."
        )
    rows = np.concatenate([train.rows, validation.rows])
    codes = np.repeat([TRAIN, VALIDATION], [len(train), len(validation)])
    return with_split(whole.select(rows), codes)


def corpus_of_arrays(
    vectors: Any, labels: Any, classes: Sequence[Any] | npt.NDArray[Any]
) -> Corpus:
    """A corpus of training documents with the given vectors and no links.

    Args:
        vectors: ``[documents, features]``, dense or sparse.
        labels: One of ``classes`` for each document, or ``None``.
        classes: The sorted class labels.
    """
    documents = vectors.shape[0]
    codes = np.full(documents, NO_LABEL, dtype=np.int64)
    if labels is not None:
        codes = np.searchsorted(np.asarray(classes), labels).astype(np.int64)
    with np.errstate(over="ignore"):
        # Too large for float32 becomes infinite, and such a row counts as empty.
        rows = vectors.astype(np.float32)
    return Corpus(
        name="arrays",
        ids=np.arange(documents).astype(str),
        vectors=rows,
        labels=codes,
        classes=tuple(str(name) for name in classes),
        edges=np.empty((2, 0), dtype=np.int64),
        split=np.zeros(documents, dtype=np.int8),
    )


def parameters_of(settings: Settings) -> dict[str, Any]:
    """Parameters of ``GraphClassifier`` that make these settings again, but for the data.

    What the recipe does not choose by itself and no parameter says is in ``settings``.
    """
    privacy = settings.privacy
    parameters: dict[str, Any] = {
        "recipe": settings.recipe,
        "optimizer": settings.training.optimizer,
        "balanced": settings.training.balanced,
        "features": settings.features.kind,
        "seed": settings.seed,
    }
    changes: dict[str, Any] = {
        "features.kind": settings.features.kind,
        "training.balanced": settings.training.balanced,
    }
    if privacy is not None:
        said = ("epsilon", "delta", "unit", "relation", "reproducible")
        parameters |= {name: getattr(privacy, name) for name in said}
        changes |= {f"privacy.{name}": getattr(privacy, name) for name in said[1:]}
        if privacy.noise_multiplier is not None:
            changes["privacy.noise_multiplier"] = privacy.noise_multiplier
    usual = make_settings(
        settings.recipe,
        epsilon=None if privacy is None else privacy.epsilon,
        optimizer=settings.training.optimizer,
        seed=settings.seed,
        changes=changes,
    )
    rest = {
        f"{section}.{name}": value
        for section in _SECTIONS
        if getattr(settings, section) is not None
        for name, value in getattr(settings, section).model_dump().items()
        if value != getattr(getattr(usual, section), name)
    }
    if privacy is not None and privacy.noise_multiplier is not None:
        rest["privacy.noise_multiplier"] = privacy.noise_multiplier
    return {**parameters, "settings": rest or None}
