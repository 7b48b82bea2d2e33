"""The paper's five take-aways, judged from measured numbers.

Every verdict is computed: a rule over the means of the runs at hand, the same for whatever
they turn out to be. Only real datasets count; without the runs a verdict is "not measured".
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from privgcn.experiments import experiment_b, feature_kinds, released
from privgcn.experiments.results import (
    COVERED_MODE,
    PAPER_MODE,
    Results,
    is_synthetic,
    mean_of,
)

MARGIN = 0.03
"""Differences of means below this count as none: it is about what seeds differ by."""

SURVIVES, FAILS, PARTLY = "survives", "does not survive", "survives in part"
NOT_MEASURED = "not measured"


@dataclass(frozen=True)
class Takeaway:
    """One take-away of the paper and what became of it.

    Attributes:
        claim: In the paper's sense, in our words.
        verdict: Whether it survives sound clipping.
        evidence: The numbers behind the verdict, one sentence per dataset.
        rule: How the verdict follows from the numbers.
    """

    claim: str
    verdict: str
    evidence: tuple[str, ...]
    rule: str


def takeaways(results: Results, datasets: Sequence[str]) -> list[Takeaway]:
    """All five, for the real ones among some datasets."""
    real = [name for name in datasets if not is_synthetic(name) and name != "mnist"]
    judges: list[Callable[[Results, list[str]], Takeaway]] = [
        _robust_to_noise,
        _adam_beats_sgd,
        _richer_features,
        _more_data,
        _splitting,
    ]
    return [judge(results, real) for judge in judges]


def verdict(judged: Sequence[bool]) -> str:
    """All, none or some datasets agree with a claim."""
    if not judged:
        return NOT_MEASURED
    if all(judged):
        return SURVIVES
    return PARTLY if any(judged) else FAILS


def _mean(results: Results, **point: Any) -> float | None:
    return mean_of(results.train(**point))


def _majority(results: Results, name: str) -> float:
    for recipe in ({"recipe": "plain", "optimizer": "sgd"}, {"recipe": "auto", "epsilon": 2}):
        found = results.of("train", {"dataset": name, **recipe})
        if found:
            return float(found[0]["majority"])
    return 0.0


def _robust_to_noise(results: Results, names: list[str]) -> Takeaway:
    judged, evidence = [], []
    for name in names:
        sgd: dict[str, Any] = {"dataset": name, "optimizer": "sgd"}
        two = _mean(results, recipe="paper-full", epsilon=2, **sgd)
        most = _mean(results, recipe="paper-full", epsilon=137, **sgd)
        one = _mean(results, recipe="paper-split", epsilon=1, **sgd)
        if two is None:
            continue
        base = _majority(results, name)
        learned = two > base + MARGIN
        steady = most is None or abs(most - two) <= MARGIN
        judged.append(learned and steady and (one is None or one > base + MARGIN))
        parts = [f"{name}: SGD-DP with clipping scores {two:.3f} at epsilon 2"]
        if most is not None:
            parts.append(f"{most:.3f} at epsilon 137")
        if one is not None:
            parts.append(f"{one:.3f} on ten parts at epsilon 1")
        parts.append(f"the majority class alone gives {base:.3f}")
        quiet = [
            mean_of(results.released(dataset=name, optimizer="sgd", epsilon=epsilon))
            for epsilon in experiment_b.EPSILONS
        ]
        shown = [f"{value:.3f}" for value in quiet if value is not None]
        if len(shown) > 1:
            parts.append(f"as released, epsilon 2 to 137 gives {', '.join(shown)}")
        evidence.append("; ".join(parts) + ".")
    return Takeaway(
        "SGD-DP is fairly robust to noise, even at epsilon 1.",
        verdict(judged),
        tuple(evidence),
        "It survives on a dataset where SGD-DP with clipping beats the majority class at the "
        f"smallest epsilon by more than {MARGIN} and stays within {MARGIN} of epsilon 137.",
    )


def _adam_beats_sgd(results: Results, names: list[str]) -> Takeaway:
    judged, evidence = [], []
    for name in names:
        point: dict[str, Any] = {"dataset": name, "recipe": "paper-full", "epsilon": 2}
        sgd = _mean(results, optimizer="sgd", **point)
        adam = _mean(results, optimizer="adam", **point)
        if sgd is None or adam is None:
            continue
        tuned = {
            rate: _mean(
                results, optimizer="adam", changes={"training.learning_rate": rate}, **point
            )
            for rate in released.RATES
        }
        best = max([adam, *(value for value in tuned.values() if value is not None)])
        base = _majority(results, name)
        judged.append(best > sgd + MARGIN and best > base + MARGIN)
        text = f"{name}: with clipping, SGD {sgd:.3f} and Adam {adam:.3f} at epsilon 2"
        if sum(value is not None for value in tuned.values()) > 1:
            text += f", Adam at the best of the rates {released.RATES} {best:.3f}"
        evidence.append(f"{text}; the majority class alone gives {base:.3f}.")
    return Takeaway(
        "Adam-DP works even better than SGD-DP, with very high learning rates.",
        verdict(judged),
        tuple(evidence),
        "It survives on a dataset where Adam-DP with clipping, at its best rate, beats SGD-DP "
        f"and the majority class by more than {MARGIN}.",
    )


def _richer_features(results: Results, names: list[str]) -> Takeaway:
    del names  # raw texts have their own datasets
    judged, evidence = [], []
    for name in ("pokec", "cora-text", "citeseer-text"):
        for mode in (PAPER_MODE, COVERED_MODE):
            kept = _kept_by_kind(results, name, mode)
            if len(kept) < 2:
                continue
            if mode == PAPER_MODE:
                simple, rich = next(iter(kept)), list(kept)[-1]
                judged.append(kept[rich] > kept[simple] + MARGIN)
            shares = ", ".join(f"{kind} {share:.0%}" for kind, share in kept.items())
            evidence.append(
                f"{name}, {mode}: of its non-private score, auto keeps at epsilon 2: {shares}."
            )
    return Takeaway(
        "More complex representations lose less to privacy.",
        verdict(judged),
        tuple(evidence),
        "It survives on a dataset where, under auto at epsilon 2 in the paper's protocol "
        f"({PAPER_MODE}), the richest features keep a larger share of their non-private score "
        f"than bag of words, by more than {MARGIN}.",
    )


def _kept_by_kind(results: Results, name: str, mode: str) -> dict[str, float]:
    """What auto keeps of the better non-private score at epsilon 2, by kind of features."""
    kept: dict[str, float] = {}
    for kind in feature_kinds.kinds(name):
        point: dict[str, Any] = {"dataset": name, "features": kind}
        plain = [
            mean_of(results.train(mode, recipe="plain", optimizer=optimizer, **point))
            for optimizer in ("sgd", "adam")
        ]
        private = mean_of(results.train(mode, recipe="auto", epsilon=2, **point))
        best = max((value for value in plain if value is not None), default=None)
        if private is not None and best:
            kept[kind] = private / best
    return kept


def _more_data(results: Results, names: list[str]) -> Takeaway:
    judged, evidence = [], []
    for name in names:
        parts = []
        helped = False
        for label, method in experiment_b.methods():
            few, every = (
                _mean(results, dataset=name, epsilon=2, fraction=share, **method)
                for share in (0.25, 1.0)
            )
            if few is None or every is None:
                continue
            helped = helped or every > few + MARGIN
            parts.append(f"{label} {few:.3f} with 25 % and {every:.3f} with all data")
        if parts:
            judged.append(not helped)
            evidence.append(f"{name}, epsilon 2: {'; '.join(parts)}.")
    return Takeaway(
        "More training data does not necessarily mitigate what privacy costs.",
        verdict(judged),
        tuple(evidence),
        "It survives on a dataset where no sound method gains more than "
        f"{MARGIN} from four times the data at epsilon 2.",
    )


def _splitting(results: Results, names: list[str]) -> Takeaway:
    judged, evidence = [], []
    for name in names:
        best: dict[str, float] = {}
        for label, point in (
            ("full graph at epsilon 2", {"recipe": "paper-full", "epsilon": 2}),
            ("ten parts at epsilon 2", {"recipe": "paper-split", "epsilon": 2}),
            ("ten parts at epsilon 1", {"recipe": "paper-split", "epsilon": 1}),
        ):
            values = [
                _mean(results, dataset=name, optimizer=optimizer, **point)
                for optimizer in ("sgd", "adam")
            ]
            known = [value for value in values if value is not None]
            if known:
                best[label] = max(known)
        auto = _mean(results, dataset=name, recipe="auto", epsilon=1)
        if len(best) < 3:
            continue
        full, two, one = best.values()
        base = _majority(results, name)
        judged.append(two > full + MARGIN and one > base + MARGIN)
        text = "; ".join(f"{label} {value:.3f}" for label, value in best.items())
        own = (
            ""
            if auto is None
            else f"; every document its own part (auto), epsilon 1 {auto:.3f}"
        )
        evidence.append(f"{name}, better optimiser: {text}{own}; majority {base:.3f}.")
    return Takeaway(
        "Splitting the graph improves the scores and allows epsilon 1.",
        verdict(judged),
        tuple(evidence),
        "It survives on a dataset where ten induced parts beat the full graph at epsilon 2 and "
        f"the majority class at epsilon 1, both by more than {MARGIN}. The limit of splitting, "
        "every document its own part, is what auto does.",
    )
