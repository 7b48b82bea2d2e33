"""A trained model: fitted just now, saved, or read back, it is one type.

As files it is weights in safetensors and everything else in JSON and TOML; no pickle. These
are self-contained: no constant of the installed version enters a prediction.
"""

from __future__ import annotations

import json
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
import numpy.typing as npt
import torch
from pydantic import BaseModel, ConfigDict, Field, ValidationError
from safetensors import SafetensorError
from safetensors.torch import load as load_tensors
from torch import nn

from privgcn.config import Settings, parse_settings, to_toml
from privgcn.data import Corpus
from privgcn.data.scratch import ChosenRows
from privgcn.errors import ConfigError, DataError, PrivGCNError, reason, refusal
from privgcn.features import Featurizer, featurizer_from_state
from privgcn.graph.on_disk import RowsOnDisk, bytes_of
from privgcn.graph.rows import normalised, rows_of
from privgcn.graph.textgraph import TextGraph
from privgcn.models import AnyModel, LayerStack, ModuleModel, make_model
from privgcn.prediction.inference import numbers_of
from privgcn.prediction.matching_numbers import Numbers
from privgcn.privacy.plan import PrivacyPlan
from privgcn.privacy.statement import PrivacyStatement
from privgcn.privacy.units import DOCUMENTS_EACH
from privgcn.privacy.verification import DIGEST_KEY
from privgcn.runs.folder import MODEL, SETTINGS, STATEMENT, WEIGHTS, Stored
from privgcn.training.class_bias import ClassBias
from privgcn.training.fitted import BIAS, CENTRE, NAMES, PATH, Fit

_FORMAT = 5
# Settings of runs whose statement has schema 1; training.reach chooses all of them now.
_RETIRED = frozenset(
    (
        *("unit_residuals", "keep_path", "momentum", "averaging"),
        *("average_last", "centre", "zero_start"),
    )
)
_MOST_CLASSES = 100_000
_MOST_FEATURES = 2**31 - 1


@dataclass(frozen=True, eq=False)
class Model:
    """What was trained, with everything that a user of it needs.

    Attributes:
        fitted: The parameters. Experiments train several replicas; a saved model is one.
        featurizer: How documents become features.
        classes: The class labels, with their type.
        statement: The claim; ``None`` without privacy, and for replicas of an experiment.
        parameters: What the classifier was constructed with; ``None`` where the settings
            alone decide.
        feature_names: Names of the columns that the classifier was fitted on, if any.
    """

    fitted: Fit
    featurizer: Featurizer
    classes: npt.NDArray[Any]
    statement: PrivacyStatement | None
    parameters: Mapping[str, Any] | None = None
    feature_names: tuple[str, ...] | None = None

    def graph(self, corpus: Corpus) -> TextGraph:
        """Documents as this model reads them."""
        return graph_of(corpus, self.featurizer, self.fitted.settings)


def graph_of(corpus: Corpus, featurizer: Featurizer, settings: Settings) -> TextGraph:
    """The documents of a corpus as a graph with feature rows scaled as the settings say.

    Rows that would take more than ``training.memory`` stay on disk.
    """
    matrix, norm = featurizer.transform(corpus), settings.features.normalise
    person = settings.privacy is not None and settings.privacy.unit == "person"
    # How many documents a person has is private, and so must not choose the road.
    documents = len(corpus.owner_names or ()) * DOCUMENTS_EACH if person else len(corpus)
    dense = isinstance(matrix, ChosenRows | np.ndarray)
    size = bytes_of(documents, matrix.shape[1], dense=dense)
    if size <= settings.training.memory * 2**30:
        graph = TextGraph.from_corpus(corpus, np.asarray(matrix) if dense else matrix)
        return replace(graph, features=normalised(graph.features, norm))
    rows = RowsOnDisk.of(matrix if isinstance(matrix, ChosenRows) else rows_of(matrix))
    graph = TextGraph.from_corpus(corpus, rows)
    scaled = rows.finite().changed(lambda own: normalised(own, norm))
    return replace(graph, features=scaled)


class _Classes(BaseModel):
    """Class labels and their type; texts are ``U`` whatever their length."""

    model_config = ConfigDict(extra="forbid", strict=True, allow_inf_nan=False)

    dtype: Annotated[str, Field(pattern=r"^(U|O|b1|[iu][1248]|f[248])$")]
    values: Annotated[
        list[bool | int | float | str], Field(min_length=2, max_length=_MOST_CLASSES)
    ]


class _Bias(BaseModel):
    """How many times the bias of the classes enters a prediction."""

    model_config = ConfigDict(extra="forbid", strict=True, allow_inf_nan=False)

    alone: float
    matched: float


