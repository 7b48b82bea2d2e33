"""Experiments that a user declares: a grid in a TOML file, on the same engine as the paper's.

A file has one table ``[[grid]]`` or more. Its keys are the axes of the kind ``train``, each a
value or a list of values; a point is every combination. The file may also say the ``seeds``
(how many) and a ``title``::

    title = "Our letters beside Cora"
    seeds = 3

    [[grid]]
    dataset = ["letters/", "cora"]
    recipe = "auto"
    epsilon = [1, 2, 4]
    features = ["hashing", "minilm"]

A dataset is one of the catalogue, a folder, or one of PyTorch Geometric, such as
``pyg:Planetoid/Cora``. One without a split of its own needs the axis ``split``.
"""

from __future__ import annotations

import tomllib
from math import prod
from pathlib import Path
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from privgcn.config import MODES
from privgcn.errors import ConfigError, reason, refusal, shown
from privgcn.experiments.grid import Experiment, Grid
from privgcn.experiments.results import COVERED_MODE, Presentation, Results, figure
from privgcn.experiments.tasks import Point, canonical
from privgcn.files import read_bounded
from privgcn.report import MeanStd, Table

_MOST_BYTES = 1 << 20
_MOST_POINTS = 10_000


class Declared(BaseModel):
    """What a user's file says."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    title: str = "Experiment"
    seeds: Annotated[int, Field(ge=1, le=1000)] = 5
    grid: Annotated[tuple[dict[str, Any], ...], Field(min_length=1)]

    def experiment(self) -> Experiment:
        """The runs."""
        grids = [
            Grid({name: v if isinstance(v, list) else [v] for name, v in axes.items()})
            for axes in self.grid
        ]
        return Experiment("declared", grids, range(self.seeds))

    def points(self) -> list[Point]:
        """Every combination of every grid, none twice."""
        grids = self.experiment().grids
        return list({canonical(p): p for grid in grids for p in grid.points()}.values())

    def present(self, results: Results) -> Presentation:
        """One row for each combination; lines over epsilon where there are several."""
        points = self.points()
        names = list(dict.fromkeys(name for point in points for name in point))
        rows = [
            (
                *(_text(point.get(name)) for name in names),
                *(_score(results, mode, point) for mode in MODES),
            )
            for point in points
        ]
        columns = (*names, *MODES)
        table = Table(title=self.title, columns=columns, rows=tuple(rows), notes=(_NOTE,))
        lines: dict[str, dict[Any, MeanStd | None]] = {}
        for point in points:
            if (epsilon := point.get("epsilon")) is not None:
                rest = [str(_text(v)) for name, v in point.items() if name != "epsilon"]
                score = _score(results, COVERED_MODE, point)
                lines.setdefault(", ".join(rest), {})[epsilon] = score
        several = any(len(line) > 1 for line in lines.values())
        drawn = figure(f"{self.title}: {COVERED_MODE}", "epsilon", lines) if several else []
        return Presentation([table], drawn, results.short_notes())


_NOTE = (
    "Micro F1 on the test documents by inference mode, mean and sample standard deviation over "
    "seeds. Noise is seeded, so none of these models may be released."
)


def _score(results: Results, mode: str, point: Point) -> MeanStd | None:
    if mode not in (point.get("modes") or MODES):
        return None
    return results.train(mode, **point)


def _text(value: Any) -> str | float | int | None:
    return value if value is None or isinstance(value, str | float | int) else str(value)


def read_declared(path: Path) -> Declared:
    """The experiment of a file.

    Raises:
        DataError: The file cannot be read.
        ConfigError: It is no TOML, or says something else than above.
    """
    try:
        tree = tomllib.loads(read_bounded(path, most=_MOST_BYTES).decode("utf-8"))
    except (ValueError, RecursionError) as error:
        raise ConfigError(
            f"The 'config' of reproduce must be a TOML file. Got {path}: {reason(error)}."
        ) from None
    try:
        declared = Declared.model_validate(tree)
    except ValidationError as error:
        raise refusal(error, f"the experiment in {path}") from None
    experiment = declared.experiment()
    points = sum(
        prod(len(values) for values in grid.axes.values()) for grid in experiment.grids
    )
    if points > _MOST_POINTS:
        raise ConfigError(
            f"The grids of the experiment in {path} must have at most {_MOST_POINTS:,} "
            f"combinations. Got {shown(points)}. Write several files."
        )
    # Every point is resolved here, and so checked.
    list(experiment)
    return declared
