"""What is protected, and how far one protected unit can move the sum of clipped gradients."""

from __future__ import annotations

from typing import Literal, get_args

from privgcn.privacy.checks import require_choice

Unit = Literal["document", "person", "part", "graph"]
Relation = Literal["remove", "replace"]

UNITS: tuple[str, ...] = get_args(Unit)
RELATIONS: tuple[str, ...] = get_args(Relation)

UNIT_WORDS: dict[str, str] = {
    "document": "one document: its text, its label and all its links",
    "person": "one person: all documents of one owner, with their labels and links",
    "part": "one part: all documents of one part of the training graph, with their links",
    "graph": "the whole training graph, as one part",
}
RELATION_WORDS: dict[str, str] = {
    "remove": "if the content of that unit were absent",
    "replace": "if the content of that unit were any other",
}


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
    require_choice(unit, "unit", "a privacy plan", UNITS)
    require_choice(relation, "relation", "a privacy plan", RELATIONS)
    if relation == "replace":
        return 2
    return 1 if part_is_unit is True or unit in ("part", "graph") else 2
