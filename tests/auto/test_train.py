"""Training sees answers and public numbers only, and makes of them what the recipe says."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.sparse import csr_array

from auto.planted import accuracy, auto_settings, graph_of, plan_of, planted, trained
from privgcn.auto import train as train_module
from privgcn.auto.recipe import MatchingConstants, centered_names, class_bias, learning_rate
from privgcn.auto.train import shrunk, text_rows, text_scores, train
from privgcn.config import MODES
from privgcn.errors import ConfigError
from privgcn.inference import scores_in_mode
from privgcn.mechanism import Groups, RandomSource, Session, SoftmaxGradient, Statistics

pytestmark = pytest.mark.quick

NAMED, WIDTH = 8, 60
NAMES = np.random.default_rng(5).normal(size=(NAMED, WIDTH)).astype(np.float32)
NAMES /= np.linalg.norm(NAMES, axis=1, keepdims=True)


class Answers:
    """Stands for a session, without documents: answers whatever is asked at random."""

    def __init__(self, plan, width, classes, *, dense):
        self.plan, self.remaining = plan, plan.steps
        self.width, self.classes, self.dense = width, classes, dense
        self.deviation = plan.noise_multiplier / plan.schedule.expected_groups
        self.releasable = False
        self.questions = []
        self.centered = []
        self.answers = []
        self._random = np.random.default_rng(0)

    def center(self, mean):
        self.centered.append(mean)

    def query(self, question):
        assert self.remaining > 0
        self.remaining -= 1
        self.questions.append(question)
        statistics = isinstance(question, Statistics)
        shape = (self.width, self.classes)
        if statistics:
            shape = self.classes + (self.width if self.dense else 0)
        answer = self._random.normal(scale=0.1, size=shape)
        if statistics:
            answer += 0.5
        self.answers.append(answer)
        return answer


def about_names(documents, seed):
    """Dense rows that lie near the name of their class, a little."""
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, NAMED, documents)
    noise = rng.normal(size=(documents, WIDTH)) / WIDTH**0.5
    return graph_of(0.35 * NAMES[labels] + noise, labels, NAMED)


# hazard 1: what stands for the session holds no documents, so nothing of them can leave
def test_the_formula_of_the_recipe():
    """From the answers of a session alone, in NumPy, as the module's text says it."""
    settings = auto_settings(training__epochs=5)
    plan = plan_of(planted(100, 0), settings)
    session = Answers(plan, WIDTH, NAMED, dense=True)
    released = train(session, settings, label_vectors=NAMES)
    assert [type(q) for q in session.questions] == [Statistics] + 4 * [SoftmaxGradient]
    rate = learning_rate(plan, 0.8)
    assert rate * plan.noise_std / 100 * plan.steps**0.5 == pytest.approx(0.8)

    direction = released.tensors["label_direction"].astype(float)
    names = centered_names(NAMES)
    assert names is not None
    weights = 4 * names
    for question, answer in zip(session.questions[1:], session.answers[1:], strict=True):
        np.testing.assert_allclose(question.weights, weights, atol=1e-4)
        np.testing.assert_allclose(question.bias, released.tensors["class_bias"])
        gradient = plan.clip_norm * answer
        weights = weights - rate * (gradient + (gradient * direction).sum() * direction)
    iterates = released.tensors["iterates"]
    assert iterates.shape == (5, WIDTH, NAMED)
    np.testing.assert_allclose(iterates[0], 4 * names, atol=1e-5)
    np.testing.assert_allclose(iterates[-1], weights, atol=1e-4)
    np.testing.assert_allclose(released.tensors["weight"], iterates[-2:].mean(0))
    np.testing.assert_array_equal(session.centered, [released.tensors["mean"]])
    mean = session.answers[0][:-NAMED] / Statistics.ROW
    np.testing.assert_allclose(
        released.tensors["mean"], shrunk(mean, session.deviation / 0.8), rtol=1e-6
    )
    statistics, deviation = session.answers[0] / Statistics.LABEL, session.deviation / 0.6
    bias = class_bias(statistics[-NAMED:], deviation)
    np.testing.assert_allclose(released.tensors["class_bias"], bias, rtol=1e-5)
    assert released.plan is plan
    assert released.matching == MatchingConstants.of(released).model_dump()


@pytest.mark.parametrize(
    ("dense", "changes", "tensors"),
    [
        (True, {}, {"mean", "class_bias"}),
        (False, {}, set()),
        (False, {"training__balanced": True}, {"class_bias"}),
        (True, {"training__epochs": 1}, set()),
    ],
)
def test_statistics_come_first_where_they_are_worth_a_step(dense, changes, tensors):
    settings = auto_settings(**changes)
    session = Answers(plan_of(planted(50, 0), settings), 6, 3, dense=dense)
    released = train(session, settings)
    assert set(released.tensors) == {"weight", "iterates"} | tensors
    asked = [isinstance(question, Statistics) for question in session.questions]
    assert asked[0] == bool(tensors)
    assert not any(asked[1:])
    assert session.remaining == 0, "all that the plan pays for"
    if tensors:
        part = Statistics.LABEL if dense else 1.0
        bias = class_bias(session.answers[0][-3:] / part, session.deviation / part)
        np.testing.assert_allclose(released.tensors["class_bias"], bias, rtol=1e-5)


