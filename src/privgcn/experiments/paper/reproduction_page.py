"""``docs/reproduction.md``: a summary with figures, the paper's tables, then details.

The words are in ``page.md``, the numbers come from records. Beside the page lie its figures,
a CSV file with every published number, and a page with every table.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

from privgcn.config import MODES
from privgcn.experiments.paper import curves, layouts, mnist, table1
from privgcn.experiments.paper.comparison import (
    EPSILONS,
    NEAR,
    Compared,
    agree,
    agreement_table,
    disagreements,
    not_run,
)
from privgcn.experiments.paper.mapping import released
from privgcn.experiments.paper.published import OPTIMIZERS, published, read_table, read_text
from privgcn.experiments.paper.reproduce import Reproduction
from privgcn.experiments.paper.tables import SHOWN_OPTIMIZERS, in_order, shown_name, table
from privgcn.experiments.paper.takeaways import (
    FAILS,
    FRAGILE,
    PARTLY,
    SURVIVES,
    fragile,
    in_words,
)
from privgcn.experiments.results import (
    Options,
    Results,
    best_of,
    figure,
    is_synthetic,
    mean_of,
)
from privgcn.files import write_atomically
from privgcn.report import Figure, MeanStd, Table
from privgcn.report.charts import save_svg
from privgcn.report.drawing import Colours
from privgcn.report.results import NOT_MEASURED, Takeaway
from privgcn.report.tables import markdown_text

_NOTHING = "Nothing of this was run."
_SAID = {
    SURVIVES: ("survives", "survive"),
    PARTLY: ("survives in part", "survive in part"),
    FAILS: ("does not survive", "do not survive"),
    NOT_MEASURED: ("was not measured", "were not measured"),
}


def write_reproduction(path: Path, done: Reproduction, command: str) -> None:
    """Writes the page, and beside it its figures, the list of numbers and every table."""
    paper = list(published()["dataset_sizes"])
    here = [name for name in paper if done.results.majority(name) is not None]
    drawn, of_bars = _figures(done.results, here), Colours()
    for name, (drawing, _) in drawn.items():
        image = path.parent / "figures" / f"{path.stem}-{name}.svg"
        colours = of_bars if drawing.kind == "bar" else Colours()
        save_svg(drawing, image, framed=True, colours=colours)
    numbers = path.with_suffix(".csv")
    write_atomically(numbers, disagreements(done.results, done.compared).csv())
    tables = path.with_name(f"{path.stem}-tables.md")
    write_atomically(tables, _every_table(done, command, path.name))
    images = (
        f"![{drawing.title}](figures/{path.stem}-{name}.svg)\n\n*{words}*"
        for name, (drawing, words) in drawn.items()
    )
    blocks = {
        "command": command,
        "csv": numbers.name,
        "tables": tables.name,
        "figures": "\n\n".join(images),
        **_summary(done, here),
        **_details(done, here),
    }
    text = read_text("page.md")
    contents = _contents(text)
    write_atomically(path, text.format(**blocks, contents=contents).rstrip() + "\n")


def _contents(text: str) -> str:
    """Links to the headings, as Markdown names them."""
    headings = re.findall("^## (.+)$", text, re.MULTILINE)
    return "\n".join(
        f"- [{heading}](#{re.sub('[^a-z0-9 -]', '', heading.lower()).replace(' ', '-')})"
        for heading in headings
        if heading != "Contents"
    )


def _listed(names: Sequence[str]) -> str:
    """Words with commas and an "and"."""
    return " and ".join(filter(None, [", ".join(names[:-1]), *names[-1:]]))


def _summary(done: Reproduction, here: list[str]) -> dict[str, str]:
    """What the paper claims, what holds, and where the numbers come from."""
    *mixture, origin = done.provenance.sentences()
    return {
        "mixture": "".join(f"**{sentence}**\n\n" for sentence in mixture),
        "provenance": origin,
        "found": _found(done),
        "verdicts": _blocks([_verdicts(done.takeaways)]),
        "headline": _headline(done.results, here),
        "kept": _blocks([layouts.kept_shares(done.results, here)]),
    }


def _found(done: Reproduction) -> str:
    """What came out, in two sentences."""
    verdicts = [one.verdict.partition(" (")[0] for one in done.takeaways]
    counts = {verdict: verdicts.count(verdict) for verdict in _SAID if verdict in verdicts}
    told = [f"{in_words(n)} {_SAID[verdict][n > 1]}" for verdict, n in counts.items()]
    words = f"Done soundly, of its five take-aways {_listed(told)}."
    private = [one for one in done.compared if "private, " in one.kind and one.ours is not None]
    if not private:
        return words
    tried = [(like, one) for one in private if (like := mean_of(one.emulated)) is not None]
    near = [one for like, one in tried if agree(like, one.claim.told, NEAR)]
    return (
        f"{words} Of the {len(private)} private scores of its table 1 that were run, "
        f"{sum(one.agrees for one in private)} agree when done soundly; the released code's "
        f"behaviour, emulated, gives {len(near)} of {len(tried)} to within {NEAR}."
    )


def _verdicts(found: Iterable[Takeaway]) -> Table:
    rows = []
    for one in found:
        leads = sorted(one.leads.values())
        margins = [f"{lead:+.2f}".replace("-", "−") for lead in leads]  # noqa: RUF001
        margin = margins[0] if len(leads) == 1 else " to ".join(margins[:: len(leads) - 1 or 1])
        weak = _listed(fragile(one.leads))
        little = "" if not one.leads else f"yes: {weak}" if weak else "no"
        rows.append((one.claim, one.verdict, one.reach, margin, little))
    return table("verdicts", rows, fragile=FRAGILE)


def _headline(results: Results, here: Sequence[str]) -> str:
    """The headlines of the paper's abstract and conclusion, and what became of them."""
    told = published()["headlines"]
    kept = {name.removeprefix("kept_"): share for name, share in told.items() if "kept" in name}
    shares = _listed([f"{share:.0%} for {shown_name(name)}" for name, share in kept.items()])
    absent = [shown_name(name) for name in kept if name not in here]
    words = (
        f"The paper's headlines: at epsilon 1 it keeps up to {shares} of the non-private "
        f"score, and splitting improves its bound by a factor of {told['privacy_factor']} "
        "(from epsilon 2, its least on the full graph, to 1)."
    )
    if absent:
        words += f" {_listed(absent)} {'was' if len(absent) == 1 else 'were'} not run here."
    full: dict[str, Any] = {"recipe": "paper-full", "epsilon": 1}
    if any(results.train(dataset=n, optimizer=o, **full) for n in here for o in OPTIMIZERS):
        words += " The full graph reaches epsilon 1 as well: that needs no splitting."
    return words


