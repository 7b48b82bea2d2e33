"""Shared by all tests."""

import os

# Tests may run side by side; one thread each is fastest. Before anything imports torch.
os.environ.setdefault("OMP_NUM_THREADS", "1")
# The command line sets this for a rank; ranks that are copies of a process get it from here.
os.environ.setdefault("TORCH_CPP_LOG_LEVEL", "ERROR")

import sys

import pytest
from hypothesis import HealthCheck, settings

# The same examples everywhere, however slow the machine is today.
settings.register_profile(
    "suite",
    deadline=None,
    derandomize=True,
    database=None,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("suite")


@pytest.fixture(autouse=True)
def _same_random_numbers_in_any_order() -> None:
    """Tests that use torch's own generator get the same numbers in any order."""
    if torch := sys.modules.get("torch"):
        torch.manual_seed(0)
