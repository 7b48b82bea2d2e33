"""Checks a run or a release from its files: the claim, the settings and the weights.

An epsilon can be computed again from the statement alone. Words and facts that do not enter
epsilon are bound by a digest, which the statement holds and the model file repeats: editing
the statement alone is always noticed. Whoever rewrites statement and model together makes a
new claim of their own; no file can prove that a run followed its plan.
"""

from __future__ import annotations

import hashlib
import json
import math
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from privgcn.config import parse_settings
from privgcn.errors import DataError, PrivacyContractError
from privgcn.privacy.checks import read_json
from privgcn.privacy.schedule import steps_per_epoch
from privgcn.privacy.statement import PrivacyStatement

STATEMENT_FILE = "statement.json"
SETTINGS_FILE = "settings.toml"
MODEL_FILE = "model.safetensors"
RECORD_FILE = "model.json"
#: The key under which a model file repeats the digest of its statement.
DIGEST_KEY = "statement_digest"
#: Calibration comes closer to its target than this.
_CALIBRATED = 0.999


@dataclass(frozen=True)
class Verification:
    """A statement that holds, and what it was compared with."""

    statement: PrivacyStatement
    checked: tuple[str, ...]


def verify_run(path: Path) -> Verification:
    """Checks a run or release folder, or a statement file with what lies beside it.

    Raises:
        DataError: a file is missing or cannot be read.
        PrivacyContractError: a file was edited, or files contradict each other.
    """
    file = path / STATEMENT_FILE if path.is_dir() else path
    statement = PrivacyStatement.from_json(_read(file))
    statement.verify()
    checked = ["statement"]
    settings = file.parent / SETTINGS_FILE
    if settings.exists():
        _check_settings(statement, settings)
        checked.append("settings")
    model = file.parent / MODEL_FILE
    if model.exists():
        _check_model(statement, model)
        checked += ["model"] if statement.model_sha256 is None else ["model", "weights"]
    record = file.parent / RECORD_FILE
    if record.exists():
        _check_record(statement, record)
        checked.append("record")
    return Verification(statement, tuple(checked))


def weights_sha256(serialised: bytes) -> str:
    """SHA-256 of the tensors in safetensors bytes, whatever metadata travels with them.

    The metadata is left out because it repeats the statement's digest, and the statement
    holds this value.
    """
    return _split_weights(serialised)[0]


def _check_settings(statement: PrivacyStatement, file: Path) -> None:
    try:
        tree = tomllib.loads(_read(file))
    except tomllib.TOMLDecodeError as error:
        raise DataError(f"The settings file {file} is not valid TOML: {error}.") from None
    if not isinstance(tree.get("privacy"), dict):
        raise PrivacyContractError(
            f"The settings in {file} must have a [privacy] section, as the statement claims a "
            "private run. They have none: one of the two files was edited."
        )
    privacy = parse_settings({"privacy": tree["privacy"]}).privacy
    for name, value in _settings_of(statement).items():
        got = getattr(privacy, name)
        if got is not None and not _same(got, value):
            raise _mismatch(f"privacy.{name}", value, got, file)
    target = None if privacy is None else privacy.epsilon
    if target is None and (privacy is None or privacy.noise_multiplier is None):
        raise _mismatch("privacy.epsilon", statement.epsilon, None, file)
    if target is not None and not target * _CALIBRATED <= statement.epsilon <= target:
        raise _mismatch("privacy.epsilon", statement.epsilon, target, file)
    epochs = tree.get("training", {}).get("epochs")
    per_epoch = steps_per_epoch(statement.plan().schedule)
    if epochs is not None and not _same(epochs, statement.steps / per_epoch):
        raise _mismatch("training.epochs", statement.steps / per_epoch, epochs, file)
    seed = statement.partition.seed
    if seed is not None and "seed" in tree and tree["seed"] != seed:
        raise _mismatch("seed", seed, tree["seed"], file)


