"""Moment matching: what it may look at, what it makes of it, and what stays bounded."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.special import softmax

from auto.planted import (
    CLASSES,
    NO_EDGES,
    WIDTH,
    accuracy,
    auto_settings,
    graph_of,
    matched,
    planted,
    rewired,
    templated,
    trained,
    with_constants,
)
from privgcn.auto import moment_matching, train
from privgcn.auto.moment_matching import (
    Moments,
    _edges_inform,
    _informative,
    _Match,
    _Problem,
    _Query,
    _text,
    edges_help,
    matched_scores,
    mean_residuals,
)
from privgcn.auto.recipe import MatchingConstants
from privgcn.auto.spectrum import personalised_pagerank
from privgcn.auto.train import text_scores
from privgcn.mechanism import Session, SoftmaxGradient


def problem_of(released, graph):
    moments = Moments.of(released)
    query = _Query(released, graph, moments.constants)
    return query, _Problem.of(moments, query), moments


def test_edges_among_new_documents_help(released):
    new = planted(600, 1)
    alone, own = (accuracy(released, new, mode) for mode in ("alone", "own-graph"))
    assert alone > 0.45
    assert own > alone + 0.1


def test_edges_that_mean_nothing_do_no_harm(released):
    new = planted(600, 1)
    bare = replace(new, edges=NO_EDGES)
    np.testing.assert_array_equal(matched(released, rewired(new)), matched(released, bare))


def odd_documents():
    few, edge, new = planted(2, 4, edges=0), np.array([[0], [1]]), planted(100, 5)
    rows = new.features.copy()
    rows[::2] = 0.0
    return {
        **{f"{n} documents": planted(n, 4, edges=0) for n in (1, 2, 5)},
        "two documents with one edge": replace(few, edges=edge),
        "half without text": replace(new, features=rows),
        "all without text": replace(new, features=np.zeros_like(rows)),
        "one class": new.induced(np.flatnonzero(new.labels == 1)),
    }


@pytest.mark.parametrize("case", odd_documents())
def test_odd_documents_get_finite_scores(released, case):
    graph = odd_documents()[case]
    scores = matched(released, graph)
    assert scores.shape == (len(graph), CLASSES)
    assert np.isfinite(scores).all()
    assert matched_scores(released, graph, np.zeros(0, np.int64)).shape == (0, CLASSES)


def test_documents_that_are_all_alike_get_one_score(released):
    new = planted(50, 5)
    alike = replace(new, features=np.repeat(new.features[:1], 50, axis=0), edges=NO_EDGES)
    scores = matched(released, alike)
    np.testing.assert_allclose(scores, np.repeat(scores[:1], 50, axis=0), atol=1e-4)


def test_a_model_that_names_one_class_still_predicts(released):
    weights = np.zeros_like(released.tensors["weight"])
    weights[:, 1] = 1.0
    lopsided = {
        "weight": weights,
        "iterates": np.zeros_like(released.tensors["iterates"]) + weights,
    }
    model = replace(released, tensors={**released.tensors, **lopsided})
    assert np.isfinite(matched(model, planted(60, 6))).all()


@pytest.mark.parametrize("named", [False, True])
def test_the_released_sum_is_the_mean_of_the_noisy_sums_without_the_names(named, monkeypatch):
    names = np.random.default_rng(5).normal(size=(CLASSES, WIDTH)).astype(np.float32)
    sums, query = [], Session.query

    def spy(self, question):
        answer = query(self, question)
        if isinstance(question, SoftmaxGradient):
            sums.append(300 * 0.25 * answer)
        return answer

    monkeypatch.setattr(Session, "query", spy)
    released = trained(planted(300, 0), auto_settings(), label_vectors=names if named else None)
    moments, mean = Moments.of(released), np.mean(sums, axis=0)
    mean -= mean.mean(1, keepdims=True)
    np.testing.assert_allclose(moments.mean_sum, mean, rtol=1e-3, atol=2e-3)
    noise = released.plan.noise_multiplier * 0.25 / len(sums) ** 0.5
    assert moments.noise_std == pytest.approx(noise)
    assert moments.prior_weights.any() == named
    if named:
        moved = moments.prior_weights.ravel().astype(float)
        along = released.tensors["label_direction"].ravel().astype(float)
        cosine = abs(moved @ along) / (np.linalg.norm(moved) * np.linalg.norm(along))
        assert cosine == pytest.approx(1.0)


def test_agreement_tells_edges_from_chance():
    constants = MatchingConstants(
        rate=1, signal=1, clip_norm=1, prior_variance=1, own_strength=1
    )
    likely = (np.eye(4)[np.arange(400) % 4] * 0.7 + 0.075).astype(np.float32)
    same = np.stack([np.arange(0, 390), np.arange(4, 394)])
    order = np.random.default_rng(1).permutation(390)
    assert edges_help(likely, same, constants)
    assert not edges_help(likely, np.stack([same[0], same[1][order]]), constants)
    assert not edges_help(likely, same[:, :1], constants)
    assert not edges_help(likely, same[:, :3], constants), "they may agree by chance"
    other = np.stack([np.arange(0, 390), np.arange(1, 391)])
    assert not edges_help(likely, other, constants)


def test_mean_residuals_point_away_from_the_class():
    rows = np.random.default_rng(0).normal(size=(20, 6)).astype(np.float32)
    iterates, bias = np.zeros((2, 6, 4), np.float32), np.zeros(4, np.float32)
    for clip_norm, length in ((0.25, 0.25), (2.0, 0.75**0.5)):
        residuals = mean_residuals(iterates, rows, clip_norm, bias)
        assert residuals.shape == (4, 4, 20)
        np.testing.assert_allclose(np.linalg.norm(residuals, axis=1), length, rtol=1e-5)
    assert (residuals[np.arange(4), np.arange(4)] < 0).all()
    biased = mean_residuals(iterates, rows, 2.0, np.array([9, 0, 0, 0], np.float32))
    assert np.abs(biased[0, 0]).max() < 0.01, "what is expected leaves no residual"


@pytest.mark.parametrize("sharpening", [0.0, 0.5])
def test_the_gradient_of_the_match_is_that_of_its_loss(released, sharpening):
    query, problem, _ = problem_of(released, planted(80, 7))
    informative = np.ones(len(query.directions.mean), np.float32)
    rng = np.random.default_rng(0)
    prior_scores = rng.normal(size=(80, CLASSES)).astype(np.float32)
    match = _Match(problem, query, _text(query, informative, prior_scores))
    match.weights = 0.1 * rng.normal(size=match.weights.shape).astype(np.float32)
    match.bias = np.array([0.3, -0.2, 0.1], np.float32)
    _, *gradients = match.loss(sharpening)
    for name, gradient in zip(("weights", "bias"), gradients, strict=True):
        length, begin, ends = float(np.linalg.norm(gradient)), getattr(match, name), []
        for step in (0.01, -0.01):
            setattr(match, name, begin + np.float32(step / length) * gradient)
            ends.append(match.loss(sharpening)[0])
        setattr(match, name, begin)
        assert (ends[0] - ends[1]) / 0.02 == pytest.approx(length, rel=0.02)


def test_a_match_on_some_documents_scores_all_of_them(released):
    new = planted(900, 8)
    bounded = with_constants(released, most_matched=450)
    everything, some = (accuracy(model, new, "own-graph") for model in (released, bounded))
    assert everything != some
    assert some > everything - 0.1
    assert some > accuracy(released, new, "alone")
    query, problem, moments = problem_of(bounded, new)
    assert problem.scale == moments.units / 450
    assert query.matched.max() > 850, "not the first ones: they may be all of one kind"


@pytest.mark.parametrize("most_matched", [900, 450])
def test_only_the_asked_documents_are_scored(released, most_matched):
    model = with_constants(released, most_matched=most_matched)
    new, rows = planted(900, 8), np.array([7, 3, 850])
    chosen = matched_scores(model, new, rows)
    np.testing.assert_allclose(chosen, matched(model, new)[rows], atol=1e-4)


def test_neither_blocks_nor_columns_matter(released, monkeypatch):
    """Of more documents fewer columns are propagated at once: the answer is the same."""
    new, widths = planted(400, 9), []
    propagate = moment_matching.personalised_pagerank

    def watched(matrix, values, restart, hops):
        widths.append(values.shape[1])
        return propagate(matrix, values, restart, hops)

    usual = matched(released, new)
    monkeypatch.setattr(moment_matching, "personalised_pagerank", watched)
    monkeypatch.setattr(moment_matching, "_NUMBERS_AT_ONCE", 400 * 9)
    monkeypatch.setattr(train, "ROWS_AT_ONCE", 64)
    bounded = matched(released, new)
    assert max(widths) == 9
    np.testing.assert_allclose(usual, bounded, atol=2e-3)


def test_features_on_disk_have_the_same_scores(released, tmp_path):
    new = planted(400, 9)
    stored = np.memmap(tmp_path / "rows", np.float32, "w+", shape=new.features.shape)
    stored[:] = new.features
    model = with_constants(released, most_matched=100)
    near, far = (matched(model, graph) for graph in (new, replace(new, features=stored)))
    np.testing.assert_array_equal(near, far)


def own_fraction(released, graph, **changes):
    """How much the trained weights' scores count beside the match, in a mean of both."""
    model, constants = with_constants(released, **changes), MatchingConstants.of(released)
    bare = matched(with_constants(model, blend=0.0), graph)
    moved, apart = matched(model, graph) - bare, text_scores(model, graph.features) - bare
    share = float(np.linalg.norm(moved) / np.linalg.norm(apart))
    np.testing.assert_allclose(moved, share * apart, atol=1e-3)
    return share / (1 - share) * constants.match_strength / constants.own_strength


