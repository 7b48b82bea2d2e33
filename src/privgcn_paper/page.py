"""Tables and figures of experiments, and one page of all of them, from the table of runs.

``privgcn reproduce`` shows the tables of an experiment; with ``--write-docs`` it writes the
page of the whole reproduction, ``docs/reproduction.md``, its figures and the table of runs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from privgcn.files import write_atomically
from privgcn.report.charts import Figure, Point, Series
from privgcn.report.tables import Cell, MeanStd, Table
from privgcn.report.text import number, rendered
from privgcn_paper.claims import (
    AGREES,
    CLEAR,
    MNIST_EPOCHS,
    MNIST_IMAGES,
    NEAR,
    OPTIMIZERS,
    Compared,
    best,
    claims,
    compared,
    exact_epsilon,
    mnist_point,
    moments_epsilon,
    of_published_sizes,
    published,
    released_epsilon,
    table_1_numbers,
)
from privgcn_paper.experiments import Experiment, View, data_file, experiments, value_of
from privgcn_paper.experiments import Point as Run
from privgcn_paper.results import PAPER_MODE, Runs

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
    "sgd": "SGD",
    "adam": "Adam",
}
TAKEAWAYS = "6 Take-aways"
GRAPHS = ("citeseer", "cora", "pubmed", "pokec", "reddit")
MODE_NOTES: dict[str, str] = {
    "alone": "Each document is seen alone; the guarantee covers that.",
    "own-graph": "A document is seen with the edges among the documents that are asked "
    "about; the guarantee of the training documents covers that.",
    PAPER_MODE: "That is the paper's protocol, and no guarantee covers it: training documents "
    "enter those predictions without noise.",
}


def shown(value: Any) -> str:
    """A value of an axis as a reader knows it."""
    return NAMES.get(value, value) if isinstance(value, str) else number(value)


def head(axis: str, value: Any) -> str:
    """A column of one value of an axis."""
    words = axis.replace("_", " ")
    if axis == "clip":
        return "clipped" if value else "as released"
    if value is None:
        return "without privacy" if axis == "epsilon" else f"usual {words}"
    return f"{words} {shown(value)}"


def experiment_parts(
    experiment: Experiment, points: Sequence[Run], runs: Runs
) -> tuple[list[Figure], list[Table]]:
    """The figures and tables of an experiment, of those of its runs that were made."""
    # Where the paper's protocol is shown, scores that a guarantee covers come first.
    covered = experiment.mode != PAPER_MODE
    modes = (experiment.mode,) if covered else ("own-graph", PAPER_MODE)
    figures: list[Figure] = []
    tables: list[Table] = []
    for view in experiment.show:
        own = [point for point in points if view.takes(point) and runs.of(**point)]
        measures = ["hard"] if view.measure == "hard" else [f"micro {mode}" for mode in modes]
        if view.each:
            drawn = measures[-1] if view.mode is None else f"micro {view.mode}"
            figures.extend(_figures(experiment.title, view, drawn, own, runs))
        if view.rows:
            made = [_table(experiment.title, view, each, own, runs) for each in measures]
            tables.extend(table for table in made if table.rows)
    return figures, tables


def _table(title: str, view: View, measure: str, points: Sequence[Run], runs: Runs) -> Table:
    points = [point for point in points if runs.score(measure, **point) is not None]
    columns = _values(points, view.columns)
    rows: dict[tuple[Any, ...], list[Cell]] = {}
    for point in points:
        key = tuple(value_of(point, axis) for axis in view.rows)
        cells = rows.setdefault(key, [None] * len(columns))
        cells[columns.index(value_of(point, view.columns))] = runs.score(measure, **point)
    note = "The fraction of the errors of SGD without privacy, on all data, that stay errors."
    mode = measure.removeprefix("micro ")
    if measure != "hard":
        note = f"Micro F1 on the test documents in mode {mode}. {MODE_NOTES[mode]}"
    return Table(
        f"{title}; {view.columns if measure == 'hard' else mode}",
        (*view.rows, *(head(view.columns, value) for value in columns)),
        [(*map(shown, key), *cells) for key, cells in rows.items()],
        notes=[note],
    )


def _values(points: Sequence[Run], axis: str) -> list[Any]:
    values = {value_of(point, axis): None for point in points}
    named = [value for value in values if isinstance(value, str)]
    numbers = sorted(value for value in values if isinstance(value, int | float))
    return [*(value for value in values if value is None), *numbers, *named]


def _figures(
    title: str, view: View, measure: str, points: Sequence[Run], runs: Runs
) -> Iterator[Figure]:
    """A figure for each value of the axes ``each``, where a line has two marks."""
    panels: dict[tuple[Any, ...], dict[tuple[Any, ...], list[Point]]] = {}
    for x in _values(points, view.columns):
        for point in points:
            score = runs.score(measure, **point)
            if value_of(point, view.columns) != x or x is None or score is None:
                continue
            panel = tuple(value_of(point, axis) for axis in view.each)
            line = tuple(value_of(point, axis) for axis in view.lines)
            marks = panels.setdefault(panel, {}).setdefault(line, [])
            mean, std = score
            ends = None if std is None else (mean - std, mean + std)
            marks.append(Point(x, mean, ends))
    for panel, lines in panels.items():
        if max(map(len, lines.values())) < 2:
            continue
        series = [
            Series(_words(zip(view.lines, line, strict=True)), marks)
            for line, marks in lines.items()
        ]
        if measure != "hard" and "dataset" in view.each:
            level = runs.fact(panel[view.each.index("dataset")], "majority")
            if level is not None:
                series.append(Series("majority class", [Point(None, level)], reference=True))
        mode = measure.removeprefix("micro ")
        words = _words(zip(view.each, panel, strict=True))
        yield Figure(
            f"{title}, {words}" + ("" if measure == "hard" else f"; {mode}"),
            series,
            view.columns.replace("_", " "),
            "hard cases that stay errors" if measure == "hard" else f"micro F1, {mode}",
        )


def _words(values: Iterable[tuple[str, Any]]) -> str:
    """Some values of axes; what a run has not is left out, but for epsilon."""
    known = [(axis, value) for axis, value in values if value is not None or axis == "epsilon"]
    return ", ".join(shown(v) if isinstance(v, str) else head(axis, v) for axis, v in known)


# -- the page of the whole reproduction -------------------------------------------------------


def covered_table(runs: Runs) -> Table:
    """Scores that the guarantee covers first; beside them the paper's protocol."""
    rows: list[tuple[Cell, ...]] = []
    for name in (*GRAPHS, "cora-text", "citeseer-text"):
        features: Run = {"features": "minilm"} if name.endswith("-text") else {}
        point: Run = {"dataset": name, **features}
        for epsilon in (1, 2):
            private = {**point, "recipe": "auto", "epsilon": epsilon}
            if not runs.of(**private):
                continue
            cells: list[Cell] = [runs.score("micro alone", **private)]
            for mode in ("own-graph", PAPER_MODE):
                score = runs.score(f"micro {mode}", **private)
                plain = best(runs, f"micro {mode}", **point, recipe="plain")
                share = score and plain and f"{score.mean / plain.mean:.0%}"
                cells += [score, plain, share]
            rows.append((shown(name), epsilon, *cells, runs.fact(name, "majority")))
    columns = (
        f"{mode}{what}"
        for mode in ("own-graph", PAPER_MODE)
        for what in ("", " without privacy", ", share")
    )
    return Table(
        "Recipe auto, by what a prediction may see",
        ("dataset", "epsilon", "alone", *columns, "majority class"),
        rows,
        notes=[
            *(f"{mode}: {note}" for mode, note in MODE_NOTES.items()),
            "A share is the score over that of the better optimiser without privacy, in the "
            "same mode.",
        ],
    )


