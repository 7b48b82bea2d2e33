"""A paid search as part of a plan, and the noise with which it keeps its budget."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from privgcn.errors import ConfigError, PrivacyContractError
from privgcn.privacy.accounting.calibration import calibrate, calibrate_releases
from privgcn.privacy.accounting.events import GaussianQuery, GaussianRelease
from privgcn.privacy.accounting.selection import RunCount, SelectedRelease
from privgcn.privacy.checks import require_count, require_keys

_OWNER = "a search"
_RELEASE_KEYS = ("noise_multiplier", "count", "sampling_probability", "sensitivity")
_SCORE_KEYS = ("name", "noise_multiplier", "sensitivity")
#: Units of which validation documents are whole units too.
_SCORED_UNITS = ("document", "person")


@dataclass(frozen=True, kw_only=True)
class Selection:
    """How a model was chosen among several private runs of which it is one.

    Attributes:
        law: the law of the secret number of runs; see ``RunCount``.
        expected_runs: its mean.
        candidates: the training of every candidate that could be drawn, each kind once.
        score: the noisy score of one run on private validation documents; ``None`` where
            these were declared public.
        validation_units: how many documents (or owners) the score protects; 0 for ``None``.

    Assumes:
        Candidates are drawn independently from a distribution that never looked at the data.
        No unit both trains and validates, and one unit moves a score by at most the bound
        that its noise multiplier refers to. Nothing is told about the runs that lost.
    """

    law: str
    expected_runs: float
    candidates: tuple[GaussianRelease, ...]
    score: GaussianQuery | None
    validation_units: int

    def __post_init__(self) -> None:
        object.__setattr__(self, "candidates", tuple(self.candidates))
        if self.score is not None and type(self.score) is not GaussianQuery:
            raise ConfigError(
                f"The 'score' of {_OWNER} must be a GaussianQuery or None. Got {self.score!r}."
            )
        if not self.candidates or len(set(self.candidates)) < len(self.candidates):
            raise ConfigError(
                f"The 'candidates' of {_OWNER} must name each kind of training once. "
                f"Got {self.candidates!r}."
            )
        least = 0 if self.score is None else 1
        units = require_count(
            self.validation_units,
            "validation_units",
            _OWNER,
            low=least,
            high=None if least else 0,
            remedy="Validation documents are either scored with noise, or declared public.",
        )
        object.__setattr__(self, "validation_units", units)
        object.__setattr__(self, "expected_runs", self.release.count.expected)

    @property
    def release(self) -> SelectedRelease:
        """The search as the accountant sees it."""
        alternatives = [(candidate,) for candidate in self.candidates]
        if self.score is not None:
            alternatives.append((self.score.release,))
        return SelectedRelease(tuple(alternatives), RunCount(self.law, self.expected_runs))

    def to_dict(self) -> dict[str, Any]:
        """The search in plain values; :meth:`from_dict` reads it back."""
        return {
            "law": self.law,
            "expected_runs": self.expected_runs,
            "candidates": [vars(candidate).copy() for candidate in self.candidates],
            "score": None if self.score is None else vars(self.score).copy(),
            "validation_units": self.validation_units,
        }

    @classmethod
    def from_dict(cls, record: Mapping[str, Any]) -> Selection:
        """Reads it back; unknown and missing keys raise ``ConfigError``."""
        values = dict(require_keys(record, tuple(cls.__dataclass_fields__), _OWNER))
        candidates, score = values["candidates"], values["score"]
        if not isinstance(candidates, list | tuple):
            raise ConfigError(
                f"The 'candidates' of {_OWNER} must be a list. Got {candidates!r}."
            )
        values["candidates"] = tuple(
            GaussianRelease(**require_keys(one, _RELEASE_KEYS, "a candidate"))
            for one in candidates
        )
        if score is not None:
            values["score"] = GaussianQuery(**require_keys(score, _SCORE_KEYS, "a score"))
        return cls(**values)


class _Searched(Protocol):
    """What a search must know of the plan it belongs to."""

    @property
    def unit(self) -> str: ...
    @property
    def accountant(self) -> str: ...
    @property
    def side_queries(self) -> tuple[GaussianQuery, ...]: ...


def check_selection(selection: Any, training: GaussianRelease, plan: _Searched) -> None:
    """Refuses a search that cannot belong to a plan with this training.

    Raises:
        ConfigError: ``selection`` is no Selection.
        PrivacyContractError: the plan's own training is none of the candidates, the
            accountant is not ``rdp``, there are side queries, or validation documents are
            no units of the plan.
    """
    if type(selection) is not Selection:
        raise ConfigError(f"The 'selection' of a plan must be a Selection. Got {selection!r}.")
    if plan.accountant != "rdp":
        raise PrivacyContractError(
            f"The 'accountant' of a plan with a search must be rdp. Got {plan.accountant}."
        )
    if training not in selection.candidates:
        raise PrivacyContractError(
            "The training of a plan with a search must be one of the candidates that the "
            f"search is accounted with. Got {training!r}."
        )
    if plan.side_queries:
        raise PrivacyContractError(
            "A plan with a search must not have side queries: each run would make them again. "
            f"Got {plan.side_queries!r}."
        )
    if selection.score is not None and plan.unit not in _SCORED_UNITS:
        raise PrivacyContractError(
            "A search that scores on private validation documents must protect unit "
            f"{' or '.join(_SCORED_UNITS)}. Got '{plan.unit}', to which validation documents "
            "do not belong. Declare them public with --public-validation."
        )


@dataclass(frozen=True)
class SearchNoise:
    """Noise multipliers that make a whole search cost at most its target.

    Attributes:
        training: one for each kind of training, in the order given.
        score: of the score; ``None`` where it costs nothing.
        epsilon: what the search costs.
    """

    training: tuple[float, ...]
    score: float | None
    epsilon: float


def calibrate_search(
    epsilon: float,
    trainings: Sequence[GaussianRelease],
    count: RunCount,
    *,
    private_score: bool,
    delta: float,
) -> SearchNoise:
    """The noise of every candidate and of the score for a target of the whole search.

    Every run costs the same whichever candidate it draws, so none is favoured, and a score
    costs its validation documents what training costs the training documents.

    Args:
        epsilon: the target for everything together.
        trainings: what each candidate releases; their noise multipliers are ignored.
        count: the law of the number of runs.
        private_score: whether runs are scored on private validation documents.
        delta: the delta of the guarantee.
    """
    shapes = [*trainings, *([GaussianRelease(1.0)] if private_score else [])]
    alone = [
        calibrate(
            epsilon=epsilon,
            steps=one.count,
            sampling_probability=one.sampling_probability,
            sensitivity=one.sensitivity,
            delta=delta,
            accountant="rdp",
        ).noise_multiplier
        for one in shapes
    ]
    most = max(alone)

    def scaled(noise: float) -> list[SelectedRelease]:
        groups = [
            (_with_noise(one, noise * share / most),)
            for one, share in zip(shapes, alone, strict=True)
        ]
        return [SelectedRelease(tuple(dict.fromkeys(groups)), count)]

    found = calibrate_releases(epsilon, scaled, delta=delta, accountant="rdp")
    noises = [found.noise_multiplier * share / most for share in alone]
    score = noises.pop() if private_score else None
    return SearchNoise(tuple(noises), score, found.epsilon)


def _with_noise(release: GaussianRelease, noise_multiplier: float) -> GaussianRelease:
    return GaussianRelease(
        noise_multiplier, release.count, release.sampling_probability, release.sensitivity
    )