def test_own_scores_count_more_with_signal_and_agreement(released):
    new, constants = planted(300, 9, edges=0), MatchingConstants.of(released)
    usual = own_fraction(released, new)
    less = own_fraction(released, new, signal=constants.signal / 8)
    assert less == pytest.approx(usual / 4, rel=1e-3)
    most = own_fraction(released, new, signal=1e6 * constants.signal)
    assert most == pytest.approx(constants.most_blend, rel=1e-3)
    agreeing, doubted = (own_fraction(released, new, least_disagreement=d) for d in (1e-6, 1.0))
    assert agreeing > usual > doubted
    # Weights of the wrong classes contradict the match.
    tensors = {**released.tensors, "weight": np.roll(released.tensors["weight"], 1, axis=1)}
    assert own_fraction(replace(released, tensors=tensors), new) < 0.6 * usual


def test_template_directions_are_left_out_of_embeddings():
    """What documents differ in most need not tell their classes apart."""
    model = trained(templated(800, 0), auto_settings(4.0))
    new = templated(500, 1)
    query, problem, _ = problem_of(model, new)
    informative = _informative(problem, query)
    assert informative[:3].tolist() == [0.0, 0.0, 0.0]
    assert informative[3:].sum() >= len(informative) - 5
    blind = with_constants(model, uninformative=1e-300)
    own, before = (accuracy(m, new, "own-graph") for m in (model, blind))
    alone = accuracy(model, new, "alone")
    assert before < alone - 0.1
    assert own > alone + 0.02


