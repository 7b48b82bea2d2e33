"""Models that several tests predict with."""

import pytest

from auto.planted import auto_settings, planted, trained


@pytest.fixture(scope="session")
def released():
    return trained(planted(1500, 0), auto_settings())


@pytest.fixture(scope="session")
def strong():
    return trained(planted(4000, 0), auto_settings(8.0))
