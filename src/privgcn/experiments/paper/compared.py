"""A published number beside ours: whether they agree, and what is known where they do not.

A reason is given as one only where runs support it. Where the released code's behaviour was
emulated in the same setting, the emulated score decides; elsewhere the text says that the
reason was not tested, and what is known instead.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from privgcn.corpus.catalogue import DATASETS
from privgcn.corpus.location import data_folder
from privgcn.experiments.results import Cell, Table, difference, mean_of

TOLERANCE = 0.03
"""Scores nearer than this agree."""

NEAR = 0.05
"""An emulated score nearer than this explains the published one."""

COLUMNS = (
    "dataset",
    "setting",
    "optimiser",
    "epsilon",
    "published",
    "ours",
    "ours less published",
    "agreement or reason",
)
PLAIN = (
    "the released code decays the weights of non-private runs by 0.01, keeps the iterate at "
    "which it stopped instead of the best, and drops out in the first epoch only"
)
PRIVATE = "the released code clips no gradient and cuts no edge"


@dataclass(frozen=True)
class Compared:
    """One published number and ours.

    Attributes:
        leaves: The entries of ``published.toml`` that the row shows.
        dataset: Where it was measured.
        setting: How, in words.
        told: The published number.
        ours: Ours, or ``None`` where nothing was run.
        reason: That they agree, or why they do not.
        optimizer: Where there is one.
        epsilon: Where there is one.
    """

    leaves: tuple[str, ...]
    dataset: str
    setting: str
    told: Cell | float
    ours: Cell | float | None
    reason: str
    optimizer: str = "-"
    epsilon: float | None = None

    def row(self) -> list[Any]:
        """The cells of ``COLUMNS``."""
        gap = difference(self.ours, mean_of(self.told))
        shown = [self.dataset, self.setting, self.optimizer, self.epsilon, self.told, self.ours]
        return [*shown, gap, self.reason]


def compared_table(title: str, rows: Sequence[Compared], notes: Sequence[str] = ()) -> Table:
    """Rows of published numbers under a title."""
    return {
        "title": title,
        "columns": list(COLUMNS),
        "rows": [row.row() for row in rows],
        "notes": list(notes),
    }


def agree(ours: float, told: float, tolerance: float = TOLERANCE) -> bool:
    """Whether two scores are as near as that, whatever their binary forms say."""
    return abs(ours - told) <= tolerance + 1e-9


def not_run(dataset: str) -> str:
    """Why there is no number of ours."""
    card = DATASETS.get(dataset)
    if card is None or card.missing(data_folder()):
        return "not run: the raw data are not on this machine"
    return "not run: these runs leave it out"


def agreement(
    dataset: str, ours: Cell | float | None, told: float, base: float | None = None
) -> str | None:
    """That they agree, or that nothing was run; ``None`` where a reason is asked for.

    Args:
        dataset: Where it was measured.
        ours: Our score.
        told: The published score.
        base: The score of the majority class: to agree at its level is no success.
    """
    mean = mean_of(ours)
    if mean is None:
        return not_run(dataset)
    if not agree(mean, told):
        return None
    at_base = base is not None and max(mean, told) <= base + TOLERANCE + 1e-9
    return "agrees, at the level of the majority class" if at_base else "agrees"


def side(ours: Cell | float | None, told: float) -> str:
    """Where ours lies."""
    return "above" if (mean_of(ours) or 0.0) > told else "below"


def emulated_reason(
    dataset: str,
    ours: Cell | None,
    told: float,
    like: Cell | None,
    behaviour: str,
    *,
    base: float | None = None,
    elsewhere: str = "",
) -> str:
    """Agreement, or the released code's behaviour as far as runs show that it is the reason.

    Args:
        dataset: Where it was measured.
        ours: Our score.
        told: The published score.
        like: The score of the emulated behaviour in the same setting.
        behaviour: What the released code does otherwise.
        base: The score of the majority class.
        elsewhere: What emulation says in other settings.
    """
    settled = agreement(dataset, ours, told, base)
    mean, emulated = mean_of(ours), mean_of(like)
    if settled is not None or mean is None:
        return settled or not_run(dataset)
    where = side(ours, told)
    if emulated is None:
        return (
            f"{where}; the reason was not tested here: {behaviour}, which was not emulated in "
            f"this setting{elsewhere}"
        )
    if agree(emulated, told, NEAR):
        return (
            f"{where}: {behaviour}; emulating that gives {emulated:.3f}, within {NEAR} of the "
            "published score"
        )
    gap = abs(emulated - told)
    how = "only partly explained" if gap < abs(mean - told) else "not explained"
    return (
        f"{where}, {how}: {behaviour}, but emulating that gives {emulated:.3f}, which is "
        f"{gap:.2f} {side(emulated, told)} the published score"
    )
