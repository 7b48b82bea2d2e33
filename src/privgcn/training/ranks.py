"""The processes that train one model together, and the messages between them.

``torchrun`` starts the processes and tells each its rank by environment variables. Rank 0
leads: it reads, cuts, draws and writes. The others wait for their parts and compute sums over
them.

Messages are tensors and safetensors, never pickles: whoever sends one cannot run code. They are
not encrypted, and sums travel before noise is added to them. Ranks and the network between them
are trusted like the one machine of a usual run (see ``docs/concepts/threat-model.md``).
"""

from __future__ import annotations

import json
import os
import signal
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import timedelta
from types import TracebackType
from typing import TYPE_CHECKING, Any, NamedTuple

from privgcn.errors import ConfigError, RankLostError

if TYPE_CHECKING:
    import torch
    from torch import Tensor

TIMEOUT = "PRIVGCN_RANK_TIMEOUT"
"""Environment variable: seconds without a word after which a rank counts as lost."""

_SECONDS = 300.0
# While rank 0 reads its documents the others wait, however long that takes.
_READING = timedelta(days=1)
# More bytes than this are sent in pieces.
_AT_ONCE = 1 << 28
_TOLD = "rank 0 has said why it ends"


@dataclass(frozen=True)
class Ranks:
    """Which of how many processes this is; without ``torchrun``, the only one."""

    number: int = 0
    size: int = 1

    @classmethod
    def of_environment(cls) -> Ranks:
        """What the environment variables of ``torchrun`` say."""
        if not all(name in os.environ for name in ("RANK", "WORLD_SIZE", "MASTER_ADDR")):
            return cls()
        number, size = (_whole_number(name) for name in ("RANK", "WORLD_SIZE"))
        if number >= size:
            raise ConfigError(f"RANK must be less than WORLD_SIZE. Got {number} and {size}.")
        return cls(number, size)

    @property
    def alone(self) -> bool:
        """Whether there is no other process."""
        return self.size == 1

    @property
    def leads(self) -> bool:
        """Whether this is rank 0, which alone draws, prints and writes."""
        return self.number == 0

    @contextmanager
    def joined(self) -> Iterator[Team | None]:
        """The team of all ranks while a block runs; ``None`` where there is one process."""
        if self.alone:
            yield None
            return
        with Team(self) as team:
            yield team


def _whole_number(name: str) -> int:
    text = os.environ[name]
    if not text.isdecimal():
        raise ConfigError(f"The environment variable {name} must be a number. Got {text!r}.")
    return int(text)


def seconds_to_wait() -> float:
    """How long a rank may be silent during training."""
    text = os.environ.get(TIMEOUT, str(_SECONDS))
    try:
        seconds = float(text)
    except ValueError:
        seconds = 0.0
    if not 0.0 < seconds <= _READING.total_seconds():
        raise ConfigError(
            f"The environment variable {TIMEOUT} must be a number of seconds, more than 0 and "
            f"at most a day. Got {text!r}."
        )
    return seconds


class Message(NamedTuple):
    """Named tensors, and what is to be known about them."""

    tensors: Mapping[str, Tensor]
    words: Mapping[str, Any]


