"""Neighbouring documents as bad as a plan allows, and canaries among documents of a corpus.

What can be worst depends on the mechanism. A canary's rows are far longer than the clip norm,
so that it is clipped in nearly every step; there are many classes, so that it is hardly ever
learned; where it shares its part, the others there pull the opposite way once it is gone;
its links lead into other parts, where nothing of it must arrive.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from privgcn.config import Settings
from privgcn.errors import PrivacyContractError
from privgcn.graph.dense_rows import DenseRows
from privgcn.graph.parts import random_parts
from privgcn.graph.rows import Rows, rows_of
from privgcn.graph.textgraph import TextGraph
from privgcn.privacy.plan import PrivacyPlan
from privgcn.training.planning import make_plan

CLASSES = 8
"""With many classes a canary is hardly ever right by chance, and so hardly ever silent."""

LOUD = 32.0
"""Length of a canary's rows: far above any clip norm."""

# Units of a worst case, parts at most, and documents of a person.
_UNITS, _MOST_PARTS, _LETTERS = 6, 3, 3
# Length, over the clip norm or one, of rows that pull back once a canary is gone.
_QUIET = 8.0
_HIDDEN = 4


@dataclass(frozen=True, eq=False)
class Neighbours:
    """Two small graphs that differ in one unit, and how to train on them.

    Attributes:
        present: With the unit.
        absent: Without it, or with another in its place.
        settings: Of a run whose plan makes the same releases as the audited one.
        target: Rows of the unit's documents.
    """

    present: TextGraph
    absent: TextGraph
    settings: Settings
    target: Tensor


def worst_case(settings: Settings, plan: PrivacyPlan, *, dense: bool) -> Neighbours:
    """Neighbours that are worst cases for a plan.

    Args:
        settings: Of the audited run.
        plan: Of the audited run.
        dense: Whether its features are dense: then the first release may be their centre.

    Raises:
        PrivacyContractError: The small run would be accounted otherwise.
    """
    parts = min(plan.partition.parts, _MOST_PARTS)
    small = with_noise_of(settings, plan).changed(
        {
            "model.hidden": min(settings.model.hidden, _HIDDEN),
            # Who does not know the masks knows less; this attacker needs none.
            "model.dropout": 0.0,
            "privacy.parts": "each" if plan.part_is_unit else parts,
        }
    )
    units = max(_UNITS, 2 * parts)
    owners = torch.arange(units)
    if plan.unit == "person":
        owners = torch.cat([torch.zeros(_LETTERS - 1, dtype=torch.int64), owners])
    part_of = owners if plan.part_is_unit else random_parts(units, parts, small.seed)[owners]
    members = {
        "document": torch.arange(len(owners)) == 0,
        "person": owners == 0,
        "part": part_of == part_of[0],
        "graph": torch.ones(len(owners), dtype=torch.bool),
    }[plan.unit]
    mates = (part_of == part_of[0]) & ~members
    size = max(1.0, plan.clip_norm)
    rows = torch.zeros(len(owners), 2)
    labels = torch.full((len(owners),), -1)
    if plan.schedule.name != "poisson":
        # Under sampling the others stay silent: who is sampled beside the unit is unknown.
        rows[:, 1], labels[:] = 1.0, 1
    # The opposite gradient: a row turned around, or, as units of a hidden layer would not turn
    # with it, the other one of two labels.
    hidden = small.model.kind != "linear"
    opposed = bool(mates.any()) or plan.relation == "replace"
    sign, label = (1.0, 1) if hidden else (-1.0, 0)
    rows[mates] = torch.tensor([sign * _QUIET * size, 0.0])
    loud = LOUD * size * (_QUIET if bool(mates.any()) else 1.0)
    rows[members] = torch.tensor([loud, 0.0])
    labels[mates], labels[members] = label, 0
    others = torch.nonzero(part_of != part_of[0])[:, 0]
    first = int(torch.nonzero(members)[0])
    links = torch.stack([torch.full_like(others, first), others])
    links = torch.stack([links.amin(0), links.amax(0)])
    split = torch.zeros(len(owners), dtype=torch.int8)
    classes = 2 if hidden and opposed else CLASSES
    present = TextGraph(_rows(rows, dense), links, labels, classes, split, owners)
    if plan.relation == "remove":
        absent = without(present, *torch.nonzero(members)[:, 0].tolist())
    else:
        turned = torch.where(members[:, None], sign * rows, rows)
        labels = torch.where(members, label, labels)
        absent = replace(present, features=_rows(turned, dense), labels=labels)
    check_alike(small, present, plan, {})
    return Neighbours(present, absent, small, torch.nonzero(members)[:, 0])


def without(graph: TextGraph, *documents: int) -> TextGraph:
    """The neighbour under ``remove``: row, label and links are gone, the index stays."""
    marked = torch.zeros(len(graph), dtype=torch.bool)
    marked[list(documents)] = True
    return replace(
        graph,
        features=graph.features.emptied(marked),
        labels=torch.where(marked, -1, graph.labels),
        edges=graph.edges[:, ~marked[graph.edges].any(0)],
    )


def plan_of_training(plan: PrivacyPlan) -> PrivacyPlan:
    """The plan without a search or queries around it: what one training releases."""
    return replace(plan, selection=None, side_queries=(), accountant="pld")


def with_noise_of(settings: Settings, plan: PrivacyPlan) -> Settings:
    """Settings that train with a plan's noise and sampling rate, from a secret source."""
    rate = plan.composition.sampling_probability
    return settings.changed(
        {
            "training.device": "cpu",
            "privacy.epsilon": None,
            "privacy.noise_multiplier": plan.noise_multiplier,
            "privacy.sampling_probability": rate if plan.schedule.name == "poisson" else None,
            "privacy.accountant": None,
            "privacy.reproducible": False,
        }
    )


def check_alike(
    settings: Settings, graph: TextGraph, plan: PrivacyPlan, columns: Mapping[str, Any]
) -> None:
    """Refuses to audit a plan by runs that make other releases.

    Raises:
        PrivacyContractError: They do.
    """
    if settings.privacy is None:
        raise PrivacyContractError("An audit needs a private run. Got none. Add --epsilon 1.")
    epochs = settings.training.epochs
    made = make_plan(
        settings.privacy, graph, epochs=epochs, seed=settings.seed, columns=columns
    )
    if made.releases != plan_of_training(plan).releases:
        raise PrivacyContractError(
            "The runs of an audit must be accounted as the audited run is. Got "
            f"{made.releases} for {plan.releases}."
        )


def _rows(values: Tensor, dense: bool) -> Rows:
    if dense:
        return DenseRows(values)
    from scipy.sparse import csr_matrix

    return rows_of(csr_matrix(values.numpy()))
