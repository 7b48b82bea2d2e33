"""Scores and probabilities of recipe ``auto`` on many corpora, beside a private regression.

    python scripts/corpora.py FOLDER_OR_NAME... [--seeds 10] [--write]

A seed decides split, start and noise. The regression knows no edges and no class names:
full-batch DP-SGD with the exact account, whose steps, clip norm and learning rate are chosen on
the *test* documents, for free. The best non-private model is chosen on validation documents.
Rows are added to docs/figures/corpora.csv; those that are there are not made again. With
``--write`` the table goes into docs/results.md.
"""

from __future__ import annotations

import argparse
import csv
import itertools
import statistics
import sys
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import joblib  # type: ignore[import-untyped]
import numpy as np
from scipy.special import softmax

from privgcn.config import MODES, Settings, make_settings
from privgcn.data import TEST, TRAIN, load_corpus
from privgcn.evaluation import classification_scores
from privgcn.graph import DocumentGraph, scaled_rows
from privgcn.privacy.accounting import calibrate
from privgcn.report.tables import Table
from privgcn.runs.prepare import graph_of, prepare
from privgcn.runs.train import score_table, train

ROOT = Path(__file__).resolve().parents[1]
EPSILONS = (0.5, 1.0, 2.0, 4.0, 8.0)
FIRST = next(iter(MODES))
GIVEN = ("cora", "citeseer", "pubmed")
REGRESSION, BEST = "private regression", "best non-private"
REGRESSION_SEEDS, REFERENCE_SEEDS = 3, 1
TUNED = tuple(itertools.product((10, 30), (0.25, 1.0), (0.2, 0.4, 0.8, 1.6)))
SCORES = ("micro_f1", "macro_f1", "log_loss", "calibration_error", "confidence")
COLUMNS = ("corpus", "epsilon", "seed", "mode", *SCORES)


def settings_of(source: str, person: bool, epsilon: float | None, seed: int) -> Settings:
    changes: dict[str, Any] = {"data.source": source}
    if Path(source).name not in GIVEN:
        changes["features.kind"] = "both"
    if person:
        changes["privacy.unit"] = "person"
    recipe = "plain" if epsilon is None else "auto"
    if epsilon is None:
        changes.pop("privacy.unit", None)
    return make_settings(recipe, epsilon=epsilon, seed=seed, changes=changes)


@cache
def encoded(source: str) -> tuple[DocumentGraph, Any]:
    settings = settings_of(source, False, 1.0, 0)
    prepared = prepare(load_corpus(source), settings)
    return graph_of(prepared.corpus, prepared.featurizer, settings), prepared.featurizer


def rows_of(
    source: str, person: bool, epsilon: float | None, seed: int
) -> list[dict[str, Any]]:
    """The scores of one training; without an epsilon, those of the best reference."""
    graph, featurizer = encoded(source)
    corpus = load_corpus(source, seed=seed)
    graph = replace(graph, split=corpus.split)
    settings = settings_of(source, person, epsilon, seed)
    run = train(prepare(corpus, settings, featurizer=featurizer), graph)
    if epsilon is None:
        references = score_table(run)["references"]
        tables = {f"{BEST} {m}": each["scores"][each["best"]] for m, each in references.items()}
    else:
        tables = {mode: run.score(mode) for mode in MODES}
    name = Path(source).name + (", person" if person else "")
    known = {"corpus": name, "epsilon": epsilon or "", "seed": seed}
    return [
        {**known, "mode": mode, **{key: one[key] for key in SCORES if key in one}}
        for mode, one in tables.items()
    ]


def regression_rows(source: str, person: bool, epsilon: float) -> list[dict[str, Any]]:
    """Scores of the best of the tuned regressions, by mean micro F1 on test documents."""
    made: dict[tuple[int, float, float], list[dict[str, Any]]] = {}
    for seed in range(REGRESSION_SEEDS):
        for tuned in TUNED:
            made.setdefault(tuned, []).append(regression(source, epsilon, seed, *tuned))
    best = max(made.values(), key=lambda each: sum(one["micro_f1"] for one in each))
    known = {"corpus": Path(source).name, "epsilon": epsilon, "mode": REGRESSION}
    return [
        {**known, "seed": seed, **{key: one[key] for key in SCORES if key in one}}
        for seed, one in enumerate(best)
    ]


def regression(
    source: str, epsilon: float, seed: int, steps: int, clip: float, scale: float
) -> dict[str, Any]:
    """Softmax regression by full-batch DP-SGD; the rate as in ``auto.recipe.learning_rate``."""
    corpus = load_corpus(source, seed=seed)
    rows: Any = scaled_rows(encoded(source)[0].features, "l2")
    known = np.flatnonzero((corpus.split == TRAIN) & (corpus.labels >= 0))
    test, classes = np.flatnonzero(corpus.split == TEST), len(corpus.classes)
    private, truth = rows[known], np.eye(classes, dtype=np.float32)[corpus.labels[known]]
    noise = calibrate(epsilon=epsilon, steps=steps, delta=1e-5).noise_multiplier
    rate = scale * len(known) / (noise * clip * steps**0.5)
    weight, random = np.zeros((rows.shape[1], classes)), np.random.default_rng(seed)
    for _ in range(steps):
        residual = softmax(private @ weight, axis=1) - truth
        # Rows have length one, so the norm of a gradient is that of its residual.
        lengths = np.linalg.norm(residual, axis=1, keepdims=True)
        residual *= np.minimum(1.0, clip / np.maximum(lengths, 1e-12))
        total = private.T @ residual + noise * clip * random.normal(size=weight.shape)
        weight -= rate / len(known) * total
    predicted = np.asarray(rows[test] @ weight).argmax(axis=1)
    return classification_scores(corpus.labels[test], predicted, corpus.classes)


