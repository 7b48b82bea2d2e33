from __future__ import annotations

import pytest
import torch

from privgcn.training.devices import threads_worth


@pytest.fixture
def two_threads():
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    yield
    torch.set_num_threads(before)


@pytest.mark.usefixtures("two_threads")
def test_small_steps_run_on_one_thread_and_large_ones_on_all() -> None:
    with threads_worth(1000):
        assert torch.get_num_threads() == 1
    assert torch.get_num_threads() == 2
    with threads_worth(10**9):
        assert torch.get_num_threads() == 2


@pytest.mark.usefixtures("two_threads")
def test_an_error_gives_the_threads_back() -> None:
    with pytest.raises(RuntimeError), threads_worth(1000):
        raise RuntimeError
    assert torch.get_num_threads() == 2
