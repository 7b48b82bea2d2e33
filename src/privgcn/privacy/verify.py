"""Checks a run or a release from its files: the claim, the settings and the model.

Epsilon is computed again from the statement alone. Other facts are bound by a digest, which the
model file repeats; the model by a hash over tensors, record and settings. So an edited file is
noticed. Whoever rewrites all together makes a new claim of their own; no file can prove that a
run followed its plan.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from privgcn.config import Settings
from privgcn.errors import DataError, PrivacyContractError
from privgcn.privacy.statement import PrivacyStatement
from privgcn.privacy.values import read_json

#: The key under which a model file repeats the digest of its statement.
DIGEST_KEY = "statement_digest"


def model_sha256(weights: bytes, record: Mapping[str, Any], settings: Settings) -> str:
    """SHA-256 of a model: its tensors, its whole record, and its settings but for ``data``.

    The metadata beside the tensors do not count: they repeat the digest of the statement, which
    holds this value. It is the same before and after a model was written and read.
    """
    content = {
        "tensors": _split_weights(weights)[0],
        "record": record,
        "settings": settings.model_dump(mode="json", exclude={"data"}, exclude_none=True),
    }
    # What JSON makes of tuples and of keys that are no texts.
    plain = json.loads(json.dumps(content, allow_nan=False))
    text = json.dumps(plain, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode("utf-8")).hexdigest()


def check_claim(
    statement: PrivacyStatement,
    *,
    settings: Settings,
    weights: bytes,
    record: Mapping[str, Any],
    where: Path,
) -> None:
    """Computes a claim again and compares it with the model in ``where`` that it is about."""
    statement.verify()
    if settings.privacy is None:
        raise PrivacyContractError(
            f"The settings in {where} must have a [privacy] section, as the statement claims a "
            "private run. One of the two files was edited."
        )
    named = _split_weights(weights)[1].get(DIGEST_KEY)
    if named != statement.digest:
        raise PrivacyContractError(
            f"The model in {where} must name the digest of its statement, {statement.digest}. "
            f"Got {named!r}: one of them was edited, or they do not belong together."
        )
    computed = model_sha256(weights, record, settings)
    if computed != statement.model_sha256:
        raise PrivacyContractError(
            f"The model in {where} must have the SHA-256 that the statement names, "
            f"{statement.model_sha256}. Got {computed}: one of its files was edited."
        )


def _split_weights(serialised: bytes) -> tuple[str, dict[str, str]]:
    """The hash of names, types, shapes and values, and the metadata beside them."""
    try:
        size = int.from_bytes(serialised[:8], "little")
        header = read_json(serialised[8 : 8 + size].decode("utf-8"))
        metadata = dict(header.pop("__metadata__", {}))
        content = json.dumps(header, sort_keys=True, separators=(",", ":"))
    except (ValueError, AttributeError, TypeError, RecursionError) as error:
        raise DataError(
            f"A model file must be in the safetensors format. {error}. Train or copy it again."
        ) from None
    digest = hashlib.sha256(content.encode("utf-8"))
    digest.update(memoryview(serialised)[8 + size :])
    return digest.hexdigest(), metadata
