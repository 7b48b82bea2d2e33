"""Several processes that train one model: each holds whole groups, rank 0 alone adds noise.

Exact sums have no order, so any number of ranks gives the same bits. Sums travel before noise
is added: ranks and the network between them are trusted (see the threat model).
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from datetime import timedelta
from typing import Any, NoReturn, Self

import numpy as np
from numpy.typing import NDArray

from privgcn.errors import ConfigError, RankLostError

TIMEOUT = "PRIVGCN_RANK_TIMEOUT"  # seconds without a word after which a rank counts as lost


class Ranks:
    """Which of how many processes this is, and their sums; without ``torchrun``, the only one.

    A rank that ends, or is silent for too long, ends the run: no sum is taken without it.
    """

    def __init__(self, number: int = 0, size: int = 1) -> None:
        self.number, self.size = number, size
        self._gloo: Any = None

    @classmethod
    def of_environment(cls) -> Ranks:
        """What ``torchrun`` says; they are joined inside ``with Ranks.of_environment():``."""
        if not all(name in os.environ for name in ("RANK", "WORLD_SIZE", "MASTER_ADDR")):
            return cls()
        return cls(int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"]))

    @property
    def leads(self) -> bool:
        """Whether this is rank 0, which alone draws, prints and writes."""
        return self.number == 0

    def holds(self, group: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Whether this rank holds each of some documents, of which the groups are given."""
        return np.equal(group % self.size, self.number)

    def __enter__(self) -> Self:
        if self.size > 1:
            patience = timedelta(seconds=_seconds_to_wait())
            import torch.distributed  # which one process never pays for

            self._gloo = torch.distributed
            signal.signal(signal.SIGTERM, _lost)  # sent by torchrun when a rank is lost
            self._heard(lambda: self._gloo.init_process_group("gloo", timeout=patience))
        return self

    def __exit__(self, *_: object) -> None:
        if self.size > 1:  # also after an error: what is left would abort the process
            self._heard(self._gloo.destroy_process_group)

    def sum(self, total: NDArray[np.float64]) -> NDArray[np.float64]:
        """The sum over all ranks, on rank 0."""
        return self._sent(total, lambda tensor: self._gloo.reduce(tensor, dst=0))

    def share(self, array: NDArray[Any]) -> NDArray[Any]:
        """What rank 0 has, on all ranks; the others give an array of the same kind."""
        return self._sent(array, lambda tensor: self._gloo.broadcast(tensor, src=0))

    def _sent(self, array: NDArray[Any], send: Callable[[Any], object]) -> NDArray[Any]:
        if self.size == 1:
            return array
        import torch

        tensor = torch.from_numpy(np.array(array, order="C"))
        self._heard(lambda: send(tensor))
        return np.asarray(tensor.numpy())

    def _heard(self, talk: Callable[[], object]) -> None:
        try:
            talk()
        except RuntimeError:  # whose words are addresses of sockets
            _lost()


def _lost(*_: object) -> NoReturn:
    raise RankLostError(
        "A rank was lost: its process ended or was told to end, or it was silent for more "
        f"than {_seconds_to_wait()} s (see {TIMEOUT}). Start the run again."
    ) from None


def _seconds_to_wait() -> int:
    text = os.environ.get(TIMEOUT, "1800")
    if not text.isdecimal() or not 0 < int(text) <= 86400:
        raise ConfigError(f"{TIMEOUT} must be whole seconds from 1 to 86400. Got {text!r}.")
    return int(text)
