"""Strict values, checked by pydantic and refused in one sentence of our own.

``nan``, infinities, booleans and numbers in disguise (strings) all fail here, before any of
them can reach an accountant and come back as a small epsilon.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import wraps
from typing import Annotated, Any, TypeVar, cast, dataclass_transform

from pydantic import BeforeValidator, ConfigDict, Field, TypeAdapter, ValidationError
from pydantic.dataclasses import dataclass
from pydantic.fields import FieldInfo

from privgcn.errors import ConfigError, refusal, shown

#: Nothing is converted on the way in, and what was made elsewhere is checked again.
STRICT = ConfigDict(
    strict=True, extra="forbid", allow_inf_nan=False, revalidate_instances="always"
)
_T = TypeVar("_T")


def _plain(value: Any) -> Any:
    if type(value).__module__ == "numpy" and hasattr(value, "item"):
        value = value.item()
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ValueError("Input should be a number")
    return value


Real = Annotated[float, BeforeValidator(_plain)]
#: A whole number; no more than a float can tell apart.
Whole = Annotated[int, BeforeValidator(_plain), Field(le=2**53)]
Count = Annotated[Whole, Field(ge=1)]
Sha256 = Annotated[str, Field(pattern="^[0-9a-f]{64}$")]


@dataclass_transform(frozen_default=True)
def strict(owner: str, *, kw_only: bool = False) -> Callable[[type[_T]], type[_T]]:
    """Makes a frozen pydantic dataclass whose errors are those of this package.

    ``dataclasses.replace`` checks every rule again, which copies of a pydantic model do not.
    """

    def decorate(cls: type[_T]) -> type[_T]:
        made = cast(Any, dataclass(frozen=True, kw_only=kw_only, config=STRICT)(cls))
        checked_init = made.__init__

        @wraps(checked_init)
        def __init__(self: _T, *args: Any, **fields: Any) -> None:
            try:
                checked_init(self, *args, **fields)
            except ValidationError as error:
                raise refusal(error, owner, made.__pydantic_fields__) from None

        made.__init__ = __init__
        return cast(type[_T], made)

    return decorate


def checked(value: Any, kind: Any, name: str, owner: str) -> Any:
    """Returns one argument as plain Python values, or raises our own error."""
    try:
        return TypeAdapter(kind, config=STRICT).validate_python(value)
    except ValidationError as error:
        raise refusal(error, owner, {name: FieldInfo.from_annotation(kind)}) from None


def in_plain_values(value: Any) -> Any:
    """A strict value as JSON holds it."""
    return TypeAdapter(type(value)).dump_python(value, mode="json", by_alias=True)


def read_strictly(kind: type[_T], text: str, owner: str) -> _T:
    """Reads what :func:`in_plain_values` gives, as JSON, in full: no default fills a gap."""
    record = read_json(text)
    try:
        made = TypeAdapter(kind).validate_json(text)
    except ValidationError as error:
        raise refusal(error, owner) from None
    if in_plain_values(made) != record:
        raise ConfigError(f"Every field of {owner} must be given. Got {shown(record)}.")
    return made


def read_json(text: str) -> Any:
    """Parses JSON as everyone would read it: doubled names and ``NaN`` raise ``ValueError``."""

    def no_doubles(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        record = dict(pairs)
        if len(record) != len(pairs):
            raise ValueError("A field appears twice")
        return record

    try:
        # No ``NaN`` is a whole number.
        return json.loads(text, object_pairs_hook=no_doubles, parse_constant=int)
    except RecursionError:
        raise ValueError("It is nested too deeply") from None
