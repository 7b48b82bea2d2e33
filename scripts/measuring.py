"""What the measuring scripts share: a grid, run on all cores, with records that are kept.

A script that was stopped goes on where it was; scripts share the runs they have in common.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from privgcn.experiments.grid import Experiment, Grid
from privgcn.experiments.progress import make_progress
from privgcn.experiments.results import Results
from privgcn.experiments.runner import make_engine, run_tasks
from privgcn.experiments.store import RecordStore
from privgcn.experiments.tasks import label

ROOT = Path(__file__).resolve().parents[1]


def arguments(description: str | None, *, seeds: int) -> argparse.ArgumentParser:
    """The options that every script has."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--seeds", type=int, default=seeds)
    parser.add_argument("--workers", type=int, default=None, help="default: one per core")
    parser.add_argument("--records", type=Path, default=ROOT / "results" / "measured")
    return parser


def measure(grids: Sequence[Grid], chosen: argparse.Namespace) -> Results:
    """Runs what has no record yet; exits with the reasons where runs failed."""
    seeds = range(chosen.seeds)
    tasks = [piece for task in Experiment("measured", grids, seeds) for piece in task.pieces()]
    with RecordStore(chosen.records) as store:
        engine = make_engine("local", workers=chosen.workers)
        run_tasks(tasks, store, engine, progress=make_progress())
        failures = store.failures_of(tasks)
        for one in failures:
            told = label(one["kind"], one["settings"], one["seeds"])
            print(f"Failed: {told}: {one['reason']}", file=sys.stderr)
        if failures:
            raise SystemExit(1)
        return Results(store, seeds)
