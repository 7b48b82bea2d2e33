"""Models on disk: weights as safetensors, everything else as JSON and TOML. No pickle."""

from __future__ import annotations

import json
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open

from privgcn.config import Settings, parse_settings, to_toml
from privgcn.errors import ConfigError, DataError
from privgcn.features import Featurizer, featurizer_from_state
from privgcn.files import folder_written_atomically
from privgcn.models import make_model
from privgcn.privacy.plan import PrivacyPlan
from privgcn.privacy.statement import PrivacyStatement
from privgcn.privacy.verification import DIGEST_KEY
from privgcn.training.fit import PATH, Fit
from privgcn.training.private import CENTRE

MODEL, WEIGHTS, SETTINGS, STATEMENT = (
    "model.json",
    "model.safetensors",
    "settings.toml",
    "statement.json",
)
_FORMAT = 2


@dataclass(frozen=True, eq=False)
class SavedModel:
    """What a folder holds: one replica, how text becomes features, the classes, the claim."""

    fitted: Fit
    featurizer: Featurizer
    classes: tuple[str, ...]
    statement: PrivacyStatement | None


def write_model(folder: Path, saved: SavedModel) -> None:
    """Writes a model folder atomically."""
    with folder_written_atomically(folder, marker=MODEL) as draft:
        write_model_files(draft, saved)


def write_model_files(folder: Path, saved: SavedModel) -> None:
    """Writes the files of a model into an existing folder."""
    fitted = saved.fitted
    (folder / SETTINGS).write_text(to_toml(fitted.settings.model_dump()), encoding="utf-8")
    # One key at most: safetensors writes several in no fixed order.
    metadata = None
    if saved.statement is not None:
        metadata = {DIGEST_KEY: saved.statement.digest()}
        (folder / STATEMENT).write_text(saved.statement.to_json(), encoding="utf-8")
    (folder / WEIGHTS).write_bytes(fitted.serialised(metadata))
    record = {
        "format": _FORMAT,
        "classes": list(saved.classes),
        "features": saved.featurizer.state(),
        "width": fitted.parameters[0].shape[0],
        "centred": fitted.centre is not None,
        "plan": None if fitted.plan is None else fitted.plan.to_dict(),
        "releasable": fitted.releasable,
    }
    (folder / MODEL).write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")


def read_settings_of(folder: Path) -> Settings:
    """The settings of a model folder."""
    return parse_settings(tomllib.loads(_text(folder / SETTINGS)))


def read_statement_of(folder: Path) -> PrivacyStatement | None:
    """The statement of a model folder; ``None`` where there is none."""
    path = folder / STATEMENT
    return PrivacyStatement.from_json(_text(path)) if path.exists() else None


def read_model(folder: Path) -> SavedModel:
    """Reads a model folder.

    Raises:
        DataError: A file is missing, cut short or not what it should be.
    """
    record = _record(folder / MODEL)
    settings = read_settings_of(folder)
    statement = read_statement_of(folder)
    chosen, chosen_path = settings.model, settings.training.keep_path
    try:
        model = make_model(
            chosen.kind,
            int(record["width"]),
            len(record["classes"]),
            hidden=chosen.hidden,
            hops=chosen.hops,
            dropout=chosen.dropout,
        )
        plan = None if record["plan"] is None else PrivacyPlan.from_dict(record["plan"])
        featurizer = featurizer_from_state(record["features"])
        with safe_open(folder / WEIGHTS, framework="pt") as file:
            parameters = [file.get_tensor(name) for name in model.parameter_names()]
            path = file.get_tensor(PATH) if chosen_path else None
            centre = file.get_tensor(CENTRE) if record["centred"] else None
    except (SafetensorError, OSError, KeyError, TypeError, ConfigError) as error:
        raise DataError(
            f"The model in {folder} cannot be read: {error}. Train or copy it again."
        ) from None
    tensors = zip(parameters, model.initial([0], zero=True), strict=True)
    shapes = [(given, tuple(expected.shape)) for given, expected in tensors]
    if centre is not None:
        shapes.append((centre, (int(record["width"]), 1)))
    for given, expected_shape in shapes:
        if tuple(given.shape) != expected_shape or given.dtype != torch.float32:
            raise DataError(
                f"The weights in {folder / WEIGHTS} do not fit {MODEL}: expected float32 of "
                f"shape {expected_shape}, got {given.dtype} of {tuple(given.shape)}. Copy the "
                "model again."
            )
    fitted = Fit(model, parameters, settings, plan, bool(record["releasable"]), path, centre)
    return SavedModel(fitted, featurizer, tuple(record["classes"]), statement)


def _record(path: Path) -> dict[str, Any]:
    try:
        record = json.loads(_text(path))
    except json.JSONDecodeError as error:
        raise DataError(f"The file {path} is not valid JSON: {error}. Copy it again.") from None
    if not isinstance(record, dict) or record.get("format") != _FORMAT:
        raise DataError(f"The file {path} is not a model of format {_FORMAT}.")
    return record


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except (FileNotFoundError, NotADirectoryError):
        raise DataError(
            f"The file {path} does not exist. Name a folder that 'privgcn train' wrote."
        ) from None
    except UnicodeDecodeError:
        raise DataError(f"The file {path} is not UTF-8 text. Copy it again.") from None
