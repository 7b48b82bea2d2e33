"""The named experiments: one registry line each."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from privgcn.data.catalogue import DATASETS
from privgcn.data.location import data_folder
from privgcn.errors import ConfigError, DataNotAvailableError
from privgcn.experiments.declared import Declared
from privgcn.experiments.grid import Experiment
from privgcn.experiments.paper import (
    ablation,
    curves,
    feature_kinds,
    hard_cases,
    mnist,
    released_code,
    table1,
)
from privgcn.experiments.paper.tables import in_order
from privgcn.experiments.results import Options, Presentation, Results

ALL = "all"
DEFAULT_SEEDS, QUICK_SEEDS = 5, 2
_GRAPHS = ("citeseer", "cora", "pubmed", "pokec", "reddit", "pokec-like", "reddit-like")


@dataclass(frozen=True)
class Target:
    """An experiment by name.

    Attributes:
        title: What it shows, for help and headings.
        plan: Options to the grid of runs.
        present: Records to tables and figures.
        datasets: What it runs on by default, as far as it is on this machine.
        quick_datasets: The same for the quick size.
        least_seeds: Where fewer seeds would not tell.
        needs_text: Whether it runs on datasets with raw text only.
        question: What it asks, for its page.
    """

    title: str
    plan: Callable[[Options], Experiment]
    present: Callable[[Results, Options], Presentation]
    datasets: tuple[str, ...] = _GRAPHS
    quick_datasets: tuple[str, ...] = ("cora",)
    least_seeds: int = 1
    needs_text: bool = False
    question: str = ""


TARGETS: dict[str, Target] = {
    "table1": Target(
        "Table 1: non-private, private on the full graph, private on splits",
        table1.experiment,
        table1.present,
        question="What does privacy cost, on the full graph and on ten parts?",
    ),
    "experiment-a": Target(
        "Experiment A: learning curves without privacy",
        curves.experiment_a,
        curves.present_a,
        quick_datasets=("citeseer", "cora"),
        question="How many training documents does a classifier need without privacy?",
    ),
    "experiment-b": Target(
        "Experiment B: privacy budget and training data",
        curves.experiment_b,
        curves.present_b,
        question="Do more training documents make up for what privacy costs?",
    ),
    "experiment-c": Target(
        "Experiment C: number of parts",
        curves.experiment_c,
        curves.present_c,
        question="Do random splits of the graph help, without privacy and with it?",
    ),
    "features": Target(
        "Feature kinds: what richer representations lose to privacy",
        feature_kinds.experiment,
        feature_kinds.present,
        datasets=("pokec", "citeseer-text", "cora-text", "pokec-like"),
        quick_datasets=("cora-text",),
        needs_text=True,
        question="Do richer representations of a text lose less to privacy?",
    ),
    "hard-cases": Target(
        "Hard cases: errors that stay errors",
        hard_cases.experiment,
        hard_cases.present,
        question="Are documents that are hard without privacy the ones that privacy loses?",
    ),
    "mnist": Target(
        "MNIST: lot sizes and noise on the same privacy engine",
        mnist.experiment,
        mnist.present,
        datasets=mnist.DATASETS,
        quick_datasets=mnist.DATASETS,
        question="What do lot size and noise do where every example stands alone?",
    ),
    "ablation": Target(
        "Ablation: what makes the published private scores",
        ablation.experiment,
        ablation.present,
        datasets=("citeseer", "cora", "pubmed"),
        question="Which difference between paper and released code makes the published scores?",
    ),
    "as-released": Target(
        "As released: why the published private scores are what they are",
        released_code.experiment,
        released_code.present,
        datasets=("citeseer", "cora", "pubmed"),
        least_seeds=released_code.LEAST_SEEDS,
        question="Does the behaviour of the released code give the published scores?",
    ),
}


def chosen_targets(name: str) -> dict[str, Target]:
    """The targets of comma-separated names, or every one for ``all``."""
    if name == ALL:
        return dict(TARGETS)
    names = [part.strip() for part in name.split(",")]
    for part in names:
        if part not in TARGETS:
            raise ConfigError(
                f"The 'name' of an experiment must be one of {', '.join(TARGETS)} or {ALL}. "
                f"Got {part!r}."
            )
    return {part: TARGETS[part] for part in names}


def declared_target(declared: Declared) -> tuple[Target, Options]:
    """A user's experiment as one of these."""
    target = Target(
        declared.title,
        lambda _: declared.experiment(),
        lambda results, _: declared.present(results),
    )
    names = (str(point["dataset"]) for point in declared.points())
    return target, Options(tuple(dict.fromkeys(names)), tuple(range(declared.seeds)))


