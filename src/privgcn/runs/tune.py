"""A search that is paid for: many private runs, one winner, one epsilon for all of it.

There is no other search here. A run is scored with noise on private validation documents,
or on validation documents that the user declared public; how many runs there are is drawn
in secret; what lost is forgotten. ``docs/decisions/0006-paid-search.md`` has the reasons.

Examples:
    >>> space = SearchSpace.of("auto", None, ["training.noise_scale=0.4,0.8"])
    >>> len(space.combinations()), str(space)
    (2, 'training.noise_scale from 0.4, 0.8')
"""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from privgcn.config import (
    PAPER_LEARNING_RATES,
    Mode,
    Settings,
    parse_assignment,
    read_settings,
)
from privgcn.data import TRAIN, VALIDATION, Corpus
from privgcn.errors import ConfigError, DataError, PrivacyContractError, shown
from privgcn.features import Featurizer
from privgcn.graph import DocumentGraph
from privgcn.mechanism import RandomSource
from privgcn.mechanism.fixed_point import Grid
from privgcn.mechanism.noise import noisy
from privgcn.privacy.accounting import GaussianEvent
from privgcn.privacy.plan import PrivacyPlan, plan_for
from privgcn.privacy.selection import (
    MOST_CANDIDATES,
    RunCount,
    Selection,
    calibrate_search,
)
from privgcn.privacy.statement import Fact
from privgcn.runs.model import Model
from privgcn.runs.prepare import (
    PreparedRun,
    assumed_public,
    check_owners,
    graph_of,
    make_features,
    not_covered,
    training_units,
)
from privgcn.runs.train import TrainedRun, fit, stated

# Settings that a search may vary. The others decide what is promised, or what is read.
_SECTIONS = ("features.", "model.", "training.", "prediction.")
_OTHERS = (
    "privacy.parts",
    "privacy.sampling",
    "privacy.sampling_probability",
    "privacy.clip_norm",
)

DEFAULT_SPACES: dict[str, dict[str, tuple[Any, ...]]] = {
    "auto": {"training.noise_scale": (0.4, 0.8, 1.6)},
    "paper-full": {"training.learning_rate": PAPER_LEARNING_RATES},
    "paper-split": {"training.learning_rate": PAPER_LEARNING_RATES},
}


@dataclass(frozen=True)
class SearchSpace:
    """Values to try for some settings; every combination is a candidate, all equally likely.

    Raises:
        ConfigError: No values, too many combinations, or a setting that no search may vary.
    """

    choices: Mapping[str, tuple[Any, ...]]

    def __post_init__(self) -> None:
        for name, values in self.choices.items():
            if not name.startswith(_SECTIONS) and name not in _OTHERS:
                raise ConfigError(
                    f"The setting {shown(name)} must not be searched over: it decides what is "
                    f"promised or read. Search over {', '.join(s + '*' for s in _SECTIONS)} or "
                    f"{', '.join(_OTHERS)}."
                )
            if not values:
                raise ConfigError(f"The values to try for {shown(name)} must be at least one.")
        size = math.prod(len(values) for values in self.choices.values())
        if not 2 <= size <= MOST_CANDIDATES:
            raise ConfigError(
                f"A search must have 2 to {MOST_CANDIDATES} candidates. Got {shown(size)}. "
                'Name values to try, such as --try "training.noise_scale=0.4,0.8,1.6".'
            )

    @classmethod
    def of(cls, recipe: str, file: Path | None, tries: Sequence[str]) -> SearchSpace:
        """The space of a file and of ``a.b=c,d`` assignments; else the recipe's own."""
        choices: dict[str, Any] = {} if file is None else read_settings(file)
        for text in tries:
            name, separator, values = text.partition("=")
            value = parse_assignment(f"{name}=[{values}]")[1] if separator else values
            if not isinstance(value, list):
                # Not TOML: plain words, separated by commas.
                value = [parse_assignment(f"{name}={one}")[1] for one in values.split(",")]
            choices[name.strip()] = value
        if not choices:
            if recipe not in DEFAULT_SPACES:
                raise ConfigError(
                    f"Recipe '{recipe}' has no search space of its own. Name an epsilon and a "
                    f"private recipe: {', '.join(DEFAULT_SPACES)}."
                )
            choices = dict(DEFAULT_SPACES[recipe])
        lists = {n: v if isinstance(v, list | tuple) else (v,) for n, v in choices.items()}
        return cls({name: tuple(values) for name, values in lists.items()})

    def check_overrides(self, said: Mapping[str, Any]) -> None:
        """Refuses settings of privacy that are fixed and searched over: one would be dropped.

        Args:
            said: What the user named, by dotted name.
        """
        for name, values in self.choices.items():
            if name in said and name.startswith("privacy."):
                raise ConfigError(
                    f"The setting '{name}' must be fixed or searched over, not both. Got "
                    f"{said[name]!r} and the values {', '.join(map(str, values))} to try."
                )

    def combinations(self) -> list[dict[str, Any]]:
        """What each candidate changes."""
        return [
            dict(zip(self.choices, values, strict=True))
            for values in itertools.product(*self.choices.values())
        ]

    def __str__(self) -> str:
        return "; ".join(
            f"{name} from {', '.join(_without_path(value) for value in values)}"
            for name, values in self.choices.items()
        )


