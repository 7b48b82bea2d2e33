"""Tables, figures and pages, made from the table of runs alone.

``privgcn reproduce`` shows the tables of an experiment; with ``--write-docs`` it writes the page
of the whole reproduction, ``docs/reproduction.md``, with its figures and the table of runs.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from privgcn.files import write_atomically
from privgcn.report.charts import Figure, Point, Series, save_svg
from privgcn.report.tables import Cell, MeanStd, Table
from privgcn_paper.claims import (
    GIVES,
    NEAR,
    OPTIMIZERS,
    best,
    claims,
    column_point,
    compared,
    moments_epsilon,
    published,
)
from privgcn_paper.experiments import Experiment, View, experiments
from privgcn_paper.experiments import Point as Run
from privgcn_paper.results import MODES, Runs

NAMES = {
    "citeseer": "CiteSeer",
    "cora": "Cora",
    "pubmed": "PubMed",
    "pokec": "Pokec",
    "reddit": "Reddit",
    "cora-text": "Cora, raw text",
    "citeseer-text": "CiteSeer, raw text",
    "mnist": "MNIST",
    "plain": "without privacy",
    "paper-full": "done soundly",
    "paper-split": "done soundly, subgraphs",
    "as-released": "as released",
}
GRAPHS = ("citeseer", "cora", "pubmed", "pokec", "reddit")
_USUAL = {"parts": 1, "fraction": 1.0, "sound": "nothing"}
MODE_NOTE = (
    "alone and own-graph are covered by the guarantee of the training documents. full-graph, the "
    "paper's protocol, is not: training documents enter those predictions without noise."
)


def shown(value: Any) -> str:
    """A value of an axis as a reader knows it."""
    return "–" if value is None else NAMES.get(str(value), str(value))


def view_tables(experiment: Experiment, points: Sequence[Run], runs: Runs) -> list[Table]:
    """The tables of an experiment: scores of its runs, mean and deviation over seeds."""
    return [_table(experiment, view, _chosen(view, points), runs) for view in experiment.show]


def _measure(experiment: Experiment, view: View) -> str:
    return "hard" if view.measure == "hard" else f"micro {experiment.mode}"


def _chosen(view: View, points: Sequence[Run]) -> list[Run]:
    def fits(point: Run) -> bool:
        for axis, wanted in view.where.items():
            value = point.get(axis, _USUAL.get(axis))
            if value != (None if wanted == "none" else wanted):
                return False
        return True

    return [point for point in points if fits(point)]


def _table(experiment: Experiment, view: View, points: Sequence[Run], runs: Runs) -> Table:
    columns = _values(points, view.columns)
    rows: dict[tuple[Any, ...], list[Cell]] = {}
    for point in points:
        key = tuple(point.get(axis, _USUAL.get(axis)) for axis in view.rows)
        cells = rows.setdefault(key, [None] * len(columns))
        place = columns.index(point.get(view.columns, _USUAL.get(view.columns)))
        cells[place] = runs.score(_measure(experiment, view), **point)
    heads = [f"{view.columns} {shown(value)}" for value in columns]
    return Table(
        experiment.title if view.measure == "score" else f"{experiment.title}: errors kept",
        (*view.rows, *heads),
        [(*map(shown, key), *cells) for key, cells in rows.items() if any(cells)],
        notes=(_note(experiment, view),),
    )


def _note(experiment: Experiment, view: View) -> str:
    if view.measure == "hard":
        return "The share of the errors of SGD without privacy, on all data, that stay errors."
    return f"Micro F1 on the test documents, inference mode {experiment.mode}. " + MODE_NOTE


def _values(points: Sequence[Run], axis: str) -> list[Any]:
    values = {point.get(axis, _USUAL.get(axis)): None for point in points}
    numbers = sorted(v for v in values if isinstance(v, int | float))
    return [
        *(v for v in values if v is None),
        *numbers,
        *(v for v in values if isinstance(v, str)),
    ]


def view_figures(experiment: Experiment, points: Sequence[Run], runs: Runs) -> list[Figure]:
    """The figures of an experiment: one for each value of the axes ``each`` of a view."""
    figures = []
    for view in experiment.show:
        if not view.each:
            continue
        panels: dict[tuple[Any, ...], dict[tuple[Any, ...], list[Point]]] = {}
        for point in _chosen(view, points):
            x = point.get(view.columns, _USUAL.get(view.columns))
            score = runs.score(_measure(experiment, view), **point)
            if score is None or x is None:
                continue
            panel = tuple(point.get(axis) for axis in view.each)
            line = tuple(point.get(axis) for axis in view.lines)
            drawn = panels.setdefault(panel, {}).setdefault(line, [])
            drawn.append(Point(x, score.mean, score.std))
        for panel, lines in panels.items():
            title = ", ".join([experiment.title, *map(shown, panel)])
            series = [
                Series(", ".join(shown(value) for value in line if value is not None), drawn)
                for line, drawn in lines.items()
            ]
            majority = [runs.fact(str(name), "majority") for name in panel if name in NAMES]
            series += [
                Series("majority class", [Point(None, level)], "reference")
                for level in majority
                if level is not None and view.measure == "score"
            ]
            label = "share of hard cases" if view.measure == "hard" else "micro F1"
            figures.append(Figure(title, series, view.columns, label))
    return figures


# -- the page of the whole reproduction -------------------------------------------------------


def covered_table(runs: Runs) -> Table:
    """Scores that the guarantee covers first; beside them the paper's protocol."""
    rows: list[tuple[Cell, ...]] = []
    for name in (*GRAPHS, "cora-text", "citeseer-text"):
        for epsilon in (None, 1, 2):
            point: Run = {"dataset": name, "recipe": "auto", "epsilon": epsilon}
            if epsilon is None:
                point = {"dataset": name, "recipe": "plain", "optimizer": "adam"}
            if name.endswith("-text"):
                point["features"] = "minilm"
            scores = [runs.score(f"micro {mode}", **point) for mode in MODES]
            if any(scores):
                budget = "without privacy" if epsilon is None else f"auto, epsilon {epsilon}"
                rows.append((shown(name), budget, *scores))
    return Table(
        "Scores by what a prediction may see",
        ("dataset", "training", *MODES),
        rows,
        notes=(MODE_NOTE,),
    )


