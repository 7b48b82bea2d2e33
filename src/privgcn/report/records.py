"""Reads stored records into their models, with one line for whatever is wrong in them."""

from __future__ import annotations

from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from privgcn.errors import DataError, refusal

Model = TypeVar("Model", bound=BaseModel)


def read_record(model: type[Model], record: Any, owner: str) -> Model:
    """The record as its model; a value that already is one passes unchanged.

    Raises:
        DataError: Naming the owner, the first field that breaks a rule, and the rule.
    """
    try:
        return model.model_validate(record)
    except ValidationError as error:
        raise DataError(f"{refusal(error, owner)} Make the file again.") from None
