"""Sparse and dense rows behave alike."""

import math
from collections.abc import Iterator

import numpy as np
import pytest
import torch
from scipy.sparse import csr_matrix

from privgcn.graph.dense_rows import DenseRows
from privgcn.graph.rows import Rows, normalised, rows_of
from privgcn.graph.sparse_rows import SparseRows

TABLE = np.array([[1.0, 0, 2, 0], [0, 0, 0, 0], [0, -3, 0, 4]], dtype=np.float32)


@pytest.fixture(params=["sparse", "dense"])
def rows(request: pytest.FixtureRequest) -> Rows:
    return rows_of(csr_matrix(TABLE) if request.param == "sparse" else TABLE)


def test_products(rows: Rows) -> None:
    table = torch.randn(4, 6)
    other = torch.randn(3, 6)
    exact = torch.from_numpy(TABLE)
    assert torch.allclose(rows.times(table), exact @ table)
    assert torch.allclose(rows.transposed_times(other), exact.T @ other)
    assert torch.allclose(rows.times(table.double()), exact.double() @ table.double())
    assert torch.allclose(
        rows.transposed_times(other.double()), exact.double().T @ other.double()
    )


def test_shape_and_content(rows: Rows) -> None:
    assert rows.shape == (3, 4)
    assert rows.width == 4
    assert torch.equal(rows.dense(), torch.from_numpy(TABLE))
    assert torch.equal(rows.to("cpu").dense(), rows.dense())
    assert rows.row_sums(1).tolist() == [3.0, 0.0, 7.0]
    assert rows.row_sums(2).tolist() == [5.0, 0.0, 25.0]


def test_selecting_keeps_the_order_asked_for(rows: Rows) -> None:
    for index in ([2, 0], [1], [], [0, 1, 2]):
        chosen = rows.select(torch.tensor(index, dtype=torch.int64))
        assert torch.equal(chosen.dense(), torch.from_numpy(TABLE)[index])


def test_explicit_zeros_and_doubles_are_resolved() -> None:
    matrix = csr_matrix(([1.0, 0.0, 2.0], [0, 1, 0], [0, 3]), shape=(1, 3))
    rows = SparseRows.from_scipy(matrix)
    assert rows.stored == 1
    assert rows.dense().tolist() == [[3.0, 0.0, 0.0]]
    assert (rows.to_scipy() != csr_matrix([[3.0, 0.0, 0.0]])).nnz == 0


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
def test_rows_that_are_not_finite_count_as_empty(bad: float) -> None:
    for sparse in (True, False):
        table = TABLE.copy()
        table[2, 1] = bad
        rows = rows_of(csr_matrix(table) if sparse else table).finite()
        assert rows.dense()[:2].tolist() == TABLE[:2].tolist()
        assert rows.dense()[2].tolist() == [0.0] * 4


def test_finite_rows_are_left_alone(rows: Rows) -> None:
    assert rows.finite() is rows


@pytest.mark.parametrize("norm", ["l1", "l2"])
@pytest.mark.parametrize("size", [1e-44, 1e-30, 1.0, 1e30, 1e38])
def test_normalising_never_makes_a_row_that_is_not_finite(norm: str, size: float) -> None:
    """One document with tiny values once turned the whole model into NaN."""
    for sparse in (True, False):
        table = TABLE.copy()
        table[0] = [size, 0, size, 0]
        scaled = normalised(rows_of(csr_matrix(table) if sparse else table), norm)
        assert bool(torch.isfinite(scaled.dense()).all())
        sums = scaled.row_sums(1 if norm == "l1" else 2)
        assert sums.tolist() == pytest.approx([1.0, 0.0, 1.0], rel=1e-3)
        assert scaled.dense().dtype == torch.float32


def test_without_a_norm_rows_stay(rows: Rows) -> None:
    assert normalised(rows, "none") is rows


def test_dense_rows_take_tensors() -> None:
    values = torch.ones(2, 3)
    rows = rows_of(values)
    assert isinstance(rows, DenseRows)
    assert rows.stored == 6