def _without_path(value: Any) -> str:
    """A value as a release may name it: not where a file lies on this machine."""
    if isinstance(value, Mapping):
        return str({name: _without_path(each) for name, each in value.items()})
    return re.split(r"[/\\]", value.rstrip("/"))[-1] if isinstance(value, str) else str(value)


@dataclass(frozen=True, eq=False)
class Winner:
    """All that is left of a search.

    Attributes:
        run: The winning model beside its corpus; the epsilon of its statement is that of the
            whole search.
        chosen: The winning values of the settings that were searched over.
    """

    run: TrainedRun
    chosen: dict[str, Any]


def search(
    corpus: Corpus,
    settings: Settings,
    space: SearchSpace,
    count: RunCount,
    *,
    public_validation: bool = False,
) -> Winner:
    """Trains a secret number of random candidates and returns the best.

    Args:
        corpus: Documents with a validation split.
        settings: A private run's settings; their epsilon is that of the whole search.
        space: What to choose among.
        count: The law of the number of runs.
        public_validation: The user's word that validation documents are public: they are
            scored without noise, with the edges among them.

    Guarantees:
        Together, all runs and the choice among them cost at most the settings' epsilon, for
        training documents and, unless public, validation documents. The winner is the run
        that was scored; it is not trained again.
    """
    epsilon = _checked_epsilon(corpus, settings, space, public_validation)
    candidates = _Candidates(corpus, settings, space, count, epsilon, public=public_validation)
    source = RandomSource.secret()
    best: tuple[float, Model, int] | None = None
    for _ in range(count.draw(source)):
        number = int(source.words(1)[0] % np.uint64(len(candidates.prepared)))
        model = candidates.train(number)
        score = candidates.score(number, model, source)
        # Of equal scores the first one stays. Runs are alike, so that is a fair choice among
        # equals: an order of all outcomes, as the bound needs it.
        if best is None or score > best[0]:
            best = (score, model, number)
    if best is None:
        raise RuntimeError("a law of the number of runs gives at least one")
    _, model, number = best
    return candidates.winner(number, model)


