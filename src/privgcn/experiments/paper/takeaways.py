"""The paper's five take-aways, judged from measured numbers.

Every verdict is computed: a rule over the means of the runs at hand, the same for whatever
they turn out to be. Only real datasets count; without the runs a verdict is "not measured".
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from privgcn.experiments.paper import experiment_b, feature_kinds, released_code
from privgcn.experiments.paper.published import OPTIMIZERS
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
        verdict: Whether it survives sound clipping, by inference mode where these differ.
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


def _unjudged(legs: Mapping[str, object]) -> str:
    """Says which legs of a rule were not measured on a dataset; empty where all were."""
    missing = [name for name, value in legs.items() if value is None]
    return f"{NOT_MEASURED} here, so not judged: {', '.join(missing)}" if missing else ""


def _robust_to_noise(results: Results, names: list[str]) -> Takeaway:
    judged, evidence = [], []
    for name in names:
        sgd: dict[str, Any] = {"dataset": name, "optimizer": "sgd"}
        two = _mean(results, recipe="paper-full", epsilon=2, **sgd)
        most = _mean(results, recipe="paper-full", epsilon=137, **sgd)
        one = _mean(results, recipe="paper-split", epsilon=1, **sgd)
        base = results.majority(name)
        legs = {
            "SGD-DP with clipping at epsilon 2": two,
            "at epsilon 137": most,
            "on ten parts at epsilon 1": one,
            "the majority class alone": base,
        }
        if two is None and most is None and one is None:
            continue
        if two is not None and most is not None and one is not None and base is not None:
            learned = min(two, one) > base + MARGIN
            judged.append(learned and abs(most - two) <= MARGIN)
        parts = [f"{leg} {value:.3f}" for leg, value in legs.items() if value is not None]
        quiet = [
            mean_of(results.released(dataset=name, optimizer="sgd", epsilon=epsilon))
            for epsilon in experiment_b.EPSILONS
        ]
        shown = [f"{value:.3f}" for value in quiet if value is not None]
        if len(shown) == len(quiet):
            parts.append(f"as released, epsilon 2 to 137 gives {', '.join(shown)}")
        evidence.append(_sentence(name, parts, _unjudged(legs)))
    return Takeaway(
        "SGD-DP is fairly robust to noise, even at epsilon 1.",
        verdict(judged),
        tuple(evidence),
        "It survives on a dataset where SGD-DP with clipping beats the majority class by more "
        f"than {MARGIN}, on the full graph at epsilon 2 and on ten parts at epsilon 1, and is "
        f"at epsilon 2 within {MARGIN} of epsilon 137.",
    )


def _sentence(name: str, parts: Sequence[str], unjudged: str) -> str:
    return f"{name}: " + "; ".join([*parts, *([unjudged] if unjudged else [])]) + "."


def _adam_beats_sgd(results: Results, names: list[str]) -> Takeaway:
    judged, evidence = [], []
    for name in names:
        point: dict[str, Any] = {"dataset": name, "recipe": "paper-full", "epsilon": 2}
        sgd = _mean(results, optimizer="sgd", **point)
        rates = {
            rate: _mean(
                results, optimizer="adam", changes={"training.learning_rate": rate}, **point
            )
            for rate in released_code.RATES
        }
        tuned = {rate: value for rate, value in rates.items() if value is not None}
        if sgd is None and not tuned:
            continue
        best = max(tuned.values(), default=None)
        base = results.majority(name)
        if sgd is not None and best is not None and base is not None:
            judged.append(best > max(sgd, base) + MARGIN)
        legs = {"SGD": sgd, "Adam": best, "the majority class alone": base}
        parts = [f"{leg} {value:.3f}" for leg, value in legs.items() if value is not None]
        if len(tuned) == 1:
            parts.append(f"Adam was run at the one rate {next(iter(tuned)):g}")
        elif tuned:
            listed = ", ".join(f"{rate:g}" for rate in tuned)
            parts.append(f"Adam is the best of its rates {listed}")
        parts[0] = f"with clipping at epsilon 2, {parts[0]}"
        evidence.append(_sentence(name, parts, _unjudged(legs)))
    return Takeaway(
        "Adam-DP works even better than SGD-DP, with very high learning rates.",
        verdict(judged),
        tuple(evidence),
        "It survives on a dataset where Adam-DP with clipping, at the best of the rates that "
        f"were run there, beats SGD-DP and the majority class by more than {MARGIN}.",
    )


def _richer_features(results: Results, names: list[str]) -> Takeaway:
    del names  # raw texts have their own datasets
    judged: dict[str, list[bool]] = {COVERED_MODE: [], PAPER_MODE: []}
    evidence = []
    for name in ("pokec", "cora-text", "citeseer-text"):
        for mode in judged:
            kept = _kept_by_kind(results, name, mode)
            if len(kept) < 2:
                continue
            simple, rich = next(iter(kept)), list(kept)[-1]
            judged[mode].append(kept[rich] > kept[simple] + MARGIN)
            shares = ", ".join(f"{kind} {share:.0%}" for kind, share in kept.items())
            evidence.append(
                f"{name}, {mode}: of its non-private score, auto keeps at epsilon 2: {shares}."
            )
        evidence += _papers_own_method(results, name)
    by_mode = {mode: verdict(found) for mode, found in judged.items()}
    words = verdict([one for found in judged.values() for one in found])
    if len(set(by_mode.values())) > 1:
        apart = "; ".join(f"{mode}: {word}" for mode, word in by_mode.items())
        words = f"{words} ({apart})"
    return Takeaway(
        "More complex representations lose less to privacy.",
        words,
        tuple(evidence),
        "It survives on a dataset and in an inference mode where, under auto at epsilon 2, the "
        "richest features keep a larger share of their non-private score than bag of words, by "
        f"more than {MARGIN}. {COVERED_MODE} is the mode that the guarantee covers, "
        f"{PAPER_MODE} the paper's protocol; both count. The paper's own method is shown and "
        "not judged: of a score near the majority class a share says nothing.",
    )


def _papers_own_method(results: Results, name: str) -> list[str]:
    """Scores of the paper's method done soundly, by kind of features, where it was run."""
    parts = []
    for kind in feature_kinds.kinds(name):
        point: dict[str, Any] = {"dataset": name, "features": kind, "recipe": "paper-full"}
        for optimizer in OPTIMIZERS:
            score = _mean(results, optimizer=optimizer, epsilon=2, **point)
            if score is not None:
                parts.append(f"{kind} with {optimizer.upper()} {score:.3f}")
    if not parts:
        return []
    base = results.majority(name)
    alone = "" if base is None else f"; the majority class alone {base:.3f}"
    listed = ", ".join(parts)
    return [
        f"{name}, {PAPER_MODE}: the paper's own method with clipping at epsilon 2 scores "
        f"{listed}{alone}."
    ]


