"""A search that is paid for: many private runs, one winner, one epsilon for all of it.

There is no other search here. A run is scored with noise on private validation documents,
or on validation documents that the user declared public; how many runs there are is drawn
in secret; what lost is forgotten. ``docs/decisions/0006-paid-search.md`` has the reasons.
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
    Mode,
    PrivacySettings,
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
from privgcn.privacy.plan import PrivacyPlan
from privgcn.privacy.selection import MOST_CANDIDATES, RunCount, calibrated_search
from privgcn.privacy.statement import Fact
from privgcn.runs.prepare import PreparedRun, graph_of, prepare, units_in
from privgcn.runs.train import TrainedRun, not_covered, train

Space: TypeAlias = Mapping[str, Sequence[Any]]
"""Values to try for some settings; all combinations are candidates, equally likely."""

# Settings that a search may vary. The others decide what is promised, or what is read: all
# candidates protect the same units, divided into the same groups.
_SECTIONS = ("features.", "model.", "training.", "prediction.")

# The range in which the paper tuned Adam-DP.
_RATES: Space = {"training.learning_rate": (0.1, 1.0, 10.0, 50.0, 100.0)}
DEFAULT_SPACES: dict[str, Space] = {
    "auto": {"training.noise_scale": (0.4, 0.8, 1.6)},
    "paper-full": _RATES,
    "paper-split": _RATES,
}


def search_space(recipe: str, file: Path | None, tries: Sequence[str]) -> Space:
    """The space of a file and of ``a.b=c,d`` assignments; else the recipe's own."""
    choices: dict[str, Any] = {} if file is None else read_settings(file)
    for text in tries:
        name, _, values = text.partition("=")
        each = [parse_assignment(f"{name}={value}")[1] for value in values.split(",")]
        choices[name.strip()] = each
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
    return [
        dict(zip(space, values, strict=True)) for values in itertools.product(*space.values())
    ]


def in_words(space: Space) -> str:
    """A space as a release may tell it: not where a file lies on this machine."""
    words = {name: [PureWindowsPath(str(v)).name for v in own] for name, own in space.items()}
    return "; ".join(f"{name} from {', '.join(own)}" for name, own in words.items())


