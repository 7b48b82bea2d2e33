"""The planner reads no data, covers what was held out, and says when a budget is too small."""

import statistics

import pytest

from privgcn.errors import ConfigError, PrivacyContractError
from privgcn.training.outlook import (
    COVERED,
    GUESSING,
    USEFUL,
    Curve,
    Measured,
    coverage,
    fitted_curve,
    outlook,
    stored_curve,
    stored_runs,
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
    assert person.expected.reach < outlook(2000, 5, 1.0).expected.reach


def test_more_of_everything_good_raises_the_signal_and_the_score() -> None:
    base = outlook(1000, 5, 1.0, features=1000)
    more = outlook(2000, 5, 1.0, features=1000)
    assert more.signal == pytest.approx(2 * base.signal)
    assert more.expected.reach > base.expected.reach
    assert more.expected.interval[0] > base.expected.interval[0]
    assert more.expected.interval[1] > base.expected.interval[1]
    assert outlook(1000, 5, 2.0, features=1000).signal > base.signal
    assert outlook(1000, 10, 1.0, features=1000).signal == pytest.approx(base.signal / 2)
    assert outlook(1000, 5, 1.0, features=4000).signal == pytest.approx(base.signal / 2)
    assert outlook(1000, 5, 1.0, features=1000, delta=1e-7).signal < base.signal


def test_the_kind_says_how_many_features_there_are() -> None:
    assert outlook(1000, 5, 1.0) == outlook(1000, 5, 1.0, kind="minilm", features=384)
    assert outlook(1000, 5, 1.0, kind="hashing").setup.features == 4096
    assert outlook(1000, 5, 1.0, features=1433).setup.kind == "given"
    with pytest.raises(ConfigError, match="'features' of an outlook must be given"):
        outlook(1000, 5, 1.0, kind="transformer")


def test_the_stored_curve_is_that_of_the_stored_runs() -> None:
    assert fitted_curve(stored_runs()) == stored_curve()


def test_the_interval_covers_four_of_five_runs_on_corpora_held_out() -> None:
    known, unseen = stored_runs(), stored_runs("held_out")
    names = {run.group for run in known}
    assert len(names) >= 8
    assert len({run.group for run in unseen}) >= 7
    assert not names & {run.group for run in unseen}
    assert coverage(stored_curve(), unseen) >= COVERED
    widths = [high - low for low, high in (_interval(stored_curve(), run) for run in unseen)]
    assert statistics.fmean(widths) < 0.5, "an interval of everything covers too"


def test_the_interval_covers_a_corpus_that_is_left_out() -> None:
    runs = stored_runs()
    shares = [
        coverage(
            fitted_curve([run for run in runs if run.group != name]),
            [run for run in runs if run.group == name],
        )
        for name in sorted({run.group for run in runs})
    ]
    assert statistics.fmean(shares) >= COVERED


def test_corpora_that_differ_more_have_a_wider_interval() -> None:
    def curve(spread: float) -> Curve:
        return fitted_curve(
            [
                _measured(f"corpus {number}", units, 0.7 + spread * (number % 3 - 1))
                for number in range(9)
                for units in (200, 1000, 5000)
            ]
        )

    calm, wild = curve(0.02), curve(0.2)
    assert wild.below + wild.above > 3 * (calm.below + calm.above)
    low, high = wild.interval(2.0, 5)
    assert low < 0.5 < 0.7 < high


def test_a_corpus_counts_once_however_many_runs_it_has() -> None:
    runs = [_measured(f"corpus {n}", u, 0.7) for n in range(5) for u in (200, 1000, 5000)]
    odd = [_measured("odd", units, 0.5) for units in (200, 1000, 5000)]
    once, often = fitted_curve(runs + odd), fitted_curve(runs + odd * 20)
    assert once.interval(1.0, 5) == pytest.approx(often.interval(1.0, 5), abs=0.01)


def test_a_hopeless_budget_is_called_so_with_remedies() -> None:
    found = outlook(300, 10, 1.0, kind="hashing")
    assert found.expected.reach < GUESSING
    assert "300 documents at epsilon 1: expect no better than guessing" in found.advice[0]
    assert "; you need about " in found.advice[0]
    assert " documents, or epsilon " in found.advice[0]
    assert "a public encoder (--features minilm) would go" in found.advice[0]


def test_an_encoder_is_not_told_to_be_one() -> None:
    for kind in ("minilm", "static"):
        found = outlook(100, 20, 1.0, kind=kind)
        assert found.expected.reach < USEFUL
        assert "encoder" not in " ".join(found.advice)


def test_its_remedies_work() -> None:
    found = outlook(300, 10, 1.0, kind="hashing")
    need = found.advice[0].split("you need about ")[1]
    documents = int(need.split(" ")[0].replace(",", ""))
    epsilon = float(need.split("epsilon ")[1].split(". ")[0])
    assert documents > 300
    assert outlook(documents, 10, 1.0, kind="hashing").expected.reach >= USEFUL
    assert outlook(documents // 2, 10, 1.0, kind="hashing").expected.reach < USEFUL
    assert outlook(300, 10, epsilon, kind="hashing").expected.reach >= USEFUL
    assert "people" in outlook(300, 10, 1.0, kind="hashing", unit="person").advice[0]


def test_a_good_budget_needs_no_advice() -> None:
    found = outlook(5_000, 3, 4.0)
    assert found.expected.reach >= USEFUL
    assert found.advice == ()


def test_what_was_not_measured_is_called_so() -> None:
    text = " ".join(outlook(10, 50, 0.1, kind="hashing").advice)
    assert "outside the range of our measurements" in text


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


def _interval(curve: Curve, run: Measured) -> tuple[float, float]:
    return curve.interval(run.signal, run.classes)


def _measured(corpus: str, units: int, score: float) -> Measured:
    low = 0.3 * (units < 500)
    return Measured(
        corpus=corpus,
        unit="document",
        kind="minilm",
        features=384,
        classes=5,
        units=units,
        epsilon=1.0,
        noise=3.73,
        majority=0.2,
        alone=score - low,
        own_graph=score - low,
        plain=0.75,
    )
