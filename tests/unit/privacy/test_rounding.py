"""Sums over parts do not round away their sensitivity.

The attack: float32 spacing doubles at every power of two. Rows are chosen so that the
running sum with one document sits above a power of two where the sum without it sits below.
Small rows are then rounded to two spacings in one sum and to one in the other, and the gap
doubles each time. A float32 sum is moved by several clip norms.
"""

from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from torch import Tensor

from brute_force import random_graph
from privgcn.errors import ConfigError
from privgcn.graph import DenseRows, TextGraph
from privgcn.graph.partition import cut
from privgcn.graph.rows import SparseRows
from privgcn.models import make_model
from privgcn.privacy.centre import clipped_row_means
from privgcn.privacy.clipping import ClippedSums, Method
from privgcn.privacy.module_gradients import ModuleGradients
from privgcn.privacy.noise import noisy_mean
from privgcn.privacy.part_gradients import StackGradients
from privgcn.privacy.scales import sum_slack
from privgcn.randomness import RandomSource
from privgcn.training.planning import plan_for_units
from privgcn.training.recipes import make_settings

FEATURES = 4


@cache
def treacherous(pull: float) -> Tensor:
    """Rows whose first coordinate, times ``pull``, breaks a float32 running sum."""
    spacing = np.float32
    scale = np.float32(pull * (1 - sum_slack(20_000, blocked=True)))
    values, with_it, without = [1.0], spacing(scale), spacing(0)

    def added(total: Any, value: float) -> Any:
        return spacing(np.float64(total) + np.float64(np.float32(value)) * np.float64(scale))

    for power in (10, 11, 12):
        while with_it < 2.0**power:
            values.append(1.0)
            with_it, without = added(with_it, 1.0), added(without, 1.0)
        small = float(np.float32(1.4 * 2.0 ** (power - 24) / pull))
        while without < 2.0**power:
            values.append(small)
            with_it, without = added(with_it, small), added(without, small)
    rows = torch.zeros(len(values), FEATURES)
    rows[:, 0] = torch.tensor(values)
    return rows


def graph_of(rows: Tensor, *, sparse: bool) -> TextGraph:
    empty = random_graph(len(rows), 1, 2, links=0, sparse=False)
    features = SparseRows.from_scipy(sp.csr_matrix(rows.numpy())) if sparse else DenseRows(rows)
    labels = torch.where(rows.any(dim=1), 0, -1)
    return replace(empty, features=features, labels=labels)


def without_first(rows: Tensor) -> Tensor:
    rest = rows.clone()
    rest[0] = 0.0
    return rest


def test_the_rows_break_a_float32_sum() -> None:
    rows = treacherous(1.0)

    def running(values: Tensor) -> float:
        scaled = (values[:, 0] * (1 - sum_slack(20_000, blocked=True))).numpy()
        return float(np.cumsum(scaled, dtype=np.float32)[-1])

    assert running(rows) - running(without_first(rows)) > 2.0


@pytest.mark.parametrize("sparse", [True, False])
@pytest.mark.parametrize("documents_a_part", [1, 2])
def test_no_document_moves_a_sum_of_gradients_further(
    sparse: bool, documents_a_part: int
) -> None:
    rows = treacherous(2**-0.5)

    def summed(values: Tensor) -> Tensor:
        graph = graph_of(values, sparse=sparse)
        model = make_model("linear", FEATURES, 2, hops=0, dropout=0.0)
        part_of = torch.arange(len(values)) // documents_a_part
        parts = cut(graph, part_of, int(part_of.max()) + 1)
        gradients = StackGradients(model, parts, 1.0, None, unit_residuals=True)
        return gradients.clipped_sum(model.initial([0], zero=True), None)[0]

    moved = float((summed(rows) - summed(without_first(rows))).norm())
    assert moved <= (1.0 if documents_a_part == 1 else 2.0)