def table_1(runs: Runs) -> Table:
    """The paper's main table: published, as released, done soundly."""
    columns = ("non_private", "dp_full_eps2", "dp_split_eps1", "dp_split_eps2")
    names = (
        "without privacy",
        "full graph, epsilon 2",
        "ten parts, epsilon 1",
        "ten parts, epsilon 2",
    )
    rows: list[tuple[Cell, ...]] = []
    for dataset in GRAPHS:
        majority = runs.fact(dataset, "majority")
        for column, name in zip(columns, names, strict=True):
            for optimizer in OPTIMIZERS:
                point = column_point(dataset, column, optimizer)
                number = published()["table1"][dataset][column][optimizer]
                released = runs.score(**{**point, "recipe": "as-released"})
                ours = runs.score(**point)
                if ours is not None or released is not None:
                    rows.append(
                        (
                            shown(dataset),
                            name,
                            optimizer.upper(),
                            number,
                            released,
                            ours,
                            majority,
                        )
                    )
    heads = (
        "dataset",
        "setting",
        "optimiser",
        "published",
        "as released",
        "done soundly",
        "majority class",
    )
    return Table(
        "Table 1 of the paper (its protocol, full-graph, which no guarantee covers)",
        heads,
        rows,
        notes=(
            "As released: the behaviour of the released code, emulated; it has no guarantee. "
            "Done soundly: the paper's method with the gradient of a subgraph clipped to norm 1 "
            "over all tensors, edges between subgraphs cut, and exact accounting.",
        ),
    )


def compared_table(runs: Runs) -> Table:
    """How many published numbers ours agree with, by kind."""
    kinds: dict[str, Counter[str]] = {}
    for row in compared(runs):
        section = row.leaf.split(".")[0]
        kind = (
            f"{section}, private"
            if "epsilon" in row.setting and section == "table1"
            else section
        )
        kinds.setdefault(kind, Counter())[row.verdict] += 1
    verdicts = (
        "agrees",
        "differs; the released code's behaviour gives it",
        "differs",
        "not run",
    )
    return Table(
        "Published numbers, by whether ours agree",
        ("kind", *verdicts),
        [
            (kind.replace("_", " "), *(count[v] for v in verdicts))
            for kind, count in kinds.items()
        ],
        notes=(
            f"Scores within {NEAR} agree, epsilons and sizes to the printed digits. The released "
            f"code's behaviour gives a score where its emulation comes within {GIVES}.",
        ),
    )


