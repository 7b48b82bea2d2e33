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
from sklearn.utils.validation import check_is_fitted
from torch import nn

from privgcn.config import Overrides, Settings, check_mode, make_settings, resolve
from privgcn.data import Corpus
from privgcn.data.corpus import TRAIN, VALIDATION
from privgcn.data.frames import is_missing
from privgcn.errors import ConfigError, DataError
from privgcn.models import ModuleModel
from privgcn.prediction.inference import scores_in_mode
from privgcn.privacy.statement import PrivacyStatement
from privgcn.runs.folder import write_folder
from privgcn.runs.inputs import documents_in, training_documents, truth_beside
from privgcn.runs.model import Model, model_files, read_model
from privgcn.runs.repeated_fits import warn_of_unpaid_search
from privgcn.runs.run import Run
from privgcn.runs.train import train, with_split

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
        parts: How the training graph is cut: ``each`` document (or owner) by itself, a
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
        >>> model = GraphClassifier(epsilon=1.0, unit="person").fit(corpus.train)
        >>> labels = model.predict(corpus.test, inference="own-graph")

        >>> texts, topics = ["the invoice", "a lost parcel"] * 50, ["billing", "delivery"] * 50
        >>> model = GraphClassifier(epsilon=2.0, delta=1e-4, features="static")
        >>> model = model.fit(texts, topics, classes=["billing", "delivery"])
        >>> model.predict(["an invoice is missing"]).tolist()
        ['billing']
    """

    classes_: npt.NDArray[Any]
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
        links: Any = None,
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
            links: Pairs of rows, or of ids where documents have an ``id``; a frame with
                ``source`` and ``target``; a square sparse matrix; or an ``edge_index``.
            owners: The person that each document belongs to, where ``X`` does not say it.
            classes: The class set, where it is public knowledge. Otherwise it is read off
                the labels, and the statement says so.
            validation: Documents on which a non-private run may decide to stop; a private
                run never stops early.
        """
        documents, self.classes_ = training_documents(
            self, X, y, links=links, owners=owners, classes=classes
        )
        if documents.texts is not None and hasattr(self, "feature_names_in_"):
            del self.feature_names_in_
        settings = self._make_settings()
        warn_of_unpaid_search(documents, settings)
        if validation is not None and settings.privacy is None:
            documents = _joined(X, validation)
        trained = train(documents, settings, module=self.module).model
        return self._take(replace(trained, classes=self.classes_))

    def predict_proba(
        self, X: Any, *, links: Any = None, inference: str = "own-graph"
    ) -> npt.NDArray[np.float64]:
        """Class probabilities of each document.

        Args:
            X: Documents in any form that ``fit`` takes; labels are not read.
            links: Links among these documents.
            inference: ``alone``, ``own-graph``, or ``full-graph``, which needs a view of a
                whole corpus and is not covered by the guarantee. Neither is any mode if
                training documents are among ``X``.
        """
        check_is_fitted(self, "_model")
        mode = check_mode(inference)
        corpus = documents_in(self, X, links=links)
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

    def predict_log_proba(
        self, X: Any, *, links: Any = None, inference: str = "own-graph"
    ) -> npt.NDArray[np.float64]:
        """The logarithm of ``predict_proba``."""
        with np.errstate(divide="ignore"):
            return np.log(self.predict_proba(X, links=links, inference=inference))

    def predict(
        self, X: Any, *, links: Any = None, inference: str = "own-graph"
    ) -> npt.NDArray[Any]:
        """The class label of each document."""
        best = self.predict_proba(X, links=links, inference=inference).argmax(axis=1)
        return np.asarray(self.classes_[best])

    def score(
        self, X: Any, y: Any = None, *, links: Any = None, inference: str = "own-graph"
    ) -> float:
        """Accuracy, which is micro F1 for one label per document.

        Documents without a label do not count. Of a ``Data`` with a ``test_mask``, the test
        documents count.
        """
        check_is_fitted(self, "_model")
        documents, truth = truth_beside(X, y, self.classes_)
        predicted = self.predict(documents, links=links, inference=inference)
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
        names = getattr(self, "feature_names_in_", None)
        saved = replace(
            self._model,
            parameters={n: v for n, v in self.get_params().items() if n != "module"},
            feature_names=None if names is None else tuple(map(str, names)),
        )
        write_folder(Path(folder), "model", model_files(saved), overwrite=overwrite)

    @classmethod
    def load(cls, folder: str | Path, *, module: nn.Module | None = None) -> Self:
        """Reads a model that ``save``, ``privgcn train`` or ``privgcn release`` wrote.

        Args:
            folder: Where.
            module: A module of the class that was trained, where it was your own: files
                hold weights and no code.

        Raises:
            ConfigError: It was a module of somebody's own, and ``module`` is no such module.
            DataError: A file was edited, removed or added, or cannot be read.
            PrivacyContractError: The claim does not hold.
        """
        return cls.of_run(Run(Path(folder)), module=module)

    @classmethod
    def of_run(cls, run: Run, *, module: nn.Module | None = None) -> Self:
        """The classifier as it was when the model was saved; its claim is checked first."""
        statement = run.statement  # checked before anything else is read
        saved = replace(read_model(run.stored, module), statement=statement)
        brought = saved.fitted.model
        if isinstance(brought, ModuleModel) and brought.module is None:
            brought.fresh()  # says which class is needed
        parameters = saved.parameters
        if parameters is None:
            parameters = parameters_of(saved.fitted.settings)
        try:
            model = cls(**parameters, module=module)
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
        if isinstance(model.fitted.model, ModuleModel):
            self.module_ = model.fitted.model.trained(model.fitted.parameters)
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
            "model.kind": None if self.module is None else "module",
            "features.kind": self.features,
            "privacy.parts": self.parts,
            "privacy.epsilon": self.epsilon,
            "privacy.delta": self.delta,
            "privacy.unit": self.unit,
            "privacy.relation": self.relation,
            "privacy.reproducible": self.reproducible,
        }
        return resolve(
            Overrides.typed(parameters), Overrides.mapping(self.settings, "settings")
        )


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
