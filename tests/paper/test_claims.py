"""Published numbers beside ours, the paper's claims, and its accountant."""

from collections import Counter
from importlib import import_module

import pytest

from paper.fake_runs import all_runs, record
from privgcn.report.tables import MeanStd
from privgcn_paper.claims import (
    Compared,
    claims,
    compared,
    moments_epsilon,
    published,
    released_epsilon,
)
from privgcn_paper.page import TAKEAWAYS
from privgcn_paper.results import PAPER_MODE, Runs


@pytest.fixture(scope="module")
def runs():
    return all_runs()


class TestPublishedNumbers:
    def test_every_one_is_answered_by_the_experiments(self, runs):
        rows = compared(runs)
        assert [row for row in rows if row.ours is None] == []
        assert Counter(row.kind for row in rows) == {
            **{"table 1": 15, "table 1, private": 30, "features of Pokec": 30},
            **{"MNIST": 5, "text": 15, "sizes": 15},
        }
        assert {row.verdict for row in compared(Runs(()))} == {"not run"}

    @pytest.mark.parametrize(
        ("dataset", "setting", "number", "point"),
        [
            ("cora", "without privacy", 0.77, {"recipe": "plain"}),
            ("cora", "full graph, epsilon 2", 0.39, {"recipe": "paper-full", "epsilon": 2}),
            (
                *("cora", "ten parts, epsilon 1", 0.55),
                {"recipe": "paper-split", "epsilon": 1, "parts": 10},
            ),
            (
                *("pokec", "bert, epsilon 137, SGD", 0.74),
                {"recipe": "paper-full", "epsilon": 137, "features": "transformer"},
            ),
            (
                *("pubmed", "6.3 Experiment C: a hundred", 0.79),
                {"recipe": "plain", "parts": 100},
            ),
            ("reddit", "6.1 Experiment A: 30 %", 0.69, {"recipe": "plain", "fraction": 0.3}),
        ],
    )
    def test_is_answered_by_its_own_run(self, runs, dataset, setting, number, point):
        (row, *_) = [r for r in compared(runs) if (r.dataset, r.setting) == (dataset, setting)]
        point = {"dataset": dataset, "optimizer": "sgd", **point}
        assert (row.published, row.ours) == (number, runs.score(**point))
        assert row.released == runs.score(**{**point, "recipe": "as-released"})

    @pytest.mark.parametrize(
        ("ours", "released", "verdict"),
        [
            (None, None, "not run"),
            (0.53, None, "agrees"),
            (MeanStd(0.47, 0.2), None, "agrees"),
            (0.54, None, "differs"),
            (0.1, MeanStd(0.54), "differs; the released code's behaviour gives it"),
            (0.1, MeanStd(0.56), "differs"),
        ],
    )
    def test_verdict(self, ours, released, verdict):
        assert Compared("a", "cora", "", 0.5, ours, released).verdict == verdict


class TestClaims:
    def test_each_has_a_place_in_the_code_and_a_reason(self):
        assert len({claim.says for claim in claims()}) == len(claims()) > 60
        for claim in claims():
            assert claim.code, claim.says
            assert claim.note or claim.outcome in ("holds", "done"), claim.says
            for reference in claim.code:
                module, _, name = reference.partition(":")
                assert not name or hasattr(import_module(module), name), reference

    def test_evidence_is_of_runs_that_the_experiments_make(self, runs):
        for claim in claims():
            assert bool(claim.evidence) == bool(claim.datasets), claim.says
            assert claim.evidence or claim.section != TAKEAWAYS, "a verdict has its numbers"
            for one in claim.evidence:
                assert {*one.published} <= {*claim.datasets}
                for dataset in claim.datasets:
                    score = runs.score(one.measure, dataset=dataset, **one.run)
                    assert score is not None, (claim.says, dataset, one.name)

    def test_numbers_are_those_of_the_runs_with_their_lines(self, tmp_path):
        claim = next(c for c in claims() if c.says.startswith("CiteSeer gains"))
        point = {"dataset": "citeseer", "recipe": "plain", "optimizer": "sgd"}
        scores = {PAPER_MODE: {"micro": 0.5, "macro": 0.5}}
        runs = Runs.of_records(record(point, seed, scores=scores) for seed in range(3))
        assert claim.numbers(runs) == {"citeseer": "all 0.50"}
        runs.write(tmp_path / "a.csv")
        again = Runs.read(tmp_path / "a.csv")
        assert claim.numbers(again) == {"citeseer": "all 0.50 (lines 2-4)"}
        assert claim.numbers(Runs(())) == {}


class TestAccountant:
    @pytest.mark.parametrize("row", published()["noise_to_epsilon"])
    @pytest.mark.parametrize("optimizer", ["sgd", "adam"])
    def test_the_paper_s_table_has_the_printed_digits(self, row, optimizer):
        own = row[optimizer]
        again = moments_epsilon(own["noise_multiplier"], own["steps"])
        assert f"{again:.2f}" == f"{row['epsilon']:.2f}"

    @pytest.mark.parametrize(
        ("steps", "probability", "noises"),
        [(2000, 1.0, [2, 4, 26, 48, 80, 112, 120]), (20_000, 0.1, [2, 8, 20, 50, 100, 400])],
    )
    def test_the_released_one_is_right_up_to_noise_120_and_with_sampling_at_any(
        self, steps, probability, noises
    ):
        for noise in noises:
            right = moments_epsilon(noise, steps, probability)
            assert released_epsilon(noise, steps, probability) == pytest.approx(right, rel=1e-6)

    @pytest.mark.parametrize(
        ("noise", "epsilon"), [(130, 0.998), (180, 0.060), (219.2, 0.776), (400, -0.245)]
    )
    def test_and_beyond_it_rounding_decides(self, noise, epsilon):
        # The last bit of an exponential, which differs by machine, moves these numbers.
        assert released_epsilon(noise, 2000) == pytest.approx(epsilon, abs=0.06)
        assert released_epsilon(noise, 2000) < 0.8 * moments_epsilon(noise, 2000)
        assert moments_epsilon(219.2, 2000) == pytest.approx(1.0, abs=1e-3)
