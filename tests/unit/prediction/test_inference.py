"""Predictions: what they may look at, and that nothing else moves them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from scipy.sparse import csr_matrix

from privgcn.config import MODES, Settings, check_mode, make_settings
from privgcn.errors import ConfigError
from privgcn.graph import DenseRows, TextGraph, normalised, propagation_matrix, rows_of
from privgcn.models import make_model
from privgcn.prediction import matching
from privgcn.prediction.inference import numbers_of, released_of, scores_in_mode
from privgcn.prediction.matching import (
    _Alone,
    _Along,
    _links_tell,
    _Problem,
    _Sight,
    _Solution,
    links_help,
    mean_residuals,
)
from privgcn.prediction.matching_numbers import Numbers
from privgcn.prediction.spectrum import personalised_pagerank, principal_directions
from privgcn.training.fit import fit
from privgcn.training.fitted import Fit

CLASSES, WIDTH = 3, 40


def planted(documents: int, seed: int, *, links: int = 3) -> TextGraph:
    """Documents around three weak centres, linked within their class."""
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, CLASSES, documents)
    centres = np.random.default_rng(99).normal(size=(CLASSES, WIDTH))
    rows = 0.2 * centres[labels] + rng.normal(size=(documents, WIDTH))
    pairs = set()
    for row in range(documents):
        same = np.flatnonzero(labels == labels[row])
        for other in rng.choice(same, links) if links else ():
            if other != row:
                pairs.add((min(row, int(other)), max(row, int(other))))
    edges = torch.tensor(sorted(pairs), dtype=torch.int64).reshape(-1, 2).T.contiguous()
    features = normalised(DenseRows(torch.tensor(rows, dtype=torch.float32)), "l2")
    split = torch.zeros(documents, dtype=torch.int8)
    return TextGraph(features, edges, torch.from_numpy(labels), CLASSES, split)


@pytest.fixture(scope="module")
def fitted() -> Fit:
    changes = {"privacy.reproducible": True, "privacy.delta": 1e-4}
    settings: Settings = make_settings("auto", epsilon=1.0, changes=changes)
    return fit(planted(1500, 0), settings)


@pytest.fixture(scope="module")
def strong() -> Fit:
    changes = {"privacy.reproducible": True, "privacy.delta": 1e-4}
    return fit(planted(4000, 0), make_settings("auto", epsilon=8.0, changes=changes))


def accuracy(fitted: Fit, graph: TextGraph, mode: str) -> float:
    rows = torch.arange(len(graph))
    scores = scores_in_mode(fitted, graph, rows, check_mode(mode))[:, 0]
    return float((scores.argmax(1) == graph.labels).double().mean())


def test_links_among_new_documents_help(fitted) -> None:
    new = planted(600, 1)
    alone, own = accuracy(fitted, new, "alone"), accuracy(fitted, new, "own-graph")
    assert alone > 0.45
    assert own > alone + 0.1


def test_rewired_links_do_no_harm(fitted) -> None:
    new = planted(600, 1)
    order = torch.randperm(new.edges.shape[1], generator=torch.Generator().manual_seed(5))
    ends = torch.stack([new.edges[0], new.edges[1][order]])
    ends = ends[:, ends[0] != ends[1]]
    rewired = replace(new, edges=torch.stack([ends.amin(0), ends.amax(0)]))
    bare = replace(new, edges=torch.empty((2, 0), dtype=torch.int64))
    assert accuracy(fitted, rewired, "own-graph") == accuracy(fitted, bare, "own-graph")


def test_labels_of_new_documents_have_no_influence(fitted) -> None:
    new = planted(300, 2)
    rows = torch.arange(300)
    blank = replace(new, labels=torch.full((300,), -1))
    for mode in MODES:
        first = scores_in_mode(fitted, new, rows, mode)
        assert torch.equal(first, scores_in_mode(fitted, blank, rows, mode))


def test_own_graph_never_sees_the_other_documents(fitted) -> None:
    whole = planted(500, 3)
    rows = torch.arange(200, 500)
    spoiled = whole.features.dense().clone()
    spoiled[:200] = 7.0
    other = replace(whole, features=DenseRows(spoiled))
    for mode in ("alone", "own-graph"):
        first = scores_in_mode(fitted, whole, rows, mode)
        assert torch.equal(first, scores_in_mode(fitted, other, rows, mode))
    seen = scores_in_mode(fitted, whole, rows, "full-graph")
    assert not torch.equal(seen, scores_in_mode(fitted, other, rows, "full-graph"))


@pytest.mark.parametrize("documents", [1, 2, 5])
def test_a_handful_of_documents_is_enough(fitted, documents) -> None:
    new = planted(documents, 4, links=0)
    scores = scores_in_mode(fitted, new, torch.arange(documents), "own-graph")
    assert scores.shape == (documents, 1, CLASSES)
    assert torch.isfinite(scores).all()


def test_empty_documents_get_finite_scores(fitted) -> None:
    new = planted(100, 5)
    rows = new.features.dense().clone()
    rows[::2] = 0.0
    scores = scores_in_mode(
        fitted, replace(new, features=DenseRows(rows)), torch.arange(100), "own-graph"
    )
    assert torch.isfinite(scores).all()
    nothing = replace(new, features=DenseRows(torch.zeros_like(rows)))
    assert torch.isfinite(scores_in_mode(fitted, nothing, torch.arange(100), "own-graph")).all()


def test_the_released_sum_is_the_mean_of_the_noisy_sums(fitted) -> None:
    released = released_of(fitted)[0]
    graph = planted(1500, 0)
    clean = torch.zeros(WIDTH, CLASSES)
    for weights in released.path:
        residual = graph.features.times(weights).softmax(1)
        residual[torch.arange(1500), graph.labels] -= 1
        residual *= (0.25 / residual.norm(dim=1, keepdim=True).clamp(min=1e-9)).clamp(max=1)
        clean += graph.features.transposed_times(residual) / len(released.path)
    noise = released.mean_sum - (clean - clean.mean(1, keepdim=True))
    expected = released.noise_std * np.sqrt(1 - 1 / CLASSES)
    assert float(noise.std()) == pytest.approx(expected, rel=0.25)


def test_a_model_without_a_path_cannot_be_matched(fitted) -> None:
    with pytest.raises(ConfigError, match="path"):
        released_of(replace(fitted, path=None))


def test_agreement_tells_links_from_chance() -> None:
    shares = torch.eye(4)[torch.arange(400) % 4] * 0.7 + 0.075
    same = torch.stack([torch.arange(0, 390), torch.arange(4, 394)])
    order = torch.randperm(390, generator=torch.Generator().manual_seed(1))
    assert links_help(shares, same)
    assert not links_help(shares, torch.stack([same[0], same[1][order]]))
    assert not links_help(shares, same[:, :1])
    assert not links_help(shares, torch.stack([torch.arange(0, 390), torch.arange(1, 391)]))


def test_mean_residuals_point_away_from_the_class() -> None:
    rows = normalised(DenseRows(torch.randn(20, 6)), "l2")
    residuals = mean_residuals(torch.zeros(2, 6, 4), rows, 0.25)
    assert residuals.shape == (20, 4, 4)
    torch.testing.assert_close(residuals.norm(dim=2), torch.full((20, 4), 0.25))
    short = mean_residuals(torch.zeros(2, 6, 4), rows, 2.0)
    torch.testing.assert_close(short.norm(dim=2), torch.full((20, 4), 0.75**0.5))
    assert (residuals.diagonal(dim1=1, dim2=2) < 0).all()


def test_principal_directions_are_those_of_an_exact_svd() -> None:
    rows = torch.randn(200, 12) * torch.linspace(3, 0.2, 12)
    directions = principal_directions(DenseRows(rows), 5)
    basis, centred = directions.basis, rows - rows.mean(0)
    empty = torch.arange(200) == 3
    coordinates = directions.coordinates(DenseRows(rows), empty)
    assert (coordinates[3] == 0).all()
    exact = torch.linalg.svd(centred, full_matrices=False).Vh[:5]
    overlap = torch.linalg.svdvals(exact @ basis[:, :5])
    torch.testing.assert_close(overlap, torch.ones(5), atol=1e-3, rtol=0)
    expected = torch.where(empty[:, None], 0.0, centred @ basis[:, :5])
    torch.testing.assert_close(coordinates, expected, atol=1e-4, rtol=1e-4)
    torch.testing.assert_close(basis.T @ basis, torch.eye(6), atol=1e-4, rtol=0)


def test_the_gradient_of_the_match_is_that_of_its_loss(fitted) -> None:
    new = planted(80, 7)
    released = released_of(fitted)[0]
    sight = _Sight(new, torch.arange(80), 0.1, 10, released.numbers)
    problem = _Problem.of(released, sight)
    places = _Alone(sight, torch.ones(len(sight.variances)))
    for sharpening in (0.0, 0.5):
        expected = torch.randn(80, CLASSES)
        solution = _Solution(problem, sight, places, expected, None)
        solution.weights = 0.1 * torch.randn(solution.weights.shape)
        solution.bias = torch.tensor([0.3, -0.2, 0.1])
        _, by_weight, by_bias = solution._loss(sharpening)
        for tensor, gradient in ((solution.weights, by_weight), (solution.bias, by_bias)):
            direction = gradient / gradient.norm()
            ends = []
            for step in (0.01, -0.02):
                tensor.add_(direction, alpha=step)
                ends.append(solution._loss(sharpening)[0])
            tensor.add_(direction, alpha=0.01)
            assert (ends[0] - ends[1]) / 0.02 == pytest.approx(float(gradient.norm()), rel=0.02)


def test_a_match_on_some_documents_scores_all_of_them(fitted) -> None:
    new = planted(900, 8)
    small = numbers_of(fitted).model_copy(update={"most_matched": 450})
    bounded = replace(fitted, matching=small.model_dump())
    whole, some = (accuracy(model, new, "own-graph") for model in (fitted, bounded))
    assert whole != some
    assert some > whole - 0.1
    assert some > accuracy(fitted, new, "alone")


def test_only_the_asked_documents_are_scored(fitted) -> None:
    new = planted(300, 9)
    rows = torch.tensor([7, 3, 250])
    everything = scores_in_mode(fitted, new, torch.arange(300), "full-graph")
    chosen = scores_in_mode(fitted, new, rows, "full-graph")
    torch.testing.assert_close(chosen, everything[rows])


def test_own_scores_count_more_with_signal_and_agreement(fitted) -> None:
    new = planted(300, 9)
    numbers = numbers_of(fitted).model_copy(update={"own_travels": False})
    rows = torch.arange(300)

    def share(**changes: float) -> float:
        """How much of the trained weights' scores is in an answer."""
        found = []
        for blend in (0.0, numbers.blend):
            own = numbers.model_copy(update={**changes, "blend": blend})
            model = replace(fitted, matching=own.model_dump())
            found.append(scores_in_mode(model, new, rows, "own-graph")[:, 0])
        alone = scores_in_mode(fitted, new, rows, "alone")[:, 0]
        moved = found[1] - found[0]
        assert torch.allclose(moved, moved.norm() / alone.norm() * alone, atol=1e-4)
        return float(moved.norm() / alone.norm())

    usual = share()
    assert share(signal=8 * numbers.signal) == pytest.approx(4 * usual, rel=1e-3)
    assert share(signal=1e6 * numbers.signal) == pytest.approx(numbers.most_blend, rel=1e-3)
    assert share(least_apart=1e-6) > usual > share(least_apart=1.0)


