"""The figures of docs/concepts/recipe.md, from real runs on Cora at epsilon 1.

PRIVGCN_DATA=... python scripts/recipe_figures.py [--seeds 5]
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from measuring import ROOT, arguments, measure

from privgcn.config import MODES
from privgcn.experiments.grid import Grid
from privgcn.experiments.results import Results, figure
from privgcn.report import Figure
from privgcn.report.charts import save_svg

FOLDER = ROOT / "docs" / "concepts" / "figures"
TRAINING_DOCUMENTS = 1208
AUTO: dict[str, Any] = {"dataset": "cora", "recipe": "auto"}


def _parts(documents: int) -> dict[str, Any]:
    changes: dict[str, Any] = {"prediction.method": "direct"}
    if documents > 1:
        changes["privacy.parts"] = TRAINING_DOCUMENTS // documents
    return {**AUTO, "epsilon": 1.0, "changes": changes}


PARTS = {f"{n}": _parts(n) for n in (1, 2, 4, 12, 121, 1208)}
STEPS = {
    f"{n}": {**AUTO, "epsilon": 1.0, "changes": {"training.epochs": n}}
    for n in (1, 3, 10, 30, 100)
}
SIGHT = {f"{e:g}": {**AUTO, "epsilon": e} for e in (0.5, 1.0, 2.0, 4.0, 8.0)}


def grids() -> list[Grid]:
    return Grid.of(*PARTS.values(), *STEPS.values(), *SIGHT.values())


def drawings(results: Results) -> dict[str, list[Figure]]:
    def draw(
        title: str, x_label: str, points: Mapping[str, Any], modes: tuple[str, ...] = MODES
    ) -> list[Figure]:
        lines = {
            mode: {x: results.train(mode, **p) for x, p in points.items()} for mode in modes
        }
        return figure(title, x_label, lines, y_label="micro F1")

    alone = ("alone",)
    title = "Cora, epsilon 1: documents per part"
    return {
        "parts": draw(title, "documents per part", PARTS, alone),
        "steps": draw("Cora, epsilon 1: number of steps", "steps", STEPS),
        "sight": draw("Cora: what a prediction may look at", "epsilon", SIGHT),
    }


def main() -> None:
    results = measure(grids(), arguments(__doc__, seeds=5).parse_args())
    for name, (drawn,) in drawings(results).items():
        save_svg(drawn, FOLDER / f"{name}.svg")


if __name__ == "__main__":
    main()
