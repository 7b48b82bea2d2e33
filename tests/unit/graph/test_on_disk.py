"""Rows and links on disk give the numbers of rows and links in memory, to the bit."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from scipy.sparse import random as random_sparse
from torch import Tensor

from privgcn.data import scratch
from privgcn.data.corpus import canonical_edges
from privgcn.data.scratch import ChosenRows, Scratch
from privgcn.graph import on_disk
from privgcn.graph.on_disk import (
    InMemory,
    RowsOnDisk,
    in_memory,
    lies_on_disk,
    propagation_on_disk,
    stretch_by_stretch,
)
from privgcn.graph.propagation import propagation_matrix
from privgcn.graph.rows import rows_of
from privgcn.graph.sparse_rows import SparseRows

ROWS = 211


@pytest.fixture(autouse=True)
def _small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(on_disk, "_BLOCK_BYTES", 1 << 10)
    monkeypatch.setattr(on_disk, "_BUCKET_BYTES", 1 << 11)
    monkeypatch.setattr(on_disk, "ROWS_AT_ONCE", 16)
    monkeypatch.setattr(scratch, "LINKS_AT_ONCE", 50)


def _dense() -> InMemory:
    return in_memory(rows_of(np.random.default_rng(0).normal(size=(ROWS, 9))))


def _sparse() -> InMemory:
    return in_memory(rows_of(random_sparse(ROWS, 40, 0.1, format="csr", random_state=0)))


def _tensors(rows: Any) -> list[Tensor]:
    found = in_memory(rows)
    if isinstance(found, SparseRows):
        return [found.offsets, found.columns, found.values]
    return [found.values]


def _same(one: Any, other: Any) -> bool:
    return all(torch.equal(a, b) for a, b in zip(_tensors(one), _tensors(other), strict=True))


both = pytest.mark.parametrize("make", [_dense, _sparse])


def test_rows_on_disk_lie_in_files() -> None:
    for make in (_dense, _sparse):
        kept = RowsOnDisk.of(make()).kept
        assert lies_on_disk(kept.values)
        assert not isinstance(kept, SparseRows) or lies_on_disk(kept.columns)


@both
def test_they_are_what_was_written(make: Callable[[], InMemory]) -> None:
    rows = make()
    far = RowsOnDisk.of(rows)
    assert far.shape == rows.shape
    assert far.is_dense == rows.is_dense
    assert _same(far, rows)
    assert torch.equal(far.dense(), rows.dense())


@both
def test_products_and_norms_are_the_same(make: Callable[[], InMemory]) -> None:
    rows = make().on_grid(12)
    far = RowsOnDisk.of(make()).on_grid(12)
    table = torch.randn(rows.width, 3, dtype=torch.float64)
    assert torch.equal(far.times(table), rows.times(table))
    outputs = torch.randn(ROWS, 3).mul(2**10).round().double()
    assert torch.equal(far.transposed_times(outputs), rows.transposed_times(outputs))
    for power in (1, 2):
        assert torch.equal(far.row_sums(power), rows.row_sums(power))
    assert torch.equal(far.powers, rows.powers)


@both
def test_few_chosen_rows_come_into_memory_and_many_stay(make: Callable[[], InMemory]) -> None:
    rows, far = make(), RowsOnDisk.of(make())
    few, many = torch.tensor([200, 5]), torch.randperm(ROWS)[:150]
    assert isinstance(far.select(few), InMemory)
    assert isinstance(far.select(many), RowsOnDisk)
    assert _same(far.select(few), rows.select(few))
    assert _same(far.select(many), rows.select(many))
    again = torch.arange(0, 150, 2)
    assert _same(far.select(many).select(again), rows.select(many).select(again))


@both
def test_neighbours_are_taken_as_they_lie(make: Callable[[], InMemory]) -> None:
    rows, far = make(), RowsOnDisk.of(make())
    end = 20 + far.at_once
    near = far.part(20, end)
    assert isinstance(near, InMemory)
    assert lies_on_disk(near.values)
    assert _same(near, rows.part(20, end))
    changed = far.on_grid(5).part(20, end)
    assert _same(changed, rows.part(20, end).on_grid(5))


@both
def test_laying_out_gives_the_order_and_keeps_neighbours_near(
    make: Callable[[], InMemory],
) -> None:
    rows, order = make(), torch.randperm(ROWS, generator=torch.Generator().manual_seed(0))
    chosen = order[:170]
    far = RowsOnDisk.of(make()).on_grid(5).laid_out(chosen)
    assert _same(far, rows.select(chosen).on_grid(5))
    assert far.index is not None
    each = max(1, (1 << 11) // on_disk.bytes_of(1, rows.width, dense=rows.is_dense))
    assert torch.equal(far.index // each, torch.arange(170) // each)


@both
def test_settled_rows_are_the_changed_ones(make: Callable[[], InMemory]) -> None:
    chosen = torch.arange(1, ROWS, 2)
    far = RowsOnDisk.of(make()).select(chosen)
    assert isinstance(far, RowsOnDisk)
    settled = far.on_grid(5).settled()
    assert settled.changes == ()
    assert lies_on_disk(settled.kept.values)
    assert _same(settled, make().select(chosen).on_grid(5))


@both
def test_rows_that_are_in_order_are_not_copied(make: Callable[[], InMemory]) -> None:
    far = RowsOnDisk.of(make())
    assert far.laid_out(torch.arange(3, ROWS, 2)).kept is far.kept


def test_vectors_of_a_file_are_taken_as_they_lie() -> None:
    table = np.random.default_rng(0).normal(size=(ROWS, 4)).astype(np.float32)
    chosen = np.arange(ROWS)[::-3].copy()
    far = RowsOnDisk.of(ChosenRows(table)[chosen])
    assert isinstance(far.kept.values, Tensor)
    assert far.kept.values.data_ptr() == table.ctypes.data
    assert torch.equal(far.dense(), torch.from_numpy(table[chosen]))


def test_rows_that_are_not_finite_are_empty() -> None:
    rows = torch.randn(ROWS, 4)
    rows[7, 2] = torch.inf
    rows[100, 0] = torch.nan
    far = RowsOnDisk.of(in_memory(rows_of(rows)))
    assert _same(far.finite(), in_memory(rows_of(rows)).finite())


def _links(documents: int) -> tuple[Tensor, Tensor]:
    rng = np.random.default_rng(1)
    links = canonical_edges(
        rng.integers(0, documents, 900), rng.integers(0, documents, 900), documents
    )
    file = Scratch()
    file.write(links)
    return torch.from_numpy(links), torch.from_numpy(file.mapped(np.int64, links.shape))


def test_the_propagation_matrix_is_the_same() -> None:
    near, far = _links(ROWS)
    found = propagation_on_disk(far, ROWS)
    assert lies_on_disk(found.kept.values)
    assert _same(found, propagation_matrix(near, ROWS))
    values = torch.randn(ROWS, 5)
    assert torch.equal(found.times(values), propagation_matrix(near, ROWS).times(values))


def test_links_on_disk_stay_there_when_some_are_dropped() -> None:
    near, far = _links(ROWS)
    left = stretch_by_stretch(far, lambda own: own[:, own[0] % 3 == 0])
    assert lies_on_disk(left)
    assert torch.equal(left, near[:, near[0] % 3 == 0])
    assert not lies_on_disk(stretch_by_stretch(near, lambda own: own))