def test_own_scores_count_less_where_they_disagree(fitted) -> None:
    """Weights of the wrong classes contradict the match."""
    new, rows = planted(300, 9, links=0), torch.arange(300)
    wrong = replace(fitted, parameters=[p.roll(1, -1) for p in fitted.parameters])

    def moved(model: Fit) -> float:
        own = numbers_of(model).model_copy(update={"blend": 0.0})
        bare = replace(model, matching=own.model_dump())
        found = [scores_in_mode(m, new, rows, "own-graph") for m in (model, bare)]
        return float((found[0] - found[1]).norm())

    assert moved(wrong) < 0.6 * moved(fitted)


def templated(documents: int, seed: int) -> TextGraph:
    """Documents of six classes, most of whose length is one of four templates."""
    rng, fixed = np.random.default_rng(seed), np.random.default_rng(98)
    labels = rng.integers(0, 6, documents)
    centres, templates = fixed.normal(size=(6, 100)), fixed.normal(size=(4, 100))
    rows = 0.4 * centres[labels] + 5 * templates[rng.integers(0, 4, documents)]
    rows += rng.normal(size=(documents, 100))
    features = normalised(DenseRows(torch.tensor(rows, dtype=torch.float32)), "l2")
    split = torch.zeros(documents, dtype=torch.int8)
    edges = torch.empty((2, 0), dtype=torch.int64)
    return TextGraph(features, edges, torch.from_numpy(labels), 6, split)


