"""Steps on a CUDA device: recorded once as a graph of kernels, then replayed.

A step is some hundred small kernels, which the host launches more slowly than the device runs
them. A replay launches all of them at once. What a step reads and writes must lie at fixed
places, and nothing in it may ask the device for a value. On a CPU a step is simply called.
"""

from __future__ import annotations

import gc
import threading
from collections.abc import Callable, Hashable, Iterator, Sequence
from contextlib import contextmanager

import torch

from privgcn.randomness import DeviceDraws, Draws

# A step is recorded after so many calls: caches are full then, and libraries have started.
_CALLS_BEFORE = 3
_ONE_AT_A_TIME = threading.Lock()
_THREAD = threading.local()


class Recording:
    """Repeats a step; what is done may have several forms, each with a recording of its own.

    Guarantees:
        Every call does what ``step`` does, draws included: all calls together draw each number
        once.
    """

    def __init__(
        self, step: Callable[[], object], device: torch.device, draws: Sequence[Draws | None]
    ) -> None:
        self._step = step
        self._device = device
        self._draws = [each for each in draws if isinstance(each, DeviceDraws)]
        self._calls: dict[Hashable, int] = {}
        self._graphs: dict[Hashable, torch.cuda.CUDAGraph] = {}

    def __call__(self, form: Hashable = None) -> None:
        """One step of a form."""
        graph = self._graphs.get(form)
        if graph is None:
            calls = self._calls[form] = self._calls.get(form, 0) + 1
            if self._device.type != "cuda" or calls <= _CALLS_BEFORE:
                for each in self._draws:
                    each.before_step()
                self._step()
                return
            graph = self._graphs[form] = self._recorded()
        for each in self._draws:
            each.before_replay(graph)
        graph.replay()

    def _recorded(self) -> torch.cuda.CUDAGraph:
        graph = torch.cuda.CUDAGraph()
        for each in self._draws:
            each.record_into(graph)
        torch.cuda.current_stream().synchronize()
        # Other threads may go on with work of their own in the meantime. What they leave
        # behind must not be cleared away by a thread that records.
        with _ONE_AT_A_TIME:
            gc.disable()
            graph.capture_begin(capture_error_mode="thread_local")
            try:
                self._step()
            finally:
                graph.capture_end()
                gc.enable()
        return graph


@contextmanager
def own_stream(device: torch.device) -> Iterator[None]:
    """Runs a block on the stream of this thread, as recording needs it; on a CPU as it is.

    A thread keeps its stream. PyTorch has 32 of them and gives them out in turn, so streams
    made anew for every run would be shared by threads sooner or later, and one of them would
    record what another one launches.
    """
    if device.type != "cuda":
        yield
        return
    if not hasattr(_THREAD, "streams"):
        _THREAD.streams = {}
    if device not in _THREAD.streams:
        _THREAD.streams[device] = torch.cuda.Stream(device)  # type: ignore[no-untyped-call]
    stream = _THREAD.streams[device]
    stream.wait_stream(torch.cuda.current_stream(device))
    with torch.cuda.stream(stream):
        yield
    stream.synchronize()
