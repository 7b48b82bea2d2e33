"""The partition that runs is the partition of the plan, and content has no say in it."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

from brute_force import random_graph
from privgcn.config import PrivacySettings
from privgcn.errors import PrivacyContractError
from privgcn.graph import TextGraph
from privgcn.privacy.mechanism.cutting import cut_as_planned, members_of, parts_of_documents
from privgcn.privacy.partition import PartitionFacts
from privgcn.privacy.plan import PrivacyPlan
from privgcn.training.planning import make_plan

OWNED = random_graph(60, owners=15, seed=3)
YEARS = {"year": np.arange(60) % 4 + 2000}


def plan_for(
    graph: TextGraph, columns: dict[str, Any] | None = None, **privacy: Any
) -> PrivacyPlan:
    settings = PrivacySettings(noise_multiplier=1.0, delta=1e-3, **privacy)
    return make_plan(settings, graph, epochs=1, seed=5, columns=columns or {})


@pytest.mark.parametrize("parts", ["each", 1, 4, 15])
def test_no_part_splits_an_owner(parts: Any) -> None:
    assert OWNED.owners is not None
    plan = plan_for(OWNED, unit="person", parts=parts)
    pieces = cut_as_planned(OWNED, plan, {})
    owners = OWNED.owners[pieces.order]
    for owner in owners.unique():
        assert len(pieces.part_of_row[owners == owner].unique()) == 1
    if parts == "each":
        for part in range(pieces.parts):
            assert len(owners[pieces.part_of_row == part].unique()) == 1
        assert plan.units == pieces.parts == len(owners.unique())


@pytest.mark.parametrize("parts", ["each", 1, 4, 60, "column:year"])
@pytest.mark.parametrize("unit", ["document", "part"])
def test_content_has_no_say(unit: str, parts: Any) -> None:
    other = random_graph(60, seed=99, links=5, unlabelled=0.9)
    layouts = []
    for graph in (OWNED, other):
        plan = plan_for(graph, YEARS, unit=unit, parts=parts)
        pieces = cut_as_planned(graph, plan, YEARS)
        layouts.append((plan.to_dict(), pieces.order.tolist(), pieces.offsets.tolist()))
    assert layouts[0] == layouts[1]


def test_an_owners_number_of_documents_has_no_say() -> None:
    few = replace(OWNED, owners=torch.arange(60) % 15)
    uneven = torch.cat([torch.arange(15), torch.zeros(45, dtype=torch.int64)])
    many = replace(OWNED, owners=uneven)
    facts = PartitionFacts(kind="random", parts=4, by="owner", seed=5)
    of_owner = []
    for graph in (few, many):
        part_of = parts_of_documents(graph, facts, {})
        of_owner.append(part_of[:15].tolist())
    assert of_owner[0] == of_owner[1]


def test_members_are_documents_or_owners() -> None:
    assert members_of(OWNED, "document")[1] == 60
    member, count = members_of(OWNED, "owner")
    assert OWNED.owners is not None
    assert count == len(OWNED.owners.unique())
    for owner in OWNED.owners.unique():
        assert len(member[OWNED.owners == owner].unique()) == 1
    with pytest.raises(PrivacyContractError, match="owner"):
        members_of(random_graph(10), "owner")


def test_a_public_column_decides_the_parts() -> None:
    plan = plan_for(OWNED, YEARS, parts="column:year")
    pieces = cut_as_planned(OWNED, plan, YEARS)
    assert plan.partition == PartitionFacts(kind="column", parts=4, column="year")
    years = torch.from_numpy(YEARS["year"])[pieces.order]
    assert torch.equal(pieces.part_of_row, years - 2000)
    assert plan.sensitivity == 2


def test_a_column_that_splits_an_owner_is_refused_for_persons() -> None:
    plan = plan_for(OWNED, YEARS, unit="person", parts="column:year")
    with pytest.raises(PrivacyContractError, match="different parts"):
        cut_as_planned(OWNED, plan, YEARS)
    assert OWNED.owners is not None
    shared = {"house": OWNED.owners.numpy() % 3}
    plan = plan_for(OWNED, shared, unit="person", parts="column:house")
    assert cut_as_planned(OWNED, plan, shared).parts == 3


@pytest.mark.parametrize("name", ["label", "text", "month"])
def test_only_extra_columns_can_be_declared_public(name: str) -> None:
    with pytest.raises(PrivacyContractError, match=name):
        plan_for(OWNED, YEARS, parts=f"column:{name}")


def test_a_plan_for_other_documents_is_refused() -> None:
    plan = plan_for(OWNED, parts="each")
    with pytest.raises(PrivacyContractError, match="60 units"):
        cut_as_planned(random_graph(59), plan, {})
    by_year = plan_for(OWNED, YEARS, parts="column:year")
    with pytest.raises(PrivacyContractError, match="4 parts"):
        cut_as_planned(OWNED, by_year, {"year": np.arange(60) % 5})
    persons = plan_for(OWNED, unit="person", parts="each")
    with pytest.raises(PrivacyContractError, match="units"):
        cut_as_planned(replace(OWNED, owners=torch.arange(60)), persons, {})