def test_tables_that_travel_are_bounded(fitted, monkeypatch) -> None:
    """Of more documents fewer columns travel at once: the answer is the same."""
    new, rows, widths = planted(400, 9), torch.arange(400), []
    travel = matching.personalised_pagerank

    def watched(matrix, values, restart, hops):
        widths.append(values.shape[1])
        return travel(matrix, values, restart, hops)

    usual = scores_in_mode(fitted, new, rows, "own-graph")
    monkeypatch.setattr(matching, "personalised_pagerank", watched)
    monkeypatch.setattr(matching, "_NUMBERS_AT_ONCE", 400 * 9)
    bounded = scores_in_mode(fitted, new, rows, "own-graph")
    assert max(widths) == 9
    assert torch.allclose(usual, bounded, atol=1e-3)


def test_templates_are_no_places() -> None:
    """What documents differ in most need not tell their classes apart."""
    changes = {"privacy.reproducible": True, "privacy.delta": 1e-4}
    model = fit(templated(800, 0), make_settings("auto", epsilon=4.0, changes=changes))
    new, numbers = templated(500, 1), numbers_of(model)
    sight = _Sight(model.seen(new), torch.arange(500), 0.1, 10, numbers)
    telling = _Problem.of(released_of(model)[0], sight).telling(sight.variances)
    assert telling[:3].tolist() == [0.0, 0.0, 0.0]
    assert telling[3:].sum() >= len(telling) - 5
    blind = replace(model, matching={**numbers.model_dump(), "silent": 0.0})
    own, before = (accuracy(m, new, "own-graph") for m in (model, blind))
    alone = accuracy(model, new, "alone")
    assert before < alone - 0.1
    assert own > alone + 0.02


