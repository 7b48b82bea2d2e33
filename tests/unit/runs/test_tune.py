"""A search keeps its budget, scores with bounded influence, and forgets what lost."""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest
from scipy.stats import chisquare

from privgcn.config import Settings, make_settings
from privgcn.data import Corpus
from privgcn.errors import ConfigError, DataError, PrivacyContractError, PrivGCNError
from privgcn.privacy.accounting.selection import RunCount
from privgcn.privacy.mechanism.noise_grid import Grid
from privgcn.privacy.statement_text import in_words
from privgcn.randomness import RandomSource
from privgcn.runs.candidates import SearchSpace
from privgcn.runs.train import Prepared
from privgcn.runs.tune import _Runs, search

COUNT = RunCount("poisson", 3.0)
SPACE = SearchSpace({"training.reach": (1.0, 2.0), "training.epochs": (4, 9)})


def make_corpus(**changes: Any) -> Corpus:
    """Forty owners with three documents each, split by owner."""
    generator = np.random.default_rng(0)
    owners = np.repeat(np.arange(40), 3)
    labels = (owners % 2).astype(np.int64)
    vectors = generator.normal(size=(120, 6)).astype(np.float32)
    vectors[:, 0] += 3.0 * (2 * labels - 1)
    rows = np.arange(117)
    fields: dict[str, Any] = {
        "name": "small",
        "ids": np.arange(120).astype(str),
        "vectors": vectors,
        "labels": labels,
        "classes": ("a", "b"),
        "edges": np.stack([rows, rows + 3]),
        "split": np.select([owners < 24, owners < 32], [0, 1], 2).astype(np.int8),
        "owners": owners,
        "owner_names": tuple(f"p{number}" for number in range(40)),
    }
    return Corpus(**{**fields, **changes})


def settings(unit: str = "document", **changes: Any) -> Settings:
    return make_settings(
        "auto",
        epsilon=2.0,
        changes={"privacy.unit": unit, "privacy.delta": 1e-3, **changes},
    )


@pytest.mark.parametrize("unit", ["document", "person"])
@pytest.mark.parametrize("public", [True, False])
def test_the_whole_search_costs_its_epsilon(unit: str, public: bool) -> None:
    winner = search(make_corpus(), settings(unit), SPACE, COUNT, public_validation=public)
    statement = winner.trial.model.statement
    statement.verify()
    assert 1.99 < statement.epsilon <= 2.0
    assert statement.releasable
    assert statement.selection is not None
    assert (statement.selection.score is None) == public
    units = {"document": 24, "person": 8}[unit]
    assert statement.selection.validation_units == (0 if public else units)
    assert len(statement.selection.candidates) == 2
    assert winner.trial.plan == statement.plan
    assert winner.chosen in SPACE.combinations()
    fitted = winner.trial.model.fitted.settings
    assert fitted.training.reach == winner.chosen["training.reach"]
    said = " ".join(in_words(statement, statement.assumed_public))
    assert "training.reach from 1.0, 2.0" in said
    assert ("declared public" in said) == public


def test_a_search_buys_less_noise_than_it_would_cost_run_by_run() -> None:
    runs = _Runs(make_corpus(), settings(), SPACE, COUNT, epsilon=2.0, public=True)
    single = replace(runs.plans[0], selection=None)
    assert single.epsilon < 2.0 < 3.0 * single.epsilon


def test_as_many_runs_as_drawn_each_with_its_own_noise(monkeypatch: Any) -> None:
    made: list[Any] = []
    scores = iter([3.0, 7.0, 5.0])
    train = _Runs.train

    def training(self: _Runs, number: int) -> Any:
        made.append(train(self, number))
        return made[-1]

    monkeypatch.setattr(RunCount, "draw", lambda self, source: 3)
    monkeypatch.setattr(_Runs, "train", training)
    monkeypatch.setattr(_Runs, "score", lambda *_: next(scores))
    winner = search(make_corpus(), settings(), SPACE, COUNT)
    assert len(made) == 3
    assert winner.trial.model.fitted.parameters[0] is made[1].parameters[0]
    assert not made[0].parameters[0].equal(made[2].parameters[0])


@dataclass(frozen=True)
class Made:
    """Stands in for a trained model."""

    number: int
    plan: Any = None


