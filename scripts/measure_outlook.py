"""Measures what recipe ``auto`` keeps of the non-private score, for ``privgcn plan``.

Trains on our datasets at several budgets and shares of the training documents, and writes
``src/privgcn/training/outlook.toml``. About ten minutes on two cores:

    PRIVGCN_DATA=... python scripts/measure_outlook.py [--seeds 3] [--quick]
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from measuring import ROOT, arguments, measure

from privgcn.config import to_toml
from privgcn.experiments.grid import Grid
from privgcn.experiments.results import Results
from privgcn.files import write_atomically
from privgcn.training.outlook import Measured, expectation

TABLE = ROOT / "src" / "privgcn" / "training" / "outlook.toml"
EPSILONS = (0.5, 1.0, 2.0, 4.0, 8.0)
MODES = ("alone", "own-graph")
# Dataset, feature kind, unit and the shares of its training documents.
CORPORA: tuple[tuple[str, str | None, str, tuple[float, ...]], ...] = (
    ("clinic", None, "person", (1.0,)),
    ("clinic", None, "document", (0.1, 0.3, 1.0)),
    ("cora", None, "document", (0.1, 0.3, 1.0)),
    ("citeseer", None, "document", (0.1, 0.3, 1.0)),
    ("pubmed", None, "document", (0.01, 0.05, 0.2)),
    ("cora-text", None, "document", (0.3, 1.0)),
    ("citeseer-text", None, "document", (0.3, 1.0)),
    ("cora-text", "minilm", "document", (0.1, 0.3, 1.0)),
)
Point = dict[str, Any]


def runs(*, quick: bool) -> Iterator[tuple[str, float, Point, Point]]:
    """Unit and epsilon of each row of the table, its private run and its plain one."""
    for name, kind, unit, fractions in CORPORA:
        for fraction in fractions[-2:] if quick else fractions:
            shared = {"dataset": name, "features": kind, "fraction": fraction}
            shared["modes"] = list(MODES)
            for epsilon in EPSILONS[1:4] if quick else EPSILONS:
                private = {"recipe": "auto", "epsilon": epsilon}
                changes = {"privacy.unit": unit}
                yield (
                    unit,
                    epsilon,
                    {**shared, **private, "changes": changes},
                    {**shared, "recipe": "plain"},
                )


def rows(results: Results, *, quick: bool) -> Iterator[dict[str, Any]]:
    for unit, epsilon, private, plain in runs(quick=quick):
        one = results.of("train", private)[0]
        privacy = one["privacy"]
        yield {
            "dataset": private["dataset"],
            "unit": unit,
            "epsilon": epsilon,
            "kind": one["features"]["kind"],
            "features": one["features"]["dimension"],
            "units": privacy["units"],
            "classes": len(one["classes"]),
            "noise": round(privacy["noise_multiplier"] / math.sqrt(privacy["steps"]), 4),
            **{mode.replace("-", "_"): mean(results, private, mode) for mode in MODES},
            "plain": max(mean(results, plain, mode) for mode in MODES),
        }


def mean(results: Results, point: Point, mode: str) -> float:
    score = results.train(mode, **point)
    if score is None:
        raise RuntimeError(f"Nothing was run for {point}.")
    return round(score.mean, 4)


def left_out_error(found: list[dict[str, Any]]) -> float:
    """How far off the planner is for a corpus that it has not seen."""
    errors = []
    for row in found:
        others = [Measured.of(other) for other in found if other["dataset"] != row["dataset"]]
        own = Measured.of(row)
        errors.append(abs(expectation(own.signal, others).share - own.own_graph))
    return sum(errors) / len(errors)


def write(path: Path, found: list[dict[str, Any]], seeds: int, *, quick: bool) -> None:
    head = {
        "provenance": {
            "made_by": f"scripts/measure_outlook.py --seeds {seeds}" + quick * " --quick",
            "recipe": "auto",
            "error": f"{left_out_error(found):.3f} in the share of plain, on average, when the "
            "corpus itself is left out of the table",
            "scores": "mean micro F1 on the test documents",
            "plain": "the better mode of recipe plain on the same training documents",
            "noise": "noise multiplier over the square root of the steps",
        }
    }
    tables = [f"[[measured]]\n{to_toml(row)}" for row in found]
    write_atomically(path, "\n".join([to_toml(head), *tables]))


def main() -> None:
    parser = arguments(__doc__, seeds=3)
    parser.add_argument("--quick", action="store_true", help="fewer budgets and shares")
    parser.add_argument("--out", type=Path, default=TABLE)
    chosen = parser.parse_args()
    points = [point for row in runs(quick=chosen.quick) for point in row[2:]]
    results = measure(Grid.of(*points), chosen)
    found = list(rows(results, quick=chosen.quick))
    write(chosen.out, found, chosen.seeds, quick=chosen.quick)


if __name__ == "__main__":
    main()
