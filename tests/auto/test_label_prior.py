"""Class names as a direction of the weights, and class priors as a bias."""

import math

import numpy as np
import pytest

from privgcn.auto.label_prior import BiasFactors, along, class_bias, label_direction, undone

CLASSES, WIDTH, RATE, SCALE = 8, 60, 50.0, 0.8
NAMES = np.random.default_rng(5).normal(size=(CLASSES, WIDTH)).astype(np.float32)


def test_names_with_one_vector_are_no_direction() -> None:
    assert label_direction(np.ones((3, 4)), RATE, SCALE) is None
    assert label_direction(np.zeros((3, 4)), RATE, SCALE) is None


def test_a_step_along_the_names_is_undone() -> None:
    direction = label_direction(NAMES, RATE, SCALE)
    assert direction is not None
    gradient = np.random.default_rng(0).normal(size=(WIDTH, CLASSES))
    more = along(gradient, direction)
    assert np.linalg.norm(more) > 0.1
    np.testing.assert_allclose(undone(gradient + more, direction), gradient, atol=1e-9)


def test_across_the_names_a_step_is_the_usual_one() -> None:
    direction = label_direction(NAMES, RATE, SCALE)
    assert direction is not None
    gradient = np.random.default_rng(0).normal(size=(WIDTH, CLASSES))
    across = gradient - along(gradient, direction) / np.square(direction).sum()
    np.testing.assert_allclose(along(across, direction), 0.0, atol=1e-9)


def test_a_step_along_the_names_is_as_long_as_noise_allows() -> None:
    """Noise of all steps moves the weight of the names by one, up to the longest step."""
    unit = (NAMES / np.linalg.norm(NAMES, axis=1, keepdims=True)).astype(np.float64)
    length = np.linalg.norm(unit - unit.mean(0))
    for rate, step in ((5.0, 5.0 / (SCALE * length)), (1e4, 20.0)):
        direction = label_direction(NAMES, rate, SCALE)
        assert direction is not None
        assert rate * np.square(direction).sum() == pytest.approx(step * length**2)


def test_frequent_classes_begin_ahead() -> None:
    bias = class_bias(np.array([0.64, 0.04, 0.32]), 0.0)
    assert bias.sum() == pytest.approx(0.0)
    assert bias[0] - bias[1] == pytest.approx(0.5 * math.log(16))
    assert not class_bias(np.full(3, 1 / 3), 0.1).any()


def test_noise_leaves_no_class_without_a_prior() -> None:
    bias = class_bias(np.array([-0.2, 1.1]), 0.05)
    assert np.isfinite(bias).all()
    assert bias[1] - bias[0] == pytest.approx(0.5 * math.log(1.15 / 0.05))


def test_balanced_takes_the_bias_off_every_prediction() -> None:
    usual, balanced = (BiasFactors.of(balanced=b) for b in (False, True))
    assert usual.weights > 0 == usual.matched
    assert usual.weights - balanced.weights == usual.matched - balanced.matched == 1.0
