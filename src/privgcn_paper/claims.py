"""What the paper says, number by number and claim by claim, beside what the runs say.

Every leaf of ``published.toml`` is compared with the runs that answer it, or has a reason in
``UNANSWERED``. ``claims.toml`` holds the paper's claims, each with an outcome, its place in the
code and the runs that show it.
"""

from __future__ import annotations

import math
import re
import tomllib
from collections.abc import Iterator, Mapping
from functools import cache, lru_cache, reduce
from operator import add
from typing import Any, Literal, NamedTuple

import numpy as np
from pydantic import BaseModel, ConfigDict, TypeAdapter

from privgcn.report.tables import MeanStd
from privgcn_paper.experiments import Point, data_file
from privgcn_paper.results import PAPER_MODE, SIZES, Runs

OPTIMIZERS = ("sgd", "adam")
NEAR = 0.03
"""Scores that differ by no more agree; the emulation gives a number within 0.05."""

GIVES = 0.05
_ROUNDING = 1e-9
MNIST_EPOCHS = 100
_FEATURES = {"bow": "bow", "fasttext": "fasttext", "bert": "transformer"}

AGREES, DIFFERS, NOT_RUN = "agrees", "differs", "not run"
RELEASED_AGREES = "differs; the released code's behaviour gives it"

Outcome = Literal["holds", "direction only", "fails", "not testable", "done", "differs"]

UNANSWERED = {
    r"settings\..*": "A setting of the paper; the recipes have it.",
    r"dataset_sizes\..*\.links": "Not a fact of a run; a test of the loader counts edges.",
    r"noise_to_epsilon\.\d+\.(sgd|adam)\..*": "What an epsilon is computed from.",
    r"mnist\.\d+\.(lot_size|noise_multiplier)": "What a score and an epsilon are compared at.",
    r"mnist\.\d+\.std": "The spread of a score over seeds, shown beside it.",
    r"text_claims\.confusions_reddit\..*": "Pairs of classes, not in the table of runs.",
    r"text_claims\.(split_counts|data_fractions)_\w+": "A grid of the experiments.",
}
"""Published numbers that no run answers, and why."""


@cache
def published() -> Mapping[str, Any]:
    """The published numbers as a tree."""
    return tomllib.loads(data_file("published.toml"))


def leaves(node: Any = None, path: str = "") -> Iterator[tuple[str, Any]]:
    """Every published number by its dotted path, such as ``table1.cora.majority``."""
    node = published() if node is None else node
    items: Any = node.items() if isinstance(node, Mapping) else enumerate(node)
    for name, value in items:
        below = f"{path}.{name}" if path else str(name)
        nested = isinstance(value, list) and isinstance(value[0], Mapping)
        if isinstance(value, Mapping) or nested:
            yield from leaves(value, below)
        else:
            yield below, value


class Compared(NamedTuple):
    """A published number beside ours.

    Attributes:
        leaf: Its path in ``published.toml``.
        dataset: Where it was measured.
        setting: How, in words.
        published: The number.
        ours: What our runs give, done soundly; ``None`` where it was not run.
        released: What the emulated behaviour of the released code gives.
        exact: Whether it must agree to the printed digits.
    """

    leaf: str
    dataset: str
    setting: str
    published: float
    ours: MeanStd | float | None = None
    released: MeanStd | None = None
    exact: bool = False

    @property
    def agrees(self) -> bool | None:
        """Whether ours agrees with it; ``None`` where it was not run."""
        if self.ours is None:
            return None
        ours = self.ours.mean if isinstance(self.ours, MeanStd) else self.ours
        if self.exact:
            return round(ours, 2) == self.published
        # 0.53 and 0.5 are 0.03 apart, not 0.030000000000000027.
        return abs(ours - self.published) <= NEAR + _ROUNDING

    @property
    def emulation_gives_it(self) -> bool:
        """Whether the emulated behaviour of the released code gives the number."""
        far = math.inf if self.released is None else self.released.mean - self.published
        return abs(far) <= GIVES + _ROUNDING

    @property
    def verdict(self) -> str:
        """In words."""
        if self.agrees is None:
            return NOT_RUN
        if self.agrees:
            return AGREES
        return RELEASED_AGREES if self.emulation_gives_it else DIFFERS


def of_published_sizes(runs: Runs) -> tuple[Runs, list[str]]:
    """The runs on datasets of the paper's size, and the names of those of another size.

    A user's extract of Pokec may have any size: what it scores says nothing about the paper.
    """
    other = [
        dataset
        for dataset, sizes in published()["dataset_sizes"].items()
        if any(runs.fact(dataset, name) not in (None, sizes[name]) for name in SIZES)
    ]
    return Runs(tuple(row for row in runs.rows if row["dataset"] not in other)), other


def compared(runs: Runs) -> list[Compared]:
    """Every published number that runs or formulas answer."""
    return [
        _ANSWERS[leaf.partition(".")[0]](runs, leaf, leaf.split(".")[1:], value)
        for leaf, value in leaves()
        if not any(re.fullmatch(pattern, leaf) for pattern in UNANSWERED)
    ]


