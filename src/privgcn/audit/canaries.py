"""Neighbouring documents as bad as a plan allows.

What can be worst depends on the mechanism. A canary's rows are far longer than the clip norm,
so that it is clipped in nearly every step; there are many classes, so that it is hardly ever
learned; where it shares its group, the others there pull the opposite way once it is gone;
its edges lead into other groups, where nothing of it must arrive.

Where every unit of a linear model is its own group, many canaries fit into one training, each
with a feature column of its own: what is released in that column is about this canary and
nobody else, and so each of them is a run of its own.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import block_diag, csr_array

from privgcn.config import Settings
from privgcn.errors import ConfigError
from privgcn.graph import DocumentGraph, Features, partition
from privgcn.mechanism import Groups
from privgcn.privacy.plan import AllGroups, PrivacyPlan

CLASSES = 8
"""With many classes a canary is hardly ever right by chance, and so hardly ever silent."""

LOUD = 32.0
"""Length of a canary's rows: far above any clip norm."""

# Units of a worst case, groups at most, and documents of a person; of one with company in a
# group, whose mean must turn around with that person, many.
_UNITS, _MOST_GROUPS, _LETTERS, _MANY_LETTERS = 6, 3, 3, 400
# Length, over the clip norm or one, of rows that pull back once a canary is gone.
_QUIET = 8.0
_HIDDEN = 4
_MOST_BYTES = 1 << 31


@dataclass(frozen=True, eq=False)
class Case:
    """Worlds that differ in one unit, or in many of them that do not touch each other.

    Attributes:
        settings: Of a training on any of the worlds.
        plan: Makes the releases of the audited plan, on these documents.
        present: With every target.
        absent: Without them, or with others in their stead.
        silent: Nobody adds anything: what is released is noise.
        targets: A document of each target.
        target_of: Which target each document belongs to, -1 for none, where each target has a
            column of its own.
        others: Documents of a corpus that train too, if any; they come first.
    """

    settings: Settings
    plan: PrivacyPlan
    present: DocumentGraph
    absent: DocumentGraph
    silent: DocumentGraph
    targets: NDArray[np.int64]
    target_of: NDArray[np.int64] | None = None
    others: DocumentGraph | None = None

    @cached_property
    def always(self) -> PrivacyPlan:
        """The plan without chance: which targets a step uses is known."""
        if self.plan.composition.sampling_probability == 1.0:
            return self.plan
        return replace(self.plan, schedule=AllGroups(self.plan.partition.groups))

    @cached_property
    def silence(self) -> Groups:
        """The silent world."""
        return Groups.of_plan(self.plan, self.silent)

    @cached_property
    def worlds(self) -> tuple[Groups, ...]:
        """With every target, with none, and silence."""
        graphs = (self.present, self.absent, self.silent)
        return tuple(Groups.of_plan(self.always, graph) for graph in graphs)

    def groups(self, there: NDArray[np.bool_]) -> Groups:
        """The world that some targets are in."""
        return Groups.of_plan(self.plan, self.graph(there))

    def graph(self, there: NDArray[np.bool_]) -> DocumentGraph:
        """The documents of that world."""
        if self.target_of is None:
            return self.present if there[0] else self.absent
        graph = _some(self.present, self.plan.relation, self.target_of, there)
        if self.others is None:
            return graph
        known = len(self.others)
        rows = _below(self.others.features, graph.features[known:, self.others.width :])
        labels = np.concatenate([self.others.labels, graph.labels[known:]])
        return replace(graph, features=rows, labels=labels)


def holds_columns(settings: Settings, plan: PrivacyPlan) -> bool:
    """Whether targets can have groups and columns of their own, all of them in a step."""
    together = plan.schedule.name != "epoch"
    return plan.group_is_unit and together and settings.model.kind == "linear"


def column_case(
    settings: Settings,
    plan: PrivacyPlan,
    *,
    dense: bool,
    count: int,
    others: DocumentGraph | None = None,
) -> Case:
    """So many targets with a column each, alone or among the documents of a corpus.

    Args:
        settings: Of the audited run.
        plan: Of the audited run; it ``holds_columns``.
        dense: Whether its features are dense: then the first release may be their mean.
        count: How many targets.
        others: The training documents of a corpus.
    """
    known = 0 if others is None else len(others)
    units = count + (0 if others is None else plan.units)
    classes, width = (CLASSES, 0) if others is None else (others.classes, others.width)
    letters = _LETTERS if plan.unit == "person" and others is None else 1
    owners = np.repeat(np.arange(count), letters)
    if dense and 4 * (known + len(owners)) * (width + count) > _MOST_BYTES:
        raise ConfigError(
            f"The 'canaries' of an audit must have room in memory: {count} columns for "
            f"{known} documents of dense features do not. Use --canaries 0, or fewer."
        )
    of_owner = np.random.default_rng().integers(0, classes, count)
    own = csr_array((np.full(len(owners), LOUD), (np.arange(len(owners)), owners)))
    rows = _below(csr_array((known, width)), own).astype(np.float32) if known else own
    numbers = None
    if plan.partition.by == "owner":
        before = np.zeros(0, np.int64)
        if others is not None and others.owners is not None:
            before = others.owners
        numbers = np.concatenate([before, owners + int(before.max(initial=-1)) + 1])
    present = DocumentGraph(
        rows.toarray() if dense else rows,
        np.zeros((2, 0), np.int64),
        np.concatenate([np.full(known, -1), of_owner[owners]]),
        classes,
        np.zeros(known + len(owners), np.int8),
        numbers,
    )
    target_of = np.concatenate([np.full(known, -1), owners])
    return Case(
        settings=_on_processor(settings),
        plan=_plan_like(plan, units, units),
        present=present,
        absent=_some(present, plan.relation, target_of, np.zeros(count, bool)),
        silent=without(present, np.ones(len(present), bool)),
        targets=known + np.arange(count) * letters,
        target_of=target_of,
        others=others,
    )


