"""The paper's own tables in its layout, with the published number and ours in one cell."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from privgcn.experiments.paper import feature_kinds, headlines, mnist
from privgcn.experiments.paper.comparison import EPSILONS
from privgcn.experiments.paper.epsilons import moments_epsilon
from privgcn.experiments.paper.mapping import FEATURES, claims_of, emulated, ours
from privgcn.experiments.paper.published import OPTIMIZERS, published
from privgcn.experiments.paper.tables import shown_name, table
from privgcn.experiments.paper.takeaways import MARGIN
from privgcn.experiments.results import Options, Results, Score, mean_of
from privgcn.report import MeanStd, Table

_NONE = "–"  # noqa: RUF001
_AT_CHANCE = "†"
_CITED = {"bow": "BoWs", "word-vectors": "fastText", "transformer": "BERT"}


def number(value: Score) -> str:
    """A mean as the paper prints it, or a dash."""
    mean = mean_of(value)
    return _NONE if mean is None else f"{mean:.2f}"


def beside(*numbers: Any) -> str:
    """Several numbers in one cell."""
    return "\u00a0/\u00a0".join(map(str, numbers))


def _ours(value: Score, majority: float | None = None) -> str:
    """Ours, marked where it does not beat the majority class."""
    mean = mean_of(value)
    beaten = mean is not None and majority is not None and mean <= majority + MARGIN
    return number(value) + (_AT_CHANCE if beaten else "")


def _pair(results: Results, leaf: str, majority: float | None = None) -> str:
    claim = claims_of(leaf)[0]
    return beside(number(claim.told), _ours(ours(results, claim), majority))


def table_1(results: Results, datasets: Sequence[str], suffix: str = "") -> Table:
    """Table 1, with the recipe ``auto`` in a column of its own."""

    def rows(name: str) -> Iterator[tuple[Any, ...]]:
        base = results.majority(name)
        plain = (f"table1.{name}.non_private.{optimizer}" for optimizer in OPTIMIZERS)
        head = [shown_name(name), _pair(results, f"table1.{name}.majority")]
        head += [_pair(results, leaf) for leaf in plain]
        for epsilon in (1, 2):
            private = (
                f"table1.{name}.{kind}_eps{epsilon}.{optimizer}"
                for kind in ("dp_full", "dp_split")
                for optimizer in OPTIMIZERS
            )
            auto = results.train(dataset=name, recipe="auto", epsilon=epsilon)
            scores = (_pair(results, leaf, base) for leaf in private)
            yield (*head, epsilon, *scores, _ours(auto, base))
            head = [""] * len(head)

    every = (row for name in datasets for row in rows(name))
    return table("table1-layout", every, suffix, margin=MARGIN)


def features(results: Results) -> Table:
    """Pokec with three kinds of features."""
    base = results.majority("pokec")
    rows = []
    for kind, key in FEATURES.items():
        leaf = f"pokec_features.{key}"
        head = [_CITED[kind], *(_pair(results, f"{leaf}.non_private.{o}") for o in OPTIMIZERS)]
        for epsilon in EPSILONS:
            private = (_pair(results, f"{leaf}.dp.eps{epsilon}.{o}", base) for o in OPTIMIZERS)
            auto = results.train(dataset="pokec", features=kind, recipe="auto", epsilon=epsilon)
            rows.append((*head, epsilon, *private, _ours(auto, base)))
            head = [""] * len(head)
    return table("paper-features", rows, margin=MARGIN)


def stand_in_features(results: Results, datasets: Sequence[str]) -> Table:
    """The same on corpora that stand in for Pokec; nothing is published for them."""
    rows = []
    for name in datasets:
        base = results.majority(name)
        for kind in feature_kinds.kinds(name):
            point: dict[str, Any] = {"dataset": name, "features": kind}
            plain = [results.train(recipe="plain", optimizer=o, **point) for o in OPTIMIZERS]
            sound = [
                results.train(recipe="paper-full", optimizer=o, epsilon=2, **point)
                for o in OPTIMIZERS
            ]
            auto = [results.train(recipe="auto", epsilon=e, **point) for e in (2, 10)]
            if any(score is not None for score in (*plain, *sound, *auto)):
                scores = (_ours(score, base) for score in (*plain, *sound, *auto))
                rows.append((shown_name(name), kind, number(base), *scores))
    return table("paper-features-stand-ins", rows, margin=MARGIN)


def noise() -> Table:
    """Epsilon and noise on the full graph; our epsilon is the moments accountant's."""
    rows = []
    for row in published()["noise_to_epsilon"]:
        again = {moments_epsilon(**row[o]) for o in OPTIMIZERS}
        levels = (row[o]["noise_multiplier"] for o in OPTIMIZERS)
        told = number(row["epsilon"])
        rows.append((beside(told, ", ".join(sorted(map(number, again)))), *levels))
    return table("paper-noise", rows)


def mnist_table(results: Results) -> Table:
    """MNIST by lot size and noise."""
    base = results.majority("mnist")
    rows = []
    for place, row in enumerate(published()["mnist"]):
        claim = claims_of(f"mnist.{place}.f1")[0]
        score = ours(results, claim)
        std = score.std if isinstance(score, MeanStd) else None
        auto = results.train(mnist.MODE, **mnist.auto_point(row))
        rows.append(
            (
                row["lot_size"],
                row["noise_multiplier"],
                _pair(results, f"mnist.{place}.epsilon"),
                beside(number(row["f1"]), _ours(score, base)),
                beside(number(row["std"]), number(std)),
                _ours(emulated(results, claim), base),
                _ours(auto, base),
            )
        )
    return table("paper-mnist", rows, margin=MARGIN)


def sizes(results: Results, datasets: Sequence[str]) -> Table:
    """Classes and documents of the datasets."""

    def cell(name: str, key: str) -> str:
        claim = claims_of(f"dataset_sizes.{name}.{key}")[0]
        found = ours(results, claim)
        return beside(claim.told, _NONE if found is None else found)

    keys = ("classes", "test", "train")
    return table(
        "paper-sizes", ((shown_name(n), *(cell(n, key) for key in keys)) for n in datasets)
    )


def kept_shares(results: Results, datasets: Sequence[str]) -> Table:
    """What is left of the non-private score at epsilon 1."""
    made = headlines.present(results, Options(tuple(datasets), results.seeds))
    shares = {str(row[1]): row[3:] for one in made for row in one.rows}
    rows = ((shown_name(name), *map(_percent, shares[name])) for name in datasets)
    return table("kept", rows)


def _percent(share: Any) -> str:
    return _NONE if share is None else f"{share:.0%}"
