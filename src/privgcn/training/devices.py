"""Where a run trains: on the CPU or on a CUDA device, and what is faster at its size."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

from privgcn.config import Settings
from privgcn.errors import ConfigError

WORDS = 32
"""Of a usual document: how long a run takes may be seen, and what people write must not."""

# Outputs of a layer of classes.
_CLASSES = 8

# Seconds, measured on two cores and an H200 (benchmarks/device.py): what a step costs at
# least, what each of its multiplications adds, and what the first step waits for.
_CPU_STEP, _CPU_EACH = 1e-3, 5e-10
_CUDA_STEP, _CUDA_EACH, _CUDA_START = 7e-4, 1e-11, 5.0
# Multiplications of a step below which waking a second thread costs more than it computes.
_WORTH_A_SECOND = 8_000_000
# Fewer are not worth recording, and launched one kernel at a time a device is slow.
_FEWEST_STEPS = 100
MOST_RECORDED = 32
"""Parts of a run without privacy whose steps become one recording."""


def check_device(name: str) -> str:
    """A device that is there, or ``auto``.

    Raises:
        ConfigError: CUDA is asked for, and there is none.
    """
    if name == "cuda" and not cuda_is_there():
        raise ConfigError(
            "The 'training.device' of the settings is 'cuda', but no CUDA device is there. "
            "Use 'cpu' or 'auto'."
        )
    return name


def cuda_is_there() -> bool:
    """Whether PyTorch finds a CUDA device."""
    import torch

    return torch.cuda.is_available()


class Work(NamedTuple):
    """What a run takes, about.

    Attributes:
        steps: Of the run.
        multiplications: Of a step on a CPU.
        on_device: Of a step on a CUDA device.
        recorded: Whether such a device can record its steps.
    """

    steps: int
    multiplications: int
    on_device: int
    recorded: bool = True


def work_of(settings: Settings, documents: int, replicas: int, *, width: int = WORDS) -> Work:
    """Steps of a run and multiplications of one of them, about, from public numbers alone.

    Args:
        settings: Of the run.
        documents: That train, or owners if that is what is protected.
        replicas: Seeds in one pass.
        width: Of dense features; documents of words count as usual ones.
    """
    model, privacy = settings.model, settings.privacy
    outputs = _CLASSES if model.kind == "linear" else model.hidden
    steps, size = settings.training.epochs, documents * width * outputs * replicas
    if privacy is None:
        cut = settings.training.parts
        parts = documents if cut == "each" else min(cut, documents)
        return Work(steps * parts, size // parts, size // parts, parts <= MOST_RECORDED)
    if privacy.sampling == "all":
        return Work(steps, size, size)
    parts = privacy.parts if isinstance(privacy.parts, int) else documents
    share = privacy.sampling_probability or 1 / parts
    sampled = round(size * share)
    # A device takes sampled parts side by side, but single documents all, sampled or not.
    on_device = sampled if isinstance(privacy.parts, int) else size
    return Work(round(steps / share), sampled, on_device)


def faster_device(work: Work, *, started: bool) -> str:
    """``cpu`` or ``cuda``, whichever ends earlier; ``started`` if the device is in use."""
    cpu = work.steps * (_CPU_STEP + work.multiplications * _CPU_EACH)
    cuda = work.steps * (_CUDA_STEP + work.on_device * _CUDA_EACH)
    cuda += 0.0 if started else _CUDA_START
    worth = work.recorded and work.steps >= _FEWEST_STEPS
    return "cuda" if worth and cuda < cpu else "cpu"


@contextmanager
def threads_worth(multiplications: int) -> Iterator[None]:
    """Runs a block on one thread if its steps are small, else on all that are set.

    No bit of a private step depends on it; how long it takes does: on
    small graphs a second thread makes a step three times slower.
    """
    import torch

    before = torch.get_num_threads()
    if multiplications < _WORTH_A_SECOND:
        torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)
