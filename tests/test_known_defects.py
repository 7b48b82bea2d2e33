"""Every check passes on the code as it is, and notices the defects that break its property."""

import pytest

from known_defects import PROPERTIES
from privgcn.privacy import accounting

# Tests of the suite run by themselves.
CHECKS = {
    str(each.caught_by): each.caught_by
    for some in PROPERTIES.values()
    for each in some
    if not hasattr(each.caught_by, "of_suite")
}
DEFECTS = [
    pytest.param(each, id=f"{broken}: {each.name}")
    for broken, some in PROPERTIES.items()
    for each in some
]


@pytest.fixture(autouse=True)
def nothing_remembered():
    """No epsilon is taken over from code with another defect."""
    accounting._epsilon.cache_clear()
    yield
    accounting._epsilon.cache_clear()


def named(check):
    inner = getattr(check, "func", None)
    return check.__name__ if inner is None else f"{inner.__name__} {check.keywords}"


def test_there_are_about_sixty_defects_of_twelve_properties():
    names = [d.name for some in PROPERTIES.values() for d in some]
    assert len(set(names)) == len(names) >= 60
    assert len(PROPERTIES) >= 12


@pytest.mark.parametrize("check", CHECKS.values(), ids=named)
def test_a_check_passes_on_the_code_as_it_is(check):
    check()


@pytest.mark.parametrize("planted", DEFECTS)
def test_a_known_defect_is_noticed(planted, monkeypatch):
    planted.plant(monkeypatch)
    with pytest.raises((AssertionError, pytest.fail.Exception)):
        planted.caught_by()
