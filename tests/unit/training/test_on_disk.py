"""Training from disk gives the model of training in memory, to the bit."""

from __future__ import annotations

import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from scipy.sparse import random as random_sparse

from privgcn.config import make_settings
from privgcn.data import scratch
from privgcn.data.corpus import canonical_edges
from privgcn.data.scratch import Scratch
from privgcn.errors import ConfigError
from privgcn.graph import TextGraph, on_disk, rows_of
from privgcn.graph.on_disk import RowsOnDisk
from privgcn.graph.parts import PartitionedGraph
from privgcn.models import make_model
from privgcn.privacy.mechanism.clipping import ClippedSums
from privgcn.privacy.mechanism.cutting import cut_as_planned
from privgcn.privacy.mechanism.part_gradients import StackGradients
from privgcn.training.fit import fit
from privgcn.training.planning import make_plan

DOCUMENTS, OWNERS = 300, 70
GCN = {"privacy.unit": "part", "training.epochs": 3}


@pytest.fixture(autouse=True)
def _small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(on_disk, "_BLOCK_BYTES", 1 << 12)
    monkeypatch.setattr(on_disk, "_BUCKET_BYTES", 1 << 13)
    monkeypatch.setattr(on_disk, "ROWS_AT_ONCE", 32)
    monkeypatch.setattr(scratch, "LINKS_AT_ONCE", 100)


def _graph(*, dense: bool) -> TextGraph:
    rng = np.random.default_rng(0)
    sparse: Any = random_sparse(DOCUMENTS, 80, 0.1, format="csr", random_state=0)
    ends = rng.integers(0, DOCUMENTS, (2, 1500))
    return TextGraph(
        rows_of(rng.normal(size=(DOCUMENTS, 12)) + 2.0 if dense else sparse),
        torch.from_numpy(canonical_edges(*ends, DOCUMENTS)),
        torch.from_numpy(rng.integers(0, 3, DOCUMENTS)),
        3,
        torch.zeros(DOCUMENTS, dtype=torch.int8),
        # Owners with one, few and more documents than pairs are made of.
        torch.from_numpy(np.minimum(rng.integers(0, 2 * OWNERS, DOCUMENTS), OWNERS - 1)),
    )


def _on_disk(graph: TextGraph) -> TextGraph:
    file = Scratch()
    file.write(graph.edges.numpy())
    edges = torch.from_numpy(file.mapped(np.int64, tuple(graph.edges.shape)))
    return replace(graph, features=RowsOnDisk.of(graph.features), edges=edges)


@pytest.mark.parametrize("dense", [True, False])
@pytest.mark.parametrize(
    ("recipe", "changes"),
    [
        ("auto", {}),
        ("auto", {"privacy.unit": "person"}),
        ("paper-split", {**GCN, "privacy.parts": 7}),
        ("paper-split", {**GCN, "privacy.parts": 7, "privacy.sampling": "all"}),
        # Rows of odd length: masks must not depend on where blocks end.
        ("paper-split", {**GCN, "privacy.parts": 40, "model.hidden": 13}),
        ("paper-split", {**GCN, "privacy.parts": 40, "privacy.sampling": "all"}),
    ],
)
def test_the_model_is_the_same(dense: bool, recipe: str, changes: dict[str, Any]) -> None:
    settings = make_settings(
        recipe, epsilon=4.0, changes={"privacy.reproducible": True, **changes}
    )
    graph = _graph(dense=dense)
    near, far = fit(graph, settings), fit(_on_disk(graph), settings)
    assert near.serialised() == far.serialised()
    assert (near.centre is not None) == (dense and recipe == "auto")


def test_replicas_count_their_own_samples() -> None:
    changes = {**GCN, "privacy.parts": 20, "model.dropout": 0.0, "privacy.reproducible": True}
    settings = make_settings("paper-split", epsilon=4.0, changes=changes)
    graph, seeds = _graph(dense=True), [1, 2, 3]
    near, far = fit(graph, settings, seeds=seeds), fit(_on_disk(graph), settings, seeds=seeds)
    assert near.serialised() == far.serialised()


@pytest.mark.parametrize("dense", [True, False])
def test_rows_are_prepared_once(dense: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """A row that is not finite is dropped in later steps, too."""
    settings = make_settings(epsilon=4.0, changes={"privacy.reproducible": True})
    graph = _graph(dense=dense)
    model = make_model("linear", graph.features.width, 3, hops=0, dropout=0.0)
    plan = make_plan(settings.privacy, graph, epochs=30, seed=0, columns={})
    sums, prepared = [], ClippedSums.features.func  # type: ignore[attr-defined]
    made: list[int] = []

    def counted(self: ClippedSums) -> Any:
        if self.prepared is None:
            made.append(len(self))
        return prepared(self)

    monkeypatch.setattr(ClippedSums.features, "func", counted)
    for rows in (graph, _on_disk(graph)):
        parts = cut_as_planned(rows, plan, {})
        bad = parts.features.scaled(
            torch.ones(DOCUMENTS).index_fill(0, torch.tensor([9]), torch.inf)
        )
        features = RowsOnDisk.of(bad) if isinstance(parts.features, RowsOnDisk) else bad
        gradients = StackGradients(model, parts.with_features(features), plan, None)
        made.clear()
        found = [gradients.clipped_sum(model.initial([seed]), None) for seed in range(4)]
        sums.append(torch.stack([one[0] for one in found]))
    assert torch.equal(*sums)
    assert bool(sums[0].isfinite().all())
    # Only the block of the row that is not finite is prepared again.
    again = sum(made) - DOCUMENTS
    assert 0 < again <= 3 * RowsOnDisk.of(graph.features).at_once


def test_a_device_needs_rows_in_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    settings = make_settings(epsilon=4.0, changes={"training.device": "cuda"})
    with pytest.raises(ConfigError, match="Raise training"):
        fit(_on_disk(_graph(dense=True)), settings)


def test_blocks_hold_whole_parts_and_few_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    """Memory is that of a block: no more rows than its parts make necessary."""
    seen: list[int] = []
    select = PartitionedGraph.select

    def counted(self: PartitionedGraph, parts: torch.Tensor) -> PartitionedGraph:
        block = select(self, parts)
        seen.append(len(block))
        return block

    monkeypatch.setattr(PartitionedGraph, "select", counted)
    changes = {**GCN, "training.epochs": 1, "privacy.parts": 40, "privacy.sampling": "all"}
    graph = _on_disk(_graph(dense=True))
    fit(graph, make_settings("paper-split", epsilon=4.0, changes=changes))
    assert isinstance(graph.features, RowsOnDisk)
    assert sum(seen) == DOCUMENTS
    assert max(seen) < graph.features.at_once + -(-DOCUMENTS // 40)


@pytest.mark.parametrize("end", [None, KeyboardInterrupt, RuntimeError])
def test_nothing_is_left_and_nothing_has_a_name(
    end: type[BaseException] | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    named: list[Path] = []

    def progress(done: int, _: int) -> None:
        named.extend(tmp_path.iterdir())
        if end is not None and done == 2:
            raise end

    graph = _on_disk(_graph(dense=True))
    settings = make_settings(epsilon=4.0, changes={"privacy.unit": "person"})
    if end is None:
        fit(graph, settings, progress=progress)
    else:
        with pytest.raises(end):
            fit(graph, settings, progress=progress)
    assert named == []
    assert list(tmp_path.iterdir()) == []
