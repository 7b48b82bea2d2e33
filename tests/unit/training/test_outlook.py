"""The planner reads no data, follows its table, and says when a budget is too small."""

import pytest

from privgcn.errors import ConfigError, PrivacyContractError
from privgcn.training.outlook import (
    ENCODER_FEATURES,
    WORTH_IT,
    expectation,
    measured_runs,
    outlook,
)


def test_the_plan_is_that_of_recipe_auto() -> None:
    found = outlook(2000, 5, 1.0, features=1000)
    assert found.plan.units == 2000
    assert found.plan.partition.kind == "each"
    assert 0.999 < found.plan.epsilon <= 1.0
    assert found.plan.sensitivity == 1
    person = outlook(2000, 5, 1.0, unit="person", relation="replace")
    assert person.plan.partition.by == "owner"
    assert person.plan.sensitivity == 2
    assert person.signal < found.signal


def test_more_of_everything_good_raises_the_signal() -> None:
    base = outlook(1000, 5, 1.0, features=1000).signal
    assert outlook(2000, 5, 1.0, features=1000).signal == pytest.approx(2 * base)
    assert outlook(1000, 5, 2.0, features=1000).signal > base
    assert outlook(1000, 10, 1.0, features=1000).signal == pytest.approx(base / 2)
    assert outlook(1000, 5, 1.0, features=4000).signal == pytest.approx(base / 2)
    assert outlook(1000, 5, 1.0, features=1000, delta=1e-7).signal < base


def test_the_table_spans_poor_and_good_budgets() -> None:
    rows = measured_runs()
    signals = sorted(row.signal for row in rows)
    assert len(rows) >= 30
    low, high = expectation(signals[0]), expectation(signals[-1])
    assert low.share < 0.6 < WORTH_IT < high.share
    assert low.least <= low.share <= low.most
    assert not expectation(signals[0] / 2).measured
    assert expectation(signals[len(signals) // 2]).measured


def test_a_hopeless_budget_is_called_so_with_remedies() -> None:
    found = outlook(300, 10, 0.5, features=4096)
    text = " ".join(found.advice)
    assert "is too small for a useful model" in text
    assert "Use more documents, a public encoder, or a larger epsilon." in text
    assert "documents, or epsilon" in text


def test_its_remedies_work() -> None:
    found = outlook(500, 10, 1.0, features=1433)
    assert found.expected.share < WORTH_IT
    enough = int(found.advice[0].split("with: ")[1].split(" ")[0].replace(",", ""))
    assert enough > 500
    assert outlook(enough, 10, 1.0, features=1433).expected.share >= WORTH_IT
    assert "people" in outlook(500, 10, 1.0, unit="person").advice[0]


def test_a_good_budget_needs_no_advice_about_it() -> None:
    found = outlook(50_000, 3, 4.0, features=ENCODER_FEATURES)
    assert found.expected.share >= WORTH_IT
    assert not any("budget" in line for line in found.advice)


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        ((0, 5, 1.0), ConfigError),
        ((100, 1, 1.0), ConfigError),
        ((100, 5, -1.0), ConfigError),
        ((200_000, 5, 1.0), PrivacyContractError),
    ],
)
def test_nonsense_is_refused(arguments: tuple[int, int, float], error: type[Exception]) -> None:
    with pytest.raises(error):
        outlook(*arguments)


def test_units_that_auto_does_not_have_are_refused() -> None:
    with pytest.raises(ConfigError, match="document or person"):
        outlook(100, 5, 1.0, unit="graph")
