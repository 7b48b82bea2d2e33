"""What a search may choose among: fixed before any document is read."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from privgcn.config import PAPER_LEARNING_RATES, Settings, parse_assignment, read_settings
from privgcn.errors import ConfigError, shown
from privgcn.features.registry import without_places

#: Settings that a search may vary. The others decide what is promised, or what is read.
_SECTIONS = ("features.", "model.", "training.", "prediction.")
_OTHERS = (
    "privacy.parts",
    "privacy.sampling",
    "privacy.sampling_probability",
    "privacy.clip_norm",
)
_MOST_CANDIDATES = 1000

DEFAULT_SPACES: dict[str, dict[str, tuple[Any, ...]]] = {
    "auto": {"training.reach": (0.4, 0.8, 1.6)},
    "paper-full": {"training.learning_rate": PAPER_LEARNING_RATES},
    "paper-split": {"training.learning_rate": PAPER_LEARNING_RATES},
}


@dataclass(frozen=True)
class SearchSpace:
    """Values to try for some settings; every combination is a candidate, all equally likely.

    Raises:
        ConfigError: no values, too many combinations, or a setting that no search may vary.
    """

    choices: Mapping[str, tuple[Any, ...]]

    def __post_init__(self) -> None:
        for name, values in self.choices.items():
            if not name.startswith(_SECTIONS) and name not in _OTHERS:
                raise ConfigError(
                    f"The setting {shown(name)} must not be searched over: it decides what is "
                    f"promised or read. Search over {', '.join(s + '*' for s in _SECTIONS)} or "
                    f"{', '.join(_OTHERS)}."
                )
            if not values:
                raise ConfigError(f"The values to try for {shown(name)} must be at least one.")
        size = math.prod(len(values) for values in self.choices.values())
        if not 2 <= size <= _MOST_CANDIDATES:
            raise ConfigError(
                f"A search must have 2 to {_MOST_CANDIDATES} candidates. Got {shown(size)}. "
                'Name values to try, such as --try "training.reach=1,1.5,2".'
            )

    @classmethod
    def of(cls, recipe: str, file: Path | None, tries: Sequence[str]) -> SearchSpace:
        """The space of a file and of ``a.b=c,d`` assignments; else the recipe's own."""
        choices: dict[str, Any] = {} if file is None else read_settings(file)
        for text in tries:
            name, separator, values = text.partition("=")
            value = parse_assignment(f"{name}=[{values}]")[1] if separator else values
            if not isinstance(value, list):
                # Not TOML: plain words, separated by commas.
                value = [parse_assignment(f"{name}={one}")[1] for one in values.split(",")]
            choices[name.strip()] = value
        if not choices:
            if recipe not in DEFAULT_SPACES:
                raise ConfigError(
                    f"Recipe '{recipe}' has no search space of its own. Name an epsilon and a "
                    f"private recipe: {', '.join(DEFAULT_SPACES)}."
                )
            choices = dict(DEFAULT_SPACES[recipe])
        return cls(
            {
                name: tuple(values) if isinstance(values, list | tuple) else (values,)
                for name, values in choices.items()
            }
        )

    def check_wishes(self, said: Mapping[str, Any]) -> None:
        """Refuses wishes for privacy that a search would drop.

        Args:
            said: What the user wished for, by dotted name.

        Raises:
            ConfigError: A setting is both fixed and searched over.
        """
        for name, values in self.choices.items():
            if name in said and name.startswith("privacy."):
                raise ConfigError(
                    f"The setting '{name}' must be fixed or searched over, not both. Got "
                    f"{said[name]!r} and the values {', '.join(map(str, values))} to try."
                )

    def combinations(self) -> list[dict[str, Any]]:
        """What each candidate changes."""
        return [
            dict(zip(self.choices, values, strict=True))
            for values in itertools.product(*self.choices.values())
        ]

    def candidates(self, settings: Settings) -> list[Settings]:
        """All candidates: the settings with one combination each."""
        return [settings.changed(changes) for changes in self.combinations()]

    def __str__(self) -> str:
        return "; ".join(
            f"{name} from {', '.join(_told(name, value) for value in values)}"
            for name, values in self.choices.items()
        )


def _told(name: str, value: Any) -> str:
    """A value as a release may tell it: not where a file lies on this machine."""
    option = name.rpartition(".")[2]
    return str(without_places({option: value})[option])
