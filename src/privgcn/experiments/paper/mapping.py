"""Which run answers each published number, and what is measured of it.

``runs.toml`` says it, leaf by leaf of ``published.toml``; this module reads both. The tables
of every experiment take published numbers and their runs from here.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, TypeAdapter

from privgcn.errors import ConfigError
from privgcn.experiments.paper import emulation, mnist
from privgcn.experiments.paper.epsilons import moments_epsilon
from privgcn.experiments.paper.published import OPTIMIZERS, leaves, published, read_table
from privgcn.experiments.predictions import confusion, errors
from privgcn.experiments.results import (
    PAPER_MODE,
    Options,
    Results,
    Score,
    best_of,
    mean_of,
)
from privgcn.experiments.tasks import Point
from privgcn.report import MeanStd

FEATURES = {"bow": "bow", "word-vectors": "fasttext", "transformer": "bert"}
"""The published name of a kind of features, where it has one."""

_WORDS = {"optimizer": "sgd|adam", "split": "train|test"}
_NUMBERS = ("epsilon", "percent", "parts", "row", "true", "predicted")
_AXES = ("dataset", "optimizer", "epsilon", "parts", "features", "fraction")


class Rule(BaseModel):
    """An entry of ``runs.toml``, which says what its fields mean."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    measure: Literal[
        "score",
        "majority",
        "size",
        "hard-cases",
        "confusion",
        "kept",
        "mnist",
        "noise",
        "mnist-noise",
    ] = "score"
    run: dict[str, Any] | None = None
    released: dict[str, Any] | None = None
    setting: str = ""
    reason: str = ""
    part_of: str = ""
    not_run: str = ""


@dataclass(frozen=True)
class Claim:
    """A published number and the run that answers it.

    Attributes:
        leaf: Its path in ``published.toml``.
        told: The number; ``None`` where the paper has none for this dataset.
        rule: What is measured.
        setting: How, in words.
        point: Coordinates that the leaf and its rule give.
        row: The neighbours of the leaf in its table.
    """

    leaf: str
    told: Any
    rule: Rule
    setting: str
    point: Point
    row: Mapping[str, Any] = field(default_factory=dict)

    @property
    def dataset(self) -> str:
        """Where it was measured."""
        return str(self.point["dataset"])

    @property
    def optimizer(self) -> str:
        """How, or a dash where nothing is optimised."""
        return str(self.point.get("optimizer", "-"))

    @property
    def epsilon(self) -> int | None:
        """The budget of a private run."""
        return self.point.get("epsilon")

    def sound(self) -> Point:
        """The run of kind ``train``."""
        if self.rule.measure == "mnist":
            return mnist.point(self.row, Options(mnist.DATASETS, ()))
        return self.point

    def emulated(self) -> Point:
        """The run of the released code's behaviour in the same setting."""
        axes = {k: v for k, v in self.point.items() if k != "recipe"}
        return {"epsilon": None, **axes, **(self.rule.released or {})}


@cache
def rules() -> Mapping[str, tuple[Rule, ...]]:
    """Every entry of ``runs.toml`` by its pattern."""
    adapter = TypeAdapter(tuple[Rule, ...])
    return {
        pattern: adapter.validate_python(tuple(entry if isinstance(entry, list) else [entry]))
        for pattern, entry in read_table("runs.toml").items()
    }


def fitting(leaf: str) -> list[tuple[str, dict[str, str]]]:
    """The patterns that fit a leaf, each with the fields it reads from it."""
    return [
        (pattern, found.groupdict())
        for pattern in rules()
        if (found := _expression(pattern).fullmatch(leaf)) is not None
    ]


@cache
def _expression(pattern: str) -> re.Pattern[str]:
    def one(name: str) -> str:
        return r"\d+" if name in _NUMBERS else _WORDS.get(name, "[a-z_-]+?")

    parts = re.split(r"\{(\w+)\}", pattern)
    text = [
        f"(?P<{part}>{one(part)})" if number % 2 else re.escape(part)
        for number, part in enumerate(parts)
    ]
    return re.compile("".join(text))


def claims_of(leaf: str) -> list[Claim]:
    """The answers to one number; also of datasets that the paper has no numbers for.

    Raises:
        ConfigError: Not exactly one entry of ``runs.toml`` fits.
    """
    found = fitting(leaf)
    if len(found) != 1:
        raise ConfigError(
            f"Exactly one entry of runs.toml must fit each leaf of published.toml. "
            f"Got {len(found)} for {leaf!r}."
        )
    pattern, fields = found[0]
    return [_claim(leaf, fields, rule) for rule in rules()[pattern]]


def _claim(leaf: str, fields: Mapping[str, str], rule: Rule) -> Claim:
    read: Point = {k: int(v) if k in _NUMBERS else v for k, v in fields.items()}
    point = {k: v for k, v in read.items() if k in _AXES} | (rule.run or {})
    if "percent" in read:
        point["fraction"] = read["percent"] / 100
    if rule.run is None and rule.released is not None:
        point |= rule.released
    if "features" in read:
        kinds = {key: kind for kind, key in FEATURES.items()}
        point["features"] = kinds[str(read["features"])]
    row = _row(leaf, point.get("optimizer"))
    told = leaves().get(leaf)
    words = rule.setting.format(**read, **row, value=told) if rule.setting else ""
    return Claim(leaf, told, rule, words, point, row)


