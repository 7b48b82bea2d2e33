"""How many threads a step is worth."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch

# Multiplications of a step below which waking a second thread costs more than it computes.
_WORTH_A_SECOND = 8_000_000


@contextmanager
def threads_worth(multiplications: int) -> Iterator[None]:
    """Runs a block on one thread if its steps are small, else on all that are set.

    No bit of a private step depends on it; how long it takes does: on
    small graphs a second thread makes a step three times slower.
    """
    before = torch.get_num_threads()
    if multiplications < _WORTH_A_SECOND:
        torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)