def single_case(settings: Settings, plan: PrivacyPlan, *, dense: bool) -> Case:
    """A unit in a small graph with few others, for any plan.

    Args:
        settings: Of the audited run.
        plan: Of the audited run.
        dense: Whether its features are dense: then the first release may be their mean.
    """
    groups = min(plan.partition.groups, _MOST_GROUPS)
    units = max(_UNITS, 2 * groups)
    small = _plan_like(plan, units, units if plan.group_is_unit else groups)
    owners = np.arange(units)
    if plan.unit == "person":
        letters = _LETTERS if plan.group_is_unit else _MANY_LETTERS
        owners = np.concatenate([np.zeros(letters - 1, np.int64), owners])
    group_of = partition(small.partition, len(owners), owners, {})
    members = {
        "document": np.arange(len(owners)) == 0,
        "person": owners == 0,
        "part": group_of == group_of[0],
        "graph": np.ones(len(owners), bool),
    }[plan.unit]
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
    rows[members] = [LOUD * size * (_QUIET if mates.any() else 1.0), 0.0]
    labels[mates], labels[members] = label, 0
    others, first = np.flatnonzero(group_of != group_of[0]), int(np.flatnonzero(members)[0])
    edges = np.sort(np.stack([np.full_like(others, first), others]), axis=0)
    split = np.zeros(len(owners), np.int8)
    classes = 2 if hidden and opposed else CLASSES
    rows = rows.astype(np.float32)
    features = rows if dense else csr_array(rows)
    present = DocumentGraph(features, edges, labels, classes, split, owners)
    if plan.relation == "remove":
        absent = without(present, members)
    else:
        turned = np.where(members[:, None], sign * rows, rows)
        labels = np.where(members, label, labels)
        turned = turned if dense else csr_array(turned)
        absent = replace(present, features=turned, labels=labels)
    return Case(
        settings=_on_processor(settings),
        plan=small,
        present=present,
        absent=absent,
        silent=without(present, np.ones(len(present), bool)),
        targets=np.flatnonzero(members)[:1],
    )


def without(graph: DocumentGraph, gone: NDArray[np.bool_]) -> DocumentGraph:
    """The neighbour under ``remove``: row, label and edges are gone, the index stays."""
    return replace(
        graph,
        features=_scaled(graph.features, ~gone),
        labels=np.where(gone, -1, graph.labels),
        edges=graph.edges[:, ~gone[graph.edges].any(0)],
    )


def _plan_like(plan: PrivacyPlan, units: int, groups: int) -> PrivacyPlan:
    """A plan of the same releases for so many units, without a search around it."""
    schedule = replace(plan.schedule, groups=groups)
    steps = plan.steps
    if plan.schedule.name == "epoch":
        steps = plan.composition.count * groups
    kind = plan.partition
    if kind.kind == "column" or (kind.kind == "random" and groups == 1):
        kind = replace(kind, kind="random", column=None, seed=0)
    like = replace(
        plan,
        units=units,
        partition=replace(kind, groups=groups),
        schedule=schedule,
        steps=steps,
        delta=min(plan.delta, 1.0 / units),
        accountant="pld",
        selection=None,
    )
    # What is audited must be accounted as what was asked about.
    alike = (like.composition, like.sensitivity) == (plan.composition, plan.sensitivity)
    if not alike:
        raise ValueError(f"The releases of {like} are not those of {plan}.")
    return like


def _on_processor(settings: Settings) -> Settings:
    """Settings of a small training; who does not know the masks of dropout knows less."""
    changes: dict[str, Any] = {
        "training.device": "cpu",
        "model.hidden": min(settings.model.hidden, _HIDDEN),
        "model.dropout": 0.0,
    }
    if settings.model.kind == "module":
        # Whose clipping is that of any other network.
        changes["model.kind"] = "gcn"
    return settings.changed(changes)


def _some(
    graph: DocumentGraph, relation: str, target_of: NDArray[np.int64], there: NDArray[np.bool_]
) -> DocumentGraph:
    """Those targets that are there; the others are gone, or turned around."""
    gone = (target_of >= 0) & ~there[target_of]
    if relation == "remove":
        return without(graph, gone)
    return replace(graph, features=_scaled(graph.features, np.where(gone, -1.0, 1.0)))


def _scaled(features: Features, factors: NDArray[Any]) -> Features:
    factors = factors.astype(np.float32)
    if isinstance(features, np.ndarray):
        return features * factors[:, None]
    scaled = features.copy()
    scaled.data = scaled.data * np.repeat(factors, np.diff(scaled.indptr))
    scaled.eliminate_zeros()
    return scaled


def _below(features: Features, rows: Features) -> Features:
    """Documents, and below them further ones with columns of their own."""
    if isinstance(features, np.ndarray):
        joined = np.zeros(np.add(features.shape, rows.shape), np.float32)
        joined[: len(features), : features.shape[1]] = features
        joined[len(features) :, features.shape[1] :] = rows
        return joined
    return csr_array(block_diag([features, rows], format="csr"))
