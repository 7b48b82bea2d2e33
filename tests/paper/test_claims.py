"""Published numbers beside ours, the paper's claims, and its accountant."""

from __future__ import annotations

import math
import re
from importlib import import_module

import pytest

from paper.fake_runs import all_points, all_runs, record
from privgcn.report.tables import MeanStd
from privgcn_paper.claims import (
    UNANSWERED,
    Compared,
    best,
    claims,
    compared,
    leaves,
    mnist_point,
    moments_epsilon,
    published,
    released_epsilon,
)
from privgcn_paper.results import PAPER_MODE, Runs

LEAVES = dict(leaves())


@pytest.fixture(scope="module")
def runs():
    return all_runs()


@pytest.fixture(scope="module")
def answers(runs):
    return {row.leaf: row for row in compared(runs)}


class TestPublishedNumbers:
    def test_every_leaf_has_one_answer_or_one_reason(self, runs, answers):
        assert LEAVES["table1.cora.majority"] == 0.32
        assert LEAVES["mnist.0.f1"] == 0.9
        assert len(answers) == len(compared(runs))
        reasons = {
            leaf: [rule for rule in UNANSWERED if re.fullmatch(rule, leaf)] for leaf in LEAVES
        }
        for leaf, rules in reasons.items():
            assert (leaf in answers) + len(rules) == 1, leaf
        assert {rule for rules in reasons.values() for rule in rules} == set(UNANSWERED)
        assert {leaf: answers[leaf].published for leaf in answers} == {
            leaf: LEAVES[leaf] for leaf in answers
        }

    def test_the_experiments_answer_every_number_and_formulas_some(self, answers):
        assert [row.leaf for row in answers.values() if row.ours is None] == []
        computed = {row.leaf for row in compared(Runs(())) if row.ours is not None}
        assert {leaf.split(".")[0] for leaf in computed} == {
            *("noise_to_epsilon", "mnist", "headlines")
        }

    @pytest.mark.parametrize(
        ("leaf", "dataset", "recipe", "axes"),
        [
            ("table1.cora.non_private.adam", "cora", "plain", {"optimizer": "adam"}),
            ("table1.cora.dp_full_eps2.sgd", "cora", "paper-full", {"epsilon": 2}),
            (
                *("table1.cora.dp_split_eps1.sgd", "cora", "paper-split"),
                {"epsilon": 1, "parts": 10},
            ),
            (
                *("pokec_features.bert.dp.eps137.adam", "pokec", "paper-full"),
                {"features": "transformer", "optimizer": "adam", "epsilon": 137},
            ),
            (
                *("text_claims.non_private_pubmed_sgd_splits.splits_100", "pubmed", "plain"),
                {"parts": 100},
            ),
            (
                *("text_claims.dp_cora_sgd_splits.splits_10", "cora", "paper-split"),
                {"epsilon": 2, "parts": 10},
            ),
            (
                *("text_claims.non_private_reddit_sgd.at_30_percent", "reddit", "plain"),
                {"fraction": 0.3},
            ),
            (
                *("text_claims.hard_cases_cora.non_private_90_percent_data", "cora", "plain"),
                {"fraction": 0.9},
            ),
        ],
    )
    def test_is_answered_by_its_own_run(self, runs, answers, leaf, dataset, recipe, axes):
        measure = "hard" if "hard_cases" in leaf else f"micro {PAPER_MODE}"
        point = {"dataset": dataset, "recipe": recipe, "optimizer": "sgd", **axes}
        assert answers[leaf].ours == runs.score(measure, **point)

    def test_the_released_code_stands_beside_the_same_setting(self, runs, answers):
        point = {"dataset": "cora", "optimizer": "sgd", "epsilon": 2}
        released = answers["table1.cora.dp_full_eps2.sgd"].released
        assert released == runs.score(recipe="as-released", **point)
        point = mnist_point(published()["mnist"][2], "as-released")
        assert answers["mnist.2.f1"].released == runs.score("micro alone", **point)
        for row in published()["mnist"]:
            for recipe in ("paper-full", "as-released"):
                assert mnist_point(row, recipe) in all_points()

    @pytest.mark.parametrize(
        ("ours", "released", "exact", "verdict"),
        [
            (None, None, False, "not run"),
            (0.53, None, False, "agrees"),
            (MeanStd(0.47, 0.2), None, False, "agrees"),
            (0.54, None, False, "differs"),
            (0.1, MeanStd(0.54), False, "differs; the released code's behaviour gives it"),
            (0.1, MeanStd(0.56), False, "differs"),
            (0.504, None, True, "agrees"),
            (0.506, None, True, "differs"),
        ],
    )
    def test_verdict(self, ours, released, exact, verdict):
        assert Compared("a", "cora", "", 0.5, ours, released, exact).verdict == verdict

    def test_the_better_optimiser(self, runs):
        point = {"dataset": "cora", "recipe": "paper-full", "epsilon": 2}
        scores = [runs.score(**point, optimizer=name).mean for name in ("sgd", "adam")]
        assert best(runs, **point).mean == max(scores)
        assert best(Runs(()), **point) is None


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
            for dataset in claim.datasets:
                for one in claim.evidence:
                    score = runs.score(one.measure, dataset=dataset, **one.run)
                    assert score is not None, (claim.says, dataset, one.name)

    def test_numbers_are_those_of_the_runs(self):
        claim = next(c for c in claims() if c.says.startswith("CiteSeer gains"))
        point = {"dataset": "citeseer", "recipe": "plain", "optimizer": "sgd"}
        scores = {mode: {"micro": 0.5, "macro": 0.5} for mode in ("alone", PAPER_MODE)}
        runs = Runs.of_records([record(point, scores=scores)])
        assert claim.numbers(runs) == {"citeseer": "all 0.50"}
        assert claim.numbers(Runs(())) == {}

    def test_verdicts_test_the_paper_s_sentence(self):
        outcomes = {claim.says[:2]: claim.outcome for claim in claims() if claim.says[1] == "."}
        assert [outcomes[f"{n}."] for n in range(1, 6)] == [
            *("fails", "fails", "not testable", "holds", "direction only"),
        ]
        # What was not run is not testable.
        for claim in claims():
            if claim.says.startswith(("The reason: with more nodes", "The table of features")):
                assert claim.outcome == "not testable"


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
            released = released_epsilon(noise, steps, probability)
            assert released == pytest.approx(
                moments_epsilon(noise, steps, probability), rel=1e-6
            )

    @pytest.mark.parametrize(
        ("noise", "epsilon"), [(130, 0.998), (180, 0.060), (219.2, 0.776), (400, -0.245)]
    )
    def test_and_beyond_it_rounding_decides(self, noise, epsilon):
        # The last bit of an exponential, which differs by machine, moves these numbers.
        assert released_epsilon(noise, 2000) == pytest.approx(epsilon, abs=0.06)
        assert released_epsilon(noise, 2000) < 0.8 * moments_epsilon(noise, 2000)

    def test_the_full_graph_has_epsilon_one_and_the_factor_is_e(self, answers):
        assert moments_epsilon(219.2, 2000) == pytest.approx(1.0, abs=1e-3)
        factor = answers["headlines.privacy_factor"]
        assert (factor.agrees, factor.ours) == (True, math.e)
