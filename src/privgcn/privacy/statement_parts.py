"""The smaller pieces of a statement."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict


class Frozen(BaseModel):
    """No field changes, none is added, and nothing is converted on the way in."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, allow_inf_nan=False)


class PartitionClaim(Frozen):
    """How the training graph was cut."""

    kind: Literal["each", "random", "column", "single"]
    parts: int
    by: Literal["document", "owner"]
    column: str | None
    seed: int | None


class QueryClaim(Frozen):
    """Another Gaussian release about the same units, included in epsilon."""

    name: str
    noise_multiplier: float
    sensitivity: int


class TrainingClaim(Frozen):
    """What one candidate of a search would have released in training."""

    noise_multiplier: float
    count: int
    sampling_probability: float
    sensitivity: int


class SelectionClaim(Frozen):
    """The search that the model won; epsilon is that of the whole search."""

    law: Literal["poisson", "logarithmic", "geometric"]
    expected_runs: float
    candidates: tuple[TrainingClaim, ...]
    score: QueryClaim | None
    validation_units: int


class InferenceClaim(Frozen):
    """Whether predictions of one mode are covered by the guarantee."""

    mode: str
    covered: bool
    sees: str
