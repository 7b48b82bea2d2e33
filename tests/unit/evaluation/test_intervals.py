"""Intervals have the values that the books give, and cover what they say."""

from __future__ import annotations

import numpy as np
import pytest

from privgcn.evaluation.intervals import bootstrap_macro_f1, over_seeds, wilson, with_intervals
from privgcn.evaluation.metrics import classification_scores


@pytest.mark.parametrize(
    ("right", "documents", "low", "high"),
    [
        # Newcombe (1998), table I, method 3 (without continuity correction).
        (81, 263, 0.2553, 0.3662),
        (15, 148, 0.0624, 0.1605),
        (0, 20, 0.0, 0.1611),
        (1, 29, 0.0061, 0.1718),
    ],
)
def test_wilson_has_published_values(
    right: int, documents: int, low: float, high: float
) -> None:
    assert wilson(right, documents) == pytest.approx((low, high), abs=5e-5)


def test_wilson_narrows_with_documents_and_stays_within_the_shares() -> None:
    few, many = wilson(8, 10), wilson(800, 1000)
    assert few[0] < many[0] < 0.8 < many[1] < few[1]
    assert wilson(5, 5)[1] == 1.0


def _scores(seed: int, documents: int, right: float) -> dict[str, object]:
    draw = np.random.default_rng(seed)
    truth = draw.choice(4, documents, p=[0.55, 0.25, 0.15, 0.05])
    predicted = np.where(draw.random(documents) < right, truth, draw.integers(0, 4, documents))
    return classification_scores(truth, predicted, ["a", "b", "c", "d"])


def test_the_bootstrap_covers_the_macro_f1_of_many_documents() -> None:
    true = _scores(0, 200_000, 0.6)["macro_f1"]
    inside = 0
    for seed in range(1, 101):
        low, high = bootstrap_macro_f1(np.array(_scores(seed, 400, 0.6)["confusion"]))
        assert low < high
        inside += low <= true <= high
    assert 88 <= inside <= 100


def test_the_bootstrap_holds_its_own_score_and_is_the_same_again() -> None:
    scores = _scores(3, 300, 0.7)
    confusion = np.array(scores["confusion"])
    low, high = bootstrap_macro_f1(confusion)
    assert low < scores["macro_f1"] < high
    assert bootstrap_macro_f1(confusion) == (low, high)
    assert bootstrap_macro_f1(np.diag([5, 5, 0])) == (1.0, 1.0), "a class that never occurs"


def test_every_headline_score_has_an_interval() -> None:
    scores = with_intervals(_scores(3, 300, 0.7))
    right = int(np.trace(np.array(scores["confusion"])))
    assert scores["documents"] == 300
    assert scores["intervals"]["micro_f1"] == list(wilson(right, 300))
    assert scores["intervals"]["accuracy"] == list(wilson(right, 300))
    low, high = scores["intervals"]["macro_f1"]
    assert low < scores["macro_f1"] < high


def test_nothing_to_score_has_no_interval() -> None:
    nothing = np.empty(0, dtype=np.int64)
    assert (
        with_intervals(classification_scores(nothing, nothing, ["a", "b"]))["intervals"] == {}
    )


def test_seeds_give_mean_deviation_and_interval() -> None:
    found = over_seeds([0.31, 0.41, 0.47], 300)
    assert found["mean"] == pytest.approx(0.3967, abs=1e-4)
    assert found["std"] == pytest.approx(0.0808, abs=1e-4)
    # Student's t with two degrees of freedom is 4.303.
    seeds, ends = 4.3027 * 0.0808 / 3**0.5, wilson(119, 300)
    for found_end, end in zip(found["interval"], ends, strict=True):
        expected = (seeds**2 + (end - 0.3967) ** 2) ** 0.5
        assert abs(found_end - 0.3967) == pytest.approx(expected, abs=1e-3)


def test_seeds_that_agree_still_leave_the_documents_open() -> None:
    assert over_seeds([0.5, 0.5, 0.5], 100)["interval"] == pytest.approx(wilson(50, 100))
    assert over_seeds([1.0, 1.0], 20)["interval"] == pytest.approx([wilson(20, 20)[0], 1.0])
