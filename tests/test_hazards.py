"""Every known hazard has a test: the table of docs/hazards.md is complete and true."""

import ast
import re
from pathlib import Path

import pytest

TESTS = Path(__file__).parent
HAZARDS = 34
TABLE = (TESTS.parent / "docs" / "hazards.md").read_text()
ROWS = re.findall(r"^\| (\d+) \| (.+?) \| (.+) \|$", TABLE, re.MULTILINE)


def test_every_hazard_has_a_row():
    assert [int(number) for number, _, _ in ROWS] == list(range(1, HAZARDS + 1))


@pytest.mark.parametrize(("number", "named"), [(row[0], row[2]) for row in ROWS])
def test_every_test_of_a_hazard_exists(number, named):
    names = re.findall(r"`([\w/.]+)::(test_\w+)`", named)
    assert names, f"hazard {number} has no test"
    assert len(names) == named.count("`") / 2
    for path, name in names:
        tree = ast.parse((TESTS / path).read_text())
        functions = [each for each in ast.walk(tree) if isinstance(each, ast.FunctionDef)]
        assert name in {each.name for each in functions}, f"{path} has no {name}"
