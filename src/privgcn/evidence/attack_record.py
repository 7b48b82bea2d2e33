"""What attacks found, as a record that is written, read and shown on a report."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, ValidationError

from privgcn.errors import DataError
from privgcn.evidence.roc import Measured
from privgcn.files import read_bounded

NO_MODEL = "texts alone"
"""Name of what can be told without any model."""

_MOST_BYTES = 1 << 20


class _Record(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)


class AttackRow(_Record):
    """One attack on one kind of model in one inference mode.

    Attributes:
        attack: What is attacked.
        model: ``without privacy``, the epsilon of a private model, or no model at all.
        inference: The mode in which predictions are given; ``None`` without a model.
        covered: Whether the guarantee covers this; false without one.
        positives: Targets of which the answer is yes.
        auc: Area under the curve, and its 95 % interval; 0.5 is chance.
        others: The same of documents that trained no model: what is no leak of training.
        tpr: True-positive rates at the false-positive rates of ``FALSE_POSITIVES``.
    """

    attack: Literal["document membership", "person membership", "links", "column"]
    model: str
    inference: str | None
    covered: bool
    positives: int
    auc: Measured
    others: Measured | None
    tpr: tuple[Measured, ...]


class Attacks(_Record):
    """Everything that was tried on one corpus.

    Attributes:
        source: The documents.
        epsilon: Of the private models; ``None`` if none was attacked.
        unit: What they protect.
        shadows: Models of each kind that membership was told by.
        column: The column that was inferred, if any.
        rows: The attacks.
    """

    source: str
    epsilon: float | None
    unit: str | None
    shadows: int
    column: str | None
    rows: tuple[AttackRow, ...]


def read_attacks(path: Path) -> Attacks:
    """Reads what ``privgcn attack --out`` wrote.

    Raises:
        DataError: It is something else.
    """
    text = read_bounded(path, most=_MOST_BYTES)
    try:
        return Attacks.model_validate_json(text)
    except ValidationError:
        raise DataError(
            f"The file {path} holds no attacks. Write it with 'privgcn attack --out {path}'."
        ) from None
