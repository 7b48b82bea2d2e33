"""The released centre of dense rows: one clipped, noisy, counted release."""

import math
from dataclasses import replace
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
from privgcn.config import Settings
from privgcn.graph import DenseRows, TextGraph
from privgcn.graph.parts import PartitionedGraph, cut
from privgcn.graph.sparse_rows import SparseRows
from privgcn.modes import MODES
from privgcn.prediction.inference import scores_in_mode
from privgcn.privacy.mechanism.centre import clipped_row_means, released_centre
from privgcn.privacy.partition import PartitionFacts
from privgcn.privacy.plan import PrivacyPlan
from privgcn.privacy.schedule import AllParts, PoissonParts
from privgcn.randomness import RandomSource
from privgcn.training.checkpoint import Checkpoint
from privgcn.training.fit import Fit, fit
from privgcn.training.recipes import make_settings

CLIP = 0.5


def parts_of(rows: Tensor, part_of: list[int] | None = None) -> PartitionedGraph:
    graph = random_graph(len(rows), 1, 2, links=0, sparse=False)
    graph = replace(graph, features=DenseRows(rows))
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
    part_of = [number // a_part for number in range(documents)]
    plan = plan_for(max(part_of) + 1, 1.0, clip=CLIP)
    whole = clipped_row_means(parts_of(rows, part_of), plan, None)
    for part in range(max(part_of) + 1):
        quiet = rows.clone()
        quiet[torch.tensor(part_of) == part] = 0.0
        rest = clipped_row_means(parts_of(quiet, part_of), plan, None)
        assert float((whole - rest).norm()) <= 1


def test_loud_and_quiet_documents_count_as_one() -> None:
    rows = torch.tensor([[3.0, 0.0], [0.0, 1e-3], [0.0, 0.0]])
    found = clipped_row_means(parts_of(rows), plan_for(3, 1.0, clip=CLIP), None)
    assert found[:, 0].tolist() == pytest.approx([1.0, 1.0], rel=1e-3)


def test_an_owner_counts_with_the_mean_of_his_documents() -> None:
    rows = torch.tensor([[4.0, 0.0], [0.0, 0.1], [2.0, 0.0]])
    found = clipped_row_means(parts_of(rows, [0, 0, 1]), plan_for(2, 1.0), None)
    assert found[:, 0].tolist() == pytest.approx([1.5, 0.5], rel=1e-3)


def test_a_part_with_a_row_that_is_not_finite_adds_nothing() -> None:
    rows = torch.tensor([[math.inf, 0.0], [1.0, 0.0], [1e-44, 0.0], [0.0, 0.25]])
    found = clipped_row_means(parts_of(rows, [0, 0, 1, 1]), plan_for(2, 1.0), None)
    assert found[:, 0].tolist() == pytest.approx([0.0, 0.5], rel=1e-3)


def test_only_sampled_parts_count() -> None:
    rows = torch.eye(3)
    found = clipped_row_means(parts_of(rows), plan_for(3, 1.0), [np.array([2])])
    assert found[:, 0].tolist() == pytest.approx([0.0, 0.0, 1.0], rel=1e-3)


@pytest.mark.parametrize("q", [1.0, 0.5])
def test_the_noise_is_the_plans(q: float) -> None:
    documents = 400
    rows = torch.zeros(documents, 200)
    rows[:, 0] = 1.0
    plan = plan_for(documents, 4.0, q=q)
    source = RandomSource.reproducible(1, "test")
    draws = torch.stack(
        [released_centre(parts_of(rows), plan, source)[:, 0] for _ in range(50)]
    )
    expected = plan.noise_std / plan.schedule.expected_parts
    common = draws[:, 0].mean()
    assert float(draws[:, 1:].std() / common) == pytest.approx(expected, rel=0.05)
    assert 0.8 < float(common) <= 1.0


def test_noise_alone_is_not_taken_for_a_centre() -> None:
    random = torch.Generator().manual_seed(0)
    rows = torch.nn.functional.normalize(torch.randn(300, 50, generator=random))
    source = RandomSource.reproducible(1, "test")
    for noise in (1.0, 100.0, 1e4):
        plan = plan_for(300, noise)
        assert not released_centre(parts_of(rows), plan, source).any()


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
    assert drawn == [[(16, 1)]] + 29 * [[(16, 1, 3)]]
    assert len(fitted.path) == 30, "29 steps and where they began"


def test_sparse_rows_have_no_centre() -> None:
    sparse = random_graph(30, 6)
    fitted, drawn = releases_of(sparse, auto())
    assert fitted.centre is None
    assert len(drawn) == 30


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

    before = load_file(kept)["centre"]
    assert before.any()
    fitted, drawn = releases_of(graph, auto(), checkpoint_folder=tmp_path)
    assert fitted.centre is not None
    assert torch.equal(fitted.centre, before)
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
    sparse = replace(
        train, features=SparseRows.from_scipy(csr_matrix(train.features.dense().numpy()))
    )
    rows = torch.arange(1500)

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
    found = released_centre(parts_of(rows), plan_for(400, 0.1, clip=clip_norm), source)
    mean = torch.nn.functional.normalize(rows).mean(0)
    assert torch.allclose(found[:, 0], mean, atol=3e-3)


def test_another_kind_of_rows_does_not_resume_a_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Checkpoint, "offer", lambda self, state: self.write(state()))
    dense = alike(60)
    fit(dense, auto(), checkpoint_folder=tmp_path)
    import scipy.sparse as sp

    rows = SparseRows.from_scipy(sp.csr_matrix(dense.features.dense().numpy()))
    _, drawn = releases_of(replace(dense, features=rows), auto(), checkpoint_folder=tmp_path)
    assert len(drawn) == 30
