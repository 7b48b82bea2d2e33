"""The headlines of the paper's abstract and conclusion, computed from records.

At epsilon 1, on ten parts, the paper keeps 87 % of the non-private score on Pokec and 90 % on
Reddit, and splitting improves its bound by a factor of 2.7: from epsilon 2 to epsilon 1, the
privacy loss is bounded by e instead of e squared.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import exp
from typing import Any

from privgcn.experiments.paper.mapping import emulated, kept_share, ours
from privgcn.experiments.paper.published import OPTIMIZERS, leaves
from privgcn.experiments.paper.tables import table
from privgcn.experiments.results import Options, Results, best_of, mean_of, split_by_origin
from privgcn.report import Table

EPSILON = 1
"""Of the headlines."""

WITHOUT_SPLITTING = 2
"""The least epsilon of the paper on the full graph."""

_KEPT = "headlines.kept_"


def present(results: Results, options: Options) -> list[Table]:
    """Printed, of the published table, as released, done soundly and auto.

    Stand-ins have a table of their own. Every printed share is shown, also where the data for
    ours are not here.
    """
    tables = []
    for suffix, datasets in split_by_origin(options.datasets):
        told = [] if suffix else [n.removeprefix(_KEPT) for n in leaves() if _KEPT in n]
        shown = dict.fromkeys((*datasets, *told))
        rows = [] if suffix else [_factor(results, datasets)]
        rows += [_shares(results, name) for name in shown]
        tables.append(table("headlines", rows, suffix, epsilon=EPSILON))
    return tables


def _factor(results: Results, datasets: Sequence[str]) -> tuple[Any, ...]:
    without = any(
        results.train(dataset=name, optimizer=optimizer, recipe="paper-full", epsilon=EPSILON)
        is not None
        for name in datasets
        for optimizer in OPTIMIZERS
    )
    told = leaves()["headlines.privacy_factor"]
    name = "factor that splitting wins in the bound on the privacy loss"
    printed = exp(WITHOUT_SPLITTING - EPSILON)
    return (name, "any", told, printed, None, 1.0 if without else None, None, None)


def _shares(results: Results, dataset: str) -> tuple[Any, ...]:
    plain = best_of(
        mean_of(results.train(dataset=dataset, recipe="plain", optimizer=optimizer))
        for optimizer in OPTIMIZERS
    )
    auto = mean_of(results.train(dataset=dataset, recipe="auto", epsilon=EPSILON))
    others = [
        None if score is None or not plain else score / plain
        for score in (auto, results.majority(dataset))
    ]
    return (
        f"share of the non-private score that is kept at epsilon {EPSILON}",
        dataset,
        leaves().get(f"{_KEPT}{dataset}"),
        kept_share(results, dataset, lambda _, claim: claim.told),
        kept_share(results, dataset, emulated),
        kept_share(results, dataset, ours),
        *others,
    )
