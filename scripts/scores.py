"""Scores of recipe ``auto`` at several budgets, as the table in the README.

    PRIVGCN_DATA=... python scripts/scores.py [--seeds 10] [--write]

Each cell is the mean over seeds of the test micro F1, with its sample standard deviation.
With ``--write`` the tables go into docs/results.md and the short one into the README.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from measuring import ROOT, arguments, measure

from privgcn.config import MODES
from privgcn.experiments.grid import Grid
from privgcn.experiments.paper.published import OPTIMIZERS, leaves
from privgcn.experiments.results import Results, best_of, cells, mean_of
from privgcn.report import MeanStd, Table

Point = dict[str, Any]
ROWS: dict[str, Point] = {
    "Cora": {"dataset": "cora"},
    "CiteSeer": {"dataset": "citeseer"},
    "PubMed": {"dataset": "pubmed"},
    "Cora, raw text, MiniLM": {"dataset": "cora-text", "features": "minilm"},
    "Cora, raw text, hashing": {"dataset": "cora-text", "features": "hashing"},
    "CiteSeer, raw text, MiniLM": {"dataset": "citeseer-text", "features": "minilm"},
    "CiteSeer, raw text, hashing": {"dataset": "citeseer-text", "features": "hashing"},
}
BEST = "best non-private"
REPLACE = {"privacy.relation": "replace"}
EPSILONS = (0.5, 1.0, 2.0, 4.0, 8.0)
SHORT_EPSILONS = (1.0, 2.0)
# Node-level private results on 75/10/15 splits, published elsewhere (DP-MLP).
ELSEWHERE: dict[str, tuple[float, dict[float, float]]] = {
    "cora": (1e-4, {1.0: 0.317, 2.0: 0.348, 4.0: 0.466, 8.0: 0.581}),
    "pubmed": (1e-5, {1.0: 0.708, 2.0: 0.788, 4.0: 0.822, 8.0: 0.839}),
}


def auto(epsilon: float, changes: Mapping[str, Any] | None = None) -> Point:
    return {"recipe": "auto", "epsilon": epsilon, **({"changes": changes} if changes else {})}


def elsewhere() -> Iterator[tuple[str, str, float, float, Point]]:
    """Dataset, delta, epsilon, published score and run."""
    for name, (delta, theirs) in ELSEWHERE.items():
        for epsilon, score in theirs.items():
            run = auto(epsilon, {"privacy.delta": delta})
            point = {"dataset": name, "split": [0.75, 0.10], **run}
            yield name, f"{delta:g}", epsilon, score, point


def grids(rows: Sequence[str], splits: bool) -> list[Grid]:
    points = [*map(auto, EPSILONS), *(auto(e, REPLACE) for e in SHORT_EPSILONS)]
    made = Grid.of(*({**ROWS[title], **point} for title in rows for point in points))
    made += Grid.of(*(ROWS[title] for title in rows), kind="references")
    return made + Grid.of(*(row[-1] for row in elsewhere() if splits))


def best(results: Results, title: str, mode: str) -> MeanStd | None:
    """The best score without privacy: of GCN, propagated regression, mlp and regression."""
    return results.score("references", ROWS[title], mode)


def short_table(results: Results, rows: Sequence[str]) -> Table:
    """The table of the README: means alone, to two decimals."""
    shown = ("full-graph", "own-graph", "alone")
    shown_rows = []
    for title in rows:
        row = ROWS[title]
        means = [
            mean_of(results.train(mode, **row, **auto(epsilon)))
            for epsilon in SHORT_EPSILONS
            for mode in shown
        ]
        plain = mean_of(best(results, title, "full-graph"))
        published = best_of(
            leaves().get(f"table1.{row['dataset']}.dp_split_eps1.{optimizer}")
            for optimizer in OPTIMIZERS
        )
        shown_rows.append((title, *means, plain, published))
    heads = [f"ε {epsilon:g}: {mode}" for epsilon in SHORT_EPSILONS for mode in shown]
    last = (BEST, "published at ε 1 (no valid guarantee)")
    title = "Test micro F1"
    return Table(
        title=title, columns=("corpus", *heads, *last), rows=tuple(shown_rows), decimals=2
    )


def tables(results: Results, rows: Sequence[str], splits: bool) -> dict[str, Table]:
    """The tables of docs/results.md by heading."""

    def score(point: Mapping[str, Any]) -> Any:
        return results.train(**point)

    columns = {f"epsilon {e:g}": auto(e) for e in EPSILONS}
    by_budget = tuple(
        (*row, best(results, *row[:2]))
        for row in cells(
            score,
            [
                ((title, mode), {**ROWS[title], "mode": mode})
                for title in rows
                for mode in MODES
            ],
            columns.values(),
        )
    )
    relations = {
        f"{mode}, {relation}": {"mode": mode, **({"changes": change} if change else {})}
        for mode in ("own-graph", "full-graph")
        for relation, change in (("remove", None), ("replace", REPLACE))
    }
    replaced = cells(
        score,
        [
            ((title, epsilon), {**ROWS[title], **auto(epsilon)})
            for title in rows
            for epsilon in SHORT_EPSILONS
        ],
        relations.values(),
    )
    found = {
        "By budget, relation remove": Table(
            title="Test micro F1",
            columns=("corpus", "prediction sees", *columns, BEST),
            rows=by_budget,
        ),
        "Relation replace beside remove": Table(
            title="Test micro F1",
            columns=("corpus", "epsilon", *relations),
            rows=replaced,
            decimals={"epsilon": 0},
        ),
    }
    if splits:
        others = cells(
            score,
            [(tuple(labels), point) for *labels, point in elsewhere()],
            [{"mode": mode} for mode in MODES],
        )
        found["Random splits of 75/10/15, beside DP-MLP as published elsewhere"] = Table(
            title="Test micro F1",
            columns=("corpus", "delta", "epsilon", "DP-MLP, published", *MODES),
            rows=others,
            decimals={"epsilon": 0},
        )
    return found


def page(results: Results, rows: Sequence[str], splits: bool) -> str:
    blocks = [
        "Made by `python scripts/scores.py --write`. Test micro F1, mean and sample standard "
        f"deviation over {len(results.seeds)} seeds, delta 1e-5, unit document. Only `alone` "
        "and `own-graph` are covered by the guarantee. The best non-private score is that of "
        "GCN, propagated regression, mlp or logistic regression, in the same mode, whichever "
        "does best on the validation documents.",
    ]
    for heading, table in tables(results, rows, splits).items():
        blocks += [f"## {heading}", table.markdown()]
    return "\n\n".join(block.rstrip() for block in blocks)


def write_between(path: Path, text: str) -> None:
    """Replaces what stands between the marks of a page."""
    begin, end = "<!-- scores -->", "<!-- /scores -->"
    before, rest = path.read_text().split(begin)
    _, after = rest.split(end)
    path.write_text(f"{before}{begin}\n{text.strip()}\n{end}{after}")


def main() -> None:
    parser = arguments(__doc__, seeds=10)
    parser.add_argument("--write", action="store_true")
    parser.add_argument("--rows", nargs="*", default=list(ROWS), choices=list(ROWS))
    parser.add_argument("--no-splits", action="store_true", help="leave 75/10/15 out")
    chosen = parser.parse_args()
    splits = not chosen.no_splits
    results = measure(grids(chosen.rows, splits), chosen)
    text = page(results, chosen.rows, splits)
    print(text)
    if chosen.write:
        write_between(ROOT / "docs" / "results.md", text)
        _, _, body = short_table(results, chosen.rows).markdown().partition("\n\n")
        write_between(ROOT / "README.md", body)


if __name__ == "__main__":
    main()