def _size(runs: Runs, leaf: str, path: list[str], value: Any) -> Compared:
    dataset, name = path
    return Compared(leaf, dataset, f"size: {name}", value, runs.fact(dataset, name), exact=True)


def _noise(runs: Runs, leaf: str, path: list[str], value: Any) -> Compared:
    row = published()["noise_to_epsilon"][int(path[0])]["sgd"]
    again = moments_epsilon(row["noise_multiplier"], row["steps"])
    setting = f"epsilon of noise {row['noise_multiplier']}, SGD"
    return Compared(leaf, "-", setting, value, again, exact=True)


def _table1(runs: Runs, leaf: str, path: list[str], value: Any) -> Compared:
    dataset, column = path[:2]
    if column == "majority":
        return Compared(leaf, dataset, "majority class", value, runs.fact(dataset, "majority"))
    return _pair(runs, leaf, column_point(dataset, column, path[2]), value)


def column_point(dataset: str, column: str, optimizer: str) -> Point:
    """The sound run that answers a column of table 1."""
    point: Point = {"dataset": dataset, "optimizer": optimizer}
    if column == "non_private":
        return {**point, "recipe": "plain"}
    epsilon = int(column[-1])
    if "split" in column:
        return {**point, "recipe": "paper-split", "epsilon": epsilon, "parts": 10}
    return {**point, "recipe": "paper-full", "epsilon": epsilon}


def _pokec(runs: Runs, leaf: str, path: list[str], value: Any) -> Compared:
    point: Point = {"dataset": "pokec", "recipe": "plain", "optimizer": path[-1]}
    point["features"] = _FEATURES[path[0]]
    if path[1] != "non_private":
        point |= {"recipe": "paper-full", "epsilon": int(path[2].removeprefix("eps"))}
    return _pair(runs, leaf, point, value)


def mnist_point(row: Mapping[str, Any], recipe: str) -> Point:
    """The run of a row of the table of MNIST."""
    lots = {"lot": row["lot_size"], "noise": row["noise_multiplier"], "epochs": MNIST_EPOCHS}
    return {"dataset": "mnist", "recipe": recipe, **lots}


def _mnist(runs: Runs, leaf: str, path: list[str], value: Any) -> Compared:
    row = published()["mnist"][int(path[0])]
    lot = f"lot {row['lot_size']}, noise {row['noise_multiplier']}"
    if path[1] == "epsilon":
        probability = row["lot_size"] / 60_000
        steps = round(MNIST_EPOCHS / probability)
        again = moments_epsilon(row["noise_multiplier"], steps, probability)
        return Compared(leaf, "mnist", f"epsilon of {lot}", value, again, exact=True)
    ours = runs.score("micro alone", **mnist_point(row, "paper-full"))
    released = runs.score("micro alone", **mnist_point(row, "as-released"))
    return Compared(leaf, "mnist", lot, value, ours, released)


def _headline(runs: Runs, leaf: str, path: list[str], value: Any) -> Compared:
    if path[0] == "privacy_factor":
        return Compared(leaf, "-", "e to the 2 over e to the 1", value, math.e)
    dataset = path[0].removeprefix("kept_")
    ten = best(runs, dataset=dataset, recipe="paper-split", epsilon=1, parts=10)
    plain = best(runs, dataset=dataset, recipe="plain")
    share = None if ten is None or plain is None else ten.mean / plain.mean
    return Compared(leaf, dataset, "share at epsilon 1, ten parts", value, share)


def _text(runs: Runs, leaf: str, path: list[str], value: Any) -> Compared:
    numbers = re.findall(r"\d+", path[1])
    number = int(numbers[0]) if numbers else 0
    if path[0] == "hard_cases_cora":
        point: Point = {"dataset": "cora", "recipe": "plain", "optimizer": "sgd"}
        if numbers:
            point["fraction"] = number / 100
        else:  # just over 0.70, whatever the noise
            point |= {"recipe": "as-released", "epsilon": 2}
        setting = _words(point) + ", hard cases"
        return Compared(leaf, "cora", setting, value, runs.score("hard", **point))
    kind, dataset, optimizer = path[0].removesuffix("_splits").rsplit("_", 2)
    point = {"dataset": dataset, "optimizer": optimizer, "recipe": "plain"}
    if path[0].endswith("_splits"):
        if kind == "dp":
            point |= {"recipe": "paper-full" if number == 1 else "paper-split", "epsilon": 2}
        axis: Point = {} if number == 1 else {"parts": number}
    else:
        axis = {} if number == 100 else {"fraction": number / 100}
    return _pair(runs, leaf, {**point, **axis}, value)


def _pair(runs: Runs, leaf: str, point: Point, value: float) -> Compared:
    ours, released = runs.score(**point), runs.score(**{**point, "recipe": "as-released"})
    return Compared(leaf, point["dataset"], _words(point), value, ours, released)


