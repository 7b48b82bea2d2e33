"""The figures of docs/concepts/recipe.md, from real runs on Cora at epsilon 1.

PRIVGCN_DATA=... python scripts/recipe_figures.py [--seeds 5]
"""

from __future__ import annotations

import argparse
import os
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_WAIT_POLICY", "passive")

import numpy as np

from privgcn.corpus import Corpus, load_corpus
from privgcn.modes import MODES
from privgcn.report import Figure
from privgcn.runs.train import train
from privgcn.training.recipes import make_settings

FOLDER = Path(__file__).resolve().parents[1] / "docs" / "concepts" / "figures"
Points = dict[str, list[list[Any]]]


def measure(corpus: Corpus, seeds: int, x: Any, points: Points, **wishes: Any) -> None:
    trained = train(corpus, make_settings(**wishes), range(seeds))
    for mode in MODES:
        values = [table[mode]["micro_f1"] for table in trained.scores]
        points[mode].append([x, float(np.mean(values)), float(np.std(values))])
    print(x, {mode: round(points[mode][-1][1], 3) for mode in MODES}, flush=True)


def draw(name: str, title: str, x_label: str, points: Points) -> None:
    series = [{"name": mode, "points": values} for mode, values in points.items() if values]
    record = {"title": title, "x_label": x_label, "y_label": "micro F1", "series": series}
    FOLDER.mkdir(parents=True, exist_ok=True)
    Figure.from_dict(record).save_svg(FOLDER / f"{name}.svg")


def empty() -> Points:
    return {mode: [] for mode in MODES}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=5)
    seeds = parser.parse_args().seeds
    cora = load_corpus("cora")
    parts = empty()
    for documents in (1, 2, 4, 12, 121, 1208):
        changes: dict[str, Any] = {"prediction.method": "direct"}
        if documents > 1:
            changes["privacy.parts"] = len(cora.train) // documents
        label = f"{documents}"
        measure(cora, seeds, label, parts, epsilon=1.0, changes=changes)
    draw(
        "parts",
        "Cora, epsilon 1: documents per part",
        "documents per part",
        {"alone": parts["alone"]},
    )
    steps = empty()
    for count in (1, 3, 10, 30, 100):
        changes = {"training.epochs": count}
        measure(cora, seeds, f"{count}", steps, epsilon=1.0, changes=changes)
    draw("steps", "Cora, epsilon 1: number of steps", "steps", steps)
    sight = empty()
    for epsilon in (0.5, 1.0, 2.0, 4.0, 8.0):
        measure(cora, seeds, f"{epsilon:g}", sight, epsilon=epsilon)
    draw("sight", "Cora: what a prediction may look at", "epsilon", sight)


if __name__ == "__main__":
    main()
