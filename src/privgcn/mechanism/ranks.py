"""Several processes that train one model: each holds whole groups, rank 0 alone adds noise.

Exact sums have no order, so they may be taken anywhere: the model is the same to the bit for
any number of ranks. Every rank runs the same code, and gets the same answers. Sums travel
before noise is added: ranks and the network between them are trusted (see the threat model).
``torchrun`` starts the processes and tells each its rank by environment variables.

Examples:
    >>> with Ranks.of_environment() as ranks:
    ...     ranks.leads, ranks.size
    (True, 1)
"""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable
from datetime import timedelta
from typing import TYPE_CHECKING, Any, NoReturn, Self

import numpy as np
from numpy.typing import NDArray

from privgcn.errors import ConfigError, PrivGCNError

if TYPE_CHECKING:
    import torch

TIMEOUT = "PRIVGCN_RANK_TIMEOUT"
"""Environment variable: seconds without a word after which a rank counts as lost."""

_SECONDS, _DAY = 1800.0, 86400.0


class Ranks:
    """Which of how many processes this is; without ``torchrun``, the only one.

    Guarantees:
        A rank that ends, or is silent for too long, ends the run with a ``PrivGCNError``: no
        sum is ever taken without it.
    """

    def __init__(self, number: int = 0, size: int = 1) -> None:
        self.number, self.size = number, size
        self._gloo: Any = None
        self._before: Any = None

    @classmethod
    def of_environment(cls) -> Ranks:
        """What the environment variables of ``torchrun`` say."""
        if not all(name in os.environ for name in ("RANK", "WORLD_SIZE", "MASTER_ADDR")):
            return cls()
        words = os.environ["RANK"], os.environ["WORLD_SIZE"]
        if not all(word.isdecimal() for word in words) or int(words[0]) >= int(words[1]):
            raise ConfigError(
                "The environment variables RANK and WORLD_SIZE must be numbers, RANK the "
                f"smaller one. Got {words[0]!r} and {words[1]!r}. Start ranks with torchrun."
            )
        return cls(int(words[0]), int(words[1]))

    @property
    def leads(self) -> bool:
        """Whether this is rank 0, which alone draws, prints and writes."""
        return self.number == 0

    def holds(self, group: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Whether this rank holds each of some documents, of which the groups are given."""
        own: NDArray[np.bool_] = group % self.size == self.number
        return own

    def __enter__(self) -> Self:
        if self.size == 1:
            return self
        # The only place that imports it: one process never pays for it.
        import torch.distributed

        self._gloo = torch.distributed
        if threading.current_thread() is threading.main_thread():
            # torchrun ends all ranks in this way when one is lost.
            self._before = signal.signal(signal.SIGTERM, _lost)
        patience = timedelta(seconds=seconds_to_wait())
        self._heard(lambda: self._gloo.init_process_group("gloo", timeout=patience))
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if self._gloo is None:
            return
        if self._before is not None:
            signal.signal(signal.SIGTERM, self._before)
        if kind is None:
            self._heard(self._gloo.destroy_process_group)
        self._gloo = self._before = None

    def sum(self, total: NDArray[np.float64]) -> NDArray[np.float64]:
        """The sum over all ranks, on rank 0."""
        return self._sent(total, lambda tensor: self._gloo.reduce(tensor, dst=0))

    def share(self, array: NDArray[Any]) -> NDArray[Any]:
        """What rank 0 has, on all ranks; the others give an array of the same kind."""
        return self._sent(array, lambda tensor: self._gloo.broadcast(tensor, src=0))

    def _sent(
        self, array: NDArray[Any], send: Callable[[torch.Tensor], object]
    ) -> NDArray[Any]:
        if self.size == 1:
            return array
        if self._gloo is None:
            raise RuntimeError("Ranks must be joined: with Ranks.of_environment() as ranks.")
        import torch

        tensor = torch.from_numpy(np.array(array))
        self._heard(lambda: send(tensor))
        sent: NDArray[Any] = tensor.numpy()
        return sent

    def _heard(self, talk: Callable[[], object]) -> None:
        """Turns what a message fails with into one clear error."""
        try:
            talk()
        except RuntimeError:
            # Its words are addresses of sockets and tell nobody which machine it was.
            _lost()


def _lost(*_: object) -> NoReturn:
    raise PrivGCNError(
        "A rank was lost: its process ended or was told to end, or it was silent for more "
        f"than {seconds_to_wait():g} s (see {TIMEOUT}). Start the run again."
    ) from None


def seconds_to_wait() -> float:
    """How long a rank may be silent."""
    text = os.environ.get(TIMEOUT, str(_SECONDS))
    try:
        seconds = float(text)
    except ValueError:
        seconds = 0.0
    if not 0.0 < seconds <= _DAY:
        raise ConfigError(
            f"The environment variable {TIMEOUT} must be a number of seconds, more than 0 and "
            f"at most a day. Got {text!r}."
        )
    return seconds