def test_names_that_say_something_help_and_others_do_no_harm():
    graph, new = about_names(400, 0), about_names(800, 1)
    codes = np.random.default_rng(6).normal(size=NAMES.shape).astype(np.float32)
    scores = {}
    for name, vectors in (("none", None), ("names", NAMES), ("codes", codes)):
        for seed in range(3):
            model = trained(graph, auto_settings(), seed=seed, label_vectors=vectors)
            for mode in ("alone", "own-graph"):
                scores.setdefault((name, mode), []).append(accuracy(model, new, mode))
    mean = {key: np.mean(values) for key, values in scores.items()}
    for mode in ("alone", "own-graph"):
        assert mean["names", mode] > mean["none", mode] + 0.05
    assert mean["codes", "alone"] > mean["none", "alone"] - 0.02


def uneven(documents, seed, *, dense):
    """One frequent class and two rare ones, hard to tell apart."""
    rng = np.random.default_rng(seed)
    labels = rng.choice(3, documents, p=[0.86, 0.08, 0.06])
    rows = 0.4 * np.random.default_rng(9).normal(size=(3, 20))[labels]
    rows += rng.normal(size=(documents, 20))
    return graph_of(rows if dense else csr_array(rows), labels, 3)


@pytest.mark.parametrize("dense", [True, False], ids=["dense", "sparse"])
def test_balanced_finds_more_of_the_rare_classes(dense):
    graph, new = (uneven(n, seed, dense=dense) for seed, n in enumerate((2000, 1000)))
    rare, recall = new.labels > 0, {}
    for balanced in (False, True):
        released = trained(graph, auto_settings(4.0, training__balanced=balanced))
        for mode in MODES:
            scores = scores_in_mode(released, new, np.arange(1000), mode)
            recall[mode, balanced] = (scores.argmax(1) == new.labels)[rare].mean()
    for mode in MODES:
        assert recall[mode, True] > recall[mode, False] + 0.02, mode


def test_a_mean_that_noise_explains_is_left_where_it_is():
    noise = np.random.default_rng(0).normal(size=400) * 0.1
    assert not shrunk(noise, 0.1).any()
    clear = np.ones(400) / 20 + noise * 0.1
    kept = shrunk(clear, 0.01)
    assert 0.9 < np.linalg.norm(kept) / np.linalg.norm(clear) < 1.0
    assert not shrunk(np.full(4, 0.1), 0.0).any(), "shorter than a third"


def test_text_rows_are_those_of_training():
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(6, 5)).astype(np.float32)
    rows[2], rows[3] = 0.0, np.inf
    mean = np.full(5, 0.2, np.float32)
    rows[4] = mean * 3
    made = text_rows(rows, mean)
    expected = rows[0] / np.linalg.norm(rows[0]) - mean
    np.testing.assert_allclose(made[0], expected / np.linalg.norm(expected), atol=1e-6)
    assert not made[2:4].any()
    assert np.isfinite(made).all()
    sparse = text_rows(csr_array(np.nan_to_num(rows, posinf=0)), None).toarray()
    np.testing.assert_allclose(sparse, text_rows(np.nan_to_num(rows, posinf=0), None))


@pytest.mark.parametrize("sparse", [False, True])
def test_documents_alone_have_the_same_bits_in_any_company(released, sparse, monkeypatch):
    """A private score of a search counts right answers: no document may flip another's."""
    values = planted(200, 3).features * (np.random.default_rng(0).random((200, 40)) > 0.5)
    given = csr_array(values) if sparse else values
    model = replace(
        released,
        tensors={n: t for n, t in released.tensors.items() if not (sparse and n == "mean")},
    )
    together = text_scores(model, given)
    weights = model.tensors["weight"].astype(float)
    expected = text_rows(given, model.tensors.get("mean")) @ weights
    expected = np.asarray(expected) + 0.5 * model.tensors["class_bias"]
    expected /= MatchingConstants.of(model).own_strength
    np.testing.assert_allclose(together, expected, atol=1e-4)
    for chosen in ([0], [3, 9], range(5), range(100, 200)):
        index = np.array(list(chosen))
        np.testing.assert_array_equal(text_scores(model, given[index]), together[index])
    monkeypatch.setattr(train_module, "ROWS_AT_ONCE", 7)
    np.testing.assert_array_equal(text_scores(model, given), together)


def test_settings_of_another_recipe_are_refused():
    graph = planted(20, 0)
    plan = plan_of(graph, auto_settings())
    session = Session(plan, Groups.of_plan(plan, graph), RandomSource.seeded(0, "test"))
    with pytest.raises(ConfigError, match=r"model\.hops"):
        train(session, auto_settings(model__hops=1))
    assert session.remaining == plan.steps