class _Record(BaseModel):
    """The content of ``model.json``."""

    model_config = ConfigDict(extra="forbid", strict=True, allow_inf_nan=False)

    format: Literal[5]
    classes: _Classes
    features: dict[str, Any]
    feature_names: list[str] | None
    width: Annotated[int, Field(ge=1, le=_MOST_FEATURES)]
    path: bool
    centred: bool
    names: bool
    bias: _Bias | None
    plan: dict[str, Any] | None
    releasable: bool
    matching: Numbers | None
    parameters: dict[str, Any] | None
    module: str | None = None


def model_files(model: Model) -> dict[str, str | bytes]:
    """The files of a model.

    Raises:
        ConfigError: The class labels or parameters cannot be kept in JSON.
    """
    fitted, statement = model.fitted, model.statement
    matched = fitted.settings.prediction.method == "matched"
    record = {
        "format": _FORMAT,
        "classes": _classes_record(model.classes),
        "features": model.featurizer.state(),
        "feature_names": model.feature_names,
        "width": model.featurizer.dimension,
        "path": fitted.path is not None,
        "centred": fitted.centre is not None,
        "names": fitted.names is not None,
        "bias": None if fitted.bias is None else _bias_record(fitted.bias),
        "plan": None if fitted.plan is None else fitted.plan.to_dict(),
        "releasable": fitted.releasable,
        "matching": numbers_of(fitted).model_dump() if matched else None,
        "parameters": model.parameters,
    }
    if isinstance(fitted.model, ModuleModel):
        record["module"] = fitted.model.title
    files: dict[str, str | bytes] = {
        SETTINGS: to_toml(fitted.settings.model_dump()),
        MODEL: json.dumps(record, indent=1, default=_as_json) + "\n",
    }
    # One key at most: safetensors writes several in no fixed order.
    metadata = None if statement is None else {DIGEST_KEY: statement.digest()}
    files[WEIGHTS] = fitted.serialised(metadata)
    if statement is not None:
        files[STATEMENT] = statement.to_json()
    return files


def read_settings(stored: Stored) -> Settings:
    """The settings of a model.

    Raises:
        DataError: They cannot be read, or one of them breaks its rule.
    """
    path = stored.folder / SETTINGS
    try:
        return parse_settings(_without_retired(stored, tomllib.loads(stored.text(SETTINGS))))
    except ConfigError as error:
        raise DataError(f"The file {path} holds no settings of a run. {error}") from None
    except (ValueError, RecursionError) as error:
        raise DataError(f"The file {path} is not valid TOML: {reason(error)}.") from None


def _without_retired(stored: Stored, tree: dict[str, Any]) -> dict[str, Any]:
    """Settings of a run whose statement has schema 1, without those that reach replaced."""
    if STATEMENT not in stored.files or stored.record(STATEMENT).get("schema_version") != 1:
        return tree
    kept = {n: v for n, v in tree.get("training", {}).items() if n not in _RETIRED}
    return {**tree, "training": kept}


def read_statement(stored: Stored) -> PrivacyStatement | None:
    """The statement of a model; ``None`` where it was trained without privacy.

    Raises:
        DataError: A private model has none.
    """
    if STATEMENT in stored.files:
        return PrivacyStatement.from_json(stored.text(STATEMENT))
    if read_settings(stored).privacy is not None:
        raise DataError(
            f"The {stored.kind} {stored.folder} was trained with privacy but has no "
            f"{STATEMENT}. Copy the whole folder, or train again."
        )
    return None


def read_model(stored: Stored, module: nn.Module | None = None) -> Model:
    """The model of a folder.

    Args:
        stored: The files.
        module: Of the class that was trained, where it was a user's own: files hold no code.

    Raises:
        ConfigError: A module for a model that is none.
        DataError: A file is missing or not what it should be.
    """
    settings, statement = read_settings(stored), read_statement(stored)
    try:
        record = _Record.model_validate(stored.record(MODEL))
        classes = np.array(record.classes.values, dtype=record.classes.dtype)
        featurizer = featurizer_from_state(record.features)
        plan = None if record.plan is None else PrivacyPlan.from_dict(record.plan)
        tensors = load_tensors(stored.content(WEIGHTS))
    except ValidationError as error:
        raise _unreadable(stored.folder, str(refusal(error, f"the {MODEL}"))) from None
    except (PrivGCNError, SafetensorError) as error:
        raise _unreadable(stored.folder, str(error)) from None
    except (KeyError, TypeError, ValueError, OverflowError, AttributeError) as error:
        raise _unreadable(stored.folder, f"{type(error).__name__}: {error}") from None
    model = _model(record, settings, tensors, module)
    if featurizer.dimension != record.width:
        raise _unreadable(
            stored.folder, f"{featurizer.dimension} features for a model of {record.width}"
        )
    if settings.prediction.method == "matched" and record.matching is None:
        raise _unreadable(stored.folder, "the numbers of prediction by 'matched' are missing")
    if isinstance(model, LayerStack):
        _check_tensors(stored.folder, model, record, plan, tensors)
        parameters = [tensors[name] for name in model.parameter_names()]
    else:
        _check_finite(stored.folder, tensors)
        parameters = model.parameters_in(tensors)
    bias = None
    if record.bias is not None:
        bias = ClassBias(tensors[BIAS], record.bias.alone, record.bias.matched)
    fitted = Fit(
        model,
        parameters,
        settings,
        plan,
        record.releasable,
        tensors.get(PATH),
        tensors.get(CENTRE),
        None if record.matching is None else record.matching.model_dump(),
        tensors.get(NAMES),
        bias,
    )
    names = None if record.feature_names is None else tuple(record.feature_names)
    return Model(fitted, featurizer, classes, statement, record.parameters, names)


