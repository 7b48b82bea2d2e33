"""One way to write settings down, so that equal settings have equal hashes."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any

from privgcn.errors import ConfigError


def canonical(value: Any) -> str:
    """JSON with sorted keys and no spaces; ``1.0`` and ``1`` are the same number.

    Raises:
        ConfigError: A value that JSON does not know, such as NaN or an array.
    """
    try:
        return json.dumps(_plain(value), sort_keys=True, separators=(",", ":"), allow_nan=False)
    except (TypeError, ValueError) as error:
        raise ConfigError(
            f"The 'settings' of a run must be plain finite values. Got {value!r} ({error})."
        ) from None


def digest(value: Any) -> str:
    """The sha256 of the canonical form."""
    return hashlib.sha256(canonical(value).encode()).hexdigest()


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {str(key): _plain(entry) for key, entry in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(entry) for entry in value]
    if isinstance(value, float) and value.is_integer() and abs(value) < 2**53:
        return int(value)
    return value
