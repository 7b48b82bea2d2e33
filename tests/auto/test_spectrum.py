"""Main directions and axes of documents, and propagation along edges."""

import numpy as np
import pytest
from scipy.sparse import csr_array

from auto.planted import graph_of
from privgcn.auto.spectrum import personalised_pagerank, principal_axes, principal_directions

RANDOM = np.random.default_rng(0)


@pytest.mark.parametrize("sparse", [False, True])
def test_principal_directions_are_those_of_an_exact_svd(sparse):
    rows = (RANDOM.normal(size=(200, 12)) * np.linspace(3, 0.2, 12) + 1).astype(np.float32)
    given = csr_array(rows) if sparse else rows
    basis, mean = principal_directions(given, 5, oversampling=20, iterations=3)
    assert basis.dtype == np.float32
    centered = rows - rows.mean(0)
    exact = np.linalg.svd(centered, full_matrices=False)[2][:5]
    np.testing.assert_allclose(np.linalg.svd(exact @ basis[:, :5])[1], np.ones(5), atol=1e-3)
    np.testing.assert_allclose(mean, rows.mean(0) @ basis[:, :5], atol=1e-4)
    np.testing.assert_allclose(basis.T @ basis, np.eye(6), atol=1e-4)
    # With the last direction, nothing of the mean is left over.
    np.testing.assert_allclose(basis @ (basis.T @ rows.mean(0)), rows.mean(0), atol=1e-4)


def test_random_choices_are_fixed():
    rows = RANDOM.normal(size=(100, 50)).astype(np.float32)
    first, second = (
        principal_directions(rows, 10, oversampling=5, iterations=2) for _ in range(2)
    )
    np.testing.assert_array_equal(first.basis, second.basis)


@pytest.mark.parametrize("rows", [np.zeros((5, 4)), np.ones((1, 4)), np.ones((6, 4))])
def test_documents_that_are_alike_have_few_directions(rows):
    basis, mean = principal_directions(rows.astype(np.float32), 3, oversampling=2, iterations=2)
    assert np.isfinite(basis).all()
    assert basis.shape[1] == len(mean) + 1 < 4


def test_axes_are_found_where_many_directions_are_empty():
    for empty in np.linspace(0.05, 0.95, 10):
        values = (RANDOM.normal(size=(400, 100)) * np.logspace(0, -3, 100)).astype(np.float32)
        values[:, RANDOM.random(100) < empty] = 0.0
        told = values[:, np.abs(values).max(0) > 0]
        turned, alone = (principal_axes(rows, 0.0)(rows) for rows in (values, told))
        # Axes may be turned and mirrored; how documents lie to each other may not.
        np.testing.assert_allclose(turned @ turned.T, alone @ alone.T, atol=1e-4)


def test_short_rows_stay_shorter_along_the_axes():
    values = RANDOM.normal(size=(100, 5)).astype(np.float32)
    values[0] *= 1e-4
    lengths = np.linalg.norm(principal_axes(values, 0.25)(values), axis=1)
    np.testing.assert_allclose(lengths[1:], 1.0, atol=0.1)
    assert lengths[0] < 0.1
    nothing = np.zeros((4, 3), np.float32)
    assert not principal_axes(nothing, 0.25)(nothing).any()


def test_pagerank_is_its_own_recursion():
    graph = graph_of(np.eye(4), np.zeros(4, np.int64), 2, [[0, 1], [1, 2]])
    values = RANDOM.normal(size=(4, 2)).astype(np.float32)
    kept = values.copy()
    matrix = graph.propagation.toarray()
    once = 0.9 * matrix @ values + 0.1 * values
    twice = 0.9 * matrix @ once + 0.1 * values
    for hops, expected in ((0, values), (1, once), (2, twice)):
        made = personalised_pagerank(graph.propagation, values, 0.1, hops)
        np.testing.assert_allclose(made, expected, rtol=1e-5)
    np.testing.assert_array_equal(values, kept)
