"""A trained model: trained just now, saved, or read back, it is one type.

As files it is tensors in safetensors, a record in JSON, settings in TOML and a statement. The
record holds every number that a prediction computes with. The statement binds tensors, record
and settings by one hash; where the documents, vectors and caches lie on this machine is in no
hash and no record. It takes no PyTorch to read and check a model.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, Field, ValidationError
from scipy.special import softmax

from privgcn.auto.train import blocks
from privgcn.config import DataSettings, Mode, Settings, to_toml
from privgcn.errors import ConfigError, DataError, PrivGCNError, refusal, shown
from privgcn.privacy.statement import PrivacyStatement
from privgcn.privacy.verify import DIGEST_KEY
from privgcn.released import Kind, Released
from privgcn.runs.folder import MODEL, SETTINGS, STATEMENT, WEIGHTS
from privgcn.storage import room, unmap

if TYPE_CHECKING:
    from torch import nn

    from privgcn.data import Corpus
    from privgcn.features import Featurizer
    from privgcn.graph import DocumentGraph
    from privgcn.runs.run import Run

_FORMAT: Literal[9] = 9
_MOST_CLASSES = 100_000


@dataclass(frozen=True, eq=False)
class Model:
    """What was trained, with everything that a user of it needs.

    ``feature_names`` are those of the columns of vectors; ``module`` is the user's own.
    """

    released: Released
    featurizer: Featurizer
    classes: NDArray[Any]
    statement: PrivacyStatement | None = None
    feature_names: tuple[str, ...] | None = None
    module: nn.Module | None = None

    @property
    def settings(self) -> Settings:
        """All settings of the run."""
        return self.released.settings

    def graph(self, corpus: Corpus) -> DocumentGraph:
        """Documents as this model reads them; labels that it does not know are none."""
        from privgcn.runs.prepare import graph_of

        graph, classes = graph_of(corpus, self.featurizer, self.settings), len(self.classes)
        labels = np.where(graph.labels < classes, graph.labels, -1)
        return replace(graph, labels=labels, classes=classes)

    def scores(self, graph: DocumentGraph, rows: NDArray[np.int64], mode: Mode) -> NDArray[Any]:
        """Scores ``[rows, classes]`` of some documents of a graph."""
        from privgcn.inference import scores_in_mode

        return scores_in_mode(self.released, graph, rows, mode, module=self.module)

    def probabilities(self, corpus: Corpus, mode: Mode) -> NDArray[np.float64]:
        """Class probabilities of each document; ``full-graph`` needs a view of a corpus."""
        rows = np.arange(len(corpus))
        if mode == "full-graph":
            if corpus.parent is None or corpus.rows is None:
                raise ConfigError(
                    "Inference 'full-graph' needs the documents around those to predict. Make "
                    "one Corpus of all of them (Corpus.from_frame, with a column 'split'), fit "
                    "corpus.train and predict corpus.test; or use 'own-graph'."
                )
            rows, corpus = corpus.rows, corpus.parent
        return likelihoods(self.scores(self.graph(corpus), rows, mode))

    @property
    def record(self) -> dict[str, Any]:
        """The content of ``model.json``: everything but tensors and settings."""
        matching, names = self.released.matching, self.feature_names
        try:
            return _Record(
                format=_FORMAT,
                kind=self.released.kind,
                title=self.released.title,
                classes=self.classes.tolist(),
                features=self.featurizer.state(),
                feature_names=None if names is None else list(names),
                matching=None if matching is None else dict(matching),
            ).model_dump()
        except ValidationError:
            raise ConfigError(
                f"The class labels of a saved model must be {_MOST_CLASSES} or fewer texts, "
                f"finite numbers or booleans. Got {self.classes.dtype}."
            ) from None


def likelihoods(scores: NDArray[Any]) -> NDArray[np.float64]:
    """Class probabilities of scores."""
    likely = room(scores.shape, np.float64)
    for own in blocks(len(likely)):
        likely[own] = softmax(scores[own].astype(np.float64), axis=1)
        unmap(likely)
    return likely


class _Record(BaseModel):
    """The content of ``model.json``."""

    model_config = ConfigDict(extra="forbid", strict=True, allow_inf_nan=False)

    format: Literal[9]
    kind: Kind
    title: str | None
    classes: Annotated[
        list[bool] | list[int] | list[float] | list[str],
        Field(min_length=2, max_length=_MOST_CLASSES),
    ]
    features: dict[str, Any]
    feature_names: list[str] | None
    matching: dict[str, Any] | None


def bound_settings(settings: Settings, options: Mapping[str, Any] | None = None) -> Settings:
    """The settings without where documents, vectors and caches lie on this machine.

    The record has those options of the features that decide anything, as their state.
    """
    features = settings.features.model_copy(update={"options": dict(options or {})})
    return settings.model_copy(update={"data": DataSettings(), "features": features})


def model_files(model: Model) -> dict[str, str | bytes]:
    """The files of a model."""
    statement = model.statement
    files: dict[str, str | bytes] = {
        SETTINGS: to_toml(model.settings.model_dump()),
        MODEL: json.dumps(model.record, indent=1) + "\n",
    }
    # One key at most: safetensors writes several in no fixed order.
    metadata = None if statement is None else {DIGEST_KEY: statement.digest}
    files[WEIGHTS] = model.released.serialised(metadata)
    if statement is not None:
        files[STATEMENT] = statement.to_json()
    return files


def read_model(run: Run, *, module: nn.Module | None = None, path: Path | None = None) -> Model:
    """The model of a folder; its claim is checked first.

    Files hold no code, so that a user's own ``module`` has to be brought, and no path that they
    name is followed: ``path`` says where an encoder lies that is not installed.
    """
    from safetensors import SafetensorError
    from safetensors.numpy import load

    from privgcn.auto.recipe import MatchingConstants
    from privgcn.features import featurizer_from_state

    settings, statement = run.settings, run.statement
    try:
        record = _Record.model_validate(run.record(MODEL))
        classes = np.array(record.classes)
        featurizer = featurizer_from_state(record.features, path=path)
        released = Released(
            kind=record.kind,
            tensors=load(run.content(WEIGHTS)),
            settings=settings,
            plan=None if statement is None else statement.plan,
            releasable=statement is not None and statement.releasable,
            matching=record.matching,
            title=record.title,
        )
        _check_tensors(released, featurizer.dimension, len(classes))
        if record.matching is not None:
            MatchingConstants.of(released)
    except (PrivGCNError, SafetensorError, ValueError, LookupError, TypeError) as error:
        if isinstance(error, ValidationError):
            error = refusal(error, f"the {MODEL}")
        why = str(error).rstrip(".")
        raise DataError(
            f"The model in {run.folder} cannot be read: {why}. Train or copy it again."
        ) from None
    if module is not None and record.title is None:
        raise ConfigError("The model is no module of a user's own. Load it without one.")
    names = None if record.feature_names is None else tuple(record.feature_names)
    return Model(released, featurizer, classes, statement, names, module)


def _check_tensors(released: Released, width: int, classes: int) -> None:
    """The tensors must be those of the kind of model, of its shape, and finite."""
    settings, tensors, kind = released.settings, released.tensors, released.kind
    if kind != settings.model.kind:
        raise DataError(f"it is a '{kind}', and its settings say '{settings.model.kind}'")
    found = {n: t.shape if t.dtype == np.float32 else str(t.dtype) for n, t in tensors.items()}
    expected: dict[str, Any] = {"layers.0.weight": (width, classes)}
    if settings.training.large_steps:
        steps = 0 if released.plan is None else released.plan.steps
        priors = "class_bias" in tensors  # the first release is the statistics, where asked for
        optional = {
            "mean": (width,),
            "class_bias": (classes,),
            "label_direction": (width, classes),
        }
        expected = {
            "weight": (width, classes),
            "iterates": (steps + 1 - priors, width, classes),
            **{name: shape for name, shape in optional.items() if name in tensors},
        }
    elif kind == "module":
        expected = found  # a module itself knows its tensors
    elif kind != "linear":
        sizes = (width, settings.model.hidden, classes)
        expected = {f"layers.{n}.weight": sizes[n : n + 2] for n in (0, 1)}
        expected |= {f"layers.{n}.bias": sizes[n + 1 : n + 2] for n in (0, 1)}
    if found != expected:
        raise DataError(f"its tensors must be {expected}, got {shown(found)}")
    if not all(np.isfinite(tensor).all() for tensor in tensors.values()):
        raise DataError("its tensors must be finite")
