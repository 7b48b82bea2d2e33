"""The paper's five take-aways, judged from measured numbers.

Every verdict is computed: a rule over the means of the runs at hand, the same for whatever
they turn out to be. Only real datasets count; without the runs a verdict is "not measured".
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from privgcn.data.catalogue import DATASETS
from privgcn.experiments.paper import curves, feature_kinds, released_code
from privgcn.experiments.paper.comparison import EPSILONS
from privgcn.experiments.paper.mapping import claims_of, ours, released
from privgcn.experiments.paper.published import OPTIMIZERS, read_table
from privgcn.experiments.paper.tables import SHOWN_OPTIMIZERS, shown_name
from privgcn.experiments.results import (
    COVERED_MODE,
    PAPER_MODE,
    Results,
    best_of,
    is_synthetic,
    mean_of,
)
from privgcn.report.results import NOT_MEASURED, Takeaway

MARGIN = 0.03
"""Differences of means below this count as none: it is about what seeds differ by."""

SURVIVES, FAILS, PARTLY = "survives", "does not survive", "survives in part"

FRAGILE = 0.01
"""A verdict on a dataset that hangs on less than this is called fragile."""

_BASE = "the majority class alone"


@dataclass(frozen=True)
class Judged:
    """What a dataset says of a claim.

    Attributes:
        where: The dataset, and what else tells it from the others.
        lead: How far the numbers are on the claim's side of its rule; negative where it does
            not hold, ``None`` where a number is missing.
        evidence: The numbers in words.
    """

    where: str
    lead: float | None
    evidence: str


def takeaways(results: Results, datasets: Sequence[str]) -> list[Takeaway]:
    """All five, for the real datasets of the catalogue among some."""
    known = [name for name in datasets if name in DATASETS and name != "mnist"]
    real = [name for name in known if not is_synthetic(name)]
    judges = {
        "noise": _robust_to_noise,
        "adam": _adam_beats_sgd,
        "data": _more_data,
        "splitting": _splitting,
    }
    made = []
    for name, words in read_table("takeaways.toml").items():
        if name == "features":
            found, each, more = _richer_features(results)
        else:
            each = [one for dataset in real if (one := judges[name](results, dataset))]
            found, more = verdict([one.lead for one in each if one.lead is not None]), []
        evidence = (*(one.evidence for one in each), *more)
        rule = words["rule"].format(margin=MARGIN)
        leads = {one.where: one.lead for one in each if one.lead is not None}
        among = words.get("among", "datasets")
        made.append(Takeaway(words["claim"], found, evidence, rule, reach(leads, among), leads))
    return made


def verdict(leads: Sequence[float]) -> str:
    """All, none or some datasets agree with a claim."""
    if not leads:
        return NOT_MEASURED
    if min(leads) > 0:
        return SURVIVES
    return PARTLY if max(leads) > 0 else FAILS


def reach(leads: Mapping[str, float], among: str = "datasets") -> str:
    """On how many datasets a claim holds, in words."""
    if not leads:
        return ""
    holds = [where for where, lead in leads.items() if lead > 0]
    if len(leads) == 1:
        (alone,) = leads
        return f"{'holds' if holds else 'does not hold'} on {alone}, the only one that was run"
    count = "all" if len(holds) == len(leads) else in_words(len(holds))
    named = f" ({', '.join(holds)})" if 0 < len(holds) < len(leads) else ""
    return f"holds on {count} of the {in_words(len(leads))} {among} that were run{named}"


def in_words(number: int) -> str:
    """A small number as a word."""
    words = ("none", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine")
    return words[number] if number < len(words) else str(number)


def fragile(leads: Mapping[str, float]) -> list[str]:
    """Where a verdict hangs on little."""
    return [where for where, lead in leads.items() if abs(lead) < FRAGILE]


def _mean(results: Results, **point: Any) -> float | None:
    return mean_of(results.train(**point))


def _ours(results: Results, leaf: str) -> float | None:
    """Our mean for a published number."""
    return mean_of(ours(results, claims_of(leaf)[0]))


def _judged(
    head: str,
    legs: Mapping[str, float | None],
    rule: Callable[..., float],
    parts: Iterable[str],
) -> Judged | None:
    """A dataset judged by a rule over its legs, the numbers that the claim is about.

    The rule says how far the legs are on the claim's side.

    A missing leg leaves it open; ``None`` where none but the majority is known. The ``parts``
    are the numbers in words.
    """
    if all(value is None for leg, value in legs.items() if leg != _BASE):
        return None
    missing = [leg for leg, value in legs.items() if value is None]
    told = [f"{NOT_MEASURED} here, so not judged: {', '.join(missing)}"] if missing else []
    lead = None if missing else rule(*legs.values())
    return Judged(head.partition(",")[0].rstrip(":"), lead, _sentence(head, parts, told, lead))


def _sentence(head: str, parts: Iterable[str], told: Iterable[str], lead: float | None) -> str:
    by = [] if lead is None else [f"{'holds' if lead > 0 else 'fails'} by {abs(lead):.3f}"]
    return f"{head} {'; '.join([*parts, *told, *by])}."


def _shown(legs: Mapping[str, float | None]) -> list[str]:
    return [f"{leg} {value:.3f}" for leg, value in legs.items() if value is not None]


def _robust_to_noise(results: Results, name: str) -> Judged | None:
    most: dict[str, Any] = {"recipe": "paper-full", "optimizer": "sgd", "epsilon": 137}
    legs = {
        "SGD-DP with clipping at epsilon 2": _ours(results, f"table1.{name}.dp_full_eps2.sgd"),
        "at epsilon 137": _mean(results, dataset=name, **most),
        "on ten parts at epsilon 1": _ours(results, f"table1.{name}.dp_split_eps1.sgd"),
        _BASE: results.majority(name),
    }

    def lead(two: float, most: float, one: float, base: float) -> float:
        return min(two - base - MARGIN, one - base - MARGIN, MARGIN - abs(most - two))

    parts = _shown(legs)
    quiet = [
        mean_of(released(results, dataset=name, optimizer="sgd", epsilon=epsilon))
        for epsilon in EPSILONS
    ]
    if None not in quiet:
        listed = ", ".join(f"{value:.3f}" for value in quiet)
        parts.append(f"as released, epsilon 2 to 137 gives {listed}")
    return _judged(f"{shown_name(name)}:", legs, lead, parts)


def _adam_beats_sgd(results: Results, name: str) -> Judged | None:
    point: dict[str, Any] = {"dataset": name, "recipe": "paper-full", "epsilon": 2}
    rates = {
        rate: _mean(
            results, optimizer="adam", changes={"training.learning_rate": rate}, **point
        )
        for rate in released_code.RATES
    }
    tuned = {rate: value for rate, value in rates.items() if value is not None}
    legs = {
        "SGD": _mean(results, optimizer="sgd", **point),
        "Adam": max(tuned.values(), default=None),
        _BASE: results.majority(name),
    }
    parts = _shown(legs)
    if len(tuned) == 1:
        parts.append(f"Adam was run at the one rate {next(iter(tuned)):g}")
    elif tuned:
        listed = ", ".join(f"{rate:g}" for rate in tuned)
        parts.append(f"Adam is the best of its rates {listed}")

    def lead(sgd: float, adam: float, base: float) -> float:
        return adam - max(sgd, base) - MARGIN

    return _judged(f"{shown_name(name)}: with clipping at epsilon 2,", legs, lead, parts)


def _more_data(results: Results, name: str) -> Judged | None:
    parts, gains = [], dict[str, float | None]()
    for label, method in curves.methods().items():
        few, every = (
            _mean(results, dataset=name, epsilon=2, fraction=share, **method)
            for share in (0.25, 1.0)
        )
        gains[label] = None if few is None or every is None else every - few
        if few is not None and every is not None:
            parts.append(f"{label} {few:.3f} with 25 % and {every:.3f} with all data")
    return _judged(
        f"{shown_name(name)}, epsilon 2:", gains, lambda *all_: MARGIN - max(all_), parts
    )


_SPLITS = {
    "full graph at epsilon 2": "dp_full_eps2",
    "ten parts at epsilon 2": "dp_split_eps2",
    "ten parts at epsilon 1": "dp_split_eps1",
}


def _splitting(results: Results, name: str) -> Judged | None:
    found = {
        optimizer: {
            label: _ours(results, f"table1.{name}.{row}.{optimizer}")
            for label, row in _SPLITS.items()
        }
        for optimizer in OPTIMIZERS
    }
    # An optimiser counts where all three were run, so that like is compared with like.
    whole = [o for o, values in found.items() if None not in values.values()]
    counted = whole or list(OPTIMIZERS)
    legs: dict[str, float | None] = {
        label: best_of(found[optimizer][label] for optimizer in counted) for label in _SPLITS
    }
    legs[_BASE] = results.majority(name)
    if not whole:
        legs["all three with one optimiser"] = None
    parts = _shown(legs)
    auto = _mean(results, dataset=name, recipe="auto", epsilon=1)
    if auto is not None:
        parts.append(f"every document its own part (auto), epsilon 1 {auto:.3f}")
    which = "better optimiser" if len(counted) > 1 else f"{SHOWN_OPTIMIZERS[counted[0]]} only"

    def lead(full: float, two: float, one: float, base: float) -> float:
        return min(two - full, one - base) - MARGIN

    return _judged(f"{shown_name(name)}, {which}:", legs, lead, parts)


def _richer_features(results: Results) -> tuple[str, list[Judged], list[str]]:
    """Verdict and evidence by inference mode, on the datasets that have raw text."""
    judged: dict[str, list[Judged]] = {COVERED_MODE: [], PAPER_MODE: []}
    more = []
    for name in ("pokec", "citeseer-text", "cora-text"):
        for mode in judged:
            kept = _kept_by_kind(results, name, mode)
            if len(kept) < 2:
                continue
            simple, rich = next(iter(kept)), list(kept)[-1]
            lead = kept[rich] - kept[simple] - MARGIN
            shares = ", ".join(f"{kind} {share:.0%}" for kind, share in kept.items())
            shown = shown_name(name)
            head = f"{shown}, {mode}: of its non-private score, auto keeps at epsilon 2:"
            sentence = _sentence(head, [shares], [], lead)
            judged[mode].append(Judged(f"{shown} {mode}", lead, sentence))
        more += _papers_own_method(results, name)
    each = [one for found in judged.values() for one in found]
    leads = {m: [o.lead for o in found if o.lead is not None] for m, found in judged.items()}
    by_mode = {mode: verdict(found) for mode, found in leads.items()}
    words = verdict([lead for found in leads.values() for lead in found])
    if len(set(by_mode.values())) > 1:
        apart = "; ".join(f"{mode}: {word}" for mode, word in by_mode.items())
        words = f"{words} ({apart})"
    return words, each, more


def _kept_by_kind(results: Results, name: str, mode: str) -> dict[str, float]:
    """What auto keeps of the better non-private score at epsilon 2, by kind of features."""
    kept: dict[str, float] = {}
    for kind in feature_kinds.kinds(name):
        point: dict[str, Any] = {"dataset": name, "features": kind, "mode": mode}
        plain = best_of(
            _mean(results, recipe="plain", optimizer=optimizer, **point)
            for optimizer in OPTIMIZERS
        )
        private = _mean(results, recipe="auto", epsilon=2, **point)
        if private is not None and plain:
            kept[kind] = private / plain
    return kept


def _papers_own_method(results: Results, name: str) -> list[str]:
    """Scores of the paper's method done soundly, by kind of features, where it was run."""
    point: dict[str, Any] = {"dataset": name, "recipe": "paper-full", "epsilon": 2}
    legs = {
        f"{kind} with {SHOWN_OPTIMIZERS[optimizer]}": _mean(
            results, features=kind, optimizer=optimizer, **point
        )
        for kind in feature_kinds.kinds(name)
        for optimizer in OPTIMIZERS
    }
    if not (parts := _shown(legs)):
        return []
    base = results.majority(name)
    alone = "" if base is None else f"; {_BASE} {base:.3f}"
    return [
        f"{shown_name(name)}, {PAPER_MODE}: the paper's own method with clipping at epsilon 2 "
        f"scores {', '.join(parts)}{alone}."
    ]