def test_own_scores_are_propagated_where_the_released_sum_says_so(strong):
    new = planted(300, 10)
    for graph, informs in ((new, True), (rewired(new), False)):
        query, problem, moments = problem_of(strong, graph)
        assert _edges_inform(problem, moments, query) == informs


@pytest.mark.parametrize("documents", [1000, 3000])
def test_own_scores_are_propagated_less_among_many_documents(strong, documents, monkeypatch):
    """There the match itself has learned most of what edges tell."""
    new, constants = planted(documents, 9), MatchingConstants.of(strong)
    model, prediction = with_constants(strong, blend=0.005), strong.settings.prediction
    scores, bare = matched(model, new), matched(with_constants(model, blend=0.0), new)
    monkeypatch.setattr(moment_matching, "_edges_inform", lambda *_: False)
    stayed, alone = matched(model, new), text_scores(model, new.features).astype(np.float32)
    share = float(np.linalg.norm(stayed - bare) / np.linalg.norm(alone - bare))
    blend = share / (1 - share) * constants.match_strength / constants.own_strength
    along = personalised_pagerank(new.propagation, alone, prediction.restart, prediction.hops)
    moved = float(np.linalg.norm(scores - stayed) / np.linalg.norm(along - alone)) / share
    expected = constants.propagated_fraction * blend * 4000 / (4000 + documents)
    assert 0.05 < expected < constants.propagated_fraction
    assert moved == pytest.approx(expected, rel=2e-2)