def test_own_scores_travel_where_the_released_sum_says_so(strong) -> None:
    model, new, numbers = strong, planted(300, 9), numbers_of(strong)
    order = torch.randperm(new.edges.shape[1], generator=torch.Generator().manual_seed(5))
    ends = torch.stack([new.edges[0], new.edges[1][order]])
    ends = ends[:, ends[0] != ends[1]]
    rewired = replace(new, edges=torch.stack([ends.amin(0), ends.amax(0)]))
    for graph, tells in ((new, True), (rewired, False)):
        one = model.replica(0)
        sight = _Sight(one.seen(graph), torch.arange(300), 0.1, 10, numbers)
        released = released_of(one)[0]
        along = _Along(sight, torch.ones(len(sight.variances)))
        assert _links_tell(_Problem.of(released, sight), released, sight, along) == tells
    stay = replace(model, matching={**numbers.model_dump(), "own_travels": False})
    assert accuracy(model, new, "own-graph") > accuracy(stay, new, "own-graph") + 0.01
    assert accuracy(model, rewired, "own-graph") == accuracy(stay, rewired, "own-graph")


@pytest.mark.parametrize("documents", [1000, 3000])
def test_own_scores_travel_less_among_many_documents(strong, documents) -> None:
    """There the match itself has learned most of what links tell."""
    new, rows = planted(documents, 9), torch.arange(documents)
    numbers = numbers_of(strong).model_copy(update={"blend": 0.005})

    def scores(**changes: float) -> torch.Tensor:
        model = replace(strong, matching={**numbers.model_dump(), **changes})
        return scores_in_mode(model, new, rows, "own-graph")[:, 0]

    matched, stayed, went = scores(blend=0.0), scores(own_travels=False), scores()
    alone = scores_in_mode(strong, new, rows, "alone")[:, 0]
    share = float((stayed - matched).norm() / alone.norm())
    links, prediction = new.propagation(), strong.settings.prediction
    along = personalised_pagerank(links, alone, prediction.restart, prediction.hops)
    moved = float((went - stayed).norm() / (along - alone).norm()) / share
    expected = numbers.linked_share * share * 4000 / (4000 + documents)
    assert 0.05 < expected < numbers.linked_share
    assert moved == pytest.approx(expected, rel=1e-2)


