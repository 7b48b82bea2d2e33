"""Scores of recipe ``auto`` at several budgets, as the table in the README.

    PRIVGCN_DATA=... python scripts/scores.py [--seeds 10] [--write]

Each cell is the mean over seeds of the test micro F1, with its sample standard deviation. With
``--write`` the tables go into docs/results.md and the short one into the README. Runs that were
made are stored below ``results`` and not made again.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from privgcn.config import MODES
from privgcn.report.tables import MeanStd, Table
from privgcn_paper.claims import OPTIMIZERS, published
from privgcn_paper.experiments import Point
from privgcn_paper.results import Runs, read_records
from privgcn_paper.runner import corpus_of, run_all, settings_of

ROOT = Path(__file__).resolve().parents[1]
ROWS: dict[str, Point] = {
    "Cora": {"dataset": "cora"},
    "CiteSeer": {"dataset": "citeseer"},
    "PubMed": {"dataset": "pubmed"},
    "Cora, raw text, MiniLM": {"dataset": "cora-text", "features": "minilm"},
    "Cora, raw text, hashing": {"dataset": "cora-text", "features": "hashing"},
    "CiteSeer, raw text, MiniLM": {"dataset": "citeseer-text", "features": "minilm"},
    "CiteSeer, raw text, hashing": {"dataset": "citeseer-text", "features": "hashing"},
    "clinic, unit person, MiniLM": {"dataset": "clinic", "features": "minilm"},
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


def elsewhere() -> Iterator[tuple[str, str, float, float, Point]]:
    """Dataset, delta, epsilon, published score and run."""
    for name, (delta, theirs) in ELSEWHERE.items():
        for epsilon, score in theirs.items():
            point = {
                "dataset": name,
                "recipe": "auto",
                "epsilon": epsilon,
                "split": [0.75, 0.10],
            }
            yield (
                name,
                f"{delta:g}",
                epsilon,
                score,
                {**point, "changes": {"privacy.delta": delta}},
            )


def points(rows: Sequence[str], epsilons: Sequence[float], *, more: bool) -> list[Point]:
    made = [auto(title, epsilon) for title in rows for epsilon in epsilons]
    if more:
        made += [auto(title, epsilon, REPLACE) for title in rows for epsilon in SHORT_EPSILONS]
        made += [row[-1] for row in elsewhere()]
    return made


def best_without_privacy(title: str) -> dict[str, float]:
    """The score of the reference that does best on validation documents, by mode; seed 0."""
    from privgcn.runs.train import score_table, train_run

    point = {**ROWS[title], "recipe": "plain", "optimizer": "adam"}
    table = score_table(train_run(corpus_of(point), settings_of(point, 0)))["references"]
    return {mode: one["scores"][one["best"]]["micro_f1"] for mode, one in table.items()}


def tables(
    runs: Runs,
    rows: Sequence[str],
    epsilons: Sequence[float],
    best: Mapping[str, Mapping[str, float]],
    *,
    more: bool,
) -> dict[str, Table]:
    """The tables of docs/results.md by heading."""

    def score(mode: str, point: Point) -> MeanStd | None:
        return runs.score(f"micro {mode}", **point)

    by_budget = [
        (
            title,
            mode,
            *(score(mode, auto(title, e)) for e in epsilons),
            best.get(title, {}).get(mode),
        )
        for title in rows
        for mode in MODES
    ]
    heads = ("corpus", "prediction sees", *(f"epsilon {e:g}" for e in epsilons), BEST)
    made = {"By budget, relation remove": Table("Test micro F1", heads, by_budget)}
    if more:
        relations: tuple[tuple[str, Mapping[str, Any] | None], ...] = (
            ("remove", None),
            ("replace", REPLACE),
        )
        replaced = [
            (
                title,
                f"{e:g}",
                *(
                    score(mode, auto(title, e, changes))
                    for mode in ("own-graph", "full-graph")
                    for _, changes in relations
                ),
            )
            for title in rows
            for e in SHORT_EPSILONS
        ]
        names = [
            f"{mode}, {name}" for mode in ("own-graph", "full-graph") for name, _ in relations
        ]
        made["Relation replace beside remove"] = Table(
            "Test micro F1", ("corpus", "epsilon", *names), replaced
        )
        others = [
            (*labels[:2], f"{labels[2]:g}", labels[3], *(score(mode, point) for mode in MODES))
            for *labels, point in elsewhere()
        ]
        heads = ("corpus", "delta", "epsilon", "DP-MLP, published", *MODES)
        made["Random splits of 75/10/15, beside DP-MLP as published elsewhere"] = Table(
            "Test micro F1", heads, others
        )
    return made


def short_table(
    runs: Runs, rows: Sequence[str], best: Mapping[str, Mapping[str, float]]
) -> Table:
    """The table of the README: means alone, to two decimals; covered modes first."""
    shown = ("alone", "own-graph", "full-graph")
    made = []
    for title in rows:
        means = [
            _two(runs.score(f"micro {mode}", **auto(title, e)))
            for e in SHORT_EPSILONS
            for mode in shown
        ]
        told = published()["table1"].get(ROWS[title]["dataset"], {}).get("dp_split_eps1", {})
        known = [told[name] for name in OPTIMIZERS if name in told]
        plain = best.get(title, {}).get("own-graph")
        last = (_two(plain), f"{max(known):.2f}" if known else "-")
        made.append((title, *means, *last))
    heads = [f"ε {e:g}: {mode}" for e in SHORT_EPSILONS for mode in shown]
    last_heads = (f"{BEST}, own-graph", "published at ε 1 (no valid guarantee)")
    return Table("Test micro F1", ("corpus", *heads, *last_heads), made)


def _two(score: MeanStd | float | None) -> str:
    if score is None:
        return "-"
    return f"{score.mean if isinstance(score, MeanStd) else score:.2f}"


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
    parser.add_argument("--rows", nargs="*", default=list(ROWS), choices=list(ROWS))
    parser.add_argument("--epsilons", nargs="*", type=float, default=list(EPSILONS))
    parser.add_argument("--short", action="store_true", help="only the table by budget")
    parser.add_argument("--no-best", action="store_true", help="no non-private references")
    parser.add_argument("--write", action="store_true")
    asked = parser.parse_args()
    wanted = points(asked.rows, asked.epsilons, more=not asked.short)

    def report(done: int, total: int) -> None:
        print(f"\r{done} of {total}", end="", file=sys.stderr)

    summary = run_all(
        wanted, asked.seeds, asked.records, workers=asked.workers, progress=report
    )
    for task, why in summary.failures:
        print(f"Failed: {task.label}, seed {task.seed}: {why}", file=sys.stderr)
    runs = Runs.of_records(read_records(asked.records).values())
    best = {} if asked.no_best else {title: best_without_privacy(title) for title in asked.rows}
    blocks = [
        "Made by `python scripts/scores.py --write`. Test micro F1, mean and sample standard "
        f"deviation over {asked.seeds} seeds, delta 1e-5, unit document (`clinic`: person). "
        "Only `alone` and `own-graph` are covered by the guarantee. The best "
        "non-private score is that of GCN, propagated regression or logistic regression, in "
        "the same mode, whichever does best on the validation documents."
    ]
    for heading, table in tables(
        runs, asked.rows, asked.epsilons, best, more=not asked.short
    ).items():
        blocks += [f"## {heading}", table.markdown()]
    text = "\n\n".join(block.rstrip() for block in blocks)
    print(text)
    if asked.write:
        write_between(ROOT / "docs" / "results.md", text)
        _, _, body = short_table(runs, asked.rows, best).markdown().partition("\n\n")
        write_between(ROOT / "README.md", body)
    return 1 if summary.failures else 0


if __name__ == "__main__":
    sys.exit(main())
