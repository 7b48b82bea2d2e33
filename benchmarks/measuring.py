"""What all benchmarks share: races, processes of their own, the machine in words, pages."""

from __future__ import annotations

import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

Step = Callable[[], None]


# A turn repeats a step that is shorter.
_TURN_SECONDS = 0.05


def race(steps: Mapping[str, Step], rounds: int) -> dict[str, Any]:
    """Milliseconds of each contestant, median and quartiles; they take turns.

    So a busy machine slows all of them alike.
    """
    repeats: dict[str, int] = {}
    for name, step in steps.items():
        step()
        begun = time.perf_counter()
        step()
        took = time.perf_counter() - begun
        repeats[name] = max(1, min(20, int(_TURN_SECONDS / took)))
    times: dict[str, list[float]] = {name: [] for name in steps}
    for _ in range(rounds):
        for name, step in steps.items():
            begun = time.perf_counter()
            for _ in range(repeats[name]):
                step()
            times[name].append((time.perf_counter() - begun) * 1e3 / repeats[name])
    return {name: spread(values) for name, values in times.items()}


def spread(values: Sequence[float]) -> dict[str, float]:
    """The median and the quartiles."""
    if len(values) == 1:
        return {"median": values[0], "low": values[0], "high": values[0]}
    low, middle, high = statistics.quantiles(values, n=4, method="inclusive")
    return {"median": middle, "low": low, "high": high}


# A process begins with the peak of the one that started it, so a small one stands between.
_LAUNCH = """
import json, os, subprocess, sys
process = subprocess.Popen([sys.executable, *sys.argv[2:]])
_, status, usage = os.wait4(process.pid, 0)
with open(sys.argv[1], "w") as file:
    json.dump([usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 2**20], file)
sys.exit(os.waitstatus_to_exitcode(status))
"""


def in_own_process(
    command: Sequence[str], environment: Mapping[str, str] | None = None
) -> tuple[dict[str, float], str]:
    """Runs Python; CPU seconds, wall seconds, peak gigabytes, and what it printed."""
    before = time.monotonic()
    with tempfile.NamedTemporaryFile("r") as usage:
        done = subprocess.run(
            [sys.executable, "-c", _LAUNCH, usage.name, *command],
            stdout=subprocess.PIPE,
            text=True,
            env=os.environ | dict(environment or {}),
        )
        if done.returncode:
            raise SystemExit(f"{' '.join(command)} ended with {done.returncode}.")
        cpu, gigabytes = json.load(usage)
    wall = time.monotonic() - before
    return {"cpu": cpu, "wall": wall, "gigabytes": gigabytes}, done.stdout


def machine_sentence() -> str:
    """Processor, cores, load, memory and versions."""
    import torch

    processor = platform.processor() or platform.machine()
    for line in _lines("/proc/cpuinfo"):
        if line.startswith("model name"):
            processor = line.partition(":")[2].strip()
            break
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    return (
        f"{processor}, {os.cpu_count()} cores, {memory:.0f} GiB, Python "
        f"{platform.python_version()}, torch {torch.__version__}; load average "
        f"{os.getloadavg()[0]:.1f} at the start."
    )


def _lines(path: str) -> list[str]:
    try:
        return Path(path).read_text().splitlines()
    except OSError:
        return []


def line(row: Mapping[str, Any]) -> str:
    """A row in one line, for the screen."""
    return " ".join(
        f"{name} {value:.4g}" if isinstance(value, float) else f"{name} {value}"
        for name, value in row.items()
    )


def markdown(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A Markdown table."""
    lines = [columns, ["---"] * len(columns), *rows]
    return "\n".join(f"| {' | '.join(row)} |" for row in lines)


def write_json(path: Path | None, record: Any) -> None:
    """Writes all figures, if asked to."""
    if path is not None:
        path.write_text(json.dumps(record, indent=1) + "\n")
