"""The outline, centre of dense rows and class shares: one clipped, noisy, counted release."""

import math
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse import csr_matrix
from torch import Tensor

from brute_force import random_graph
from privgcn.config import MODES, Settings, make_settings
from privgcn.graph import DenseRows, TextGraph
from privgcn.graph.parts import PartitionedGraph, cut
from privgcn.graph.sparse_rows import SparseRows
from privgcn.prediction.inference import scores_in_mode
from privgcn.privacy.mechanism.centre import (
    LABEL,
    ROW,
    clipped_outline,
    released_outline,
)
from privgcn.privacy.mechanism.noise_grid import grid_of
from privgcn.privacy.partition import PartitionFacts
from privgcn.privacy.plan import PrivacyPlan
from privgcn.privacy.schedule import AllParts, PoissonParts
from privgcn.randomness import RandomSource
from privgcn.training.checkpoint import Checkpoint
from privgcn.training.class_bias import ClassBias
from privgcn.training.fit import fit
from privgcn.training.fitted import Fit

CLIP = 0.5


def parts_of(
    rows: Tensor,
    part_of: list[int] | None = None,
    labels: list[int] | None = None,
    *,
    classes: int = 2,
) -> PartitionedGraph:
    graph = random_graph(len(rows), 1, classes, links=0, sparse=False)
    graph = replace(graph, features=DenseRows(rows))
    if labels is not None:
        graph = replace(graph, labels=torch.tensor(labels))
    members = torch.arange(len(rows)) if part_of is None else torch.tensor(part_of)
    return cut(graph, members, int(members.max()) + 1)


def plan_for(parts: int, noise: float, *, clip: float = 1.0, q: float = 1.0) -> PrivacyPlan:
    return PrivacyPlan(
        unit="document",
        relation="remove",
        partition=PartitionFacts(by="document", kind="each", parts=parts),
        schedule=AllParts(parts) if q == 1.0 else PoissonParts(parts, q),
        clip_norm=clip,
        noise_multiplier=noise,
        steps=3,
        delta=1e-5,
        units=parts,
        accountant="pld",
    )


def alike(documents: int, *, seed: int = 0) -> TextGraph:
    """Rows of length one with a strong common direction; the class is in what is left."""
    random = torch.Generator().manual_seed(seed)
    labels = torch.arange(documents) % 3
    own = torch.randn(3, 16, generator=random)[labels]
    rows = 6 * torch.ones(16) + own + 0.5 * torch.randn(documents, 16, generator=random)
    rows = rows / rows.norm(dim=1, keepdim=True)
    graph = random_graph(documents, 1, 3, links=0, sparse=False)
    return replace(graph, features=DenseRows(rows), labels=labels)


def auto(**changes: Any) -> Settings:
    return make_settings("auto", epsilon=5.0, changes=changes)


