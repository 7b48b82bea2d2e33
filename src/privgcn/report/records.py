"""Reads stored records into their models, with one line for whatever is wrong in them."""

from __future__ import annotations

from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from privgcn.errors import DataError

Model = TypeVar("Model", bound=BaseModel)


def read_record(model: type[Model], record: Any, owner: str) -> Model:
    """The record as its model; a value that already is one passes unchanged.

    Raises:
        DataError: Naming the owner, the first field that breaks a rule, and the rule.
    """
    try:
        return model.model_validate(record)
    except ValidationError as error:
        first = error.errors()[0]
        rule = first["msg"].removeprefix("Value error, ")
        field = ".".join(str(key) for key in first["loc"]) or "content"
        raise DataError(
            f"The '{field}' of {owner} cannot be read: {rule[:1].lower()}{rule[1:]}. "
            f"Got {str(first['input'])[:60]!r}. Make the file again."
        ) from None