def test_constants_that_were_saved_are_those_that_count(released):
    new, saved = planted(200, 9), dict(released.matching or {})
    usual = matched(released, new)
    np.testing.assert_array_equal(usual, matched(replace(released, matching=None), new))
    np.testing.assert_array_equal(usual, matched(released, new))
    other = replace(released, matching={**saved, "prior_variance": 0.3})
    assert not np.array_equal(usual, matched(other, new))


def test_the_last_rounds_sharpen_the_match(released):
    new = planted(100, 7, edges=0)
    sure = [
        softmax(matched(with_constants(released, sharpening=worth), new), axis=1).max(axis=1)
        for worth in (0.0, 0.5)
    ]
    assert sure[0].mean() < sure[1].mean()


def test_many_classes_and_few_documents():
    rng = np.random.default_rng(0)
    labels = np.arange(60) % 30
    graph = graph_of(rng.normal(size=(60, 20)), labels, 30)
    model = trained(graph, auto_settings())
    scores = matched(model, graph)
    assert scores.shape == (60, 30)
    assert np.isfinite(scores).all()


def test_the_spread_counts_noise_labels_and_the_choice_of_documents(released):
    """Document by document, as the docstring says it."""
    _, problem, _ = problem_of(released, planted(50, 7))
    likely = np.random.default_rng(0).dirichlet(np.ones(CLASSES), 50).T.astype(np.float32)
    rows, residuals, units = problem.projected.astype(float), problem.residuals, 1500
    means = np.einsum("km,kjm->mj", likely, residuals)
    squares = np.einsum("km,kjm->mj", likely, residuals**2)
    expected = np.full(problem.target.shape, problem.noise_std**2)
    for j in range(CLASSES):
        sums = rows * means[:, [j]]
        expected[j] += units * (rows**2 * (squares - means**2)[:, [j]]).mean(0)
        expected[j] += units * (1 + units / 50) * sums.var(0)
    spread = problem.informed(likely).spread
    np.testing.assert_allclose(spread, np.sqrt(expected), rtol=1e-3)


def test_a_match_begins_with_the_class_bias_and_then_knows_its_spread(released, monkeypatch):
    made = []
    begin = _Match.__init__

    def spy(self, problem, *rest, start=None):
        made.append((problem, rest[1].prior_scores, start))
        begin(self, problem, *rest, start=start)

    monkeypatch.setattr(_Match, "__init__", spy)
    matched(released, planted(100, 7, edges=0))
    (first, prior_scores, no_start), (second, _, start) = made
    bias = released.tensors["class_bias"]
    np.testing.assert_array_equal(prior_scores, np.tile(bias, (100, 1)))
    assert no_start is None
    assert start is not None
    assert not np.allclose(first.spread, second.spread, rtol=1e-3)


def test_the_match_has_as_much_of_the_bias_as_its_constant_says(released):
    new, usual = planted(100, 7, edges=0), with_constants(released, blend=0.0)
    taken_off = matched(usual, new) - matched(with_constants(usual, matched_bias=-1.0), new)
    bias = released.tensors["class_bias"]
    strength = MatchingConstants.of(released).match_strength
    np.testing.assert_allclose(strength * taken_off, np.tile(bias, (100, 1)), atol=1e-5)


def test_scores_before_the_match_are_propagated_like_texts(released):
    new, prediction = planted(60, 7), released.settings.prediction
    query, _, _ = problem_of(released, new)
    before = np.random.default_rng(0).normal(size=(60, CLASSES)).astype(np.float32)
    informative = np.ones(len(query.directions.mean), np.float32)
    made = moment_matching._propagated(query, informative, before, np.arange(3)).prior_scores
    moved = personalised_pagerank(new.propagation, before, prediction.restart, prediction.hops)
    np.testing.assert_allclose(made, moved, rtol=1e-5)


def test_documents_without_text_lie_at_zero(released):
    new = planted(30, 7)
    rows = new.features.copy()
    rows[4] = 0.0
    query, _, moments = problem_of(released, replace(new, features=rows))
    lengths = np.linalg.norm(query.coordinates(np.arange(30)), axis=1)
    assert (lengths == 0).tolist() == [row == 4 for row in range(30)]
    # Each residual is taken at the weights before its step.
    np.testing.assert_array_equal(moments.iterates, released.tensors["iterates"][:-1])
