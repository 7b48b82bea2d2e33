"""Scores of recipe ``auto`` at several budgets, as the table in the README.

    PRIVGCN_DATA=... python scripts/scores.py [--seeds 10] [--write]

Each cell is the mean over seeds of the test micro F1, with its sample standard deviation. With
``--write`` the tables go into docs/results.md and the short one into the README. Runs that were
made are stored below ``results`` and not made again.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from privgcn.config import MODES
from privgcn.report.tables import MeanStd, Table
from privgcn_paper.claims import published
from privgcn_paper.experiments import Point
from privgcn_paper.results import Runs, read_records
from privgcn_paper.runner import Task, corpus_of, run_all, settings_of

ROOT = Path(__file__).resolve().parents[1]
ROWS: dict[str, Point] = {
    "Cora": {"dataset": "cora"},
    "CiteSeer": {"dataset": "citeseer"},
    "PubMed": {"dataset": "pubmed"},
    "Cora, raw text": {"dataset": "cora-text", "features": "both"},
    "Cora, raw text, MiniLM": {"dataset": "cora-text", "features": "minilm"},
    "CiteSeer, raw text": {"dataset": "citeseer-text", "features": "both"},
    "CiteSeer, raw text, MiniLM": {"dataset": "citeseer-text", "features": "minilm"},
    "clinic, unit person": {"dataset": "clinic", "features": "both"},
}
BEST = "best non-private"
PERSON = {"privacy.unit": "person"}
REPLACE = {"privacy.relation": "replace"}
EPSILONS = (0.5, 1.0, 2.0, 4.0, 8.0)
SHORT_EPSILONS = (1.0, 2.0)
# Node-level private results on 75/10/15 splits, published elsewhere (DP-MLP).
ELSEWHERE: dict[str, tuple[float, dict[float, float]]] = {
    "cora": (1e-4, {1.0: 0.317, 2.0: 0.348, 4.0: 0.466, 8.0: 0.581}),
    "pubmed": (1e-5, {1.0: 0.708, 2.0: 0.788, 4.0: 0.822, 8.0: 0.839}),
}


def auto(title: str, epsilon: float, changes: Mapping[str, Any] | None = None) -> Point:
    row = ROWS[title]
    changes = {**(PERSON if row["dataset"] == "clinic" else {}), **(changes or {})}
    return {
        **row,
        "recipe": "auto",
        "epsilon": epsilon,
        **({"changes": changes} if changes else {}),
    }


def elsewhere(dataset: str, delta: float, epsilon: float) -> Point:
    """The run beside a score that was published elsewhere."""
    point = {"dataset": dataset, "recipe": "auto", "epsilon": epsilon, "split": [0.75, 0.10]}
    return {**point, "changes": {"privacy.delta": delta}}


def points() -> list[Point]:
    return [
        *(auto(title, epsilon) for title in ROWS for epsilon in EPSILONS),
        *(auto(title, epsilon, REPLACE) for title in ROWS for epsilon in SHORT_EPSILONS),
        *(
            elsewhere(name, delta, epsilon)
            for name, (delta, theirs) in ELSEWHERE.items()
            for epsilon in theirs
        ),
    ]


def best_without_privacy(title: str) -> dict[str, float]:
    """The score of the reference that does best on validation documents, by mode; seed 0."""
    from privgcn.runs.prepare import prepare
    from privgcn.runs.train import score_table, train

    point = {**ROWS[title], "recipe": "plain", "optimizer": "adam"}
    run = train(prepare(corpus_of(point), settings_of(point, 0)))
    table = score_table(run)["references"]
    return {mode: one["scores"][one["best"]]["micro_f1"] for mode, one in table.items()}


def tables(runs: Runs, best: Mapping[str, Mapping[str, float]]) -> dict[str, Table]:
    """The tables of docs/results.md by heading."""

    def scores(mode: str, *points: Point) -> list[MeanStd | None]:
        return [runs.score(f"micro {mode}", **point) for point in points]

    by_budget = [
        (title, mode, *scores(mode, *(auto(title, e) for e in EPSILONS)), best[title][mode])
        for title in ROWS
        for mode in MODES
    ]
    covered, relations = ("own-graph", "full-graph"), (None, REPLACE)
    replaced = [
        (
            *(title, f"{e:g}"),
            *(one for mode in covered for one in scores(mode, *pair)),
        )
        for title in ROWS
        for e in SHORT_EPSILONS
        for pair in [[auto(title, e, changes) for changes in relations]]
    ]
    others = [
        (
            *(name, f"{delta:g}", f"{e:g}", theirs),
            *(scores(mode, elsewhere(name, delta, e))[0] for mode in MODES),
        )
        for name, (delta, known) in ELSEWHERE.items()
        for e, theirs in known.items()
    ]
    budgets = (f"epsilon {e:g}" for e in EPSILONS)
    pairs = (f"{mode}, {name}" for mode in covered for name in ("remove", "replace"))
    title = "Test micro F1"
    return {
        "By budget, relation remove": Table(
            title, ("corpus", "prediction sees", *budgets, BEST), by_budget
        ),
        "Relation replace beside remove": Table(title, ("corpus", "epsilon", *pairs), replaced),
        "Random splits of 75/10/15, beside DP-MLP as published elsewhere": Table(
            title, ("corpus", "delta", "epsilon", "DP-MLP, published", *MODES), others
        ),
    }


def short_table(runs: Runs, best: Mapping[str, Mapping[str, float]]) -> Table:
    """The table of the README: means alone, to two decimals; covered modes first."""
    made = []
    for title in ROWS:
        scores = [
            runs.score(f"micro {mode}", **auto(title, e))
            for e in SHORT_EPSILONS
            for mode in MODES
        ]
        theirs = published()["table1"].get(ROWS[title]["dataset"], {}).get("dp_split_eps1", {})
        numbers = [
            *(score and score.mean for score in scores),
            best[title]["own-graph"],
            max(theirs.values(), default=None),
        ]
        made.append((title, *("-" if n is None else f"{n:.2f}" for n in numbers)))
    heads = [f"ε {e:g}: {mode}" for e in SHORT_EPSILONS for mode in MODES]
    last_heads = (f"{BEST}, own-graph", "published at ε 1 (no valid guarantee)")
    return Table("Test micro F1", ("corpus", *heads, *last_heads), made)


def write_between(path: Path, text: str) -> None:
    """Replaces what stands between the marks of a page."""
    begin, end = "<!-- scores -->", "<!-- /scores -->"
    before, rest = path.read_text().split(begin)
    _, after = rest.split(end)
    path.write_text(f"{before}{begin}\n{text.strip()}\n{end}{after}")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--workers", type=int, default=None, help="default: one per core")
    parser.add_argument("--records", type=Path, default=ROOT / "results" / "scores")
    parser.add_argument("--write", action="store_true")
    chosen = parser.parse_args()

    def report(done: int, total: int) -> None:
        print(f"\r{done} of {total}", end="", file=sys.stderr)

    tasks = [Task(point, seed) for point in points() for seed in range(chosen.seeds)]
    summary = run_all(tasks, chosen.records, workers=chosen.workers, progress=report)
    for task, why in summary.failures:
        print(f"Failed: {task.label}, seed {task.seed}: {why}", file=sys.stderr)
    runs = Runs.of_records(read_records(chosen.records).values())
    best = {title: best_without_privacy(title) for title in ROWS}
    blocks = [
        "Made by `python scripts/scores.py --write`. Test micro F1, mean and sample standard "
        f"deviation over {chosen.seeds} seeds, delta 1e-5, unit document (`clinic`: person). "
        "Only `alone` and `own-graph` are covered by the guarantee. The best "
        "non-private score is that of GCN, propagated regression or logistic regression, in "
        "the same mode, whichever does best on the validation documents."
    ]
    for heading, table in tables(runs, best).items():
        blocks += [f"## {heading}", table.markdown()]
    text = "\n\n".join(block.rstrip() for block in blocks)
    print(text)
    if chosen.write:
        write_between(ROOT / "docs" / "results.md", text)
        _, _, body = short_table(runs, best).markdown().partition("\n\n")
        write_between(ROOT / "README.md", body)
    return 1 if summary.failures else 0


if __name__ == "__main__":
    sys.exit(main())
