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
from typing import Any, NamedTuple

import numpy as np

from privgcn.config import (
    PAPER_LEARNING_RATES,
    Mode,
    Settings,
    parse_assignment,
    read_settings,
)
from privgcn.data import TRAIN, VALIDATION, Corpus
from privgcn.errors import ConfigError, DataError, PrivacyContractError, shown
from privgcn.graph import DocumentGraph
from privgcn.mechanism import RandomSource
from privgcn.mechanism.fixed_point import Grid
from privgcn.mechanism.noise import noisy
from privgcn.privacy.accounting import GaussianEvent
from privgcn.privacy.plan import PrivacyPlan
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
    graph_of,
    not_covered,
    prepare,
    units_in,
)
from privgcn.runs.train import TrainedRun, fit, stated

# Settings that a search may vary. The others decide what is promised, or what is read: all
# candidates protect the same units, divided into the same groups.
_SECTIONS = ("features.", "model.", "training.", "prediction.")

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
        for name in self.choices:
            if not name.startswith(_SECTIONS):
                raise ConfigError(
                    f"The setting {shown(name)} must not be searched over: it decides what is "
                    f"promised or read. Search over {', '.join(s + '*' for s in _SECTIONS)}."
                )
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


class Winner(NamedTuple):
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
    _check_search(corpus, settings, space, public_validation)
    candidates = _Candidates(corpus, settings, space, count, public=public_validation)
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
    return candidates.winner(best[2], best[1])


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
        *,
        public: bool,
    ) -> None:
        privacy = settings.privacy
        if privacy is None or privacy.epsilon is None:
            raise ValueError("a search has an epsilon")
        self.space, self.public = space, public
        self.choices = space.combinations()
        drafts: list[PreparedRun] = []
        self.graphs: list[DocumentGraph] = []
        for choice in self.choices:
            candidate = settings.changed({**choice, **_noise_changes(1.0)})
            alike = [
                (draft.featurizer, graph)
                for draft, graph in zip(drafts, self.graphs, strict=True)
                if draft.settings.features == candidate.features
            ]
            if alike:
                featurizer, graph = alike[0]
                draft = prepare(corpus, candidate, featurizer=featurizer)
            else:
                draft = prepare(corpus, candidate)
                graph = graph_of(corpus, draft.featurizer, candidate)
            drafts.append(draft)
            self.graphs.append(graph)
        trainings = [_training(draft.plan) for draft in drafts]
        noise = calibrate_search(
            privacy.epsilon,
            trainings,
            count,
            private_score=not public,
            delta=privacy.delta,
        )
        self.score_noise = noise.score
        self.prepared = [
            replace(
                draft,
                plan=draft.plan and replace(draft.plan, noise_multiplier=each),
                settings=draft.settings.changed(_noise_changes(each)),
            )
            for draft, each in zip(drafts, noise.training, strict=True)
        ]
        trainings = [_training(prepared.plan) for prepared in self.prepared]
        self.selection = Selection(
            expected_runs=count.expected,
            candidates=tuple(dict.fromkeys(trainings)),
            score=None if noise.score is None else GaussianEvent(noise.score),
            validation_units=0 if public else units_in(corpus, VALIDATION, privacy.unit),
        )
        # What a plan refuses to be chosen by is refused before the first run.
        self.plans = [
            prepared.plan and replace(prepared.plan, selection=self.selection)
            for prepared in self.prepared
        ]

    def train(self, number: int) -> Model:
        """One run of a candidate, with fresh noise."""
        prepared = self.prepared[number]
        released = fit(prepared, self.graphs[number])
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
        graph = self.graphs[number]
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
        grid = Grid.of(self.score_noise, len(right))
        whole = np.floor(right * grid.unit)
        return float(noisy(whole.sum(keepdims=True), grid, source)[0])

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
        run = TrainedRun(
            stated(model, public, gaps), prepared.corpus, self.graphs[number], prepared
        )
        return Winner(run, self.choices[number])


def _training(plan: PrivacyPlan | None) -> GaussianEvent:
    """What one run of a candidate releases."""
    if plan is None or not isinstance(plan.event, GaussianEvent):
        raise ValueError("a candidate of a search is one private run")
    return plan.event


def _noise_changes(noise_multiplier: float) -> dict[str, Any]:
    return {
        "privacy.epsilon": None,
        "privacy.noise_multiplier": noise_multiplier,
        "privacy.accountant": "rdp",
    }


def _check_search(corpus: Corpus, settings: Settings, space: SearchSpace, public: bool) -> None:
    """Refuses what forbids a search, beyond what forbids a run."""
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
    if len(corpus.validation) == 0:
        raise DataError(
            f"A search must have validation documents to choose by. '{corpus.name}' has none. "
            "Mark some with 'validation' in the column 'split'."
        )
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