def fitting_datasets(
    targets: Mapping[str, Target], datasets: Sequence[str] | None
) -> dict[str, Sequence[str] | None]:
    """The targets that run, each with the named datasets that are meant for it.

    One target alone takes all of them; of several, each takes those that are its own.

    Raises:
        ConfigError: A dataset is unknown, or no target takes it.
    """
    if datasets is None or len(targets) == 1:
        return dict.fromkeys(targets, datasets)
    own = [name for name in DATASETS if any(name in t.datasets for t in targets.values())]
    for name in datasets:
        if name not in own:
            remedy = " Run one experiment alone to have it there." if name in DATASETS else ""
            raise ConfigError(
                f"The 'datasets' of these experiments must be some of {', '.join(own)}. "
                f"Got {name!r}.{remedy}"
            )
    taken = {
        label: [name for name in datasets if name in target.datasets]
        for label, target in targets.items()
    }
    return {label: names for label, names in taken.items() if names}


def make_options(
    target: Target,
    *,
    datasets: Sequence[str] | None = None,
    seeds: int | None = None,
    quick: bool = False,
) -> tuple[Options, list[str]]:
    """What a target runs on, and sentences about what it leaves out.

    Raises:
        ConfigError: A dataset is unknown or of another kind.
        DataNotAvailableError: A named dataset is not on this machine, or none is.
    """
    if seeds is not None and seeds < 1:
        raise ConfigError(f"The 'seeds' of an experiment must be at least 1. Got {seeds}.")
    default = QUICK_SEEDS if quick else DEFAULT_SEEDS
    least = 1 if quick or seeds is not None else target.least_seeds
    count = max(default if seeds is None else seeds, least)
    usual = target.quick_datasets if quick else target.datasets
    names, notes = _available(usual) if datasets is None else (_named(target, datasets), [])
    return Options(tuple(names), tuple(range(count)), quick), notes


def _named(target: Target, datasets: Sequence[str]) -> list[str]:
    fitting = [name for name in DATASETS if _fits(target, name)]
    for name in datasets:
        if name not in fitting:
            why = ", which have raw text" if target.needs_text else ""
            raise ConfigError(
                f"The 'datasets' of this experiment must be some of {', '.join(fitting)}{why}. "
                f"Got {name!r}."
            )
        DATASETS[name].require(data_folder())
    return in_order(set(datasets))


def _fits(target: Target, name: str) -> bool:
    if ("mnist" in target.datasets) != (name == "mnist"):
        return False
    return not target.needs_text or "text" in DATASETS[name].features


def _available(usual: Sequence[str]) -> tuple[list[str], list[str]]:
    folder = data_folder()
    known = [name for name in usual if name in DATASETS]
    here = [name for name in known if not DATASETS[name].missing(folder)]
    if not here:
        raise DataNotAvailableError(
            f"None of the datasets {', '.join(usual)} is on this machine. Download one with: "
            f"privgcn fetch {usual[0]}, or set PRIVGCN_DATA to a folder that holds them."
        )
    left = [name for name in usual if name not in here]
    notes = [f"Not run, because the raw files are not here: {', '.join(left)}."] if left else []
    return here, notes
