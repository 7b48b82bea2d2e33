"""Each row of the sensitivity table, measured on the sums that ``fit`` adds noise to."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor

from brute_force import joint_norm, random_graph
from privgcn.config import Settings, parse_settings
from privgcn.graph import DenseRows, TextGraph
from privgcn.privacy.mechanism.part_gradients import StackGradients
from privgcn.training.fit import fit

CLIP = 0.05
PARTS = 4

# unit, relation, whether every part is one unit, sensitivity in clip norms
TABLE = [
    ("document", "remove", "each", 1),
    ("document", "remove", "many", 2),
    ("document", "replace", "each", 2),
    ("document", "replace", "many", 2),
    ("person", "remove", "each", 1),
    ("person", "remove", "many", 2),
    ("person", "replace", "each", 2),
    ("person", "replace", "many", 2),
    ("part", "remove", "many", 1),
    ("part", "replace", "many", 2),
    ("graph", "remove", "single", 1),
    ("graph", "replace", "single", 2),
]


def settings(unit: str, relation: str, parts: str, **model: Any) -> Settings:
    number: Any = {"each": "each", "many": PARTS, "single": 1}[parts]
    return parse_settings(
        {
            "model": {"dropout": 0.0, **model},
            "training": {
                "optimizer": "sgd",
                "learning_rate": 0.1,
                "epochs": 1,
                "patience": 0,
            },
            "privacy": {
                "unit": unit,
                "relation": relation,
                "parts": number,
                "noise_multiplier": 1.0,
                "clip_norm": CLIP,
                "delta": 1e-2,
                "reproducible": True,
            },
        }
    )


@pytest.fixture
def sums(monkeypatch: pytest.MonkeyPatch) -> list[list[Tensor]]:
    """The clipped sums of each step that ``fit`` takes."""
    seen: list[list[Tensor]] = []
    original = StackGradients.clipped_sum

    def spy(self: StackGradients, parameters: Any, samples: Any) -> list[Tensor]:
        seen.append(original(self, parameters, samples))
        return [total.clone() for total in seen[-1]]

    monkeypatch.setattr(StackGradients, "clipped_sum", spy)
    return seen


def unit_of(graph: TextGraph, unit: str, chosen: Settings) -> list[int]:
    """The documents of one protected unit."""
    if unit == "document":
        return [5]
    if unit == "graph":
        return list(range(len(graph)))
    if unit == "person":
        assert graph.owners is not None
        return torch.nonzero(graph.owners == graph.owners[5])[:, 0].tolist()
    from privgcn.graph import random_parts

    part_of = random_parts(len(graph), PARTS, chosen.seed)
    return torch.nonzero(part_of == part_of[5])[:, 0].tolist()


def without(graph: TextGraph, members: Sequence[int]) -> TextGraph:
    """The same index set with the content of some documents absent."""
    gone = torch.zeros(len(graph), dtype=torch.bool)
    gone[list(members)] = True
    rows = graph.features.dense().clone()
    rows[gone] = 0.0
    kept = ~(gone[graph.edges[0]] | gone[graph.edges[1]])
    return replace(
        graph,
        features=DenseRows(rows),
        labels=graph.labels.masked_fill(gone, -1),
        edges=graph.edges[:, kept],
    )


def remade(graph: TextGraph, members: Sequence[int], seed: int) -> TextGraph:
    """The same index set with other texts, labels and links of some documents."""
    generator = torch.Generator().manual_seed(seed)
    bare = without(graph, members)
    rows = bare.features.dense().clone()
    labels = bare.labels.clone()
    new = []
    for document in members:
        scale = 10.0 ** float(torch.randint(-2, 4, (), generator=generator))
        rows[document] = scale * torch.randn(rows.shape[1], generator=generator)
        labels[document] = torch.randint(-1, graph.classes, (), generator=generator)
        ends = torch.randint(0, len(graph), (6,), generator=generator)
        new += [(min(document, e), max(document, e)) for e in ends.tolist() if e != document]
    links = torch.tensor(sorted(set(new)), dtype=torch.int64).reshape(-1, 2).T
    edges = torch.cat([bare.edges, links], dim=1).unique(dim=1)
    return replace(bare, features=DenseRows(rows), labels=labels, edges=edges)


@pytest.mark.parametrize(("unit", "relation", "parts", "clips"), TABLE)
@pytest.mark.parametrize("kind", ["gcn", "linear", "mlp"])
def test_neighbours_move_the_sum_by_at_most_the_tables_value(
    sums: list[list[Tensor]], unit: str, relation: str, parts: str, clips: int, kind: str
) -> None:
    graph = random_graph(24, 6, links=60, owners=6, sparse=False)
    chosen = settings(unit, relation, parts, kind=kind, hidden=5)
    plan = fit(graph, chosen).plan
    assert plan is not None
    assert plan.sensitivity == clips
    members = unit_of(graph, unit, chosen)
    for seed in range(6):
        other = (
            without(graph, members) if relation == "remove" else remade(graph, members, seed)
        )
        fit(other, chosen)
        apart = [a - b for a, b in zip(sums[0], sums[-1], strict=True)]
        assert joint_norm(apart) <= clips


@pytest.mark.parametrize(("unit", "relation", "parts", "clips"), TABLE)
def test_the_worst_case_reaches_the_tables_value(
    sums: list[list[Tensor]], unit: str, relation: str, parts: str, clips: int
) -> None:
    # One feature, two classes: a document pulls by its value, its label gives the direction.
    # The unit's documents are loud; the others, of the other class, only speak without them.
    empty = random_graph(24, 1, 2, links=0, owners=12, sparse=False)
    chosen = settings(unit, relation, parts, kind="linear", hops=0)
    members = unit_of(empty, unit, chosen)
    loud = torch.ones(24, 1)
    loud[members] = 1e4
    labels = torch.ones(24, dtype=torch.int64)
    labels[members] = 0
    graph = replace(empty, features=DenseRows(loud), labels=labels)
    if relation == "remove":
        other = without(graph, members)
    else:
        other = replace(graph, labels=torch.where(loud[:, 0] > 1, 1, labels))
    for neighbour in (graph, other):
        fit(neighbour, chosen)
    apart = [a - b for a, b in zip(*sums, strict=True)]
    assert 0.99 * clips <= joint_norm(apart) <= clips


def test_the_number_of_an_owners_documents_moves_only_that_owners_part(
    sums: list[list[Tensor]],
) -> None:
    graph = random_graph(24, 6, links=60, owners=6, sparse=False)
    chosen = settings("person", "replace", "each", kind="gcn", hidden=5)
    owners = graph.owners
    assert owners is not None
    fit(graph, chosen)
    for kept in (1, 2):
        mine = torch.nonzero(owners == owners[5])[:, 0]
        rows = torch.tensor([r for r in range(24) if r not in set(mine[kept:].tolist())])
        fit(graph.induced(rows), chosen)
        apart = [a - b for a, b in zip(sums[0], sums[-1], strict=True)]
        assert 0 < joint_norm(apart) <= 2