@pytest.mark.parametrize("scored", ["rising", "falling", "all alike", "one perfect"])
def test_runs_are_drawn_made_and_scored_as_the_bound_assumes(
    monkeypatch: Any, scored: str
) -> None:
    """Each draws its candidate anew, trains anew and is scored anew, whatever came before."""
    runs, drawn, made, seen = 600, [], [], []

    def train(self: _Runs, number: int) -> Made:
        drawn.append(number)
        made.append(Made(len(made)))
        return made[-1]

    def score(self: _Runs, number: int, fitted: Made, source: RandomSource) -> float:
        assert number == drawn[-1]
        assert fitted is made[-1]
        turn = len(seen)
        perfect = 1e9 if turn == 7 else 0.0
        values = {"rising": turn, "falling": -turn, "all alike": 0.0, "one perfect": perfect}
        seen.append(values[scored])
        return float(seen[-1])

    monkeypatch.setattr(RunCount, "draw", lambda self, source: runs)
    monkeypatch.setattr(_Runs, "train", train)
    monkeypatch.setattr(_Runs, "score", score)
    monkeypatch.setattr(_Runs, "winner", lambda self, number, fitted: (number, fitted.number))
    number, kept = search(make_corpus(), settings(), SPACE, COUNT)  # type: ignore[misc]
    assert len(drawn) == len(seen) == runs
    assert kept == seen.index(max(seen))
    assert number == drawn[kept]
    # Uniform over the four candidates, and no candidate follows from the one before.
    pairs = np.bincount(4 * np.array(drawn[:-1]) + np.array(drawn[1:]), minlength=16)
    assert chisquare(pairs).pvalue > 1e-6


def scores(corpus: Corpus, unit: str, fitted: Any = None) -> tuple[float, Any]:
    runs = _Runs(corpus, settings(unit), SPACE, COUNT, epsilon=2.0, public=False)
    fitted = runs.train(0) if fitted is None else fitted
    runs.score_noise = 1e-9
    return runs.score(0, fitted, RandomSource.secret()), fitted


@pytest.mark.parametrize("unit", ["document", "person"])
def test_one_unit_moves_a_private_score_by_at_most_one(unit: str) -> None:
    corpus = make_corpus()
    before, fitted = scores(corpus, unit)
    for owner in range(24, 32):
        own = np.flatnonzero(corpus.owners == owner)[: None if unit == "person" else 1]
        vectors, labels = np.array(corpus.vectors), corpus.labels.copy()
        vectors[own] = -100.0 * vectors[own]
        labels[own] = -1 if owner % 2 else labels[own]
        touched = np.isin(corpus.edges, own).any(axis=0)
        changed = make_corpus(vectors=vectors, labels=labels, edges=corpus.edges[:, ~touched])
        after, _ = scores(changed, unit, fitted)
        assert abs(after - before) <= 1.0 + 1e-6


def test_the_score_of_a_run_has_the_noise_it_is_accounted_with() -> None:
    runs = _Runs(make_corpus(), settings(), SPACE, COUNT, epsilon=2.0, public=False)
    fitted = runs.train(0)
    source = RandomSource.secret()
    drawn = np.array([runs.score(0, fitted, source) for _ in range(200)])
    selection = runs.plans[0].selection
    assert selection is not None
    assert selection.score is not None
    assert drawn.std() == pytest.approx(selection.score.noise_multiplier, rel=0.3)


@pytest.mark.parametrize("unit", ["document", "person"])
def test_a_private_score_lies_on_its_grid(unit: str) -> None:
    """Also where owners count with two thirds."""
    labels = make_corpus().labels.copy()
    labels[::3] = 1 - labels[::3]
    corpus = make_corpus(labels=labels)
    runs = _Runs(corpus, settings(unit), SPACE, COUNT, epsilon=2.0, public=False)
    fitted = runs.train(0)
    assert runs.score_noise is not None
    step = Grid.of(runs.score_noise, 8 if unit == "person" else 24).step
    source = RandomSource.secret()
    for _ in range(20):
        steps = runs.score(0, fitted, source) / step
        assert steps == round(steps)


def test_training_other_than_accounted_is_refused(monkeypatch: Any) -> None:
    runs = _Runs(make_corpus(), settings(), SPACE, COUNT, epsilon=2.0, public=True)
    runs.candidates[0] = runs.candidates[0].changed({"privacy.noise_multiplier": 1.0})
    with pytest.raises(PrivacyContractError, match="follow the plan"):
        runs.train(0)


