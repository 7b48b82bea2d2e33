"""A search that is paid for: many private runs, one winner, one epsilon for all of it.

There is no other search here. A run is scored with noise on private validation documents,
or on validation documents that the user declared public; how many runs there are is drawn
in secret; what lost is forgotten. ``docs/decisions/0006-paid-search.md`` has the reasons.

Examples:
    >>> space = search_space("auto", None, ["training.noise_scale=0.4,0.8"])
    >>> len(combinations(space)), in_words(space)
    (2, 'training.noise_scale from 0.4, 0.8')
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path, PureWindowsPath
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from privgcn.config import (
    PAPER_LEARNING_RATES,
    Mode,
    PrivacySettings,
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
from privgcn.privacy.plan import PrivacyPlan
from privgcn.privacy.selection import MOST_CANDIDATES, RunCount, calibrated_search
from privgcn.privacy.statement import Fact
from privgcn.runs.model import Model
from privgcn.runs.prepare import PreparedRun, graph_of, prepare, units_in
from privgcn.runs.train import TrainedRun, fit, stated

Space: TypeAlias = Mapping[str, Sequence[Any]]
"""Values to try for some settings; every combination is a candidate, all equally likely."""

# Settings that a search may vary. The others decide what is promised, or what is read: all
# candidates protect the same units, divided into the same groups.
_SECTIONS = ("features.", "model.", "training.", "prediction.")

DEFAULT_SPACES: dict[str, Space] = {
    "auto": {"training.noise_scale": (0.4, 0.8, 1.6)},
    "paper-full": {"training.learning_rate": PAPER_LEARNING_RATES},
    "paper-split": {"training.learning_rate": PAPER_LEARNING_RATES},
}


def search_space(recipe: str, file: Path | None, tries: Sequence[str]) -> Space:
    """The space of a file and of ``a.b=c,d`` assignments; else the recipe's own."""
    choices: dict[str, Any] = {} if file is None else read_settings(file)
    for text in tries:
        name, separator, values = text.partition("=")
        value = parse_assignment(f"{name}=[{values}]")[1] if separator else values
        if not isinstance(value, list):
            # Not TOML: plain words, separated by commas.
            value = [parse_assignment(f"{name}={one}")[1] for one in values.split(",")]
        choices[name.strip()] = value
    if not choices and recipe not in DEFAULT_SPACES:
        raise ConfigError(
            f"Recipe '{recipe}' has no search space of its own. Name an epsilon and a "
            f"private recipe: {', '.join(DEFAULT_SPACES)}."
        )
    lists = {name: v if isinstance(v, list) else [v] for name, v in choices.items()}
    space: Space = lists or DEFAULT_SPACES[recipe]
    combinations(space)
    return space


def combinations(space: Space) -> list[dict[str, Any]]:
    """What each candidate changes."""
    for name in space:
        if not name.startswith(_SECTIONS):
            raise ConfigError(
                f"The setting {shown(name)} must not be searched over: it decides what is "
                f"promised or read. Search over {', '.join(s + '*' for s in _SECTIONS)}."
            )
    size = math.prod(map(len, space.values()))
    if not 2 <= size <= MOST_CANDIDATES:
        raise ConfigError(
            f"A search must have 2 to {MOST_CANDIDATES} candidates. Got {shown(size)}. "
            'Name values to try, such as --try "training.noise_scale=0.4,0.8,1.6".'
        )
    values = itertools.product(*space.values())
    return [dict(zip(space, each, strict=True)) for each in values]


def in_words(space: Space) -> str:
    """A space as a release may tell it: not where a file lies on this machine."""

    def word(value: Any) -> str:
        if isinstance(value, Mapping):
            return str({name: word(each) for name, each in value.items()})
        return PureWindowsPath(value).name if isinstance(value, str) else str(value)

    return "; ".join(f"{name} from {', '.join(map(word, v))}" for name, v in space.items())


class Candidate(NamedTuple):
    """A run that may be drawn, with the changes that make it; its plan names the search."""

    prepared: PreparedRun
    graph: DocumentGraph
    changes: dict[str, Any]

    @property
    def plan(self) -> PrivacyPlan:
        """What its guarantee rests on."""
        assert self.prepared.plan is not None
        return self.prepared.plan


def search(
    corpus: Corpus,
    settings: Settings,
    space: Space,
    count: RunCount,
    *,
    public_validation: bool = False,
) -> tuple[TrainedRun, dict[str, Any]]:
    """Trains a secret number of random candidates and returns the best, with its values.

    The epsilon of ``settings`` is that of the whole search. ``public_validation`` is the user's
    word that validation documents are public: they are scored without noise, with the edges
    among them.

    Guarantees:
        Together, all runs and the choice among them cost at most the settings' epsilon, for
        training documents and, unless public, validation documents; the epsilon of the
        winner's statement is that of the whole search. The winner is the run that was scored;
        it is not trained again.
    """
    candidates = make_candidates(corpus, settings, space, count, public=public_validation)
    source = RandomSource.secret()
    best: tuple[float, Candidate, Model] | None = None
    for _ in range(count.draw(source)):
        candidate = candidates[int(source.words(1)[0] % np.uint64(len(candidates)))]
        model = trained(candidate)
        result = score(candidate, model, source)
        # Of equal scores the first one stays. Runs are alike, so that is a fair choice among
        # equals: an order of all outcomes, as the bound needs it.
        if best is None or result > best[0]:
            best = (result, candidate, model)
    assert best is not None  # the law of the number of runs gives at least one
    _, candidate, model = best
    return winner(candidate, model, space, candidates), candidate.changes


