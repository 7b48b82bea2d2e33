"""How the training graph was cut, as far as the guarantee depends on it."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from privgcn.errors import ConfigError
from privgcn.privacy.checks import Count, strict

_OWNER = "a partition"


@strict(_OWNER, kw_only=True)
class PartitionFacts:
    """A small, frozen description of a partition; the parts themselves live elsewhere.

    Attributes:
        kind: ``each`` (every document or owner its own part), ``random`` (balanced, from seed
            and index alone), ``column`` (from a column declared public) or ``single``.
        parts: how many parts there are.
        by: ``owner`` if no part splits the documents of one owner, else ``document``.
        column: the public column of kind ``column``, else ``None``.
        seed: the seed of kind ``random``, else ``None``.
    """

    kind: Literal["each", "random", "column", "single"]
    parts: Count
    by: Literal["document", "owner"] = "document"
    column: Annotated[str, Field(min_length=1)] | None = None
    seed: Annotated[int, Field(ge=0)] | None = None

    def __post_init__(self) -> None:
        if self.kind == "single" and self.parts != 1:
            raise ConfigError(
                f"The 'parts' of {_OWNER} of kind 'single' must be 1. Got {self.parts}."
            )
        for name, kind in (("column", "column"), ("seed", "random")):
            value = getattr(self, name)
            if (value is None) == (self.kind == kind):
                raise ConfigError(
                    f"The '{name}' of {_OWNER} must be given for kind '{kind}' and for no "
                    f"other. Got {value!r} for kind '{self.kind}'."
                )