def _kept_by_kind(results: Results, name: str, mode: str) -> dict[str, float]:
    """What auto keeps of the better non-private score at epsilon 2, by kind of features."""
    kept: dict[str, float] = {}
    for kind in feature_kinds.kinds(name):
        point: dict[str, Any] = {"dataset": name, "features": kind}
        plain = [
            mean_of(results.train(mode, recipe="plain", optimizer=optimizer, **point))
            for optimizer in OPTIMIZERS
        ]
        private = mean_of(results.train(mode, recipe="auto", epsilon=2, **point))
        best = max((value for value in plain if value is not None), default=None)
        if private is not None and best:
            kept[kind] = private / best
    return kept


def _more_data(results: Results, names: list[str]) -> Takeaway:
    judged, evidence = [], []
    for name in names:
        parts, legs = [], dict[str, float | None]()
        for label, method in experiment_b.methods():
            few, every = (
                _mean(results, dataset=name, epsilon=2, fraction=share, **method)
                for share in (0.25, 1.0)
            )
            legs[label] = None if few is None or every is None else every - few
            if few is not None and every is not None:
                parts.append(f"{label} {few:.3f} with 25 % and {every:.3f} with all data")
        gains = [gain for gain in legs.values() if gain is not None]
        if not gains:
            continue
        if len(gains) == len(legs):
            judged.append(max(gains) <= MARGIN)
        evidence.append(_sentence(f"{name}, epsilon 2", parts, _unjudged(legs)))
    return Takeaway(
        "More training data does not necessarily mitigate what privacy costs.",
        verdict(judged),
        tuple(evidence),
        "It survives on a dataset where no sound method gains more than "
        f"{MARGIN} from four times the data at epsilon 2.",
    )


_SPLITS: dict[str, dict[str, Any]] = {
    "full graph at epsilon 2": {"recipe": "paper-full", "epsilon": 2},
    "ten parts at epsilon 2": {"recipe": "paper-split", "epsilon": 2},
    "ten parts at epsilon 1": {"recipe": "paper-split", "epsilon": 1},
}


def _splitting(results: Results, names: list[str]) -> Takeaway:
    judged, evidence = [], []
    for name in names:
        found = {
            optimizer: {
                label: _mean(results, dataset=name, optimizer=optimizer, **point)
                for label, point in _SPLITS.items()
            }
            for optimizer in OPTIMIZERS
        }
        # An optimiser counts where all three were run, so that like is compared with like.
        whole = [o for o, values in found.items() if None not in values.values()]
        counted = whole or list(OPTIMIZERS)
        legs: dict[str, float | None] = {
            label: max((v for o in counted if (v := found[o][label]) is not None), default=None)
            for label in _SPLITS
        }
        if all(value is None for value in legs.values()):
            continue
        full, two, one = legs.values()
        base = legs["the majority class alone"] = results.majority(name)
        if not whole:
            legs["all three with one optimiser"] = None
        elif full is not None and two is not None and one is not None and base is not None:
            judged.append(two > full + MARGIN and one > base + MARGIN)
        parts = [f"{label} {value:.3f}" for label, value in legs.items() if value is not None]
        auto = _mean(results, dataset=name, recipe="auto", epsilon=1)
        if auto is not None:
            parts.append(f"every document its own part (auto), epsilon 1 {auto:.3f}")
        which = "better optimiser" if len(counted) > 1 else f"{counted[0].upper()} only"
        evidence.append(_sentence(f"{name}, {which}", parts, _unjudged(legs)))
    return Takeaway(
        "Splitting the graph improves the scores and allows epsilon 1.",
        verdict(judged),
        tuple(evidence),
        "It survives on a dataset where ten induced parts beat the full graph at epsilon 2 and "
        f"the majority class at epsilon 1, both by more than {MARGIN}. The limit of splitting, "
        "every document its own part, is what auto does.",
    )