def noise_table() -> Table:
    """The paper's table of noise and epsilon on the full graph, computed again."""
    rows: list[tuple[Cell, ...]] = []
    for row in published()["noise_to_epsilon"]:
        for optimizer in OPTIMIZERS:
            noise, steps = row[optimizer]["noise_multiplier"], row[optimizer]["steps"]
            again = round(moments_epsilon(noise, steps), 2)
            exact = [_exact_epsilon(noise, steps, sensitivity) for sensitivity in (1, 2)]
            rows.append((optimizer.upper(), noise, steps, row["epsilon"], again, *exact))
    heads = (
        "optimiser",
        "noise",
        "steps",
        "published",
        "moments",
        "exact, removal",
        "exact, replacement",
    )
    return Table("Noise and epsilon on the full graph, delta 1e-5", heads, rows)


def _exact_epsilon(noise: float, steps: int, sensitivity: int) -> float:
    from privgcn.privacy.accounting import epsilon_of

    return round(epsilon_of(noise_multiplier=noise, steps=steps, sensitivity=sensitivity), 2)


def mnist_table(runs: Runs) -> Table:
    """The appendix table beside ours."""
    from privgcn_paper.claims import mnist_point

    rows: list[tuple[Cell, ...]] = []
    for row in published()["mnist"]:
        scores = [
            runs.score("micro alone", **mnist_point(row, recipe))
            for recipe in ("as-released", "paper-full")
        ]
        auto = runs.score("micro alone", dataset="mnist", recipe="auto", epsilon=row["epsilon"])
        if any(scores) or auto:
            head = (row["lot_size"], row["noise_multiplier"], row["epsilon"])
            rows.append((*head, MeanStd(row["f1"], row["std"]), *scores, auto))
    heads = (
        "lot",
        "noise",
        "epsilon",
        "published",
        "as released",
        "done soundly",
        "auto at that epsilon",
    )
    return Table("MNIST", heads, rows)


def claims_table() -> Table:
    """The paper's claims, each with its outcome and its place in the code."""
    rows = [
        (str(number), claim.says, claim.outcome, claim.note, ", ".join(claim.code))
        for number, claim in enumerate(claims(), start=1)
    ]
    return Table("The paper's claims", ("no.", "claim", "outcome", "why", "in the code"), rows)