def table_1(runs: Runs) -> Table:
    """The paper's main table: published, as released, done soundly."""
    return Table(
        "Table 1 of the paper, by its own protocol",
        (
            *("dataset", "setting", "optimiser", "published"),
            *("as released", "done soundly", "majority class"),
        ),
        [
            (
                *(shown(row.dataset), row.setting, shown(row.optimizer), row.published),
                *(row.released, row.ours, runs.fact(row.dataset, "majority")),
            )
            for row in table_1_numbers(runs)
            if row.optimizer and (row.ours or row.released)
        ],
        notes=(
            "As released: the behaviour of the released code, emulated; it has no guarantee. "
            "Done soundly: the paper's method with the gradient of a subgraph clipped to norm "
            "1 over all tensors, edges between subgraphs cut, and exact accounting.",
            f"Mode {PAPER_MODE}. {MODE_NOTES[PAPER_MODE]}",
        ),
    )


def counted(runs: Runs) -> dict[str, int]:
    """How the private scores of table 1 that were run compare, by counts."""
    rows = [row for row in table_1_numbers(runs) if row.kind == "table 1, private"]
    made = [row for row in rows if row.ours is not None]
    given = [row for row in rows if row.released is not None]
    levels = {name: (runs.fact(name, "majority") or 0.0) + CLEAR for name in GRAPHS}
    above = [row.ours_mean > levels[row.dataset] for row in made]
    return {
        "private": len(made),
        "clear": sum(above),
        "agreeing": sum(row.verdict == AGREES for row in made),
        "emulated": len(given),
        "given": sum(row.emulation_gives_it for row in given),
        "emulated_sgd": sum(row.optimizer == "sgd" for row in given),
        "given_sgd": sum(row.optimizer == "sgd" and row.emulation_gives_it for row in given),
    }


