"""Neighbouring documents as bad as a plan allows.

A canary's rows are far longer than the clip norm, so that it is clipped in nearly every step;
there are many classes, so that it is hardly ever learned; where it shares its group, the others
there pull the opposite way once it is gone; its edges lead into other groups, where nothing of
it must arrive.

Where every unit of a linear model is its own group, many canaries fit into one training: each
with a feature column of its own is a run of its own.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array, diags_array

from privgcn.config import Settings
from privgcn.graph import DocumentGraph, partition
from privgcn.mechanism import Groups
from privgcn.privacy.plan import PrivacyPlan, Schedule

# Classes, and length of a canary's rows: far above any clip norm.
_CLASSES, _LOUD = 8, 32.0
# Units of a worst case, groups at most, and documents of a person; of one with company in a
# group, whose mean must turn around with that person, many.
_UNITS, _MOST_GROUPS, _LETTERS, _MANY_LETTERS = 6, 3, 3, 400
# Length, over the clip norm or one, of rows that pull back once a canary is gone; hidden units.
_QUIET, _HIDDEN = 8.0, 4


@dataclass(frozen=True, eq=False)
class Case:
    """Worlds that differ in one unit, or in many of them that do not touch each other.

    ``present`` has every target; ``absent`` none of them, or others in their stead. Where each
    target has a column of its own, ``target_of`` says which target each document is of.
    """

    settings: Settings
    plan: PrivacyPlan
    present: DocumentGraph
    absent: DocumentGraph
    target_of: NDArray[np.int64] | None = None

    @cached_property
    def always(self) -> PrivacyPlan:
        """The plan without chance: which targets a step uses is known."""
        if self.plan.schedule.name != "poisson":
            return self.plan
        return replace(self.plan, schedule=Schedule("all", self.plan.partition.groups))

    @cached_property
    def worlds(self) -> tuple[Groups, ...]:
        """With every target, with none, and twice of silence: there nobody adds anything."""
        silent = without(self.present, np.ones(len(self.present), bool))
        graphs = (self.present, self.absent, silent, silent)
        return tuple(Groups.of_plan(self.always, graph) for graph in graphs)

    def graph(self, there: NDArray[np.bool_]) -> DocumentGraph:
        """The world that some targets are in."""
        if self.target_of is None:
            return self.present if there[0] else self.absent
        return without(self.present, ~there[self.target_of], self.plan.relation)


def column_case(settings: Settings, plan: PrivacyPlan, *, dense: bool, count: int) -> Case:
    """So many targets with a group and a column each, all of them in a step.

    Where features are ``dense``, the first release may be their mean.
    """
    letters = _LETTERS if plan.unit == "person" else 1
    target_of = np.repeat(np.arange(count), letters)
    documents = len(target_of)
    rows: Any = csr_array((np.full(documents, _LOUD, "f4"), (np.arange(documents), target_of)))
    present = DocumentGraph(
        features=rows.toarray() if dense else rows,
        edges=np.zeros((2, 0), np.int64),
        labels=np.random.default_rng().integers(0, _CLASSES, count)[target_of],
        classes=_CLASSES,
        split=np.zeros(documents, np.int8),
        owners=target_of if plan.partition.by == "owner" else None,
    )
    absent = without(present, np.ones(documents, bool), plan.relation)
    small = plan_like(plan, count, count)
    return Case(_on_processor(settings), small, present, absent, target_of)


def single_case(settings: Settings, plan: PrivacyPlan, *, dense: bool) -> Case:
    """A unit in a small graph with few others, for any plan; ``dense`` as above."""
    groups = min(plan.partition.groups, _MOST_GROUPS)
    units = max(_UNITS, 2 * groups)
    small = plan_like(plan, units, units if plan.group_is_unit else groups)
    owners = np.arange(units)
    if plan.unit == "person":
        letters = _LETTERS if plan.group_is_unit else _MANY_LETTERS
        owners = np.concatenate([np.zeros(letters - 1, np.int64), owners])
    group_of = partition(small.partition, len(owners), owners, {})
    own = {"document": np.arange(len(owners)), "person": owners, "part": group_of}
    own["graph"] = np.zeros_like(owners)
    members = own[plan.unit] == own[plan.unit][0]
    mates = (group_of == group_of[0]) & ~members
    size = max(1.0, plan.clip_norm)
    rows, labels = np.zeros((len(owners), 2)), np.full(len(owners), -1)
    if plan.schedule.name != "poisson":
        # Under sampling the others stay silent: who is sampled beside the unit is unknown.
        rows[:, 1], labels[:] = 1.0, 1
    # The opposite gradient: a row turned around, or, as units of a hidden layer would not turn
    # with it, the other one of two labels.
    hidden = settings.model.kind != "linear"
    opposed = bool(mates.any()) or plan.relation == "replace"
    sign, label = (1.0, 1) if hidden else (-1.0, 0)
    rows[mates] = [sign * _QUIET * size, 0.0]
    rows[members] = [_LOUD * size * (_QUIET if mates.any() else 1.0), 0.0]
    labels[mates], labels[members] = label, 0
    others, first = np.flatnonzero(group_of != group_of[0]), int(np.flatnonzero(members)[0])
    edges = np.sort(np.stack([np.full_like(others, first), others]), axis=0)
    split = np.zeros(len(owners), np.int8)
    classes = 2 if hidden and opposed else _CLASSES
    stored: Any = np.asarray if dense else csr_array
    features = stored(rows.astype(np.float32))
    present = DocumentGraph(features, edges, labels, classes, split, owners)
    absent = without(present, members)
    if plan.relation == "replace":
        rows[members] *= sign
        turned, other = stored(rows.astype(np.float32)), np.where(members, label, labels)
        absent = replace(present, features=turned, labels=other)
    return Case(_on_processor(settings), small, present, absent)


def without(
    graph: DocumentGraph, gone: NDArray[np.bool_], relation: str = "remove"
) -> DocumentGraph:
    """A neighbour: row, label and edges are gone and the index stays, or rows turn around."""
    factors = np.where(gone, 0.0 if relation == "remove" else -1.0, 1.0)
    features: Any = diags_array(factors, dtype=np.float32) @ graph.features
    if not graph.dense:
        features.eliminate_zeros()
    if relation != "remove":
        return replace(graph, features=features)
    labels, edges = np.where(gone, -1, graph.labels), graph.edges[:, ~gone[graph.edges].any(0)]
    return replace(graph, features=features, labels=labels, edges=edges)


def plan_like(plan: PrivacyPlan, units: int, groups: int) -> PrivacyPlan:
    """A plan of the same releases for so many units, without a search around it."""
    steps = plan.training.count * (groups if plan.schedule.name == "epoch" else 1)
    kind = plan.partition
    if kind.kind == "column" or (kind.kind == "random" and groups == 1):
        kind = replace(kind, kind="random", column=None, seed=0)
    like = replace(
        plan,
        units=units,
        partition=replace(kind, groups=groups),
        schedule=replace(plan.schedule, groups=groups),
        steps=steps,
        delta=min(plan.delta, 1.0 / units),
        accountant="pld",
        selection=None,
    )
    if like.training != plan.training:  # what is audited must be accounted as what was asked
        raise ValueError(f"The releases of {like} are not those of {plan}.")
    return like


def _on_processor(settings: Settings) -> Settings:
    # Who does not know the masks of dropout knows less.
    hidden, kind = min(settings.model.hidden, _HIDDEN), settings.model.kind
    # A user's module is clipped as any other network.
    model = {"hidden": hidden, "dropout": 0.0, "kind": "gcn" if kind == "module" else kind}
    changes = {f"model.{name}": value for name, value in model.items()}
    return settings.changed({"training.device": "cpu", **changes})
