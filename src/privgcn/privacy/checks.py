"""Range checks of the privacy room: one template, and nothing that slips through.

``nan``, infinities, booleans and numbers in disguise (strings) all fail here, before any of
them can reach an accountant and come back as a small epsilon.
"""

from __future__ import annotations

import json
import math
import numbers
import operator
from collections.abc import Mapping
from typing import Any

from privgcn.errors import ConfigError


def require_real(
    value: Any,
    name: str,
    owner: str,
    *,
    above: float = -math.inf,
    low: float = -math.inf,
    high: float = math.inf,
    remedy: str = "",
) -> float:
    """Returns ``value`` as a finite float in ``[low, high]`` and greater than ``above``."""
    is_number = isinstance(value, numbers.Real) and not isinstance(value, bool)
    number = float(value) if is_number else math.nan
    if not (math.isfinite(number) and number > above and low <= number <= high):
        raise ConfigError(
            f"The '{name}' of {owner} must be a number {_range(above, low, high)}. "
            f"Got {value!r}.{' ' + remedy if remedy else ''}"
        )
    return number


def require_count(
    value: Any,
    name: str,
    owner: str,
    *,
    low: int = 1,
    high: int | None = None,
    remedy: str = "",
) -> int:
    """Returns ``value`` as an int in ``[low, high]``; floats and booleans are refused."""
    try:
        count = None if isinstance(value, bool) else operator.index(value)
    except TypeError:
        count = None
    if count is None or count < low or (high is not None and count > high):
        rule = f"a whole number of at least {low}"
        if high is not None:
            rule = f"a whole number from {low} to {high}"
        raise ConfigError(
            f"The '{name}' of {owner} must be {rule}. Got {value!r}."
            f"{' ' + remedy if remedy else ''}"
        )
    return count


def require_choice(value: Any, name: str, owner: str, choices: tuple[str, ...]) -> str:
    """Returns ``value`` if it is one of ``choices``."""
    if not isinstance(value, str) or value not in choices:
        raise ConfigError(
            f"The '{name}' of {owner} must be one of {', '.join(choices)}. Got {value!r}."
        )
    return value


def require_keys(record: Any, names: tuple[str, ...], owner: str) -> Mapping[str, Any]:
    """Returns ``record`` if it is a mapping with exactly the keys ``names``."""
    if not isinstance(record, Mapping) or set(record) != set(names):
        got = sorted(map(str, record)) if isinstance(record, Mapping) else record
        raise ConfigError(
            f"The keys of {owner} must be exactly {', '.join(names)}. Got {got!r}."
        )
    return record


def read_json(text: str) -> Any:
    """Parses JSON as everyone would read it: doubled names and ``NaN`` raise ``ValueError``."""

    def no_doubles(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        record = dict(pairs)
        if len(record) != len(pairs):
            raise ValueError("A field appears twice")
        return record

    def no_constants(word: str) -> float:
        raise ValueError(f"{word} is not a number")

    try:
        return json.loads(text, object_pairs_hook=no_doubles, parse_constant=no_constants)
    except RecursionError:
        raise ValueError("It is nested too deeply") from None


def _range(above: float, low: float, high: float) -> str:
    if above > -math.inf:
        start = f"above {above:g}"
        return start if high == math.inf else f"{start} and at most {high:g}"
    if high == math.inf:
        return f"of at least {low:g}"
    return f"from {low:g} to {high:g}"
