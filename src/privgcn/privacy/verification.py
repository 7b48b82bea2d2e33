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
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from privgcn.config import Settings
from privgcn.errors import DataError, PrivacyContractError
from privgcn.privacy.schedule import steps_per_epoch
from privgcn.privacy.statement import PrivacyStatement

#: The key under which a model file repeats the digest of its statement.
DIGEST_KEY = "statement_digest"
#: Calibration comes closer to its target than this.
_CALIBRATED = 0.999


@dataclass(frozen=True)
class Verification:
    """A statement that holds, and what it was compared with."""

    statement: PrivacyStatement
    checked: tuple[str, ...]


def check_claim(
    statement: PrivacyStatement,
    *,
    settings: Settings | None = None,
    weights: bytes | None = None,
    record: Mapping[str, Any] | None = None,
    where: Path,
) -> tuple[str, ...]:
    """Computes a claim again, compares it with what else is known, and says what that was.

    Args:
        statement: The claim.
        settings: Of the run.
        weights: The content of the model file.
        record: What the model was saved with.
        where: The folder, for messages.

    Raises:
        DataError: The model file is none.
        PrivacyContractError: The claim does not hold, or the others contradict it.
    """
    statement.verify()
    checked = ["statement"]
    if settings is not None:
        _check_settings(statement, settings, where)
        checked.append("settings")
    if weights is not None:
        _check_model(statement, weights, where)
        checked += ["model"] if statement.model_sha256 is None else ["model", "weights"]
    if record is not None:
        _check_record(statement, record, where)
        checked.append("record")
    return tuple(checked)


def weights_sha256(serialised: bytes) -> str:
    """SHA-256 of the tensors in safetensors bytes, whatever metadata travels with them.

    The metadata is left out because it repeats the statement's digest, and the statement
    holds this value.
    """
    return _split_weights(serialised)[0]


def _check_settings(statement: PrivacyStatement, settings: Settings, where: Path) -> None:
    privacy = settings.privacy
    if privacy is None:
        raise PrivacyContractError(
            f"The settings in {where} must have a [privacy] section, as the statement claims a "
            "private run. They have none: one of the two files was edited."
        )
    for name, value in _settings_of(statement).items():
        got = getattr(privacy, name)
        if got is not None and not _same(got, value):
            raise _mismatch(f"privacy.{name}", value, got, where)
    target = privacy.epsilon
    if target is None and privacy.noise_multiplier is None:
        raise _mismatch("privacy.epsilon", statement.epsilon, None, where)
    if target is not None and not target * _CALIBRATED <= statement.epsilon <= target:
        raise _mismatch("privacy.epsilon", statement.epsilon, target, where)
    epochs = statement.steps / steps_per_epoch(statement.plan.schedule)
    if not _same(settings.training.epochs, epochs):
        raise _mismatch("training.epochs", epochs, settings.training.epochs, where)
    seed = statement.partition.seed
    if seed is not None and settings.seed != seed:
        raise _mismatch("seed", seed, settings.seed, where)


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


def _check_model(statement: PrivacyStatement, weights: bytes, where: Path) -> None:
    found, metadata = _split_weights(weights)
    if metadata.get(DIGEST_KEY) != statement.digest():
        raise PrivacyContractError(
            f"The model in {where} must name the digest of its statement. "
            f"Got {metadata.get(DIGEST_KEY)!r}, but the statement's is {statement.digest()!r}. "
            "Statement and model do not belong together, or one of them was edited."
        )
    if statement.model_sha256 is not None and found != statement.model_sha256:
        raise PrivacyContractError(
            f"The weights in {where} must have the SHA-256 that the statement names, "
            f"{statement.model_sha256}. Got {found}. They are not the weights that were stated."
        )


def _check_record(statement: PrivacyStatement, record: Mapping[str, Any], where: Path) -> None:
    """The plan that the model was saved with must be the stated one."""
    expected = {"plan": statement.plan.to_dict(), "releasable": statement.releasable}
    for name, value in expected.items():
        if record.get(name) != value:
            raise _mismatch(name, value, record.get(name), where)


def _split_weights(serialised: bytes) -> tuple[str, dict[str, str]]:
    """The hash of names, types, shapes and values, and the metadata beside them."""
    try:
        size = int.from_bytes(serialised[:8], "little")
        header = json.loads(serialised[8 : 8 + size].decode("utf-8"))
        metadata = header.pop("__metadata__", {})
        content = json.dumps(header, sort_keys=True, separators=(",", ":"))
    except (ValueError, AttributeError, TypeError, RecursionError) as error:
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


def _mismatch(name: str, expected: Any, got: Any, where: Path) -> PrivacyContractError:
    return PrivacyContractError(
        f"The '{name}' in {where} must be {expected!r}, as the statement says. Got {got!r}. "
        "One of the files was edited."
    )
