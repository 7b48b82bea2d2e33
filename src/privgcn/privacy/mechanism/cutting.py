"""Carries out the partition that a plan describes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor

from privgcn.errors import PrivacyContractError
from privgcn.graph.parts import PartitionedGraph, cut, random_parts
from privgcn.graph.textgraph import TextGraph
from privgcn.privacy.mechanism.together import AnyPlan
from privgcn.privacy.partition import PartitionFacts


def members_of(graph: TextGraph, by: str) -> tuple[Tensor, int]:
    """The member (document, or owner) each document belongs to, and how many there are.

    Members are numbered in the order of the index set, which is public.
    """
    if by == "document":
        return torch.arange(len(graph)), len(graph)
    if graph.owners is None:
        raise PrivacyContractError(
            "A partition by 'owner' needs a corpus with owners, and this one has none. "
            "Add an 'owner' column, or protect unit 'document'."
        )
    owners = graph.owners.cpu()
    known, member = torch.unique(owners, return_inverse=True)
    return member, len(known)


def public_column(columns: Mapping[str, Any], name: str) -> tuple[Tensor, int]:
    """Part numbers from a column that the user declared public."""
    if name not in columns:
        raise PrivacyContractError(
            f"The partition column '{name}' is not in the corpus. "
            f"Columns: {', '.join(columns) or 'none'}."
        )
    values, part_of = np.unique(np.asarray(columns[name]).astype(str), return_inverse=True)
    return torch.from_numpy(part_of.astype(np.int64)), len(values)


def parts_of_documents(
    graph: TextGraph, facts: PartitionFacts, columns: Mapping[str, Any]
) -> Tensor:
    """The part of each document.

    Guarantees:
        Text, labels and links have no influence. By ``owner``, no part splits an owner.
    """
    member, count = members_of(graph, facts.by)
    if facts.kind == "column":
        part_of, found = public_column(columns, str(facts.column))
        _refuse_split_members(member, count, part_of, str(facts.column))
    elif facts.kind == "each":
        part_of, found = member, count
    elif facts.kind == "single":
        part_of, found = torch.zeros(len(graph), dtype=torch.int64), 1
    else:
        part_of = random_parts(count, facts.parts, int(facts.seed or 0))[member]
        found = facts.parts
    if found != facts.parts:
        raise PrivacyContractError(
            f"The plan is for {facts.parts} parts, but the training documents give {found}. "
            "Make the plan from the documents it is used with."
        )
    return part_of


def cut_as_planned(
    graph: TextGraph, plan: AnyPlan, columns: Mapping[str, Any]
) -> PartitionedGraph:
    """Cuts the training graph exactly as the plan says.

    Raises:
        PrivacyContractError: The plan was made for other documents.
    """
    _, units = members_of(graph, "owner" if plan.unit == "person" else "document")
    if units != plan.units:
        raise PrivacyContractError(
            f"The plan is for {plan.units} units, but there are {units} training "
            f"{'owners' if plan.unit == 'person' else 'documents'}. "
            "Make the plan from the documents it is used with."
        )
    return cut(graph, parts_of_documents(graph, plan.partition, columns), plan.partition.parts)


def _refuse_split_members(member: Tensor, count: int, part_of: Tensor, column: str) -> None:
    first = torch.full((count,), -1, dtype=torch.int64)
    first[member] = part_of
    if bool((first[member] != part_of).any()):
        raise PrivacyContractError(
            f"The partition column '{column}' puts documents of one owner into different "
            "parts. Give all documents of an owner the same value."
        )