def make_candidates(
    corpus: Corpus, settings: Settings, space: Space, count: RunCount, *, public: bool
) -> list[Candidate]:
    """All candidates with their plans, documents encoded once for each kind of features.

    Everything is prepared for every candidate before the first run, so that neither
    mistakes nor features tell which candidates were drawn.
    """
    privacy, epsilon = _check_search(corpus, settings, space, public)
    encoded: dict[str, tuple[Featurizer, DocumentGraph]] = {}
    drafts = []
    for changes in combinations(space):
        candidate = settings.changed({**changes, **_noise_changes(1.0)})
        key = candidate.features.model_dump_json()
        featurizer = encoded[key][0] if key in encoded else None
        prepared = prepare(corpus, candidate, featurizer=featurizer)
        if featurizer is None:
            graph = graph_of(corpus, prepared.featurizer, candidate)
            encoded[key] = prepared.featurizer, graph
        drafts.append(Candidate(prepared, encoded[key][1], changes))
    selection, trainings = calibrated_search(
        epsilon,
        [each.plan.training for each in drafts],
        count,
        validation_units=0 if public else units_in(corpus, VALIDATION, privacy.unit),
        delta=privacy.delta,
    )
    noises = [training.noise_multiplier for training in trainings]
    # What a plan refuses to be chosen by is refused here, before the first run.
    return [
        draft._replace(
            prepared=replace(
                draft.prepared,
                plan=replace(draft.plan, noise_multiplier=each, selection=selection),
                settings=draft.prepared.settings.changed(_noise_changes(each)),
            )
        )
        for draft, each in zip(drafts, noises, strict=True)
    ]


def trained(candidate: Candidate) -> Model:
    """One run of a candidate, with fresh noise."""
    prepared = candidate.prepared
    released = fit(prepared, candidate.graph)
    return Model(released, prepared.featurizer, prepared.classes)


def score(candidate: Candidate, model: Model, source: RandomSource) -> float:
    """How many validation documents (or owners) a run gets right, noisy unless public."""
    selection = candidate.plan.selection
    noise = None if selection is None else selection.score
    right = right_answers(candidate, model, public=noise is None)
    if noise is None:
        return float(right.sum())
    grid = Grid.of(noise.noise_multiplier, len(right))
    whole = np.floor(right * grid.unit)
    return float(noisy(whole.sum(keepdims=True), grid, source)[0])


def right_answers(candidate: Candidate, model: Model, *, public: bool) -> NDArray[np.float64]:
    """For each validation document (or owner) 1 where a run is right, 0 where it is wrong.

    Guarantees:
        Private documents are scored one by one, each without its edges: the content of
        one moves the sum by at most 1, and so does an owner, who counts by the fraction
        of own documents that are right. It is the same for removing and for replacing.
    """
    graph = candidate.graph
    rows = np.flatnonzero(graph.split == VALIDATION)
    mode: Mode = "own-graph" if public else "alone"
    guesses = model.scores(graph, rows, mode).argmax(-1)
    right = np.asarray(guesses == graph.labels[rows], np.float64)
    person = candidate.plan.unit == "person"
    if public or not person or graph.owners is None:
        return right
    _, owner = np.unique(graph.owners[rows], return_inverse=True)
    fractions: NDArray[np.float64] = np.bincount(owner, right) / np.bincount(owner)
    return fractions


def winner(
    candidate: Candidate, model: Model, space: Space, candidates: Sequence[Candidate]
) -> TrainedRun:
    """The run that won, with its statement."""
    prepared = candidate.prepared
    # What a candidate's features learned may have decided the search, winner or not.
    stated_model = stated(
        model,
        prepared,
        public=[Fact("search_candidates", detail=in_words(space))],
        featurizers=[each.prepared.featurizer for each in candidates],
    )
    return TrainedRun(stated_model, prepared.corpus, candidate.graph)


def _noise_changes(noise_multiplier: float) -> dict[str, Any]:
    return {
        "privacy.epsilon": None,
        "privacy.noise_multiplier": noise_multiplier,
        "privacy.accountant": "rdp",
    }


def _check_search(
    corpus: Corpus, settings: Settings, space: Space, public: bool
) -> tuple[PrivacySettings, float]:
    """Refuses what forbids a search, beyond what forbids a run; returns what it may cost."""
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
    varied = [name for name in space if name.startswith("prediction.")]
    if varied and not public:
        raise ConfigError(
            f"The setting '{varied[0]}' can be searched over with --public-validation only: "
            "private validation documents are scored one by one, where it has no influence."
        )
    return privacy, privacy.epsilon
