"""What is protected, and how far one protected unit can move the sum of clipped gradients."""

from __future__ import annotations

from typing import Literal

from privgcn.privacy.checks import Check

Unit = Literal["document", "person", "part", "graph"]
Relation = Literal["remove", "replace"]

_check_unit, _check_relation = Check(Unit, "unit"), Check(Relation, "relation")

DOCUMENTS_EACH = 16
"""Documents of a person, about: how many there really are is private, and decides nothing."""


def sensitivity_in_clips(unit: str, relation: str, *, part_is_unit: bool) -> int:
    """How many clip norms the summed clipped part gradients can move: 1 or 2.

    Replacing a unit exchanges one clipped vector for another: two clip norms apart.
    Removing it takes one clipped vector away, but only where the part vanishes with the
    unit. A part that holds more than the unit keeps a gradient, and that gradient may turn
    around completely.

    Args:
        unit: ``document``, ``person``, ``part`` or ``graph``.
        relation: ``remove`` or ``replace``.
        part_is_unit: whether every part is exactly one document (unit ``document``) or all
            documents of exactly one owner (unit ``person``). Ignored for ``part`` and
            ``graph``, where it holds by definition.

    Guarantees:
        Never less than the table of the privacy model.
    Assumes:
        One unit lies in one part, and the clip is joint over all tensors.
    """
    _check_unit(unit, "a privacy plan")
    _check_relation(relation, "a privacy plan")
    if relation == "replace":
        return 2
    return 1 if part_is_unit is True or unit in ("part", "graph") else 2
