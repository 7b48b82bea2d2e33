"""What the paper says, number by number and claim by claim, beside what the runs say.

``published.toml`` has the tables of the paper. ``claims.toml`` has its claims, each with an
outcome, its place in the code, and the runs that show it beside the numbers of the text.
"""

from __future__ import annotations

import math
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache, reduce
from operator import add
from typing import Any, Literal

import numpy as np
from pydantic import BaseModel, ConfigDict, TypeAdapter

from privgcn.report.tables import MeanStd
from privgcn_paper.experiments import Point, data_file
from privgcn_paper.results import PAPER_MODE, SIZES, Runs

OPTIMIZERS = ("sgd", "adam")
NEAR, CLEAR = 0.03, 0.05
"""Scores that differ by no more than 0.03 agree. The emulation gives a number within 0.05, and
a score that is more than 0.05 above the majority class beats it clearly."""

_ROUNDING = 1e-9
MNIST_EPOCHS, MNIST_IMAGES = 100, 60_000
_FEATURES = {"bow": "bow", "fasttext": "fasttext", "bert": "transformer"}
_FULL, _TEN = {"recipe": "paper-full"}, {"recipe": "paper-split", "parts": 10}

AGREES, DIFFERS, NOT_RUN = "agrees", "differs", "not run"
RELEASED_AGREES = "differs; the released code's behaviour gives it"

Outcome = Literal["holds", "direction only", "fails", "not testable", "done", "differs"]


@cache
def published() -> Mapping[str, Any]:
    """The published tables."""
    return tomllib.loads(data_file("published.toml"))


@dataclass(frozen=True)
class Compared:
    """A published number beside ours, and what the released code's behaviour gives."""

    kind: str
    dataset: str
    setting: str
    published: float
    ours: MeanStd | float | None = None
    released: MeanStd | None = None
    optimizer: str = ""

    @property
    def ours_mean(self) -> float:
        """Ours over its seeds; not a number where it was not run."""
        ours = math.nan if self.ours is None else self.ours
        return ours.mean if isinstance(ours, MeanStd) else ours

    @property
    def emulation_gives_it(self) -> bool:
        """Whether the emulated behaviour of the released code gives the number."""
        far = math.inf if self.released is None else self.released.mean - self.published
        return abs(far) <= CLEAR + _ROUNDING

    @property
    def verdict(self) -> str:
        """In words."""
        if self.ours is None:
            return NOT_RUN
        # 0.53 and 0.5 are 0.03 apart, not 0.030000000000000027.
        if abs(self.ours_mean - self.published) <= NEAR + _ROUNDING:
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
    """Every published number beside what runs give; epsilons have tables of their own."""
    return [
        *table_1_numbers(runs),
        *_pokec_numbers(runs),
        *_mnist_numbers(runs),
        *_text_numbers(runs),
        *_sizes(runs),
    ]


def table_1_numbers(runs: Runs) -> Iterator[Compared]:
    """The paper's main table."""
    for dataset, columns in published()["table1"].items():
        majority = runs.fact(dataset, "majority")
        yield Compared("table 1", dataset, "majority class", columns["majority"], majority)
        for column, words in TABLE_1.items():
            kind = "table 1" if column == "non_private" else "table 1, private"
            for optimizer in OPTIMIZERS:
                point = column_point(dataset, column, optimizer)
                scores = _scores(runs, point)
                number = columns[column][optimizer]
                yield Compared(kind, dataset, words, number, *scores, optimizer)


TABLE_1 = {
    "non_private": "without privacy",
    "dp_full_eps2": "full graph, epsilon 2",
    "dp_split_eps1": "ten parts, epsilon 1",
    "dp_split_eps2": "ten parts, epsilon 2",
}
"""Its columns, in words."""


def column_point(dataset: str, column: str, optimizer: str) -> Point:
    """The sound run that answers a column of table 1."""
    point: Point = {"dataset": dataset, "optimizer": optimizer}
    if column == "non_private":
        return {**point, "recipe": "plain"}
    return {**point, "epsilon": int(column[-1]), **(_TEN if "split" in column else _FULL)}


def _scores(runs: Runs, point: Point) -> tuple[MeanStd | None, MeanStd | None]:
    """Ours, and that of the released code's behaviour in the same setting."""
    return runs.score(**point), runs.score(**{**point, "recipe": "as-released"})