@pytest.mark.parametrize("method", ["pairs", "direct"])
def test_every_method_adds_up_in_float64(method: Method) -> None:
    rows = treacherous(2**-0.5)[:3000]
    model = make_model("linear", FEATURES, 2, hops=0, dropout=0.0)
    graph = cut(graph_of(rows, sparse=True), torch.arange(len(rows)), len(rows))
    parameters = model.initial([0], zero=True)
    tape = model.forward(parameters, graph.features, None)
    residuals = torch.tensor([-(2**-0.5), 2**-0.5]).expand(len(rows), 1, 2).contiguous()
    gradients = model.backward(parameters, tape, residuals, None, dropped=False)
    (total,) = ClippedSums(graph, 1.0).clipped_sum(gradients, method=method)
    assert total.dtype == torch.float64
    exact = (rows[:, 0].double() * 2**-0.5 * (1 - 1e-6)).sum()
    assert float(total[0, 0, 1]) == pytest.approx(float(exact), rel=1e-6)


def test_no_document_moves_the_centre_further() -> None:
    rows = treacherous(1.0)
    rest = (1 - rows[:, 0].double().square()).clamp(min=0).sqrt().float()
    rows = rows.clone()
    rows[:, 1] = rest * torch.where(torch.arange(len(rows)) % 2 == 0, 1.0, -1.0)

    def summed(values: Tensor) -> Tensor:
        graph = graph_of(values, sparse=False)
        return clipped_row_means(cut(graph, torch.arange(len(values)), len(values)), 1.0, None)

    assert float((summed(rows) - summed(without_first(rows))).norm()) <= 1.0


def test_the_slack_grows_with_the_terms_and_ends_somewhere() -> None:
    assert sum_slack(1) == pytest.approx(1e-6)
    assert sum_slack(1_000_000) == pytest.approx(1e-6 + 2.22e-4, rel=1e-3)
    assert sum_slack(1_000_000, blocked=True) == pytest.approx(8.0e-3, rel=0.01)
    with pytest.raises(ConfigError, match="ten million"):
        sum_slack(20_000_000)


def test_a_sum_is_rounded_only_after_the_noise_is_in(monkeypatch: pytest.MonkeyPatch) -> None:
    total = torch.tensor([2.0**24 + 1], dtype=torch.float64)
    assert float(total.float()) != float(total), "float32 cannot hold it"
    plan = plan_for_units(
        make_settings("auto", epsilon=1.0).privacy, 1, epochs=1, seed=0, columns={}
    )
    monkeypatch.setattr(RandomSource, "normal", lambda *_: [torch.tensor([-(2.0**24)])])
    (mean,) = noisy_mean([total], plan, RandomSource.secret())
    assert float(mean) == 1.0


@pytest.mark.parametrize("sparse", [True, False])
def test_the_slack_of_blocks_is_paid(sparse: bool) -> None:
    rows = torch.zeros(5000, FEATURES)
    rows[:, 0] = 1.0
    model = make_model("linear", FEATURES, 2, hops=0, dropout=0.0)
    parts = cut(graph_of(rows, sparse=sparse), torch.arange(5000), 5000)
    gradients = StackGradients(model, parts, 1.0, None, unit_residuals=True)
    (total,) = gradients.clipped_sum(model.initial([0], zero=True), None)
    # Twice 256 squared roundings of 2**-24.
    assert float(total.norm()) / 5000 == pytest.approx(1 - 2.0**-7, abs=1e-5)


def test_modules_add_up_in_float64() -> None:
    graph = graph_of(torch.eye(FEATURES), sparse=False)

    class Plain(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = torch.nn.Linear(FEATURES, 2)

        def forward(self, rows: Tensor, links: Tensor) -> Tensor:
            return self.inner(rows)

    parts = cut(graph, torch.arange(FEATURES), FEATURES)
    gradients = ModuleGradients(Plain(), parts, 1.0)
    sums = gradients.clipped_sum(gradients.initial(), None)
    assert {total.dtype for total in sums} == {torch.float64}