def takeaways(runs: Runs) -> list[str]:
    """The paper's five take-aways, each in a sentence with the numbers that decide it.

    Only datasets that were run are named; the verdict on each stands in ``claims.toml``.
    """
    lines: list[str] = []
    here = [
        name
        for name in GRAPHS
        if runs.score(dataset=name, recipe="paper-full", optimizer="sgd", epsilon=2)
    ]

    def each(write: Any) -> str:
        parts = [text for name in here if (text := write(name)) is not None]
        return "; ".join(parts) or "not run"

    def robust(name: str) -> str | None:
        point = {"dataset": name, "recipe": "paper-full", "optimizer": "sgd"}
        low, high = runs.score(**point, epsilon=2), runs.score(**point, epsilon=137)
        if low is None:
            return None
        more = "" if high is None else f" and {high.mean:.2f} at epsilon 137"
        return f"{shown(name)} {low.mean:.2f} at epsilon 2{more} (majority class {runs.fact(name, 'majority'):.2f})"

    def adam(name: str) -> str | None:
        scores = [
            runs.score(dataset=name, recipe="paper-full", optimizer=o, epsilon=2)
            for o in OPTIMIZERS
        ]
        if not all(scores):
            return None
        return f"{shown(name)} SGD {scores[0].mean:.2f}, Adam {scores[1].mean:.2f}"  # type: ignore[union-attr]

    def data(name: str) -> str | None:
        point = {"dataset": name, "recipe": "auto", "epsilon": 2}
        some, whole = runs.score(**point, fraction=0.25), runs.score(**point)
        if some is None or whole is None:
            return None
        return f"{shown(name)} {some.mean:.2f} with a quarter, {whole.mean:.2f} with all"

    def splits(name: str) -> str | None:
        full = best(runs, dataset=name, recipe="paper-full", epsilon=2)
        ten = best(runs, dataset=name, recipe="paper-split", epsilon=2, parts=10)
        if full is None or ten is None:
            return None
        return f"{shown(name)} {full.score.mean:.2f} to {ten.score.mean:.2f}"

    def richer(name: str) -> str | None:
        kinds = ("bow", "minilm")
        values = []
        for kind in kinds:
            plain = best(runs, "micro own-graph", dataset=name, features=kind, recipe="plain")
            auto = runs.score(
                "micro own-graph", dataset=name, features=kind, recipe="auto", epsilon=2
            )
            if plain is None or auto is None:
                return None
            values.append(f"{kind} {auto.mean / plain.score.mean:.0%}")
        return f"{shown(name)} keeps " + ", ".join(values)

    lines.append(
        f"SGD-DP is robust to noise, even at epsilon 1. With clipping: {each(robust)}."
    )
    lines.append(
        f"Adam-DP works better than SGD-DP, at high rates. With clipping at epsilon 2: {each(adam)}."
    )
    texts = (
        "; ".join(t for n in ("cora-text", "citeseer-text") if (t := richer(n))) or "not run"
    )
    lines.append(
        f"Richer representations lose less. Of its non-private score in own-graph, auto at epsilon 2 on {texts}."
    )
    lines.append(
        f"More training data does not necessarily help. Recipe auto at epsilon 2: {each(data)}."
    )
    lines.append(
        f"Splitting improves the scores and allows epsilon 1. Full graph to ten parts at epsilon 2: {each(splits)}."
    )
    return lines


def write_reproduction(path: Path, runs: Runs, command: str) -> Path:
    """Writes the page, its figures and the table of runs beside it."""
    figures = path.parent / "figures"
    figures.mkdir(parents=True, exist_ok=True)
    runs.write(path.with_suffix(".csv"))
    text = [_OPENING.format(command=command, csv=path.with_suffix(".csv").name)]
    text += [f"Versions of the code that made the runs: {', '.join(runs.codes)}.\n"]
    text += ["## What the guarantee covers, and what the paper's protocol gives\n"]
    text += [covered_table(runs).markdown(), table_1(runs).markdown()]
    text += [
        "## The five take-aways\n",
        *(f"{n}. {line}" for n, line in enumerate(takeaways(runs), 1)),
        "",
    ]
    text += [
        "## Published numbers and ours\n",
        compared_table(runs).markdown(),
        noise_table().markdown(),
    ]
    text += [mnist_table(runs).markdown()]
    for name, experiment in experiments().items():
        points = [p for p in experiment.points() if runs.of(**p)]
        if not points or name in ("table1", "mnist"):
            continue
        text += [f"## {experiment.title}\n", f"{experiment.question}\n"]
        for number, figure in enumerate(view_figures(experiment, points, runs)):
            file = figures / f"reproduction-{name}-{number}.svg"
            save_svg(figure, file)
            text += [f"![{figure.title}](figures/{file.name})\n"]
        text += [table.markdown() for table in view_tables(experiment, points, runs)]
    text += ["## The claims of the paper\n", claims_table().markdown()]
    write_atomically(path, "\n".join(text).rstrip() + "\n")
    return path


_OPENING = """# Reproduction of the paper

<!-- Written by `{command}`. Do not edit: run the command again. -->

The paper trains graph convolutional networks on graphs of documents under differential privacy
and reports useful scores at epsilon 1 and 2. Its released code adds the paper's noise to
gradients that it does not clip, and cuts no edge, so these scores carry no guarantee. Here the
same method is done soundly, the behaviour of the released code is emulated beside it, and recipe
`auto`, which protects every document, shows what can be had under a guarantee that holds.

Scores are micro F1 on the test documents, mean and sample standard deviation over seeds. Every
run and seed is a row of [{csv}]({csv}), and this page is made from that table alone. Runs have
seeded noise and must not be released.
"""
