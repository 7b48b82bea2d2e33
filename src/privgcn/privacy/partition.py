"""How the training graph was cut, in the words that the guarantee depends on."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, Literal, get_args

from privgcn.errors import ConfigError
from privgcn.privacy.checks import require_choice, require_count, require_keys

PartitionKind = Literal["each", "random", "column", "single"]
PartitionBy = Literal["document", "owner"]

_OWNER = "a partition"


@dataclass(frozen=True, kw_only=True)
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

    kind: PartitionKind
    parts: int
    by: PartitionBy = "document"
    column: str | None = None
    seed: int | None = None

    def __post_init__(self) -> None:
        require_choice(self.kind, "kind", _OWNER, get_args(PartitionKind))
        require_choice(self.by, "by", _OWNER, get_args(PartitionBy))
        object.__setattr__(self, "parts", require_count(self.parts, "parts", _OWNER))
        if self.kind == "single" and self.parts != 1:
            raise ConfigError(
                f"The 'parts' of {_OWNER} of kind 'single' must be 1. Got {self.parts}."
            )
        has_column = isinstance(self.column, str) and bool(self.column)
        if has_column != (self.kind == "column"):
            raise ConfigError(
                f"The 'column' of {_OWNER} must be named for kind 'column' and for no other. "
                f"Got {self.column!r} for kind '{self.kind}'."
            )
        if (self.seed is None) == (self.kind == "random"):
            raise ConfigError(
                f"The 'seed' of {_OWNER} must be given for kind 'random' and for no other. "
                f"Got {self.seed!r} for kind '{self.kind}'."
            )
        if self.seed is not None:
            seed = require_count(self.seed, "seed", _OWNER, low=0)
            object.__setattr__(self, "seed", seed)

    def to_dict(self) -> dict[str, Any]:
        """The description in plain values."""
        return asdict(self)

    @classmethod
    def from_dict(cls, record: Any) -> PartitionFacts:
        """Reads it back; unknown and missing keys raise ``ConfigError``."""
        return cls(**require_keys(record, tuple(cls.__dataclass_fields__), _OWNER))
