"""A real but tiny training task: softmax regression on a seeded blob, in NumPy only."""

from __future__ import annotations

import os
import signal
import time
from typing import Any

import numpy as np

KIND = "tiny_task"


def resolve(point: dict[str, Any]) -> dict[str, Any]:
    return {"rate": 0.5, "steps": 30, **point}


def device(settings: dict[str, Any], replicas: int) -> str:
    return "cpu"


def steps(settings: dict[str, Any]) -> int:
    return int(settings["steps"])


def company(settings: dict[str, Any]) -> Any:
    """Configurations that differ in their shift alone and say so share a pass."""
    if not settings.get("shared"):
        return None
    return {name: value for name, value in settings.items() if name != "shift"}


def run_together(
    runs: list[tuple[dict[str, Any], tuple[int, ...]]], device: str
) -> list[list[dict[str, Any]]]:
    results = [run(settings, seeds, device) for settings, seeds in runs]
    # A setting may ask for too few results.
    results = [own[: runs[0][0].get("most", len(own))] for own in results]
    beside = [settings["shift"] for settings, _ in runs]
    return [[{**one, "beside": beside} for one in own] for own in results]


def run(
    settings: dict[str, Any], seeds: tuple[int, ...], device: str = "cpu"
) -> list[dict[str, Any]]:
    if settings.get("pause"):
        time.sleep(settings["pause"])
    if settings.get("fails"):
        raise ArithmeticError("the blob is empty")
    if settings.get("loses_device"):
        raise RuntimeError("CUDA error: an illegal memory access\nCompile with more checks.")
    if settings.get("dies"):
        os.kill(os.getpid(), signal.SIGKILL)
    return [_train(settings, seed) for seed in seeds]


def _train(settings: dict[str, Any], seed: int) -> dict[str, Any]:
    draw = np.random.default_rng(seed)
    labels = draw.integers(0, 2, 60)
    inputs = draw.normal(size=(60, 4)) + settings["shift"] * labels[:, None]
    weights = np.zeros(4)
    for _ in range(settings["steps"]):
        scores = 1.0 / (1.0 + np.exp(-inputs @ weights))
        weights -= settings["rate"] * inputs.T @ (scores - labels) / len(labels)
    return {"accuracy": float(((inputs @ weights > 0) == labels).mean()), "w": weights.tolist()}