def _row(leaf: str, optimizer: str | None) -> dict[str, Any]:
    """The row of a table of the paper that is a list of rows; empty for other leaves."""
    top, _, rest = leaf.partition(".")
    if not isinstance(published().get(top), list):
        return {}
    row = published()[top][int(rest.partition(".")[0])]
    return {**row.get(optimizer, {}), **{k: v for k, v in row.items() if k != optimizer}}


def claims(prefix: str = "") -> Iterator[Claim]:
    """Every published number that has a row of its own, in the order of ``runs.toml``."""
    order = list(dict.fromkeys(pattern.partition(".")[0] for pattern in rules()))
    for leaf in sorted(leaves(), key=lambda leaf: order.index(leaf.partition(".")[0])):
        if leaf.startswith(prefix):
            yield from (c for c in claims_of(leaf) if not (c.rule.not_run or c.rule.part_of))


def table1_claims(dataset: str) -> list[Claim]:
    """The row of a dataset in the main table; numbers are ``None`` where it has none."""
    found = [leaf for leaf in leaves() if leaf.startswith("table1.cora.")]
    return [c for leaf in found for c in claims_of(leaf.replace("cora", dataset))]


def ours(results: Results, claim: Claim) -> Score:
    """What a claim's measure gives of its run, or ``None`` where it was not run."""
    match claim.rule.measure:
        case "majority":
            return results.majority(claim.dataset)
        case "size":
            return size_of(results, claim.dataset, claim.leaf.rpartition(".")[2])
        case "noise":
            return moments_epsilon(claim.row["noise_multiplier"], claim.row["steps"])
        case "mnist-noise":
            return mnist.epsilon(claim.row, "moments")
        case "hard-cases":
            kind = "train" if claim.rule.run is not None else emulation.KIND
            return kept_errors(results, kind, claim.point)
        case "confusion":
            return _confused(results, claim)
        case "kept":
            return kept_share(results, claim.dataset, ours)
        case "mnist":
            return results.train(mnist.MODE, **claim.sound())
        case "score":
            return results.train(**claim.sound())


def emulated(results: Results, claim: Claim) -> MeanStd | None:
    """The score of the released code's behaviour, or ``None`` where it was not emulated."""
    if claim.rule.released is None:
        return None
    if claim.rule.measure == "mnist":
        return mnist.released(results, claim.row, Options(mnist.DATASETS, results.seeds))
    return released(results, **claim.emulated())


def kept_share(
    results: Results, dataset: str, score: Callable[[Results, Claim], Score]
) -> float | None:
    """The better score on ten parts at epsilon 1 over the better one without privacy."""
    private, plain = (
        best_of(
            mean_of(score(results, claim))
            for optimizer in OPTIMIZERS
            for claim in claims_of(f"table1.{dataset}.{row}.{optimizer}")
        )
        for row in ("dp_split_eps1", "non_private")
    )
    return None if private is None or not plain else private / plain


def released(results: Results, **point: Any) -> MeanStd | None:
    """The score of a run of the released code's behaviour."""
    return results.score(emulation.KIND, point)


def _confused(results: Results, claim: Claim) -> float | None:
    """The share of one class that the run takes for another; classes are in their order."""
    found = results.of("train", claim.sound())
    if not found:
        return None
    true, predicted = map(int, re.findall(r"\d+", claim.leaf.rpartition(".")[2]))
    return float(confusion(found, PAPER_MODE)[true, predicted])


def size_of(results: Results, dataset: str, name: str) -> int | None:
    """How many ``classes`` a dataset has, or documents of a split."""
    if name == "classes":
        classes = results.fact(dataset, "classes")
        return None if classes is None else len(classes)
    documents = results.fact(dataset, "documents") or {}
    return documents.get(name)


def baseline(dataset: str, optimizer: str = "sgd") -> Point:
    """The run whose errors are the hard cases: without privacy, with all data."""
    return {"dataset": dataset, "recipe": "plain", "optimizer": optimizer, "fraction": 1.0}


def kept_errors(
    results: Results, kind: str, point: Mapping[str, Any], optimizer: str = "sgd"
) -> MeanStd | None:
    """Share of the hard cases that a setting gets wrong too, seed by seed.

    Hard cases are the errors of the non-private model of the same kind with the given
    ``optimizer``: those of the emulated model, where the setting is an emulated one.
    """
    shares = []
    plain = baseline(point["dataset"], optimizer)
    if kind != "train":
        plain = {"dataset": point["dataset"], "optimizer": optimizer, "epsilon": None}
    first = results.by_seed(kind, plain)
    second = results.by_seed(kind, point)
    for seed in sorted(first.keys() & second.keys()):
        hard = errors(first[seed], PAPER_MODE)
        if hard.any():
            shares.append(float((errors(second[seed], PAPER_MODE) & hard).sum() / hard.sum()))
    return MeanStd.of(shares) if shares else None