def published_table(rows: Sequence[Compared]) -> Table:
    """Every published number that was run, but those of tables of their own."""
    return Table(
        "Numbers of the text and the appendix",
        ("dataset", "what", "published", "as released", "ours", "verdict"),
        [
            (
                shown(row.dataset),
                row.setting,
                row.published,
                row.released,
                row.ours,
                row.verdict,
            )
            for row in rows
            if row.ours is not None and row.kind not in ("table 1", "table 1, private", "MNIST")
        ],
        notes=[f"Scores within {NEAR} agree."],
    )


def noise_table() -> Table:
    """The paper's table of noise and epsilon on the full graph, computed again."""
    rows: list[tuple[Cell, ...]] = []
    for row in published()["noise_to_epsilon"]:
        for optimizer in OPTIMIZERS:
            noise, steps = row[optimizer]["noise_multiplier"], row[optimizer]["steps"]
            again = moments_epsilon(noise, steps)
            exact = [exact_epsilon(noise, steps, clips) for clips in (1, 2)]
            printed = [f"{epsilon:.2f}" for epsilon in (row["epsilon"], again, *exact)]
            rows.append((shown(optimizer), noise, steps, *printed))
    return Table(
        "Noise and epsilon on the full graph, delta 1e-5",
        (
            *("optimiser", "noise", "steps", "published", "moments"),
            *("exact, removal", "exact, replacement"),
        ),
        rows,
    )


def accountant() -> tuple[Table, Figure]:
    """Where the accountant of the released code breaks, beside what it should give."""
    noises = (100, 112, 120, 130, 150, 180, 219.2, 300, 400)
    accounts: dict[str, Callable[[float, int], float]] = {
        "the released accountant": released_epsilon,
        "its formula, without the sum": moments_epsilon,
        "exact": exact_epsilon,
    }
    values = {name: [of(noise, 2000) for noise in noises] for name, of in accounts.items()}
    rows = [
        (number(noise), *(f"{epsilon:.3f}" for epsilon in epsilons))
        for noise, *epsilons in zip(noises, *values.values(), strict=True)
    ]
    title = "Epsilon of SGD on the full graph, 2000 steps, delta 1e-5"
    lines = [
        Series(name, [*map(Point, noises, values[name])])
        for name in ("the released accountant", "exact")
    ]
    return (
        Table(title, ("noise", *accounts), rows),
        Figure(
            "Epsilon over noise, full graph, 2000 steps", lines, "noise multiplier", "epsilon"
        ),
    )


def mnist_table(runs: Runs) -> Table:
    """The appendix table beside ours."""
    rows: list[tuple[Cell, ...]] = []
    for row in published()["mnist"]:
        scores = [
            runs.score("micro alone", **mnist_point(row, recipe))
            for recipe in ("as-released", "paper-full")
        ]
        auto = runs.score("micro alone", dataset="mnist", recipe="auto", epsilon=row["epsilon"])
        if any(scores) or auto:
            noise, probability = row["noise_multiplier"], row["lot_size"] / MNIST_IMAGES
            again = moments_epsilon(noise, round(MNIST_EPOCHS / probability), probability)
            epsilons = (f"{epsilon:.2f}" for epsilon in (row["epsilon"], again))
            theirs = MeanStd(row["f1"], row["std"])
            rows.append((str(row["lot_size"]), noise, *epsilons, theirs, *scores, auto))
    return Table(
        "MNIST, micro F1 after 100 epochs",
        (
            *("lot", "noise", "epsilon", "moments", "published"),
            *("as released", "done soundly", "auto at that epsilon"),
        ),
        rows,
    )