def _figures(results: Results, here: list[str]) -> dict[str, tuple[Figure, str]]:
    """The figures of the summary with a line of words each, as far as they were run."""
    one = "cora" if "cora" in here else next(iter(here), "cora")
    name = shown_name(one)
    alone = Options((one,), results.seeds)
    bars = table1.present(results, Options(tuple(here), results.seeds)).figures if here else []
    digits = mnist.present(results, Options(mnist.DATASETS, results.seeds)).figures
    found = {
        "table1": (
            bars,
            "Private scores of table 1 at epsilon 2 on the full graph, the better optimiser. "
            "Only done soundly and auto have a guarantee; dashed is the majority class.",
        ),
        "epsilon": (
            _over_epsilon(results, one),
            f"{name}, full graph: scores over epsilon as released, done soundly and of auto.",
        ),
        "parts": (
            curves.present_c(results, alone).figures,
            f"Experiment C on {name} with SGD: the number of parts without and with privacy. "
            "The protected unit differs from one part to every document its own.",
        ),
        "mnist": (
            digits if results.majority("mnist") is not None else [],
            "MNIST by lot size and noise, on the same privacy engine.",
        ),
    }
    return {key: (drawn[0], words) for key, (drawn, words) in found.items() if drawn}


def _over_epsilon(results: Results, name: str) -> list[Figure]:
    """Scores on the full graph over epsilon, as released, done soundly and of ``auto``."""

    def line(score: Callable[..., MeanStd | None], **point: Any) -> dict[str, MeanStd | None]:
        return {str(e): score(dataset=name, epsilon=e, **point) for e in (1, *EPSILONS)}

    lines = {}
    for optimizer in OPTIMIZERS:
        words = SHOWN_OPTIMIZERS[optimizer]
        lines[f"{words}, as released"] = line(released, results=results, optimizer=optimizer)
        lines[f"{words}, done soundly"] = line(
            results.train, recipe="paper-full", optimizer=optimizer
        )
    lines["auto"] = line(results.train, recipe="auto")
    title = f"Score over epsilon, {shown_name(name)}"
    return figure(title, "epsilon", lines, majority=results.majority(name))