def tables_of(rows: list[dict[str, str]]) -> list[Table]:
    """Micro F1 by corpus, means over the corpora, and where edges or privacy cost too much."""
    values: dict[tuple[str, str, str, str], list[float]] = {}
    for row, key in itertools.product(rows, SCORES):
        if row[key]:
            place = (row["corpus"], row["epsilon"], row["mode"], key)
            values.setdefault(place, []).append(float(row[key]))
    mean = {place: statistics.fmean(own) for place, own in values.items()}
    names, ways = list(dict.fromkeys(row["corpus"] for row in rows)), (*MODES, REGRESSION)
    epsilons = [str(epsilon) for epsilon in EPSILONS]

    def cell(corpus: str, epsilon: str, modes: Sequence[str]) -> str:
        scores = [mean.get((corpus, epsilon, mode, "micro_f1")) for mode in modes]
        return " / ".join("-" if score is None else f"{score:.2f}" for score in scores)

    best = [f"{BEST} {mode}" for mode in MODES]
    by_corpus = [
        (name, *(cell(name, epsilon, ways) for epsilon in epsilons), cell(name, "", best))
        for name in names
    ]
    averages: list[tuple[Any, ...]] = []
    for mode, key in itertools.product(MODES, SCORES):
        over = [statistics.fmean(mean[name, e, mode, key] for name in names) for e in epsilons]
        averages.append((key.replace("_", " "), mode, *over))
    falls: list[tuple[Any, ...]] = []
    for title, other, key, most in (
        ("micro F1 more than 0.005 below alone", "alone", "micro_f1", 0.005),
        ("log loss more than 0.03 above alone", "alone", "log_loss", 0.03),
        ("micro F1 more than 0.01 below the private regression", REGRESSION, "micro_f1", 0.01),
    ):
        sign = -1 if key == "log_loss" else 1
        apart = {
            (name, e): sign * (mean[name, e, other, key] - mean[name, e, "own-graph", key])
            for name, e in itertools.product(names, epsilons)
            if (name, e, other, key) in mean
        }
        over_most = sorted((-gap, *cell) for cell, gap in apart.items() if gap > most)
        words = "; ".join(f"{name} at {e} ({-gap:.3f})" for gap, name, e in over_most[:6])
        falls.append((title, f"{len(over_most)} of {len(apart)}", words))
    heads = [f"epsilon {epsilon:g}" for epsilon in EPSILONS]
    return [
        Table(
            f"Test micro F1: {' / '.join(ways)}",
            ("corpus", *heads, "best non-private"),
            by_corpus,
        ),
        Table("Means over the corpora", ("", "prediction sees", *heads), averages),
        Table("Where own-graph falls short", ("own-graph has", "cells", "most of all"), falls),
    ]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "sources", nargs="*", help="folders or names; NAME:person for that unit"
    )
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--csv", type=Path, default=ROOT / "docs" / "figures" / "corpora.csv")
    parser.add_argument("--write", action="store_true")
    chosen = parser.parse_args()
    old: list[dict[str, str]] = []
    if chosen.csv.exists():
        with chosen.csv.open(newline="") as file:
            old = list(csv.DictReader(file))
    done = {(row["corpus"], row["epsilon"], row["seed"], row["mode"]) for row in old}

    def tasks() -> Iterator[Any]:
        for each in chosen.sources:
            source, _, unit = each.partition(":")
            person = unit == "person"
            name = Path(source).name + (", person" if person else "")
            for seed, epsilon in itertools.product(range(chosen.seeds), EPSILONS):
                if (name, str(epsilon), str(seed), FIRST) not in done:
                    yield joblib.delayed(rows_of)(source, person, epsilon, seed)
            for seed in range(REFERENCE_SEEDS):
                if (name, "", str(seed), f"{BEST} {FIRST}") not in done:
                    yield joblib.delayed(rows_of)(source, person, None, seed)
            for epsilon in () if person else EPSILONS:
                if (name, str(epsilon), "0", REGRESSION) not in done:
                    yield joblib.delayed(regression_rows)(source, person, epsilon)

    parallel = joblib.Parallel(chosen.workers, return_as="generator")
    fresh = not chosen.csv.exists()
    with chosen.csv.open("a", newline="") as file:
        writer = csv.DictWriter(file, COLUMNS, lineterminator="\n")
        if fresh:
            writer.writeheader()
        for number, made in enumerate(parallel(tasks()), start=1):
            rounded = [
                {
                    k: f"{v:.6f}" if isinstance(v, float) and k in SCORES else v
                    for k, v in row.items()
                }
                for row in made
            ]
            writer.writerows(rounded)
            file.flush()
            print(f"\r{number} trainings", end="", file=sys.stderr)
    with chosen.csv.open(newline="") as file:
        text = "\n".join(table.markdown() for table in tables_of(list(csv.DictReader(file))))
    print(text)
    if chosen.write:
        page = ROOT / "docs" / "results.md"
        head, mark, rest = page.read_text("utf-8").partition("<!-- corpora -->\n")
        _, end, tail = rest.partition("<!-- /corpora -->")
        page.write_text(f"{head}{mark}{text}{end}{tail}", "utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
