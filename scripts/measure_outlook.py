"""Measures what recipe ``auto`` keeps of the non-private score, for ``privgcn plan``.

Trains on our datasets at several budgets and shares of the training documents, and writes
``src/privgcn/training/outlook.toml``. About ten minutes on two cores:

    PRIVGCN_DATA=... python scripts/measure_outlook.py [--seeds 3] [--quick]
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from privgcn.config import to_toml
from privgcn.corpus import Corpus, load_corpus
from privgcn.experiments.paper.subsampling import with_fraction
from privgcn.files import write_atomically
from privgcn.runs.train import Trial, train
from privgcn.training.outlook import Measured, expectation
from privgcn.training.planning import one_shot_noise
from privgcn.training.recipes import make_settings

TABLE = Path(__file__).parents[1] / "src" / "privgcn" / "training" / "outlook.toml"
EPSILONS = (0.5, 1.0, 2.0, 4.0, 8.0)
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


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--seeds", type=int, default=3)
    arguments.add_argument("--quick", action="store_true", help="fewer budgets and shares")
    arguments.add_argument("--out", type=Path, default=TABLE)
    chosen = arguments.parse_args()
    begun = time.perf_counter()
    rows = []
    for row in measure(list(range(chosen.seeds)), quick=chosen.quick):
        rows.append(row)
        print(f"{time.perf_counter() - begun:6.0f} s  {row}", file=sys.stderr)
    write(chosen.out, rows, chosen.seeds, quick=chosen.quick)


def write(path: Path, rows: list[dict[str, Any]], seeds: int, *, quick: bool) -> None:
    head = {
        "provenance": {
            "made_by": f"scripts/measure_outlook.py --seeds {seeds}" + quick * " --quick",
            "recipe": "auto",
            "error": f"{left_out_error(rows):.3f} in the share of plain, on average, when the "
            "corpus itself is left out of the table",
            "scores": "mean micro F1 on the test documents",
            "plain": "the better mode of recipe plain on the same training documents",
            "noise": "noise multiplier over the square root of the steps",
        }
    }
    tables = [f"[[measured]]\n{to_toml(row)}" for row in rows]
    write_atomically(path, "\n".join([to_toml(head), *tables]))


def left_out_error(rows: list[dict[str, Any]]) -> float:
    """How far off the planner is for a corpus that it has not seen."""
    errors = []
    for row in rows:
        others = [Measured.of(other) for other in rows if other["dataset"] != row["dataset"]]
        own = Measured.of(row)
        errors.append(abs(expectation(own.signal, others).share - own.own_graph))
    return sum(errors) / len(errors)


def measure(seeds: list[int], *, quick: bool) -> Iterator[dict[str, Any]]:
    for name, kind, unit, fractions in CORPORA:
        whole = load_corpus(name)
        for fraction in fractions[-2:] if quick else fractions:
            corpus = with_fraction(whole, fraction, seed=0)
            changes = {"features.kind": kind}
            plain = _means(train(corpus, make_settings("plain", changes=changes), seeds))
            for epsilon in EPSILONS[1:4] if quick else EPSILONS:
                yield {
                    "dataset": name,
                    "unit": unit,
                    "epsilon": epsilon,
                    **_private(corpus, epsilon, {**changes, "privacy.unit": unit}, seeds),
                    "plain": max(plain.values()),
                }


def _private(
    corpus: Corpus, epsilon: float, changes: dict[str, Any], seeds: list[int]
) -> dict[str, Any]:
    made = train(corpus, make_settings("auto", epsilon=epsilon, changes=changes), seeds)
    if made.plan is None:
        raise RuntimeError("Recipe 'auto' with an epsilon is private.")
    return {
        "kind": made.model.featurizer.kind,
        "features": made.model.featurizer.dimension,
        "units": made.plan.units,
        "classes": corpus.num_classes,
        "noise": round(one_shot_noise(made.plan), 4),
        **_means(made),
    }


def _means(made: Trial) -> dict[str, float]:
    tables = made.scored(("alone", "own-graph"))
    return {
        mode.replace("-", "_"): round(sum(t[mode]["micro_f1"] for t in tables) / len(tables), 4)
        for mode in ("alone", "own-graph")
    }


if __name__ == "__main__":
    main()
