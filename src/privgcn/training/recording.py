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
# Share of a device's memory that must be free when a run begins.
_LEAST_FREE = 0.25
_ONE_AT_A_TIME = threading.Lock()
_THREAD = threading.local()


class Recording:
    """Repeats a step; what is done may have several forms, each with a recording of its own.

    The step itself is not kept. Whoever makes it may keep the recording, and both are freed
    with the last reference to either: a cycle would hold the memory of a device until Python
    looks for cycles, which it does by counting small objects.

    Guarantees:
        Every call does what ``step`` does, draws included: all calls together draw each number
        once.
    Assumes:
        Steps of the same form do the same.
    """

    def __init__(self, device: torch.device, draws: Sequence[Draws | None]) -> None:
        self._device = device
        self._draws = [each for each in draws if isinstance(each, DeviceDraws)]
        self._calls: dict[Hashable, int] = {}
        self._graphs: dict[Hashable, torch.cuda.CUDAGraph] = {}

    def __call__(self, step: Callable[[], object], form: Hashable = None) -> None:
        """One step of a form."""
        graph = self._graphs.get(form)
        if graph is None:
            calls = self._calls[form] = self._calls.get(form, 0) + 1
            if self._device.type != "cuda" or calls <= _CALLS_BEFORE:
                for each in self._draws:
                    each.before_step()
                step()
                return
            graph = self._graphs[form] = self._recorded(step)
        for each in self._draws:
            each.before_replay(graph)
        graph.replay()

    def _recorded(self, step: Callable[[], object]) -> torch.cuda.CUDAGraph:
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
                step()
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
    _make_room(device)
    stream = _THREAD.streams[device]
    stream.wait_stream(torch.cuda.current_stream(device))
    with torch.cuda.stream(stream):
        yield
    stream.synchronize()


def _make_room(device: torch.device) -> None:
    """Gives back what ended runs held, where little is free.

    PyTorch keeps it until an allocation fails, and then other processes would have failed too.
    """
    with _ONE_AT_A_TIME:
        free, total = torch.cuda.mem_get_info(device)
        if free < _LEAST_FREE * total:
            torch.cuda.empty_cache()
