"""Predictions: what they may look at, and that nothing else moves them."""

import subprocess
import sys
from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from scipy.special import softmax

from auto.planted import CLASSES, NO_EDGES, auto_settings, planted, trained
from privgcn import inference
from privgcn.auto.train import text_scores
from privgcn.config import MODES, make_settings
from privgcn.evaluation import probability_scores
from privgcn.inference import FEWEST, scores_in_mode


def network(kind):
    """A small network, trained without privacy."""
    from privgcn.sgd.train import train_plain

    changes = {"model.kind": kind, "training.epochs": 3, "model.hidden": 5}
    return train_plain(planted(60, 0), None, make_settings("plain", changes=changes))


@pytest.fixture(scope="module", params=["matched", "direct", "gcn", "linear"])
def model(request):
    if request.param in ("gcn", "linear"):
        return network(request.param)
    return trained(planted(400, 0), auto_settings(prediction__method=request.param))


@cache
def trained_on_many(epsilon):
    return trained(planted(4000, 0), auto_settings(epsilon))


def spoiled(graph, rows):
    """Other texts in the place of some documents."""
    features = graph.features.copy()
    features[rows] = features[rows][:, ::-1]
    return replace(graph, features=features)


@pytest.mark.parametrize("mode", MODES)
def test_labels_and_split_of_new_documents_have_no_influence(model, mode):
    new, rows = planted(120, 2), np.arange(0, 120, 2)
    blank = replace(new, labels=np.full(120, -1), split=np.full(120, 3, np.int8))
    first, second = (scores_in_mode(model, graph, rows, mode) for graph in (new, blank))
    assert first.shape == (60, CLASSES)
    np.testing.assert_array_equal(first, second)


def test_the_mode_decides_whether_other_documents_are_seen(model):
    graph, rows = planted(200, 3), np.arange(80, 200)
    other = spoiled(graph, slice(0, 80))
    same = {
        mode: np.array_equal(*(scores_in_mode(model, g, rows, mode) for g in (graph, other)))
        for mode in MODES
    }
    blind = model.plan is not None and model.settings.prediction.method == "direct"
    assert same == {"alone": True, "own-graph": True, "full-graph": blind}


def test_alone_sees_no_other_document(model):
    graph, rows = planted(60, 6), np.arange(60)
    before = scores_in_mode(model, graph, rows, "alone")
    for other in (replace(graph, edges=NO_EDGES), spoiled(graph, slice(1, 60))):
        after = scores_in_mode(model, other, rows, "alone")
        np.testing.assert_array_equal(after[0], before[0])
    np.testing.assert_array_equal(
        scores_in_mode(model, graph, np.array([9, 0]), "alone"), before[[9, 0]]
    )


@pytest.mark.parametrize("mode", MODES)
def test_any_number_of_documents_is_scored_in_any_order(model, mode):
    graph, rows = planted(60, 6), np.array([5, 50, 7, 30])
    scores = scores_in_mode(model, graph, rows, mode)
    turned = scores_in_mode(model, graph, rows[::-1], mode)
    np.testing.assert_allclose(scores, turned[::-1], atol=1e-3)
    for edges in (0, 1):
        small = planted(3, 1, edges=edges)
        one = scores_in_mode(model, small, np.array([1]), mode)
        assert np.isfinite(one).all()
        assert one.shape == (1, CLASSES)
        assert scores_in_mode(model, small, rows[:0], mode).shape == (0, CLASSES)


def test_direct_prediction_is_that_of_the_weights_in_every_mode():
    model = trained(planted(100, 0), auto_settings(prediction__method="direct"))
    graph, rows = planted(50, 1), np.arange(10, 30)
    expected = text_scores(model, graph.features[rows])
    for mode in MODES:
        np.testing.assert_array_equal(scores_in_mode(model, graph, rows, mode), expected)


@pytest.mark.parametrize("edges", [0, 3])
@pytest.mark.parametrize("count", [1, 10, FEWEST - 1, FEWEST])
def test_few_documents_are_answered_as_each_alone(edges, count):
    model, new = trained_on_many(1.0), planted(count, 2, edges=edges)
    modes = [scores_in_mode(model, new, np.arange(count), mode) for mode in MODES]
    for scores in modes[1:]:
        assert np.array_equal(scores, modes[0]) == (count < FEWEST)


@pytest.mark.parametrize("epsilon", [1.0, 8.0])
@pytest.mark.parametrize("count", [1, 10, 50, 600])
def test_probabilities_are_hardly_surer_than_right(epsilon, count):
    """However many documents are asked together; and they are no worse than those alone."""
    model, new, scores = trained_on_many(epsilon), planted(600, 7), {}
    for mode in ("alone", "own-graph"):
        asked = (np.arange(begin, begin + count) for begin in range(0, 600, count))
        answers = [scores_in_mode(model, new, rows, mode) for rows in asked]
        likely = softmax(np.concatenate(answers).astype(np.float64), axis=1)
        scores[mode] = probability_scores(new.labels, likely)
        right = float((likely.argmax(axis=1) == new.labels).mean())
        assert scores[mode]["confidence"] < right + 0.1
    losses = [scores[mode]["log_loss"] for mode in ("alone", "own-graph")]
    assert losses[1] < losses[0] + 0.03


def test_features_on_disk_stay_there_and_are_read_a_few_at_a_time(tmp_path, monkeypatch):
    from privgcn.auto import train

    model, graph = trained(planted(100, 0), auto_settings()), planted(300, 1)
    stored = np.memmap(tmp_path / "rows", np.float32, "w+", shape=graph.features.shape)
    stored[:] = graph.features
    on_disk, rows, sizes = replace(graph, features=stored), np.arange(300)[::-2], []
    induced, expected = on_disk.induced(rows), graph.induced(rows)
    assert isinstance(induced.features, np.memmap)
    for name in ("features", "edges", "labels", "split"):
        np.testing.assert_array_equal(getattr(induced, name), getattr(expected, name))
    first, second = (scores_in_mode(model, g, rows, "own-graph") for g in (on_disk, graph))
    np.testing.assert_allclose(first, second, atol=2e-3)
    monkeypatch.setattr(train, "ROWS_AT_ONCE", 64)
    monkeypatch.setattr(
        inference,
        "text_scores",
        lambda released, rows: sizes.append(len(rows)) or text_scores(released, rows),
    )
    alone = scores_in_mode(model, on_disk, rows, "alone")
    assert sizes == [64, 64, 22]
    np.testing.assert_array_equal(alone, text_scores(model, graph.features)[rows])


def test_linear_models_predict_without_torch():
    script = (
        "import sys; import privgcn.auto.train, privgcn.auto.budget, privgcn.inference, "
        "privgcn.evaluation; sys.exit('torch' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", script], check=False).returncode == 0