class Team:
    """All ranks, joined: what rank 0 tells the others, and what they add up for it.

    Guarantees:
        A rank that ends, or is silent for too long, ends the run with a ``RankLostError``: no
        sum is ever taken without it.
    """

    def __init__(self, ranks: Ranks) -> None:
        self.ranks = ranks
        self._steps: Any = None
        self._stopped = False
        self._before: Any = None

    def __enter__(self) -> Team:
        # The only place that imports it: one process never pays for it.
        import torch.distributed as distributed
        from torch.distributed.rendezvous import rendezvous

        self._distributed = distributed
        self._patience = timedelta(seconds=seconds_to_wait())
        # An NCCL message that fails must raise, not end the process without a word.
        os.environ.setdefault("TORCH_NCCL_BLOCKING_WAIT", "1")
        with self._heard("before the training began"):
            self._store, number, size = next(rendezvous("env://", timeout=self._patience))
            distributed.init_process_group(
                "gloo",
                store=self._store,
                rank=number,
                world_size=size,
                timeout=self._patience,
            )
            self._calm = distributed.new_group(backend="gloo", timeout=_READING)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        steps = self._steps is not None
        self._close_steps()
        if self.ranks.leads:
            # The others hear that no training comes, or see the connection close.
            with suppress(Exception):
                self._store.set(_TOLD, b"1")
            if not steps and not isinstance(error, RankLostError):
                with suppress(RankLostError):
                    for rank in range(1, self.ranks.size):
                        self._send_bytes(b"", rank)
        if error is None:
            self._distributed.destroy_process_group()

    def leader_was_lost(self) -> bool:
        """Whether rank 0 is gone without having said why."""
        try:
            return not self._store.check([_TOLD])
        except Exception:
            return True

    # -- before the steps -----------------------------------------------------------------

    def send(self, message: Message, rank: int) -> None:
        """Sends a message to one rank."""
        from safetensors.torch import save

        tensors = {name: value.cpu().contiguous() for name, value in message.tensors.items()}
        self._send_bytes(save(tensors, {"words": json.dumps(message.words)}), rank)

    def receive(self) -> Message | None:
        """What rank 0 sends next; ``None`` where nothing more comes."""
        import torch
        from safetensors.torch import load

        with self._heard("before the training began"):
            size = torch.zeros(1, dtype=torch.int64)
            self._distributed.recv(size, 0, group=self._calm)
            if not int(size):
                return None
            content = torch.empty(int(size), dtype=torch.uint8)
            for piece in torch.split(content, _AT_ONCE):
                self._distributed.recv(piece, 0, group=self._calm)
        raw = content.numpy().tobytes()
        header = json.loads(raw[8 : 8 + int.from_bytes(raw[:8], "little")])
        return Message(load(raw), json.loads(header["__metadata__"]["words"]))

    def _send_bytes(self, content: bytes, rank: int) -> None:
        import torch

        with self._heard("before the training began"):
            size = torch.tensor([len(content)])
            self._distributed.send(size, rank, group=self._calm)
            if content:
                whole = torch.frombuffer(bytearray(content), dtype=torch.uint8)
                for piece in torch.split(whole, _AT_ONCE):
                    self._distributed.send(piece, rank, group=self._calm)

    # -- steps ----------------------------------------------------------------------------

    def open_steps(self, device: torch.device) -> None:
        """Begins a training: by NCCL where every rank computes with CUDA, else by gloo."""
        import torch

        everywhere = torch.tensor([int(device.type == "cuda")])
        with self._heard("before the training began"):
            self._distributed.all_reduce(everywhere, self._distributed.ReduceOp.MIN)
            backend = "nccl" if int(everywhere) else "gloo"
            self._steps = self._distributed.new_group(backend=backend, timeout=self._patience)
        self.device = device if int(everywhere) else torch.device("cpu")
        if self.ranks.leads and threading.current_thread() is threading.main_thread():
            # torchrun ends all ranks when one is lost. A step is then not left half taken.
            self._stopped = False
            self._before = signal.signal(signal.SIGTERM, self._stop)

    def _stop(self, number: int, frame: object) -> None:
        self._stopped = True

    def end_steps(self) -> None:
        """Ends a training; the ranks may begin another."""
        self._distributed.destroy_process_group(self._steps)
        self._close_steps()

    def _close_steps(self) -> None:
        self._steps = None
        if self._before is not None:
            signal.signal(signal.SIGTERM, self._before)
            self._before = None

    def from_leader(self, tensor: Tensor) -> Tensor:
        """The tensor as rank 0 has it, on every rank."""
        with self._heard("during the training"):
            self._distributed.broadcast(tensor, 0, group=self._steps)
        return tensor

    def sum_for_leader(self, tensor: Tensor) -> Tensor:
        """The sum over all ranks, on rank 0; integers, so that no order changes a bit."""
        with self._heard("during the training"):
            self._distributed.reduce(tensor, 0, group=self._steps)
        return tensor

    @contextmanager
    def _heard(self, when: str) -> Iterator[None]:
        """Turns what a message fails with into one clear error."""
        if self._stopped:
            raise RankLostError(f"A rank was lost {when}, or the run was told to end.")
        try:
            yield
        except RuntimeError:
            # Its words are addresses of sockets and tell nobody which machine it was.
            raise RankLostError(
                f"A rank was lost {when}: its process ended, or it was silent for more than "
                f"{self._patience.total_seconds():g} s (see {TIMEOUT})."
            ) from None