def _settings_of(statement: PrivacyStatement) -> dict[str, Any]:
    """What the [privacy] section must say where it says anything."""
    partition = statement.partition
    parts: Any = partition.parts
    if partition.kind == "each":
        parts = "each"
    elif partition.kind == "column":
        parts = f"column:{partition.column}"
    return {
        "delta": statement.delta,
        "unit": statement.unit,
        "relation": statement.relation,
        "parts": parts,
        "sampling": statement.sampling,
        "sampling_probability": statement.sampling_probability,
        "clip_norm": statement.clip_norm,
        "noise_multiplier": statement.noise_multiplier,
        "accountant": statement.accountant,
        "reproducible": not statement.releasable,
    }


def _check_model(statement: PrivacyStatement, file: Path) -> None:
    found, metadata = _split_weights(_read_bytes(file))
    if metadata.get(DIGEST_KEY) != statement.digest():
        raise PrivacyContractError(
            f"The model in {file} must name the digest of its statement. "
            f"Got {metadata.get(DIGEST_KEY)!r}, but the statement's is {statement.digest()!r}. "
            "Statement and model do not belong together, or one of them was edited."
        )
    if statement.model_sha256 is not None and found != statement.model_sha256:
        raise PrivacyContractError(
            f"The weights in {file} must have the SHA-256 that the statement names, "
            f"{statement.model_sha256}. Got {found}. They are not the weights that were stated."
        )


def _check_record(statement: PrivacyStatement, file: Path) -> None:
    """The plan that the model was saved with must be the stated one."""
    try:
        record = read_json(_read(file))
    except ValueError as error:
        raise DataError(f"The file {file} must be JSON. {error}.") from None
    if not isinstance(record, dict):
        raise DataError(f"The file {file} must be a JSON object. Copy it again.")
    expected = {"plan": statement.plan().to_dict(), "releasable": statement.releasable}
    for name, value in expected.items():
        if name in record and record[name] != value:
            raise _mismatch(name, value, record[name], file)


def _split_weights(serialised: bytes) -> tuple[str, dict[str, str]]:
    """The hash of names, types, shapes and values, and the metadata beside them."""
    try:
        size = int.from_bytes(serialised[:8], "little")
        header = json.loads(serialised[8 : 8 + size].decode("utf-8"))
        metadata = header.pop("__metadata__", {})
        content = json.dumps(header, sort_keys=True, separators=(",", ":"))
    except (ValueError, AttributeError) as error:
        raise DataError(
            f"A model file must be in the safetensors format. {error}. Train or copy it again."
        ) from None
    digest = hashlib.sha256(content.encode("utf-8"))
    digest.update(serialised[8 + size :])
    return digest.hexdigest(), dict(metadata)


def _same(got: Any, expected: Any) -> bool:
    if isinstance(expected, bool) or isinstance(got, bool):
        return got is expected
    if isinstance(expected, float) and isinstance(got, int | float):
        return math.isclose(got, expected, rel_tol=1e-9)
    return str(got) == str(expected)


def _mismatch(name: str, expected: Any, got: Any, file: Path) -> PrivacyContractError:
    return PrivacyContractError(
        f"The '{name}' in {file} must be {expected!r}, as the statement says. Got {got!r}. "
        "One of the two files was edited."
    )


def _read(file: Path) -> str:
    try:
        return _read_bytes(file).decode("utf-8")
    except UnicodeDecodeError as error:
        raise DataError(f"The file {file} must be UTF-8 text. {error}.") from None


def _read_bytes(file: Path) -> bytes:
    try:
        return file.read_bytes()
    except FileNotFoundError:
        raise DataError(
            f"There is no {file}. Give a run or release folder of a private run, or its "
            f"{STATEMENT_FILE}; a run without privacy has no statement to verify."
        ) from None
    except OSError as error:
        raise DataError(f"The file {file} cannot be read: {error.strerror}.") from None