def _details(done: Reproduction, here: list[str]) -> dict[str, str]:
    """The parts of the page below its summary."""
    results = done.results
    made = [_without_gaps(one) for shown in done.shown for one in shown.presentation.tables]

    def known(name: str, form: Callable[[Table], Table] = lambda one: one) -> str:
        title = str(read_table("tables.toml")[name]["title"])
        return _blocks(form(one) for one in made if one.title == title and one.rows)

    return {
        "not_run": _not_run(here),
        "paper_tables": _paper_tables(results, here),
        "takeaways": "\n\n".join(_takeaways(done.takeaways)),
        "agreement": _blocks([agreement_table(done.compared)]),
        "running_text": _running_text(done.compared),
        "ablation": known("ablation", _ablation),
        "rates": known("rates", _rates),
        "epsilon_1": known("epsilon-1", _real),
        "modes": known("modes", _modes),
        "stand_ins": _stand_ins(results),
        "failures": "".join(
            f"\n- failed: {markdown_text(one['label'])}: {markdown_text(one['reason'])}"
            for one in done.failures
        ),
    }


def _rates(made: Table) -> Table:
    columns = ("as released, full graph", "done soundly, full graph")
    title = f"{made.title}, full graph: as released / done soundly"
    return _pivot(made, ("dataset", "optimiser"), ("learning rate",), columns, title)


def _modes(made: Table) -> Table:
    title = f"{made.title}: {' / '.join(MODES)}"
    return _pivot(made, ("dataset",), ("recipe", "epsilon"), list(MODES), title)


def _real(made: Table) -> Table:
    """Without the rows of generated graphs."""
    rows = tuple(row for row in made.rows if not is_synthetic(str(row[0])))
    return made.model_copy(update={"rows": rows})


def _blocks(tables: Iterable[Table]) -> str:
    return "\n".join(one.markdown() for one in tables if one.rows).rstrip() or _NOTHING


def _without_gaps(made: Table) -> Table:
    """Without the rows of which nothing was run, and without columns that are empty."""
    columns = list(zip(*made.rows, strict=True))
    empty = [all(cell is None for cell in column) for column in columns]
    scores = [
        place
        for place, column in enumerate(columns)
        if empty[place] or any(isinstance(cell, MeanStd) for cell in column)
    ]
    rows = [row for row in made.rows if not scores or any(row[i] is not None for i in scores)]
    full = [place for place, nothing in enumerate(empty) if not nothing]
    return made.model_copy(
        update={
            "columns": tuple(made.columns[place] for place in full) or made.columns,
            "rows": tuple(tuple(row[place] for place in full) for row in rows),
        }
    )


def _not_run(here: list[str]) -> str:
    """One sentence for all datasets of the paper that were not run."""
    absent = [name for name in published()["dataset_sizes"] if name not in here]
    if not absent:
        return "All five datasets of the paper were run."
    reasons = {not_run(name).removeprefix("not run: ") for name in absent}
    return (
        f"Of the paper's five datasets, {in_words(len(here))} were run. Without runs are "
        f"{_listed([shown_name(name) for name in absent])} ({'; '.join(sorted(reasons))}); the "
        "tables leave them out, and the CSV file has their published numbers."
    )


def _paper_tables(results: Results, here: list[str]) -> str:
    tables = [layouts.table_1(results, here), layouts.noise(), layouts.sizes(results, here)]
    gaps = []
    if results.majority("pokec") is not None:
        tables.insert(1, layouts.features(results))
    else:
        gaps.append("The table of Pokec's features was not run; [stand-ins](#stand-ins) were.")
    if results.majority("mnist") is not None:
        tables.append(layouts.mnist_table(results))
    else:
        gaps.append("The table of MNIST was not run.")
    return "\n\n".join([_blocks(tables), *gaps])


def _takeaways(found: Sequence[Takeaway]) -> Iterable[str]:
    for number, one in enumerate(found, 1):
        if one.verdict == NOT_MEASURED:
            lines = [f"{number}. **{one.claim}** **Not measured** in these runs."]
        else:
            lines = [f"{number}. **{one.claim}** It **{one.verdict}**: it {one.reach}."]
        lines += [f"    - {sentence}" for sentence in one.evidence]
        yield "\n".join([*lines, f"    - Rule: {one.rule}"])