def _pokec_numbers(runs: Runs) -> Iterator[Compared]:
    for kind, table in published()["pokec_features"].items():
        base: Point = {"dataset": "pokec", "features": _FEATURES[kind]}
        settings: list[tuple[Point, Any]] = [({"recipe": "plain"}, table["non_private"])]
        settings += [
            ({**_FULL, "epsilon": int(name.removeprefix("eps"))}, scores)
            for name, scores in table["dp"].items()
        ]
        for own, scores in settings:
            for optimizer, number in scores.items():
                point = {**base, **own, "optimizer": optimizer}
                words = f"{kind}, epsilon {own.get('epsilon', 'none')}, {optimizer.upper()}"
                both = _scores(runs, point)
                yield Compared("features of Pokec", "pokec", words, number, *both)


def mnist_point(row: Mapping[str, Any], recipe: str) -> Point:
    """The run of a row of the table of MNIST."""
    lots = {"lot": row["lot_size"], "noise": row["noise_multiplier"], "epochs": MNIST_EPOCHS}
    return {"dataset": "mnist", "recipe": recipe, **lots}


def _mnist_numbers(runs: Runs) -> Iterator[Compared]:
    for row in published()["mnist"]:
        words = f"lot {row['lot_size']}, noise {row['noise_multiplier']}"
        ours, released = (
            runs.score("micro alone", **mnist_point(row, recipe))
            for recipe in ("paper-full", "as-released")
        )
        yield Compared("MNIST", "mnist", words, row["f1"], ours, released)


def _text_numbers(runs: Runs) -> Iterator[Compared]:
    for claim in claims():
        for one in claim.evidence:
            for dataset, number in one.published.items():
                point = {"dataset": dataset, **one.run}
                ours = runs.score(one.measure, **point)
                released = runs.score(one.measure, **{**point, "recipe": "as-released"})
                words = f"{claim.section}: {one.name}"
                yield Compared("text", dataset, words, number, ours, released)


def _sizes(runs: Runs) -> Iterator[Compared]:
    for dataset, sizes in published()["dataset_sizes"].items():
        for name in SIZES:
            yield Compared("sizes", dataset, name, sizes[name], runs.fact(dataset, name))


def best(runs: Runs, measure: str = f"micro {PAPER_MODE}", **point: Any) -> MeanStd | None:
    """The score of the better optimiser of otherwise equal runs."""
    scores = [runs.score(measure, **point, optimizer=name) for name in OPTIMIZERS]
    known = [score for score in scores if score is not None]
    return max(known, key=lambda score: score.mean, default=None)


# -- accountants ------------------------------------------------------------------------------


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


# -- claims -----------------------------------------------------------------------------------


class Evidence(BaseModel):
    """Runs that show a claim, the same on each of its datasets.

    ``measure`` is a column of the table of runs, ``published`` what the text says, by dataset.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str
    measure: str = f"micro {PAPER_MODE}"
    run: dict[str, Any]
    published: dict[str, float] = {}


class Claim(BaseModel):
    """A claim of the paper, in our words; a take-away is in the paper's.

    ``code`` is where it stands, as ``module:name``; ``note`` says why in a sentence or two.
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
        """What the runs say, by dataset that was run, with the lines of the table."""
        words = {}
        for dataset in self.datasets:
            known, lines = [], set()
            for one in self.evidence:
                score = runs.score(one.measure, dataset=dataset, **one.run)
                if score is not None:
                    known.append(f"{one.name} {score.mean:.2f}")
                    rows = runs.of(dataset=dataset, **one.run)
                    lines |= {row["line"] for row in rows if "line" in row}
            if known:
                words[dataset] = ", ".join(known) + _lines(sorted(lines))
        return words


def _lines(lines: Sequence[int]) -> str:
    spans: list[list[int]] = []
    for line in lines:
        if spans and spans[-1][-1] == line - 1:
            spans[-1][1:] = [line]
        else:
            spans.append([line])
    return f" (lines {', '.join('-'.join(map(str, own)) for own in spans)})" if spans else ""


@cache
def claims() -> list[Claim]:
    """All of them, in the paper's order."""
    entries = tomllib.loads(data_file("claims.toml"))["claim"]
    return TypeAdapter(list[Claim]).validate_python(entries)
