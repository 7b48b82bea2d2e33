"""A search that is paid for: many private runs, one winner, one epsilon for all of it.

There is no other search here. A run is scored with noise on private validation documents,
or on validation documents that the user declared public; how many runs there are is drawn
in secret; what lost is forgotten. ``docs/decisions/0006-paid-search.md`` has the reasons.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch

from privgcn.config import Mode, Settings
from privgcn.data import Corpus
from privgcn.data.corpus import TRAIN, VALIDATION
from privgcn.errors import ConfigError, DataError, PrivacyContractError
from privgcn.graph.exact import rounded
from privgcn.prediction.inference import scores_in_mode
from privgcn.privacy.accounting.events import GaussianQuery, GaussianRelease
from privgcn.privacy.accounting.paid_search import Selection, calibrate_search
from privgcn.privacy.accounting.selection import RunCount
from privgcn.privacy.claim import Fact
from privgcn.privacy.mechanism import noise
from privgcn.privacy.mechanism.noise_grid import Grid
from privgcn.privacy.plan import PrivacyPlan
from privgcn.privacy.statement import PrivacyStatement
from privgcn.privacy.verification import weights_sha256
from privgcn.randomness import RandomSource
from privgcn.runs.assumptions import assumed_public, check_owners, not_covered
from privgcn.runs.candidates import SearchSpace
from privgcn.runs.train import Prepared, Trial, rows_with_split
from privgcn.training.fitted import Fit
from privgcn.training.planning import make_plan

_SCORE = "validation score of each run"


@dataclass(frozen=True, eq=False)
class Winner:
    """All that is left of a search.

    Attributes:
        trial: The winning model beside its corpus; the epsilon of its statement is that of
            the whole search.
        chosen: The winning values of the settings that were searched over.
    """

    trial: Trial
    chosen: dict[str, Any]


def search(
    corpus: Corpus,
    settings: Settings,
    space: SearchSpace,
    count: RunCount,
    *,
    public_validation: bool = False,
) -> Winner:
    """Trains a secret number of random candidates and keeps the best.

    Args:
        corpus: Documents with a validation split.
        settings: A private run's settings; their epsilon is that of the whole search.
        space: What to choose among.
        count: The law of the number of runs.
        public_validation: The user's word that validation documents are public: they are
            scored without noise, with the links among them.

    Guarantees:
        Together, all runs and the choice among them cost at most the settings' epsilon, for
        training documents and, unless public, validation documents.
    """
    epsilon = _checked_epsilon(corpus, settings, space, public_validation)
    runs = _Runs(corpus, settings, space, count, epsilon=epsilon, public=public_validation)
    source = RandomSource.secret()
    best: tuple[float, int, Fit] | None = None
    for _ in range(count.draw(source)):
        number = int(source.words(1)[0] % np.uint64(len(runs.candidates)))
        fitted = runs.train(number)
        score = runs.score(number, fitted, source)
        # Of equal scores the first one stays. Runs are alike, so that is a fair draw among
        # equals: an order of all outcomes, as the bound needs it.
        if best is None or score > best[0]:
            best = (score, number, fitted)
    if best is None:  # a law of the number of runs gives at least one
        raise PrivacyContractError("A search must make at least one run.")
    _, number, fitted = best
    return runs.winner(number, replace(fitted, plan=runs.plans[number]))


class _Runs:
    """Candidates with their plans, and documents made ready once for each kind of features.

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
        epsilon: float,
        public: bool,
    ) -> None:
        self.corpus, self.space, self.public = corpus, space, public
        self.prepared: dict[str, Prepared] = {}
        candidates = space.candidates(settings)
        drafts = [self._draft(candidate) for candidate in candidates]
        _check_same_units(drafts)
        noise = calibrate_search(
            epsilon,
            [_training(draft) for draft in drafts],
            count,
            private_score=not public,
            delta=drafts[0].delta,
        )
        plans = [
            replace(draft, noise_multiplier=each)
            for draft, each in zip(drafts, noise.training, strict=True)
        ]
        self.score_noise = noise.score
        selection = Selection(
            law=count.law,
            expected_runs=count.expected,
            candidates=tuple(dict.fromkeys(_training(plan) for plan in plans)),
            score=None if noise.score is None else GaussianQuery(_SCORE, noise.score, 1),
            validation_units=0 if public else self._validation_units(drafts[0].unit),
        )
        self.plans = [replace(plan, selection=selection) for plan in plans]
        self.candidates = [
            candidate.changed(_noise_changes(plan.noise_multiplier))
            for candidate, plan in zip(candidates, plans, strict=True)
        ]

    def train(self, number: int) -> Fit:
        """One run of a candidate, with fresh noise."""
        candidate, plan = self.candidates[number], self.plans[number]
        fitted = self._prepared(candidate).fit(candidate)
        if fitted.plan != replace(plan, selection=None) or not fitted.releasable:
            raise PrivacyContractError(
                "A run of a search must follow the plan that the search is accounted with."
            )
        return fitted

    def score(self, number: int, fitted: Fit, source: RandomSource) -> float:
        """How many validation documents (or owners) a run gets right, noisy unless public.

        Guarantees:
            Private documents are scored one by one, each without its links: the content of
            one moves the sum by at most 1, and so does an owner, who counts by the share of
            own documents that are right. It is the same for removing and for replacing.
        """
        ready = self._prepared(self.candidates[number])
        rows = rows_with_split(ready.graph, VALIDATION)
        mode: Mode = "own-graph" if self.public else "alone"
        guesses = scores_in_mode(fitted, ready.graph, rows, mode)[:, 0].argmax(-1)
        right = (guesses == ready.graph.labels[rows]).double().numpy()
        if self.score_noise is None:
            return float(right.sum())
        if self.plans[number].unit == "person" and self.corpus.validation.owners is not None:
            _, owner = np.unique(self.corpus.validation.owners, return_inverse=True)
            right = np.bincount(owner, right) / np.bincount(owner)
        grid = Grid.of(self.score_noise, len(right))
        total = rounded(torch.from_numpy(right), grid.step).sum()[None]
        return float(noise.noisy([total], grid, self.score_noise, source)[0])

    def winner(self, number: int, fitted: Fit) -> Winner:
        """The winner with its statement."""
        settings, plan = self.candidates[number], self.plans[number]
        ready, train = self._prepared(settings), self.corpus.train
        public = [
            Fact("search_candidates", detail=str(self.space)),
            *assumed_public(train, ready.featurizer),
        ]
        # What a candidate's features learned may have decided the search, winner or not.
        learned = [each.featurizer for each in self.prepared.values()]
        gaps = [gap for each in learned for gap in not_covered(train, each)]
        statement = PrivacyStatement.of(
            plan,
            releasable=fitted.releasable,
            assumed_public=public,
            not_covered=gaps,
            model_sha256=weights_sha256(fitted.serialised()),
        )
        return Winner(ready.trial(fitted, statement), self.space.combinations()[number])

    def _draft(self, candidate: Settings) -> PrivacyPlan:
        """The candidate's plan with noise still to be set."""
        privacy = candidate.changed(_noise_changes(1.0)).privacy
        if privacy is None or candidate.training.patience > 0:
            raise PrivacyContractError(
                "Every candidate of a search must be a private run that does not stop early. "
                f"Got training.patience {candidate.training.patience}."
            )
        return make_plan(
            privacy,
            self._prepared(candidate).train,
            epochs=candidate.training.epochs,
            seed=candidate.seed,
            columns=self.corpus.train.columns,
        )

    def _prepared(self, candidate: Settings) -> Prepared:
        key = candidate.features.model_dump_json()
        if key not in self.prepared:
            self.prepared[key] = Prepared.of(self.corpus, candidate)
        return self.prepared[key]

    def _validation_units(self, unit: str) -> int:
        documents = self.corpus.validation
        if unit == "person" and documents.owners is not None:
            return len(np.unique(documents.owners))
        return len(documents)


def _check_same_units(drafts: Sequence[PrivacyPlan]) -> None:
    """Refuses candidates that do not all protect the very same units.

    Parts of two partitions are different units: whoever is one unit of a candidate may touch
    every unit of another one, and no bound for one run holds for both.
    """
    first = drafts[0]
    cut = first.unit in ("part", "graph")
    for draft in drafts:
        protected = [(d.unit, d.relation, d.units, d.delta) for d in (first, draft)]
        if protected[0] != protected[1] or (cut and draft.partition != first.partition):
            raise PrivacyContractError(
                "Every candidate of a search must protect the same units: unit "
                f"'{first.unit}' is decided by the partition, so 'privacy.parts' must not be "
                f"searched over. Got {first.partition.parts} and {draft.partition.parts} "
                f"parts. Fix it with --set privacy.parts={first.partition.parts}."
            )


def _training(plan: PrivacyPlan) -> GaussianRelease:
    release = plan.releases[0]
    if not isinstance(release, GaussianRelease):
        raise PrivacyContractError("A candidate of a search must not be a search itself.")
    return release


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
