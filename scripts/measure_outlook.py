"""Measures what recipe ``auto`` scores, for ``privgcn plan`` and the outlook of ``train``.

Trains on corpora of many kinds at several sizes and budgets, and writes
``src/privgcn/training/outlook.toml``:

    PRIVGCN_DATA=... python scripts/measure_outlook.py --corpus FOLDER ... --held-out FOLDER ...

The planner is made of the development corpora alone: our own datasets and ``--corpus``. Those
held out are stored beside them, and a test counts how often the planner is right about them.
Texts are measured with every feature kind that comes with the package, and are encoded once.
"""

from __future__ import annotations

import argparse
import json
import statistics
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import outlook_task
from measuring import ROOT, arguments, measure

from privgcn.config import to_toml
from privgcn.data import load_corpus
from privgcn.experiments.grid import Grid
from privgcn.experiments.results import Results
from privgcn.files import write_atomically
from privgcn.training.outlook import Measured, coverage, fitted_curve

TABLE = ROOT / "src" / "privgcn" / "training" / "outlook.toml"
TEXT_KINDS = ("minilm", "static", "hashing")
Point = dict[str, str]
Row = dict[str, Any]


def point(dataset: str, features: str, unit: str = "document") -> Point:
    return {"dataset": dataset, "features": features, "unit": unit}


DEVELOPMENT = (
    point("clinic", "static", "person"),
    point("clinic", "hashing"),
    point("cora", "given"),
    point("pubmed", "given"),
    *(point("cora-text", kind) for kind in TEXT_KINDS),
)
HELD_OUT = (
    point("citeseer", "given"),
    *(point("citeseer-text", kind) for kind in TEXT_KINDS),
)


def points(folders: Sequence[Path]) -> Iterator[Point]:
    """What is measured of the user's own folders."""
    for folder in folders:
        given = load_corpus(folder).vectors is not None
        for kind in ("given",) if given else TEXT_KINDS:
            yield point(str(folder.resolve()), kind)


def rows(results: Results, chosen: Sequence[Point]) -> list[Row]:
    """The measured runs, one row each."""
    return [
        row
        for one in chosen
        for result in results.of(outlook_task.KIND, one)
        for row in result["rows"]
    ]


def left_out_coverage(runs: Sequence[Measured]) -> float:
    """How often the planner is right about a corpus that it has not seen."""
    groups = sorted({run.group for run in runs})
    return statistics.fmean(
        coverage(
            fitted_curve([run for run in runs if run.group != name]),
            [run for run in runs if run.group == name],
        )
        for name in groups
    )


def table(measured: list[Row], held_out: list[Row], seeds: int) -> dict[str, Any]:
    """What is written: all runs, the curve of the measured ones, and how right it is."""
    known, unseen = ([Measured.model_validate(row) for row in r] for r in (measured, held_out))
    curve = fitted_curve(known)
    provenance = {
        "made_by": f"scripts/measure_outlook.py --seeds {seeds}",
        "recipe": "auto",
        "scores": "micro F1 on the test documents, one run each",
        "plain": "the better of logistic and propagated regression without privacy",
        "noise": "noise multiplier over the square root of the steps",
        "covered_left_out": round(left_out_coverage(known), 3),
    }
    if unseen:
        provenance["covered_held_out"] = round(coverage(curve, unseen), 3)
    return {
        "provenance": provenance,
        "curve": curve.model_dump(mode="json"),
        "measured": measured,
        "held_out": held_out,
    }


def write(path: Path, found: dict[str, Any]) -> None:
    columns = list(Measured.model_fields)
    lists = [f"columns = {json.dumps(columns)}"]
    for name in ("measured", "held_out"):
        lines = [f"    {json.dumps([row[key] for key in columns])}," for row in found[name]]
        lists.append("\n".join([f"{name} = [", *lines, "]"]))
    tables = to_toml({name: found[name] for name in ("provenance", "curve")})
    write_atomically(path, "\n".join([*lists, "", tables]))


def main() -> None:
    parser = arguments(__doc__, seeds=2)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("--corpus", type=Path, nargs="*", default=[], metavar="FOLDER")
    parser.add_argument("--held-out", type=Path, nargs="*", default=[], metavar="FOLDER")
    parser.add_argument("--out", type=Path, default=TABLE)
    chosen = parser.parse_args()
    development = [*DEVELOPMENT, *points(chosen.corpus)]
    held_out = [*HELD_OUT, *points(chosen.held_out)]
    results = measure(Grid.of(*development, *held_out, kind=outlook_task.KIND), chosen)
    found = table(rows(results, development), rows(results, held_out), chosen.seeds)
    write(chosen.out, found)
    print(to_toml(found["provenance"]))


if __name__ == "__main__":
    main()
