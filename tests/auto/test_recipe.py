"""The recipe's numbers: class priors and names, step size, constants of moment matching."""

import math
from dataclasses import replace

import numpy as np
import pytest

from auto.planted import auto_settings, plan_of, planted
from privgcn.auto.recipe import (
    MatchingConstants,
    along,
    centered_names,
    class_bias,
    first_weights,
    label_direction,
    learning_rate,
    own_strength,
    prior_variance,
    undone,
)
from privgcn.errors import ConfigError

CLASSES, WIDTH, RATE, SCALE = 8, 60, 50.0, 0.8
VECTORS = np.random.default_rng(5).normal(size=(CLASSES, WIDTH))
UNIT = VECTORS / np.linalg.norm(VECTORS, axis=1, keepdims=True)
NAMES = (UNIT - UNIT.mean(0)).T


def test_names_with_one_vector_are_no_direction():
    assert centered_names(np.ones((3, 4))) is None
    assert centered_names(np.zeros((3, 4))) is None


def test_training_begins_with_a_part_of_the_names():
    made = centered_names(VECTORS.astype(np.float32))
    assert made is not None
    np.testing.assert_allclose(made, NAMES, atol=1e-6)
    np.testing.assert_allclose(first_weights(made), 4 * NAMES, atol=1e-5)


def test_a_step_along_the_names_is_undone_and_across_them_a_step_is_the_usual_one():
    direction = label_direction(NAMES, RATE, SCALE)
    gradient = np.random.default_rng(0).normal(size=(WIDTH, CLASSES))
    more = along(gradient, direction)
    assert np.linalg.norm(more) > 0.1
    np.testing.assert_allclose(undone(gradient + more, direction), gradient, atol=1e-9)
    across = gradient - more / np.square(direction).sum()
    np.testing.assert_allclose(along(across, direction), 0.0, atol=1e-9)


def test_a_step_along_the_names_is_as_long_as_noise_allows():
    """Noise of all steps moves the strength of the names by eight, up to the longest step."""
    length = np.linalg.norm(NAMES)
    for rate, step in ((2.0, 8 * 2.0 / (SCALE * length)), (1e4, 20.0)):
        direction = label_direction(NAMES, rate, SCALE)
        assert rate * np.square(direction).sum() == pytest.approx(step * length**2)


def test_frequent_classes_begin_ahead():
    bias = class_bias(np.array([0.64, 0.04, 0.32]), 0.0)
    assert bias.sum() == pytest.approx(0.0)
    assert bias[0] - bias[1] == pytest.approx(0.5 * math.log(16))
    assert not class_bias(np.full(3, 1 / 3), 0.1).any()


def test_noise_leaves_no_class_without_a_prior():
    bias = class_bias(np.array([-0.2, 1.1]), 0.05)
    assert np.isfinite(bias).all()
    assert bias[1] - bias[0] == pytest.approx(0.5 * math.log(1.15 / 0.05))


def test_balanced_takes_the_bias_off_every_prediction(released):
    settings = released.settings.changed({"training.balanced": True})
    usual, balanced = (
        MatchingConstants.of(replace(released, settings=each, matching=None))
        for each in (released.settings, settings)
    )
    assert usual.own_bias > 0 == usual.matched_bias
    assert usual.own_bias - balanced.own_bias == 1.0
    assert usual.matched_bias - balanced.matched_bias == 1.0


@pytest.mark.parametrize(
    "changes", [{}, {"privacy__relation": "replace"}, {"training__epochs": 7}], ids=str
)
def test_noise_over_all_steps_moves_a_score_by_the_noise_scale(changes):
    plan = plan_of(planted(300, 0), auto_settings(**changes))
    for scale in (0.8, 1.5):
        moved = learning_rate(plan, scale) * plan.noise_std / 300 * plan.steps**0.5
        assert moved == pytest.approx(scale)
    assert learning_rate(plan, 1e9) * plan.clip_norm == pytest.approx(2000.0)


def test_many_classes_need_a_wider_prior():
    assert prior_variance(3000, 7) == prior_variance(3000, 2) == pytest.approx(1.0)
    assert prior_variance(3000, 40) > 1.5
    assert prior_variance(384, 150) == 2.5
    assert prior_variance(10**6, 3) == 0.75


def test_scores_are_twice_too_large_at_the_sure_signal_and_never_beyond_three_times():
    assert [own_strength(signal) for signal in (0.0, 30.0, 1e6)] == [1.0, 2.0, 3.0]


@pytest.mark.parametrize(
    "change",
    [{"rank": 10**9}, {"rounds": 10**6}, {"rate": float("nan")}, {"more": 1}, {"rank": 3.5}],
)
def test_constants_that_no_version_wrote_are_refused(released, change):
    changed = {**(released.matching or {}), **change}
    with pytest.raises(ValueError, match="MatchingConstants"):
        MatchingConstants.of(replace(released, matching=changed))


def test_a_model_without_iterates_cannot_be_matched(released):
    tensors = {"weight": released.tensors["weight"]}
    with pytest.raises(ConfigError, match="iterates"):
        MatchingConstants.of(replace(released, tensors=tensors, matching=None))