def _running_text(compared: Sequence[Compared]) -> str:
    rows = [
        (
            shown_name(one.claim.dataset),
            one.claim.setting.removeprefix("running text: "),
            one.claim.told,
            one.emulated,
            one.ours,
            one.agrees,
        )
        for one in compared
        if one.kind.startswith("running text") and one.ours is not None
    ]
    return _blocks([_without_gaps(table("running-text", rows))]) if rows else ""


def _pivot(
    made: Table,
    heads: Sequence[str],
    across: Sequence[str],
    values: Sequence[str],
    title: str | None = None,
) -> Table:
    """A long table made wide: rows by ``heads``, columns by ``across``, means in a cell."""
    at = {name: place for place, name in enumerate(made.columns)}
    rows: dict[tuple[str, ...], dict[str, str]] = {}
    for row in made.rows:
        key = tuple(_said(name, row[at[name]]) for name in heads)
        column = ", ".join(filter(None, (_said(name, row[at[name]]) for name in across)))
        scores: list[Any] = [row[at[name]] for name in values]
        rows.setdefault(key, {})[column] = layouts.beside(*map(layouts.number, scores))
    columns = list(dict.fromkeys(column for row in rows.values() for column in row))
    wide = tuple((*key, *(row.get(c, "") for c in columns)) for key, row in rows.items())
    titled = title or made.title
    return Table(title=titled, columns=(*heads, *columns), rows=wide, notes=made.notes)


def _said(name: str, cell: Any) -> str:
    """A cell as a reader wants it at the head of a row or column."""
    match name, cell:
        case _, None:
            return ""
        case "dataset", _:
            return shown_name(cell)
        case "optimiser", _:
            return SHOWN_OPTIMIZERS[cell]
        case "parts", _:
            return "full graph" if cell == 1 else f"{cell} parts"
        case ("epsilon", _) | ("learning rate", _):
            return f"{name.removeprefix('learning ').replace('epsilon', 'ε')} {cell:g}"
    return str(cell)


def _ablation(made: Table) -> Table:
    """Each switch alone and all together, with parts and optimisers side by side."""
    what, parts = (made.columns.index(name) for name in ("done soundly", "parts"))
    rows = [row for row in made.rows if "rate" not in str(row[what])]
    most: dict[object, str] = {}
    for row in rows:  # those that were not run are not among them
        together = most.get(row[parts], ""), str(row[what])
        most[row[parts]] = max(together, key=lambda words: words.count("+"))
    alone = [row for row in rows if "+" not in str(row[what])]
    every = [
        (*row[:what], "all together", *row[what + 1 :])
        for row in rows
        if row[what] == most[row[parts]] and "+" in str(row[what])
    ]
    order = in_order({str(row[0]) for row in rows})
    kept = sorted([*alone, *every], key=lambda row: order.index(str(row[0])))
    short = made.model_copy(update={"rows": tuple(kept)})
    return _pivot(short, ("dataset", "done soundly"), ("parts", "optimiser"), ("score",))


def _stand_ins(results: Results) -> str:
    """What is not the paper's data: other texts for Pokec's, and generated graphs."""
    texts = layouts.stand_in_features(results, ("citeseer-text", "cora-text"))
    made = [n for n in ("pokec-like", "reddit-like") if results.majority(n) is not None]
    return _blocks([texts, table("stand-ins", (_stand_in(results, name) for name in made))])


def _stand_in(results: Results, name: str) -> tuple[Any, ...]:
    def best(recipe: str) -> MeanStd | None:
        point: dict[str, Any] = {"dataset": name, "recipe": recipe}
        point |= {} if recipe == "plain" else {"epsilon": 2}
        return best_of(results.train(optimizer=o, **point) for o in OPTIMIZERS)

    auto = results.train(dataset=name, recipe="auto", epsilon=2)
    scores = (best("plain"), best("paper-full"), best("paper-split"), auto)
    return (shown_name(name), results.majority(name), *scores)


def _every_table(done: Reproduction, command: str, page: str) -> str:
    """Every table of every experiment, with its notes."""
    blocks = [
        "# Reproduction of the paper: every table",
        f"<!-- Written by `{command}`. Do not edit: run the command again. -->",
        f"The tables behind [the page on the reproduction]({page}), one part per experiment.",
        "{contents}",
    ]
    for shown in done.shown:
        blocks += [f"## {shown.title}", f"`privgcn reproduce {shown.name}`"]
        blocks += [
            _without_gaps(one).markdown() for one in shown.presentation.tables if one.rows
        ]
    text = "\n\n".join(block.rstrip() for block in blocks) + "\n"
    return text.replace("{contents}", _contents(text), 1)
