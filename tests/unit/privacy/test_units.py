"""The sensitivity table, row by row."""

import pytest

from privgcn.errors import ConfigError
from privgcn.privacy.units import sensitivity_in_clips


@pytest.mark.parametrize(
    ("unit", "relation", "part_is_unit", "clips"),
    [
        ("document", "remove", True, 1),
        ("document", "remove", False, 2),
        ("document", "replace", True, 2),
        ("document", "replace", False, 2),
        ("person", "remove", True, 1),
        ("person", "remove", False, 2),
        ("person", "replace", True, 2),
        ("person", "replace", False, 2),
        ("part", "remove", False, 1),
        ("part", "replace", False, 2),
        ("graph", "replace", False, 2),
        ("graph", "remove", False, 1),
    ],
)
def test_the_table_of_sensitivities(
    unit: str, relation: str, part_is_unit: bool, clips: int
) -> None:
    assert sensitivity_in_clips(unit, relation, part_is_unit=part_is_unit) == clips


@pytest.mark.parametrize(
    ("unit", "relation"), [("node", "remove"), ("document", "add"), (1, 2)]
)
def test_unknown_words_are_refused(unit: str, relation: str) -> None:
    with pytest.raises(ConfigError, match="must be '"):
        sensitivity_in_clips(unit, relation, part_is_unit=True)


def test_only_a_plain_true_lowers_the_sensitivity() -> None:
    assert sensitivity_in_clips("document", "remove", part_is_unit="no") == 2  # type: ignore[arg-type]