class _Candidates:
    """Candidates with their plans, and documents encoded once for each kind of features.

    Everything is prepared for every candidate before the first run, so that neither
    mistakes nor features tell which candidates were drawn.
    """

    def __init__(
        self,
        corpus: Corpus,
        settings: Settings,
        space: SearchSpace,
        count: RunCount,
        epsilon: float,
        *,
        public: bool,
    ) -> None:
        self.corpus, self.space, self.public = corpus, space, public
        self.choices = space.combinations()
        self.graphs: dict[str, DocumentGraph] = {}
        self.featurizers: dict[str, Featurizer] = {}
        drafts = [self._draft(settings.changed(changes)) for changes in self.choices]
        plans = [draft.plan for draft in drafts if draft.plan is not None]
        _check_same_units(plans)
        noise = calibrate_search(
            epsilon,
            [_training(plan) for plan in plans],
            count,
            private_score=not public,
            delta=plans[0].delta,
        )
        plans = [
            replace(plan, noise_multiplier=each)
            for plan, each in zip(plans, noise.training, strict=True)
        ]
        self.score_noise = noise.score
        self.selection = Selection(
            expected_runs=count.expected,
            candidates=tuple(dict.fromkeys(_training(plan) for plan in plans)),
            score=None if noise.score is None else GaussianEvent(noise.score),
            validation_units=0 if public else _validation_units(corpus, plans[0].unit),
        )
        # What a plan refuses to be chosen by is refused before the first run.
        self.plans = [replace(plan, selection=self.selection) for plan in plans]
        self.prepared = [
            replace(
                draft,
                plan=plan,
                settings=draft.settings.changed(_noise_changes(plan.noise_multiplier)),
            )
            for draft, plan in zip(drafts, plans, strict=True)
        ]

    def train(self, number: int) -> Model:
        """One run of a candidate, with fresh noise."""
        prepared = self.prepared[number]
        released = fit(prepared, self.graph(number))
        if released.plan != prepared.plan or not released.releasable:
            raise PrivacyContractError(
                "A run of a search must follow the plan that the search is accounted with."
            )
        return Model(released, prepared.featurizer, prepared.classes)

    def score(self, number: int, model: Model, source: RandomSource) -> float:
        """How many validation documents (or owners) a run gets right, noisy unless public.

        Guarantees:
            Private documents are scored one by one, each without its edges: the content of
            one moves the sum by at most 1, and so does an owner, who counts by the fraction
            of own documents that are right. It is the same for removing and for replacing.
        """
        graph = self.graph(number)
        rows = np.flatnonzero(graph.split == VALIDATION)
        mode: Mode = "own-graph" if self.public else "alone"
        guesses = model.scores(graph, rows, mode).argmax(-1)
        right = (guesses == graph.labels[rows]).astype(np.float64)
        if self.score_noise is None:
            return float(right.sum())
        plan = self.prepared[number].plan
        if plan is not None and plan.unit == "person" and graph.owners is not None:
            _, owner = np.unique(graph.owners[rows], return_inverse=True)
            right = np.bincount(owner, right) / np.bincount(owner)
        return _noisy_sum(right, self.score_noise, source)

    def graph(self, number: int) -> DocumentGraph:
        """The documents as a candidate reads them."""
        return self.graphs[_feature_key(self.prepared[number].settings)]

    def winner(self, number: int, model: Model) -> Winner:
        """The winner with its statement."""
        prepared = self.prepared[number]
        model = replace(model, released=replace(model.released, plan=self.plans[number]))
        public = [
            Fact("search_candidates", detail=str(self.space)),
            *assumed_public(prepared.train, prepared.featurizer),
        ]
        # What a candidate's features learned may have decided the search, winner or not.
        learned = {id(each.featurizer): each.featurizer for each in self.prepared}
        gaps = [gap for each in learned.values() for gap in not_covered(prepared.train, each)]
        model = stated(model, public, gaps)
        run = TrainedRun(model, self.corpus, self.graph(number), prepared)
        return Winner(run, self.choices[number])

    def _draft(self, candidate: Settings) -> PreparedRun:
        """The candidate with noise still to be set."""
        privacy = candidate.changed(_noise_changes(1.0)).privacy
        if privacy is None or candidate.training.patience > 0:
            raise PrivacyContractError(
                "Every candidate of a search must be a private run that does not stop early. "
                f"Got training.patience {candidate.training.patience}."
            )
        plan = plan_for(
            privacy,
            training_units(self.corpus, privacy.unit),
            epochs=candidate.training.epochs,
            seed=candidate.seed,
            columns=self.corpus.train.columns,
        )
        key = _feature_key(candidate)
        if key not in self.featurizers:
            featurizer = make_features(self.corpus, candidate)
            self.featurizers[key] = featurizer
            self.graphs[key] = graph_of(self.corpus, featurizer, candidate)
        return PreparedRun(
            settings=candidate,
            corpus=self.corpus,
            classes=np.asarray(self.corpus.classes),
            plan=plan,
            featurizer=self.featurizers[key],
            forecast=None,
        )