def test_a_model_saved_before_predicts_as_it_did(fitted) -> None:
    saved = numbers_of(fitted).model_dump()
    del saved["own_travels"], saved["silent"], saved["silence"]
    numbers = Numbers.model_validate(saved)
    assert not numbers.own_travels
    new = planted(300, 9)
    sight = _Sight(new, torch.arange(300), 0.1, 10, numbers)
    problem = _Problem.of(replace(released_of(fitted)[0], numbers=numbers), sight)
    assert problem.telling(torch.logspace(-6, 6, len(sight.variances))).min() == 1


def test_pagerank_is_its_own_recursion() -> None:
    matrix = propagation_matrix(torch.tensor([[0, 1], [1, 2]]), 4)
    values = torch.randn(4, 2)
    once = 0.9 * matrix.dense() @ values + 0.1 * values
    torch.testing.assert_close(personalised_pagerank(matrix, values, 0.1, 1), once)
    twice = 0.9 * matrix.dense() @ once + 0.1 * values
    torch.testing.assert_close(personalised_pagerank(matrix, values, 0.1, 2), twice)


def test_alone_sees_no_other_document(fitted) -> None:
    new = planted(60, 6)
    rows = torch.arange(60)
    before = scores_in_mode(fitted, new, rows, "alone")
    spoiled = new.features.dense().clone()
    spoiled[1:] = spoiled[1:].flip(0)
    for other in (
        replace(new, edges=torch.empty((2, 0), dtype=torch.int64)),
        replace(new, features=DenseRows(spoiled)),
    ):
        after = scores_in_mode(fitted, other, rows, "alone")
        torch.testing.assert_close(after[0], before[0])


@pytest.mark.parametrize("kind", ["linear", "mlp"])
@pytest.mark.parametrize("sparse", [False, True])
def test_alone_has_the_same_bits_in_any_company(kind: str, sparse: bool) -> None:
    """A private score of a search counts right answers: no document may flip another's."""
    model = make_model(kind, WIDTH, CLASSES, hidden=7, dropout=0.0)
    parameters = model.initial([0, 1, 2])
    values = torch.randn(200, WIDTH, generator=torch.Generator().manual_seed(0))
    values = torch.where(values > 0.5, values, 0.0)
    rows = rows_of(csr_matrix(values.numpy()) if sparse else values)
    together = model.scores_alone(parameters, rows)
    torch.testing.assert_close(together, model.scores(parameters, rows, None))
    for chosen in ([0], [3, 9], range(5), range(100, 200)):
        index = torch.tensor(list(chosen))
        assert torch.equal(model.scores_alone(parameters, rows.select(index)), together[index])
    for number in range(3):
        one = [parameter[..., [number], :].contiguous() for parameter in parameters]
        assert torch.equal(model.scores_alone(one, rows), together[:, [number]])