def claims_table(runs: Runs) -> Table:
    """The paper's claims, each with its outcome, its place in the code and its runs."""
    rows = [
        (
            str(position),
            claim.says,
            claim.outcome,
            " ".join(
                [claim.note, *(f"{shown(n)}: {w}." for n, w in claim.numbers(runs).items())]
            ),
            ", ".join(claim.code),
        )
        for position, claim in enumerate(claims(), start=1)
    ]
    return Table(
        "The paper's claims",
        ("no.", "claim", "outcome", "why, and the lines of the CSV", "in the code"),
        rows,
    )


def write_reproduction(path: Path, runs: Runs) -> None:
    """Writes the page, its figures and the table of runs beside it."""
    table = path.with_suffix(".csv")
    runs.write(table)
    for figure in (path.parent / "figures").glob("reproduction-*.svg"):
        figure.unlink()  # of an earlier page
    # With its rounding, as whoever makes the page again has it.
    runs, other = of_published_sizes(Runs.read(table))
    lessons = []
    for claim in claims():
        if claim.section == TAKEAWAYS:
            lessons.append(f"{claim.says} **{claim.outcome.capitalize()}.** {claim.note}")
            numbers = claim.numbers(runs)
            lessons += [f"    - {shown(n)}: {words}." for n, words in numbers.items()]
    chapters = []
    for name, experiment in experiments().items():
        figures, tables = experiment_parts(experiment, experiment.points(), runs)
        if tables:
            chapters.append(f"## {experiment.title}\n\n{experiment.question}\n")
            # The first table has scores that a guarantee covers, if there are such.
            chapters.append(_shown(path, name, [*tables[: 1 if figures else None], *figures]))
    covered, rows = covered_table(runs), compared(runs)
    shares = [int(str(row[5]).rstrip("%")) for row in covered.rows if row[1] == 1 and row[5]]
    kept = ": at epsilon 1 its scores in mode own-graph, which the guarantee covers, are "
    kept += f"{min(shares, default=0)} to {max(shares, default=0)} % of those without privacy"
    text = data_file("reproduction.md").format(
        command=f"privgcn reproduce all --only-show --out {table} --write-docs {path}",
        csv=table.name,
        made=_made(runs),
        other="".join(
            f"\n{shown(name)} is left out: its size is not the paper's.\n" for name in other
        ),
        covered=_shown(path, "covered", [covered]),
        kept=kept if shares else "",
        takeaways="\n".join(lessons),
        table_1=_shown(path, "table1", [table_1(runs)]),
        accountant=_shown(path, "accountant", accountant()),
        noise=noise_table().markdown(),
        mnist=mnist_table(runs).markdown(),
        published=published_table(rows).markdown(),
        claims=claims_table(runs).markdown(),
        experiments="\n".join(chapters),
        **counted(runs),
    )
    write_atomically(path, text.rstrip() + "\n", mode=0o666)


def _made(runs: Runs) -> str:
    """How many runs there are, of which code, where they were made and how long they took."""
    by_device: dict[str, list[float]] = {}
    for row in runs.rows:
        by_device.setdefault(str(row.get("device")), []).append(float(row.get("seconds", 0.0)))
    codes = ", ".join(sorted({str(row.get("code")) for row in runs.rows}))
    places = " and ".join(
        f"{len(seconds):,} on {device} in {sum(seconds) / 3600:.1f} hours of one process"
        for device, seconds in sorted(by_device.items())
    )
    return f"{len(runs.rows):,} runs of privgcn {codes}: {places}."


def _shown(page: Path, name: str, items: Sequence[Table | Figure]) -> str:
    """Tables as Markdown; figures are files beside the page, named after their section."""
    lines = []
    for position, item in enumerate(items):
        if isinstance(item, Table):
            lines.append(item.markdown())
            continue
        file = page.parent / "figures" / f"reproduction-{name}-{position}.svg"
        file.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(file, rendered("figure.svg", figure=item) + "\n", mode=0o666)
        lines.append(f"![{item.title}](figures/{file.name})\n")
    return "\n".join(lines)
