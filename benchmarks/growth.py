"""What a private step costs against documents, links, parts, features, classes and replicas.

One number of a synthetic graph grows, the others stay. The cost of a step is fitted by a
straight line and as a power of that number: an exponent below one means that the line does not
begin at zero, as something else costs too. Usage:

    python benchmarks/growth.py [--quick] [--json FILE] [--figure docs/figures/cost.svg]
        [--page docs/performance.md]
"""

from __future__ import annotations

import os

os.environ.setdefault("OMP_WAIT_POLICY", "passive")

import argparse
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from measuring import (
    Step,
    machine,
    machine_sentence,
    markdown,
    race,
    write_json,
    write_section,
)
from scipy.sparse import csr_matrix
from steps import private_step

from privgcn.graph import TextGraph, rows_of
from privgcn.models import make_model
from privgcn.report.charts import save_svg
from privgcn.report.figures import Figure, Point, Series

WORDS = 32
"""Words of a document."""

WHY = {
    "documents": "weights and noise do not grow with them",
    "links": "only the passes along links do",
    "parts": "each large part has a gradient of its own; below 65 documents pairs take over",
    "features": "a document keeps its words; weights, noise and each part's gradient grow",
    "classes": "the last layer is small beside the first",
    "replicas": "features are read once for all of them",
}
"""What else the cost consists of, or why its line bends."""


class Shape(NamedTuple):
    """The numbers of a synthetic graph and of a run on it."""

    documents: int = 4000
    links: int = 20_000
    parts: int = 8
    features: int = 1000
    classes: int = 8
    replicas: int = 1


def step_of(shape: Shape) -> Step:
    """A private step of a GCN with 32 hidden units."""
    random = np.random.default_rng(0)
    stored = shape.documents * WORDS
    columns = random.integers(0, shape.features, stored)
    offsets = np.arange(0, stored + 1, WORDS)
    values = random.random(stored, dtype=np.float32) / WORDS
    rows = csr_matrix((values, columns, offsets), shape=(shape.documents, shape.features))
    ends = torch.from_numpy(random.integers(0, shape.documents, (2, shape.links)))
    graph = TextGraph(
        features=rows_of(rows),
        edges=ends[:, ends[0] != ends[1]],
        labels=torch.from_numpy(random.integers(0, shape.classes, shape.documents)),
        split=torch.zeros(shape.documents, dtype=torch.int8),
        classes=shape.classes,
    )
    model = make_model("gcn", shape.features, shape.classes)
    return private_step(model, graph, shape.parts, seeds=shape.replicas)


def exponent(sizes: list[int], times: list[float]) -> float:
    """The power of the size that fits the times best."""
    return float(np.polyfit(np.log(sizes), np.log(times), 1)[0])


def off_line(sizes: list[int], times: list[float]) -> float:
    """How far the times are from a straight line at most, as a share of the time."""
    line = np.polyval(np.polyfit(sizes, times, 1, w=1 / np.array(times)), sizes)
    return float(np.abs(line / np.array(times) - 1).max())


def grown(rounds: int, factors: tuple[int, ...]) -> dict[str, Any]:
    """Medians and exponents for each number that grows."""
    found: dict[str, Any] = {}
    for name in Shape._fields:
        # Among one part links are all kept, and they alone grow.
        base = Shape(parts=1) if name == "links" else Shape()
        sizes = [getattr(base, name) * factor for factor in factors]
        steps = {str(size): step_of(base._replace(**{name: size})) for size in sizes}
        times = race(steps, rounds)
        medians = [times[str(size)]["median"] for size in sizes]
        found[name] = {
            "sizes": sizes,
            "times": list(times.values()),
            "exponent": exponent(sizes, medians),
            "off_line": off_line(sizes, medians),
        }
    return found


def figure_of(found: dict[str, Any]) -> Figure:
    """Cost against size, both relative to the first."""
    series = tuple(
        Series(
            name=f"{name} (exponent {one['exponent']:.2f})",
            points=tuple(
                Point(size / one["sizes"][0], time["median"] / one["times"][0]["median"])
                for size, time in zip(one["sizes"], one["times"], strict=True)
            ),
        )
        for name, one in found.items()
    )
    return Figure(
        title="Cost of a private step",
        series=series,
        x_label="size, times the first",
        y_label="time, times the first",
    )


def told(record: dict[str, Any]) -> str:
    """The record as Markdown."""
    base = ", ".join(f"{value} {name}" for name, value in Shape()._asdict().items())
    rows = [
        [
            name,
            " to ".join(str(size) for size in (one["sizes"][0], one["sizes"][-1])),
            ", ".join(f"{time['median']:.2f}" for time in one["times"]),
            f"{one['exponent']:.2f}",
            f"{one['off_line']:.0%}",
            WHY[name],
        ]
        for name, one in record["growth"].items()
    ]
    columns = [
        "what grows",
        "sizes",
        "ms, median",
        "exponent",
        "off a straight line",
        "what else",
    ]
    return "\n\n".join(
        [
            f"Machine: {machine_sentence(record['machine'])}",
            f"Base: {base}, {WORDS} words a document, 32 hidden units, one thread.",
            markdown(columns, rows),
        ]
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--figure", type=Path)
    parser.add_argument("--page", type=Path)
    asked = parser.parse_args()
    torch.set_num_threads(1)
    factors = (1, 2, 4) if asked.quick else (1, 2, 4, 8)
    record = {
        "machine": machine(),
        "growth": grown(3 if asked.quick else asked.rounds, factors),
    }
    write_json(asked.json, record)
    text = told(record)
    print(text)
    if asked.figure is not None:
        save_svg(figure_of(record["growth"]), asked.figure)
    if asked.page is not None:
        write_section(asked.page, "growth", text)


if __name__ == "__main__":
    main()