@pytest.mark.parametrize("number", [0, 1])
def test_candidates_with_features_that_learn_are_named_whoever_wins(number: int) -> None:
    texts = tuple(f"word{number % 7} other{number % 2}" for number in range(120))
    corpus = make_corpus(vectors=None, texts=texts)
    space = SearchSpace({"features.kind": ("hashing", "tfidf")})
    runs = _Runs(corpus, settings(), space, COUNT, epsilon=2.0, public=False)
    fitted = replace(runs.train(number), plan=runs.plans[number])
    statement = runs.winner(number, fitted).trial.model.statement
    gaps = " ".join(in_words(statement, statement.not_covered))
    assert "vocabulary" in gaps
    assert "training texts each" in gaps


@pytest.mark.parametrize(
    ("changes", "values", "words"),
    [
        ({"privacy.unit": "part"}, (4, 6), "same units"),
        ({"privacy.unit": "part"}, ("column:year", "column:place"), "same units"),
        ({"privacy.unit": "graph", "privacy.parts": 1}, (1, 4), "must have one part"),
    ],
)
def test_what_decides_the_units_is_not_searched_over(
    monkeypatch: Any, changes: dict[str, Any], values: tuple[Any, ...], words: str
) -> None:
    monkeypatch.setattr(Prepared, "fit", None)
    years = np.arange(120) % 4
    corpus = make_corpus(columns={"year": years, "place": years[::-1].copy()})
    space = SearchSpace({"privacy.parts": values, "training.reach": (1.0, 2.0)})
    with pytest.raises(PrivacyContractError, match=words):
        search(corpus, settings(**changes), space, COUNT, public_validation=True)


def test_a_search_over_a_fixed_partition_protects_its_parts() -> None:
    chosen = settings(**{"privacy.unit": "part", "privacy.parts": 6, "seed": 5})
    winner = search(make_corpus(), chosen, SPACE, COUNT, public_validation=True)
    statement = winner.trial.model.statement
    assert (statement.unit, statement.partition.parts) == ("part", 6)
    assert statement.partition.seed == 5


@pytest.mark.parametrize("unit", ["document", "person"])
def test_each_candidate_pays_for_the_sensitivity_of_its_own_partition(unit: str) -> None:
    space = SearchSpace({"privacy.parts": ("each", 4)})
    runs = _Runs(make_corpus(), settings(unit), space, COUNT, epsilon=2.0, public=False)
    each, four = runs.plans
    assert (each.sensitivity, four.sensitivity) == (1, 2)
    assert four.noise_multiplier == pytest.approx(2 * each.noise_multiplier)
    assert each.selection is not None
    assert {one.sensitivity for one in each.selection.candidates} == {1, 2}
    for number, plan in enumerate(runs.plans):
        assert 1.99 < plan.epsilon <= 2.0
        assert runs.train(number).plan == replace(plan, selection=None)


@pytest.mark.parametrize(
    ("corpus", "changes", "space", "public", "error", "words"),
    [
        ({}, {"privacy.reproducible": True}, SPACE, False, ConfigError, "reproducible"),
        ({}, {"privacy.accountant": "pld"}, SPACE, False, ConfigError, "must be rdp"),
        ({}, {"privacy.accountant": "moments"}, SPACE, True, ConfigError, "must be rdp"),
        (
            {"split": np.repeat([0, 2], 60).astype(np.int8)},
            {},
            SPACE,
            False,
            DataError,
            "valid",
        ),
        ({"owners": np.zeros(120, int)}, {}, SPACE, True, PrivacyContractError, "no owner"),
        (
            {},
            {"privacy.unit": "part", "privacy.parts": 4},
            SPACE,
            False,
            PrivGCNError,
            "public",
        ),
        (
            {},
            {},
            SearchSpace({"prediction.hops": (2, 3)}),
            False,
            ConfigError,
            "--public-validation",
        ),
        (
            {},
            {},
            SearchSpace({"training.patience": (0, 3)}),
            False,
            PrivacyContractError,
            "stop early",
        ),
    ],
)
def test_what_cannot_be_searched_is_refused_before_any_run(
    monkeypatch: Any,
    corpus: Any,
    changes: Any,
    space: SearchSpace,
    public: bool,
    error: type[Exception],
    words: str,
) -> None:
    monkeypatch.setattr(Prepared, "fit", None)
    with pytest.raises(error, match=words):
        search(
            make_corpus(**corpus), settings(**changes), space, COUNT, public_validation=public
        )


def test_without_an_epsilon_there_is_no_search() -> None:
    for made in (make_settings("plain"), settings(**{"privacy.noise_multiplier": 3.0})):
        with pytest.raises(ConfigError, match="epsilon"):
            search(make_corpus(), made, SPACE, COUNT)