@settings(max_examples=60, deadline=None)
@given(
    st.integers(1, 12),
    st.integers(1, 3),
    st.sampled_from([1e-30, 1e-3, 1.0, 1e3, 1e20]),
    st.integers(0, 99),
)
def test_no_document_moves_the_sum_by_more_than_the_clip_norm(
    documents: int, a_part: int, loudness: float, seed: int
) -> None:
    random = torch.Generator().manual_seed(seed)
    rows = loudness * torch.randn(documents, 4, generator=random)
    labels = torch.randint(0, 2, (documents,), generator=random).tolist()
    part_of = [number // a_part for number in range(documents)]
    plan = plan_for(max(part_of) + 1, 1.0, clip=CLIP)
    whole = clipped_outline(parts_of(rows, part_of, labels), plan, None)
    step = grid_of(plan).step
    for part in range(max(part_of) + 1):
        gone = torch.tensor(part_of) == part
        left = [-1 if out else label for out, label in zip(gone, labels, strict=True)]
        quiet = torch.where(gone[:, None], 0.0, rows)
        rest = clipped_outline(parts_of(quiet, part_of, left), plan, None)
        moved = torch.cat([(a - b).flatten() for a, b in zip(whole, rest, strict=True)])
        entries = (moved / step).tolist()
        assert all(entry.is_integer() for entry in entries), "on the grid"
        # In exact arithmetic, over rows and labels together.
        assert sum(Fraction(int(entry)) ** 2 for entry in entries) * Fraction(step) ** 2 <= 1


def test_a_document_uses_the_whole_clip_norm_and_its_label_a_known_part() -> None:
    plan = plan_for(1, 1.0, clip=CLIP)
    found = clipped_outline(parts_of(torch.tensor([[3.0, 4.0]]), None, [1]), plan, None)
    rows, labels = found
    assert rows[:, 0].tolist() == pytest.approx([0.6 * ROW, 0.8 * ROW], rel=1e-3)
    assert labels[0].tolist() == pytest.approx([0.0, LABEL], rel=1e-3)
    assert math.hypot(ROW, LABEL) == pytest.approx(1.0)


def test_a_label_counts_as_much_as_its_share_of_an_owner() -> None:
    rows = torch.eye(4)
    graph = parts_of(rows, [0, 0, 0, 1], [0, 2, 2, 1], classes=3)
    _, labels = clipped_outline(graph, plan_for(2, 1.0), None)
    expected = [LABEL / 3, LABEL, LABEL * 2 / 3]
    assert labels[0].tolist() == pytest.approx(expected, rel=1e-3)


@pytest.mark.parametrize("label", [-1, 2, 99])
def test_a_label_outside_the_classes_adds_nothing(label: int) -> None:
    _, labels = clipped_outline(
        parts_of(torch.eye(2), None, [0, label]), plan_for(2, 1.0), None
    )
    assert labels[0].tolist() == pytest.approx([LABEL, 0.0], rel=1e-3)


def sparse_of(graph: TextGraph) -> TextGraph:
    """The same rows in sparse storage."""
    rows = SparseRows.from_scipy(csr_matrix(graph.features.dense().numpy()))
    return replace(graph, features=rows)


def test_of_sparse_rows_the_labels_alone_are_summed() -> None:
    graph = sparse_of(alike(9))
    (labels,) = clipped_outline(cut(graph, torch.arange(9), 9), plan_for(9, 1.0), None)
    assert labels[0].tolist() == pytest.approx([3.0, 3.0, 3.0], rel=1e-3)


@pytest.mark.parametrize("dense", [True, False])
def test_released_shares_are_those_of_the_labels(dense: bool) -> None:
    graph = replace(alike(4000), labels=torch.tensor(3000 * [0] + 800 * [1] + 200 * [2]))
    graph = graph if dense else sparse_of(graph)
    parts = cut(graph, torch.arange(4000), 4000)
    source = RandomSource.reproducible(1, "test")
    found = released_outline(parts, plan_for(4000, 5.0), source)
    assert found.shares[0].tolist() == pytest.approx([0.75, 0.2, 0.05], abs=0.01)
    assert (found.centre is None) == (not dense)


@pytest.mark.parametrize("dense", [True, False])
def test_the_noise_of_shares_is_the_plans(dense: bool) -> None:
    graph = replace(alike(1000), labels=torch.tensor(500 * [0] + 500 * [1]))
    graph = graph if dense else sparse_of(graph)
    parts, plan = cut(graph, torch.arange(1000), 1000), plan_for(1000, 10.0)
    source = RandomSource.reproducible(1, "test")
    draws = torch.cat([released_outline(parts, plan, source).shares for _ in range(300)])
    # Shares are divided by their sum, which takes out what both have in common.
    spread = float((draws[:, 0] - draws[:, 1]).std())
    expected = 2**0.5 * plan.noise_multiplier / 1000 / (LABEL if dense else 1.0)
    assert spread == pytest.approx(expected, rel=0.12)


def test_shares_are_positive_whatever_the_noise_is() -> None:
    source = RandomSource.reproducible(1, "test")
    plan = plan_for(30, 1000.0)
    parts = cut(alike(30), torch.arange(30), 30)
    for _ in range(20):
        shares = released_outline(parts, plan, source).shares
        assert float(shares.min()) > 0.01
        assert float(shares.sum()) == pytest.approx(1.0)


def test_loud_and_quiet_documents_count_as_one() -> None:
    rows = torch.tensor([[3.0, 0.0], [0.0, 1e-3], [0.0, 0.0]])
    found, _ = clipped_outline(parts_of(rows), plan_for(3, 1.0, clip=CLIP), None)
    assert found[:, 0].tolist() == pytest.approx([ROW, ROW], rel=1e-3)


def test_an_owner_counts_with_the_mean_of_his_documents() -> None:
    rows = torch.tensor([[4.0, 0.0], [0.0, 0.1], [2.0, 0.0]])
    found, _ = clipped_outline(parts_of(rows, [0, 0, 1]), plan_for(2, 1.0), None)
    assert found[:, 0].tolist() == pytest.approx([1.5 * ROW, 0.5 * ROW], rel=1e-3)


def test_a_part_with_a_row_that_is_not_finite_adds_nothing() -> None:
    rows = torch.tensor([[math.inf, 0.0], [1.0, 0.0], [1e-44, 0.0], [0.0, 0.25]])
    graph = parts_of(rows, [0, 0, 1, 1], [0, 0, 1, 1])
    found, labels = clipped_outline(graph, plan_for(2, 1.0), None)
    assert found[:, 0].tolist() == pytest.approx([0.0, 0.5 * ROW], rel=1e-3)
    assert labels[0].tolist() == pytest.approx([0.0, LABEL], rel=1e-3)


def test_only_sampled_parts_count() -> None:
    graph = parts_of(torch.eye(3), None, [0, 0, 1])
    found, labels = clipped_outline(graph, plan_for(3, 1.0), [np.array([2])])
    assert found[:, 0].tolist() == pytest.approx([0.0, 0.0, ROW], rel=1e-3)
    assert labels[0].tolist() == pytest.approx([0.0, LABEL], rel=1e-3)


def centre_of(graph: PartitionedGraph, plan: PrivacyPlan, source: RandomSource) -> Tensor:
    centre = released_outline(graph, plan, source).centre
    assert centre is not None
    return centre


@pytest.mark.parametrize("q", [1.0, 0.5])
def test_the_noise_is_the_plans(q: float) -> None:
    documents = 400
    rows = torch.zeros(documents, 200)
    rows[:, 0] = 1.0
    plan = plan_for(documents, 4.0, q=q)
    source = RandomSource.reproducible(1, "test")
    draws = torch.stack([centre_of(parts_of(rows), plan, source)[:, 0] for _ in range(50)])
    expected = plan.noise_std / plan.schedule.expected_parts / ROW
    common = draws[:, 0].mean()
    assert float(draws[:, 1:].std() / common) == pytest.approx(expected, rel=0.05)
    assert 0.8 < float(common) <= 1.0


def test_noise_alone_is_not_taken_for_a_centre() -> None:
    random = torch.Generator().manual_seed(0)
    rows = torch.nn.functional.normalize(torch.randn(300, 50, generator=random))
    source = RandomSource.reproducible(1, "test")
    for noise in (1.0, 100.0, 1e4):
        plan = plan_for(300, noise)
        assert not centre_of(parts_of(rows), plan, source).any()


def releases_of(graph: TextGraph, chosen: Settings, **options: Any) -> tuple[Fit, list[Any]]:
    """A fit, and the shapes of all noise it drew."""
    drawn: list[Any] = []
    original = RandomSource.normal

    def spy(self: RandomSource, shapes: Any) -> Any:
        drawn.append([tuple(shape) for shape in shapes])
        return original(self, shapes)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(RandomSource, "normal", spy)
        return fit(graph, chosen, **options), drawn


def test_the_centre_is_one_of_the_plans_releases() -> None:
    graph = alike(60)
    fitted, drawn = releases_of(graph, auto())
    assert fitted.plan is not None
    assert fitted.path is not None
    assert fitted.centre is not None
    assert len(drawn) == fitted.plan.steps == 30
    assert drawn == [[(16, 1), (1, 3)]] + 29 * [[(16, 1, 3)]]
    assert fitted.bias is not None
    assert len(fitted.path) == 30, "29 steps and where they began"


def test_sparse_rows_have_no_centre() -> None:
    sparse = random_graph(30, 6)
    fitted, drawn = releases_of(sparse, auto())
    assert fitted.centre is None
    assert fitted.bias is None
    assert len(drawn) == 30


def test_the_shares_of_sparse_rows_are_one_of_the_plans_releases() -> None:
    sparse = random_graph(30, 6, 3)
    fitted, drawn = releases_of(sparse, auto(**{"training.balanced": True}))
    assert fitted.centre is None
    assert fitted.bias is not None
    assert fitted.path is not None
    assert drawn == [[(1, 3)]] + 29 * [[(6, 1, 3)]]
    assert len(fitted.path) == 30, "29 steps and where they began"


def test_a_single_step_is_not_given_away() -> None:
    fitted, drawn = releases_of(alike(60), auto(**{"training.epochs": 1}))
    assert fitted.centre is None
    assert len(drawn) == 1


def test_a_resumed_run_keeps_its_centre(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Checkpoint, "offer", lambda self, state: self.write(state()))
    graph = alike(400)

    class Stopped(Exception):
        pass

    def stop(done: int, total: int) -> None:
        if done == 12:
            raise Stopped

    with pytest.raises(Stopped):
        fit(graph, auto(), checkpoint_folder=tmp_path, progress=stop)
    kept = Checkpoint(tmp_path, {}).path
    from safetensors.torch import load_file

    before = load_file(kept)
    assert before["centre"].any()
    fitted, drawn = releases_of(graph, auto(), checkpoint_folder=tmp_path)
    assert fitted.centre is not None
    assert fitted.bias is not None
    assert torch.equal(fitted.centre, before["centre"])
    expected = ClassBias.of_shares(before["shares"], balanced=False)
    assert torch.equal(fitted.bias.values, expected.values)
    assert len(drawn) == 30 - 12


def test_each_replica_takes_off_its_own_centre() -> None:
    graph = alike(400)
    fitted = fit(graph, auto(), seeds=[0, 1])
    assert fitted.centre is not None
    assert fitted.centre.shape == (16, 2)
    assert not torch.equal(fitted.centre[:, 0], fitted.centre[:, 1])
    rows = torch.arange(100)
    for mode in MODES:
        both = scores_in_mode(fitted, graph, rows, mode)
        for number in range(2):
            one = scores_in_mode(fitted.replica(number), graph, rows, mode)
            assert torch.equal(both[:, number], one[:, 0])


def test_it_tells_classes_apart_where_all_rows_point_one_way() -> None:
    train, test = alike(1500), alike(1500, seed=0)
    # The same rows in sparse storage: the centre is a matter of dense rows.
    sparse, rows = sparse_of(train), torch.arange(1500)

    def score(train: TextGraph) -> float:
        fitted = fit(train, auto(**{"privacy.reproducible": True}), seeds=[0, 1, 2])
        found = scores_in_mode(fitted, test, rows, "alone").argmax(-1)
        return float((found == test.labels[:, None]).float().mean())

    assert score(train) > 0.9
    assert score(train) > score(sparse) + 0.1


def test_rows_without_words_stay_empty() -> None:
    rows = DenseRows(torch.tensor([[0.0, 0.0], [1.0, 0.0], [0.5, 0.5]]))
    found = rows.centred(torch.tensor([0.5**0.5, 0.5**0.5])).dense()
    assert found[0].tolist() == [0.0, 0.0]
    assert float(found[1].norm()) == pytest.approx(1.0)
    assert float(found[1, 0]) > 0 > float(found[1, 1])
    assert found[2].tolist() == [0.0, 0.0], "nothing is left of it"


@pytest.mark.parametrize("clip_norm", [0.01, 1.0, 10.0])
@pytest.mark.parametrize("loudness", [0.1, 10.0])
def test_clip_norm_and_length_of_rows_have_no_say(clip_norm: float, loudness: float) -> None:
    rows = loudness * alike(400).features.dense()
    source = RandomSource.reproducible(1, "test")
    found = centre_of(parts_of(rows), plan_for(400, 0.1, clip=clip_norm), source)
    mean = torch.nn.functional.normalize(rows).mean(0)
    assert torch.allclose(found[:, 0], mean, atol=3e-3)


def test_another_kind_of_rows_does_not_resume_a_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Checkpoint, "offer", lambda self, state: self.write(state()))
    dense = alike(60)
    fit(dense, auto(), checkpoint_folder=tmp_path)
    _, drawn = releases_of(sparse_of(dense), auto(), checkpoint_folder=tmp_path)
    assert len(drawn) == 30