def _words(point: Point) -> str:
    epsilon, parts = point.get("epsilon"), point.get("parts", 1)
    words = ["without privacy" if epsilon is None else f"epsilon {epsilon}"]
    words += [point["features"]] if "features" in point else []
    words += [f"{parts} parts"] if parts != 1 else []
    words += [f"{point['fraction']:.0%} of the data"] if "fraction" in point else []
    return ", ".join([*words, str(point["optimizer"]).upper()])


_ANSWERS = {
    "dataset_sizes": _size,
    "noise_to_epsilon": _noise,
    "table1": _table1,
    "pokec_features": _pokec,
    "mnist": _mnist,
    "headlines": _headline,
    "text_claims": _text,
}


def exact_epsilon(noise_multiplier: float, steps: int, sensitivity: int = 1) -> float:
    """The epsilon that holds, on the full graph, delta 1e-5."""
    from privgcn.privacy.accounting import epsilon_of

    return epsilon_of(noise_multiplier=noise_multiplier, steps=steps, sensitivity=sensitivity)


@lru_cache
def moments_epsilon(noise_multiplier: float, steps: int, probability: float = 1.0) -> float:
    """The epsilon that the paper's accountant is meant to give."""
    from privgcn.privacy.accounting import epsilon_of

    return epsilon_of(
        noise_multiplier=noise_multiplier,
        steps=steps,
        sampling_probability=probability,
        accountant="moments",
    )


def released_epsilon(noise_multiplier: float, steps: int, probability: float = 1.0) -> float:
    """The epsilon that the released code's accountant gives, delta 1e-5.

    It has the moments E[r^L] of a ratio r of two densities as a sum over the differential
    moments E[(r - 1)^t], each of them an alternating sum of binomial coefficients times
    exp(i (i + 1) / (2 sigma^2)), in float64. Under much noise all the exponentials are close
    to 1, the coefficients reach 10^8, and nothing but rounding is left; sampling multiplies
    the moment t by q^t, which hides it. Orders whose moment comes out negative are skipped,
    as there. Without sampling the whole sum is exactly exp(L (L + 1) / (2 sigma^2)), which
    needs no sum.
    """
    q, i = probability, np.arange(33)
    # The mean under the mixture with the unit in a share q of the samples.
    sides = [(q, i * (i + 1)), (1.0 - q, i * (i - 1))]
    powers = [(w, np.exp(e / (2.0 * noise_multiplier**2)).tolist()) for w, e in sides if w]
    best_epsilon = math.inf
    for order in range(1, 33):
        moment = 0.0
        for weight, power in powers:
            for t in range(order + 1):
                terms = ((-1.0) ** (t - k) * math.comb(t, k) * power[k] for k in range(t + 1))
                # One by one: from Python 3.12 on, sum() corrects the rounding at issue.
                moment += weight * math.comb(order, t) * q**t * reduce(add, terms, 0.0)
        if moment > 0.0:
            epsilon = (steps * math.log(moment) + math.log(1e5)) / order
            best_epsilon = min(best_epsilon, epsilon)
    return best_epsilon


class Evidence(BaseModel):
    """Runs that show a claim, the same on each of its datasets.

    Attributes:
        name: What they are, in words.
        measure: A column of the table of runs.
        run: The values of their axes but the dataset.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str
    measure: str = f"micro {PAPER_MODE}"
    run: dict[str, Any]


class Claim(BaseModel):
    """A claim of the paper.

    Attributes:
        says: The claim, in our words.
        outcome: What became of it.
        code: Where it stands in the code, as ``module:name``.
        note: Why, in a sentence or two.
        datasets: Where the evidence is.
        evidence: The runs that show it.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    section: str
    says: str
    outcome: Outcome
    code: list[str]
    note: str = ""
    datasets: list[str] = []
    evidence: list[Evidence] = []

    def numbers(self, runs: Runs) -> dict[str, str]:
        """What the runs say, in words, by dataset; datasets without runs are left out."""
        words = {}
        for dataset in self.datasets:
            known = [
                f"{one.name} {score.mean:.2f}"
                for one in self.evidence
                if (score := runs.score(one.measure, dataset=dataset, **one.run)) is not None
            ]
            if known:
                words[dataset] = ", ".join(known)
        return words


@cache
def claims() -> list[Claim]:
    """All of them, in the paper's order."""
    entries = tomllib.loads(data_file("claims.toml"))["claim"]
    return TypeAdapter(list[Claim]).validate_python(entries)


def best(runs: Runs, measure: str = f"micro {PAPER_MODE}", **point: Any) -> MeanStd | None:
    """The score of the better optimiser of otherwise equal runs."""
    scores = [runs.score(measure, **point, optimizer=name) for name in OPTIMIZERS]
    known = [score for score in scores if score is not None]
    return max(known, key=lambda score: score.mean, default=None)