def test_rows_may_lie_column_by_column_in_memory() -> None:
    values = np.asfortranarray(np.random.default_rng(0).normal(size=(5000, 3)))
    rows, table = rows_of(values), torch.ones(5000, 2)
    expected = torch.from_numpy(values).T @ table.double()
    assert torch.allclose(rows.transposed_times(table.double()), expected, atol=1e-3)
    assert torch.allclose(rows.transposed_times(table).double(), expected, atol=1e-2)


@pytest.mark.parametrize("bits", [1, 5, 12])
def test_rows_are_cut_toward_zero_each_on_its_own_grid(rows: Rows, bits: int) -> None:
    loud = rows.scaled(torch.tensor([1e-20, 1.0, 1.1e20]))
    cut = loud.on_grid(bits)
    assert cut.on_grid(bits).dense().equal(cut.dense()), "a second time changes nothing"
    before, after = loud.dense(), cut.dense()
    assert bool((after.abs() <= before.abs()).all())
    assert bool((after * before >= 0).all())
    powers = loud.powers[:, None]
    assert bool((before.abs() < powers).all())
    steps = after / powers * 2.0**bits
    assert torch.equal(steps, steps.round())
    assert bool(((before - after).abs() <= powers * 2.0**-bits).all())
    assert torch.equal(cut.powers, loud.powers)


def test_inner_products_of_rows() -> None:
    sparse = SparseRows.from_scipy(csr_matrix(TABLE))
    first, second = torch.tensor([0, 2, 1]), torch.tensor([0, 0, 2])
    assert sparse.inner_products(first, second).tolist() == [5.0, 0.0, 0.0]


@pytest.mark.parametrize("kind", [np.float32, np.float64, np.int64])
def test_doubled_columns_do_not_shorten_a_row(kind: type[np.generic]) -> None:
    """Two values in one column are their sum: taken one by one they would look shorter."""
    values = np.array([3, 3, 2, -2], dtype=kind)
    matrix = csr_matrix((values, [1, 1, 0, 0], [0, 2, 4]), shape=(2, 3))
    rows = rows_of(matrix)
    exact = torch.from_numpy(matrix.toarray()).double()
    assert torch.equal(rows.dense().double(), exact)
    for power in (1, 2):
        assert torch.equal(rows.row_sums(power), (exact.abs() ** power).sum(1))
    lengths = torch.linalg.vector_norm(normalised(rows, "l2").dense(), dim=1)
    assert lengths.tolist() == pytest.approx([1.0, 0.0])


def test_the_order_of_storage_does_not_make_rows_depend_on_others() -> None:
    values = torch.randn(65, 300)
    for count in (1, 2, 33, 64):
        rows, fewer = (DenseRows(v.T.contiguous().T) for v in (values, values[:count]))
        assert torch.equal(rows.row_sums(2)[:count], fewer.row_sums(2))


@pytest.fixture
def two_threads() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    yield
    torch.set_num_threads(before)


@pytest.mark.usefixtures("two_threads")
def test_a_long_row_does_not_tell_whether_others_come_after_it() -> None:
    """Somebody's one more document would change how the row before it is added up."""
    values = torch.randn(9, 40_000, generator=torch.Generator().manual_seed(0))
    for count in range(1, 9):
        rows, fewer = DenseRows(values), DenseRows(values[:count])
        assert torch.equal(rows.row_sums(2)[:count], fewer.row_sums(2))


@pytest.mark.usefixtures("two_threads")
def test_threads_do_not_follow_how_much_is_stored() -> None:
    """How many words somebody writes must not be seen in how a sum is computed."""
    for words in (1, 60):
        rows = rows_of(csr_matrix(np.ones((5000, words), dtype=np.float32)))
        assert len(rows._scipy64_pieces()) == 2


def test_centred_rows_are_measured_in_float64() -> None:
    values = torch.randn(500, 384, generator=torch.Generator().manual_seed(0))
    centre = torch.full((384,), 0.01)
    rows = DenseRows(values)
    moved = (values / rows.row_sums(2).sqrt()[:, None]).float() - centre
    lengths = torch.linalg.vector_norm(moved, dim=1, keepdim=True, dtype=torch.float64)
    expected = moved * (1.0 / lengths)
    assert torch.equal(rows.centred(centre).values, expected.float())
