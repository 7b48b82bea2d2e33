"""What the user wished for, and which wish counts where two speak of one setting.

A setting can be said by a flag (or a constructor parameter), by ``--set``, or in a settings
file, in this order of strength; the recipe says what nobody said. A setting of ``privacy``
may be said twice only if both say the same: the weaker wish would otherwise be dropped, or
the stronger one be a slip that nobody notices.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from privgcn.config import PrivacySettings, flattened, parse_assignment, read_settings
from privgcn.errors import PrivacyContractError

PRIVACY = "privacy."


@dataclass(frozen=True)
class Wishes:
    """Settings that the user named in one place.

    Attributes:
        values: Dotted names (or nested sections) and what they are to be.
        words: How one of them, by name and value, was written: errors quote it.
    """

    values: Mapping[str, Any]
    words: Callable[[str, Any], str]


def by_flag(values: Mapping[str, Any]) -> Wishes:
    """Wishes of flags, by the setting they stand for; ``None`` for a flag nobody typed."""

    def words(name: str, value: Any) -> str:
        if isinstance(value, bool):
            return f"--{'' if value else 'no-'}{_last(name)}"
        return f"--{_last(name)} {value}"

    return Wishes(_said(values), words)


def by_parameter(values: Mapping[str, Any]) -> Wishes:
    """Wishes of parameters of a call; ``None`` for one that was left out."""
    return Wishes(_said(values), lambda name, value: f"{_last(name)}={value!r}")


def by_mapping(values: Mapping[str, Any] | None, name: str) -> Wishes:
    """Wishes in a parameter that takes dotted settings, such as ``settings``."""
    return Wishes(values or {}, lambda setting, value: f"{name}={{{setting!r}: {value!r}}}")


def by_command_line(
    flags: Mapping[str, Any], assignments: Sequence[str] | None, file: Path | None
) -> list[Wishes]:
    """Wishes of flags, of each ``--set a.b=c`` (the last is the strongest) and of a file."""
    wishes = [by_flag(flags)]
    for text in reversed(assignments or []):
        pair = dict([parse_assignment(text)])
        wishes.append(Wishes(pair, lambda name, value: f"--set {name}={value}"))
    if file is not None:
        tree = read_settings(file)
        wishes.append(Wishes(tree, lambda name, value: f"{name} = {value!r} in {file}"))
    return wishes


def merged(wishes: Sequence[Wishes]) -> dict[str, Any]:
    """The wishes that count, the weakest first, so that later names change earlier ones.

    Args:
        wishes: The strongest first.

    Raises:
        PrivacyContractError: Two wishes for one setting of ``privacy`` contradict each other.
    """
    said: dict[str, tuple[Any, str]] = {}
    for each in wishes:
        for name, value in flattened(each.values).items():
            words = each.words(name, value)
            known = said.setdefault(name, (value, words))
            if name.startswith(PRIVACY) and _read(name, known[0]) != _read(name, value):
                raise PrivacyContractError(
                    f"The setting '{name}' must have one value. Got {known[1]} "
                    f"and {words}. Leave one of them out."
                )
    return {name: value for name, (value, _) in reversed(said.items())}


def _said(values: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in values.items() if value is not None}


def _last(name: str) -> str:
    return name.rpartition(".")[2]


def _read(name: str, value: Any) -> str:
    """A setting of ``privacy`` as it will be understood: 10 is "10", and 1e-5 is "0.00001"."""
    field = name.removeprefix(PRIVACY)
    try:
        return str(getattr(PrivacySettings.model_validate({field: value}), field))
    except ValidationError:
        return repr(value)