class Candidate(NamedTuple):
    """A run that may be drawn, with the changes that make it; its plan names the search."""

    prepared: PreparedRun
    graph: DocumentGraph
    changes: dict[str, Any]


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
    word that validation documents are public: they are scored without noise, with their edges.

    Guarantees:
        Together, all runs and the choice among them cost at most the settings' epsilon, for
        training documents and, unless public, validation documents; the epsilon of the
        winner's statement is that of the whole search. The winner is the run that was scored;
        it is not trained again.
    """
    candidates = make_candidates(corpus, settings, space, count, public=public_validation)
    source = RandomSource.secret()
    best: tuple[float, TrainedRun, dict[str, Any]] | None = None
    for _ in range(count.draw(source)):
        candidate = candidates[int(source.words(1)[0] % np.uint64(len(candidates)))]
        run = train(candidate.prepared, candidate.graph)
        result = score(run, source)
        # Of equal scores the first one stays. Runs are alike, so that is a fair choice among
        # equals: an order of all outcomes, as the bound needs it.
        if best is None or result > best[0]:
            best = result, run, candidate.changes
    assert best is not None  # the law of the number of runs gives at least one
    return best[1:]


def make_candidates(
    corpus: Corpus, settings: Settings, space: Space, count: RunCount, *, public: bool
) -> list[Candidate]:
    """All candidates with their plans, documents encoded once for each kind of features.

    All is prepared before the first run: neither mistakes nor features tell which were drawn.
    """
    privacy, epsilon = _check_search(corpus, settings, space, public)
    encoded: dict[str, tuple[PreparedRun, DocumentGraph]] = {}
    drafts, plans = [], list[PrivacyPlan]()
    for changes in combinations(space):
        candidate = settings.changed({**changes, **_noise(1.0)})
        key = candidate.features.model_dump_json()
        known = encoded[key][0].featurizer if key in encoded else None
        prepared = prepare(corpus, candidate, featurizer=known)
        assert prepared.plan is not None  # there is an epsilon
        if key not in encoded:
            encoded[key] = prepared, graph_of(corpus, prepared.featurizer, candidate)
        drafts.append(Candidate(prepared, encoded[key][1], changes))
        plans.append(prepared.plan)
    selection, trainings = calibrated_search(
        epsilon,
        [plan.training for plan in plans],
        count,
        validation_units=0 if public else units_in(corpus, VALIDATION, privacy.unit),
        delta=privacy.delta,
    )
    # What the features of any candidate learned may have decided the search.
    gaps = [
        fact for made, _ in encoded.values() for fact in not_covered(corpus, made.featurizer)
    ]
    noises = [training.noise_multiplier for training in trainings]
    return [
        draft._replace(
            prepared=replace(
                draft.prepared,
                # What a plan refuses to be chosen by is refused here, before the first run.
                plan=replace(plan, noise_multiplier=noise, selection=selection),
                settings=draft.prepared.settings.changed(_noise(noise)),
                public=(Fact("search_candidates", detail=in_words(space)),),
                gaps=tuple(gaps),
            )
        )
        for draft, plan, noise in zip(drafts, plans, noises, strict=True)
    ]


def score(run: TrainedRun, source: RandomSource) -> float:
    """How many validation documents (or owners) a run gets right, noisy unless public."""
    plan = run.model.released.plan
    noise = None if plan is None or plan.selection is None else plan.selection.score
    right = right_answers(run, public=noise is None)
    if noise is None:
        return float(right.sum())
    grid = Grid.of(noise.noise_multiplier, len(right))
    whole = np.floor(right * grid.unit)
    return float(noisy(whole.sum(keepdims=True), grid, source)[0])


def right_answers(run: TrainedRun, *, public: bool) -> NDArray[np.float64]:
    """For each validation document (or owner) 1 where a run is right, 0 where it is wrong.

    Guarantees:
        Private documents are scored one by one, each without its edges: the content of
        one moves the sum by at most 1, and so does an owner, who counts by the fraction
        of own documents that are right. It is the same for removing and for replacing.
    """
    graph, plan = run.graph, run.model.released.plan
    rows = np.flatnonzero(graph.split == VALIDATION)
    mode: Mode = "own-graph" if public else "alone"
    guesses = run.model.scores(graph, rows, mode).argmax(-1)
    right = np.asarray(guesses == graph.labels[rows], np.float64)
    if public or plan is None or plan.unit != "person" or graph.owners is None:
        return right
    _, owner = np.unique(graph.owners[rows], return_inverse=True)
    fractions: NDArray[np.float64] = np.bincount(owner, right) / np.bincount(owner)
    return fractions


def _noise(multiplier: float) -> dict[str, Any]:
    values = {"epsilon": None, "noise_multiplier": multiplier, "accountant": "rdp"}
    return {f"privacy.{name}": value for name, value in values.items()}


def _check_search(
    corpus: Corpus, settings: Settings, space: Space, public: bool
) -> tuple[PrivacySettings, float]:
    # Beyond what forbids a run.
    privacy = settings.privacy
    if privacy is None or privacy.epsilon is None or privacy.noise_multiplier is not None:
        raise ConfigError(
            "A search must have an epsilon, from which the noise of all its runs follows. Add "
            "--epsilon 1 and leave out privacy.noise_multiplier."
        )
    if privacy.reproducible:
        raise ConfigError(
            "The 'privacy.reproducible' of a search must be false. Got true: whoever knows the "
            "seed knows how many runs there were, and their noise."
        )
    if privacy.accountant not in (None, "rdp"):
        raise ConfigError(
            "The 'privacy.accountant' of a search must be rdp, which bounds a choice of runs. "
            f"Got {privacy.accountant!r}. Leave it out."
        )
    if len(corpus.validation) == 0:
        raise DataError(
            f"A search must have validation documents to choose by. '{corpus.name}' has none. "
            "Mark some with 'validation' in the column 'split'."
        )
    if public and corpus.owners is not None:
        training, other = (corpus.owners[corpus.split == s] for s in (TRAIN, VALIDATION))
        if np.isin(other, training).any():
            raise PrivacyContractError(
                "Public validation documents must share no owner with training documents: they "
                "reveal something of them. Split by owner, or leave out --public-validation."
            )
    varied = [name for name in space if name.startswith("prediction.")]
    if varied and not public:
        raise ConfigError(
            f"The setting '{varied[0]}' must be searched over with --public-validation only: "
            "it has no influence on private validation documents, scored one by one."
        )
    return privacy, privacy.epsilon