def _noisy_sum(values: NDArray[np.float64], noise: float, source: RandomSource) -> float:
    """A sum of values between 0 and 1, of which each unit has one, with Gaussian noise."""
    grid = Grid.of(noise, len(values))
    whole = np.floor(values * grid.unit)
    return float(noisy(whole.sum(keepdims=True), grid, source)[0])


def _feature_key(settings: Settings) -> str:
    return settings.features.model_dump_json()


def _validation_units(corpus: Corpus, unit: str) -> int:
    documents = corpus.validation
    if unit == "person" and documents.owners is not None:
        return len(np.unique(documents.owners))
    return len(documents)


def _check_same_units(plans: Sequence[PrivacyPlan]) -> None:
    """Refuses candidates that do not all protect the very same units.

    Groups of two partitions are different units: whoever is one unit of a candidate may touch
    every unit of another one, and no bound for one run holds for both.
    """
    first = plans[0]
    of_groups = first.unit in ("part", "graph")
    for plan in plans:
        protected = [(p.unit, p.relation, p.units, p.delta) for p in (first, plan)]
        if protected[0] != protected[1] or (of_groups and plan.partition != first.partition):
            raise PrivacyContractError(
                "Every candidate of a search must protect the same units: unit "
                f"'{first.unit}' is decided by the partition, so 'privacy.parts' must not be "
                f"searched over. Got {first.partition.groups} and {plan.partition.groups} "
                f"parts. Fix it with --set privacy.parts={first.partition.groups}."
            )


def _training(plan: PrivacyPlan) -> GaussianEvent:
    event = plan.event
    if not isinstance(event, GaussianEvent):
        raise PrivacyContractError("A candidate of a search must not be a search itself.")
    return event


def _noise_changes(noise_multiplier: float) -> dict[str, Any]:
    return {
        "privacy.epsilon": None,
        "privacy.noise_multiplier": noise_multiplier,
        "privacy.accountant": "rdp",
    }


def _checked_epsilon(
    corpus: Corpus, settings: Settings, space: SearchSpace, public: bool
) -> float:
    """The epsilon of the search, once everything that forbids a search is ruled out."""
    privacy = settings.privacy
    if privacy is None or privacy.epsilon is None or privacy.noise_multiplier is not None:
        raise ConfigError(
            "A search must have an epsilon, from which the noise of all its runs follows. Add "
            "--epsilon 1 and leave out privacy.noise_multiplier. Searches without privacy are "
            "experiments: 'privgcn reproduce'."
        )
    if privacy.reproducible:
        raise ConfigError(
            "The 'privacy.reproducible' of a search must be false. Got true: whoever knows the "
            "seed knows how many runs there were, and their noise."
        )
    if privacy.accountant not in (None, "rdp"):
        raise ConfigError(
            f"The 'privacy.accountant' of a search must be rdp, the only one that bounds a "
            f"choice among runs. Got {privacy.accountant!r}. Leave it out."
        )
    corpus.check_trainable()
    if len(corpus.validation) == 0:
        raise DataError(
            f"A search must have validation documents to choose by. '{corpus.name}' has none. "
            "Mark some with 'validation' in the column 'split'."
        )
    check_owners(corpus, privacy.unit)
    if public and corpus.owners is not None:
        training = corpus.owners[corpus.split == TRAIN]
        if np.isin(corpus.owners[corpus.split == VALIDATION], training).any():
            raise PrivacyContractError(
                "Public validation documents must share no owner with training documents. Some "
                "do: what is public about an owner reveals something of the owner's protected "
                "documents. Split by owner, or leave out --public-validation."
            )
    varied = [name for name in space.choices if name.startswith("prediction.")]
    if varied and not public:
        raise ConfigError(
            f"The setting '{varied[0]}' can be searched over with --public-validation only: "
            "private validation documents are scored one by one, where it has no influence."
        )
    return privacy.epsilon