def _model(
    record: _Record,
    settings: Settings,
    tensors: Mapping[str, torch.Tensor],
    module: nn.Module | None,
) -> AnyModel:
    chosen, classes = settings.model, len(record.classes.values)
    if record.module is None:
        if module is not None:
            raise ConfigError("The model is no module of a user's own. Load it without one.")
        return make_model(
            chosen.kind,
            record.width,
            classes,
            hidden=chosen.hidden,
            hops=chosen.hops,
            dropout=chosen.dropout,
        )
    if module is None:
        return ModuleModel.without_module(record.module, tensors)
    model = ModuleModel.of(module, record.width, classes)
    if model.title != record.module:
        raise ConfigError(
            f"The module must be of the class '{record.module}'. Got '{model.title}'."
        )
    return model


def _check_tensors(
    folder: Path,
    model: LayerStack,
    record: _Record,
    plan: PrivacyPlan | None,
    tensors: Mapping[str, torch.Tensor],
) -> None:
    """The weights must be those of the model, of its shape, and finite."""
    shapes: dict[str, tuple[int, ...]] = {}
    for number, (inputs, outputs, _) in enumerate(model.layers):
        shapes[f"layers.{number}.weight"] = (inputs, 1, outputs)
        if model.bias:
            shapes[f"layers.{number}.bias"] = (1, outputs)
    if record.path:
        steps = 0 if plan is None else plan.steps - int(record.bias is not None)
        shapes[PATH] = (steps + 1, *shapes["layers.0.weight"])
    if record.centred:
        shapes[CENTRE] = (record.width, 1)
    if record.bias is not None:
        shapes[BIAS] = (1, len(record.classes.values))
    if record.names:
        shapes[NAMES] = shapes["layers.0.weight"]
    if tensors.keys() != shapes.keys():
        raise _unreadable(
            folder, f"its tensors must be {sorted(shapes)}, got {sorted(tensors)[:9]}"
        )
    for name, tensor in tensors.items():
        if tuple(tensor.shape) != shapes[name] or tensor.dtype != torch.float32:
            raise _unreadable(
                folder,
                f"its '{name}' must be float32 of shape {shapes[name]}, got {tensor.dtype} of "
                f"{tuple(tensor.shape)}",
            )
    _check_finite(folder, tensors)


def _check_finite(folder: Path, tensors: Mapping[str, torch.Tensor]) -> None:
    for name, tensor in tensors.items():
        if not bool(torch.isfinite(tensor).all()):
            raise _unreadable(folder, f"its '{name}' holds numbers that are not finite")


def _bias_record(bias: ClassBias) -> dict[str, float]:
    return {"alone": bias.alone, "matched": bias.matched}


def _classes_record(classes: npt.NDArray[Any]) -> dict[str, Any]:
    kind, size = classes.dtype.kind, classes.dtype.itemsize
    dtype = {"U": "U", "T": "U", "O": "O", "b": "b1"}.get(kind, f"{kind}{size}")
    values = classes.tolist()
    try:
        _Classes(dtype=dtype, values=values)
    except ValidationError:
        raise ConfigError(
            f"The class labels of a saved model must be {_MOST_CLASSES} or fewer texts, finite "
            f"numbers or booleans. Got {classes.dtype}. Encode them before training."
        ) from None
    return {"dtype": dtype, "values": values}


def _as_json(value: Any) -> Any:
    """NumPy's numbers as Python's; anything else has no place in a model."""
    if isinstance(value, np.generic | np.ndarray):
        return value.tolist()
    if isinstance(value, Mapping):
        return dict(value)
    raise ConfigError(
        "The parameters of a saved classifier must be numbers, texts, booleans and lists or "
        f"mappings of these. Got {value!r}."
    )


def _unreadable(folder: Path, reason: str) -> DataError:
    return DataError(
        f"The model in {folder} cannot be read: {reason.rstrip('.')}. Train or copy it again."
    )
