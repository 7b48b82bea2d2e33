"""A search keeps its budget, scores with bounded influence, and forgets what lost."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.stats import chisquare, poisson

from builders import two_class_corpus
from privgcn.config import PrivacySettings, Settings, make_settings
from privgcn.data import Corpus
from privgcn.errors import ConfigError, PrivGCNError
from privgcn.mechanism import RandomSource
from privgcn.mechanism.fixed_point import Grid
from privgcn.privacy.selection import RunCount
from privgcn.runs import tune
from privgcn.runs.train import TrainedRun, train
from privgcn.runs.tune import (
    Candidate,
    combinations,
    in_words,
    make_candidates,
    right_answers,
    search,
    search_space,
)

COUNT = RunCount(3.0)
SPACE: dict[str, Any] = {"training.noise_scale": (1.0, 2.0), "training.epochs": (4, 9)}


def make_corpus(**changes: Any) -> Corpus:
    """Forty owners with three documents each, split by owner."""
    owners = np.repeat(np.arange(40), 3)
    labels = (owners % 2).astype(np.int64)
    vectors = np.random.default_rng(0).normal(size=(120, 6)).astype(np.float32)
    vectors[:, 0] += 3.0 * (2 * labels - 1)
    rows = np.arange(117)
    fields: dict[str, Any] = {
        "vectors": vectors,
        "labels": labels,
        "edges": np.stack([rows, rows + 3]),
        "split": np.select([owners < 24, owners < 32], [0, 1], 2).astype(np.int8),
        "owners": owners,
        "owner_names": tuple(f"p{number}" for number in range(40)),
    }
    return two_class_corpus(worded=False, **{**fields, **changes})


def settings(unit: str = "document", **changes: Any) -> Settings:
    return make_settings(
        "auto", epsilon=2.0, changes={"privacy.unit": unit, "privacy.delta": 1e-3, **changes}
    )


def candidates(
    unit: str = "document", *, corpus: Corpus | None = None, space: dict[str, Any] = SPACE
) -> list[Candidate]:
    corpus = make_corpus() if corpus is None else corpus
    return make_candidates(corpus, settings(unit), space, COUNT, public=False)


@pytest.mark.parametrize(
    ("unit", "units"), [("document", 24), ("person", 8), ("document", 0), ("part", 0)]
)
def test_the_whole_search_costs_its_epsilon(unit: str, units: int) -> None:
    """With so many private validation documents or owners; none where they are public."""
    public, parts = not units, {"privacy.parts": 6, "seed": 5} if unit == "part" else {}
    chosen = settings(unit, **parts)
    run, changes = search(make_corpus(), chosen, SPACE, COUNT, public_validation=public)
    statement = run.model.statement
    assert statement is not None
    statement.verify()
    # A search buys less noise than its runs would cost one by one.
    assert replace(statement.plan, selection=None).epsilon < 1.99 < statement.epsilon <= 2.0
    assert statement.releasable
    assert statement.plan.selection is not None
    assert (statement.plan.selection.score is None) == public
    assert statement.plan.selection.validation_units == units
    assert (statement.unit, statement.plan.partition.seed) == (unit, 5 if parts else None)
    assert len(statement.plan.selection.candidates) == 2
    assert run.model.released.plan == statement.plan
    assert changes in combinations(SPACE)
    assert run.model.settings.training.noise_scale == changes["training.noise_scale"]
    words = statement.text()
    assert "training.noise_scale from 1.0, 2.0" in " ".join(words.split())
    assert any(fact.code == "public_validation" for fact in statement.assumed_public) == public


# hazard 14
@pytest.mark.parametrize("scored", ["rising", "falling", "all alike", "one perfect"])
def test_runs_are_drawn_made_and_scored_as_the_bound_assumes(
    monkeypatch: pytest.MonkeyPatch, scored: str
) -> None:
    """Each draws its candidate anew, trains anew and is scored anew, whatever came before."""
    runs = 600
    drawn: list[int] = []
    values: list[float] = []
    order = combinations(SPACE)

    def train(prepared: Any, graph: Any) -> Any:
        own = prepared.settings.training
        drawn.append(order.index({name: getattr(own, name.split(".")[1]) for name in SPACE}))
        return len(drawn) - 1

    def score(run: Any, source: RandomSource) -> float:
        assert run == len(drawn) - 1
        turn = len(values)
        perfect = 1e9 if turn == 7 else 0.0
        each = {"rising": turn, "falling": -turn, "all alike": 0.0, "one perfect": perfect}
        values.append(float(each[scored]))
        return values[-1]

    monkeypatch.setattr(RunCount, "draw", lambda self, source: runs)
    monkeypatch.setattr(tune, "train", train)
    monkeypatch.setattr(tune, "score", score)
    made, chosen = search(make_corpus(), settings(seed=3), SPACE, COUNT)
    best: Any = made
    assert len(drawn) == len(values) == runs
    assert best == values.index(max(values))
    assert chosen == order[drawn[best]]
    # Uniform over the four candidates, and no candidate follows from the one before.
    pairs = np.bincount(4 * np.array(drawn[:-1]) + np.array(drawn[1:]), minlength=16)
    assert chisquare(pairs).pvalue > 1e-6
    # Nor does any follow from the seed, which is public.
    first = drawn.copy()
    search(make_corpus(), settings(seed=3), SPACE, COUNT)
    again = drawn[runs:]
    assert 0.1 < np.mean(np.array(first) == np.array(again)) < 0.4


# hazard 14
def test_the_number_of_runs_follows_its_law(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also two hundred of them: no search is cut short. Runs are counted and not made."""
    each, counts = candidates(), []
    monkeypatch.setattr(tune, "make_candidates", lambda *_, **__: each)
    monkeypatch.setattr(tune, "train", lambda *_: counts.append(1))
    monkeypatch.setattr(tune, "score", lambda *_: 0.0)
    lengths = []
    for _ in range(120):
        counts.clear()
        search(make_corpus(), settings(), SPACE, COUNT)
        lengths.append(min(len(counts), 4))
    first = poisson(COUNT.rate).pmf([1, 2, 3]) / (1 - np.exp(-COUNT.rate))
    expected = 120 * np.array([*first, 1 - first.sum()])
    found = Counter(lengths)
    assert chisquare([found[size] for size in (1, 2, 3, 4)], expected).pvalue > 1e-6
    counts.clear()
    search(make_corpus(), settings(), SPACE, RunCount(200.0))
    assert 120 < len(counts) < 280


def run_of(candidate: Candidate) -> TrainedRun:
    return train(candidate.prepared, candidate.graph)


# hazard 14
@pytest.mark.parametrize("unit", ["document", "person"])
def test_one_unit_moves_a_private_score_by_at_most_one(unit: str) -> None:
    # Rows so weak that edges would change many answers.
    weak = np.random.default_rng(1).normal(size=(120, 6)).astype(np.float32)
    corpus = make_corpus(vectors=weak)
    run = run_of(candidates(unit, corpus=corpus)[0])
    before = right_answers(run, public=False).sum()
    for owner in range(24, 32):
        own = np.flatnonzero(corpus.owners == owner)[: None if unit == "person" else 1]
        vectors, labels = weak.copy(), corpus.labels.copy()
        vectors[own] = -100.0 * vectors[own]
        labels[own] = -1 if owner % 2 else labels[own]
        touched = np.isin(corpus.edges, own).any(axis=0)
        changed = make_corpus(vectors=vectors, labels=labels, edges=corpus.edges[:, ~touched])
        graph = candidates(unit, corpus=changed)[0].graph
        after = right_answers(replace(run, graph=graph), public=False).sum()
        assert abs(after - before) <= 1.0 + 1e-6


@pytest.mark.parametrize("unit", ["document", "person"])
def test_a_private_score_lies_on_its_grid_and_has_the_noise_it_is_accounted_with(
    unit: str,
) -> None:
    """Also where owners count with two thirds."""
    labels = make_corpus().labels.copy()
    labels[::3] = 1 - labels[::3]
    run, source = (
        run_of(candidates(unit, corpus=make_corpus(labels=labels))[0]),
        RandomSource.secret(),
    )
    noise = run.model.released.plan.selection.score.noise_multiplier  # type: ignore[union-attr]
    grid = Grid.of(noise, 8 if unit == "person" else 24)
    sample = np.array([tune.score(run, source) for _ in range(200)])
    assert np.array_equal(sample, np.round(sample * grid.unit) / grid.unit)
    assert sample.std() == pytest.approx(noise, rel=0.3)


# hazard 25
@pytest.mark.parametrize("number", [0, 1])
def test_candidates_with_features_that_learn_are_named_whoever_wins(number: int) -> None:
    texts = tuple(f"word{number % 7} other{number % 2}" for number in range(120))
    corpus = make_corpus(vectors=None, texts=texts)
    space = {"features.kind": ("hashing", "tfidf")}
    statement = run_of(candidates(corpus=corpus, space=space)[number]).model.statement
    assert statement is not None
    learned = [f.detail for f in statement.not_covered if f.code == "learned_features"]
    assert any("vocabulary" in str(detail) for detail in learned)


@pytest.mark.parametrize(
    ("corpus", "changes", "space", "public", "words"),
    [
        ({}, {"privacy.reproducible": True}, SPACE, False, "reproducible"),
        ({}, {"privacy.accountant": "pld"}, SPACE, False, "must be rdp"),
        ({"split": np.repeat([0, 2], 60).astype(np.int8)}, {}, SPACE, False, "validation"),
        ({"owners": np.zeros(120, int)}, {}, SPACE, True, "no owner"),
        ({}, {"privacy.unit": "part", "privacy.parts": 4}, SPACE, False, "public"),
        ({}, {}, {"prediction.hops": (2, 3)}, False, "--public-validation"),
        ({}, {"privacy.noise_multiplier": 3.0}, SPACE, False, "must have an epsilon"),
        ({}, {}, {"training.wings": (1, 2)}, False, "wings"),
    ],
)
def test_what_cannot_be_searched_is_refused_before_any_run(
    monkeypatch: pytest.MonkeyPatch,
    corpus: Any,
    changes: Any,
    space: Any,
    public: bool,
    words: str,
) -> None:
    monkeypatch.setattr(tune, "train", None)
    with pytest.raises(PrivGCNError, match=words):
        search(
            make_corpus(**corpus), settings(**changes), space, COUNT, public_validation=public
        )


# --- search spaces ---------------------------------------------------------------------------


def test_values_are_read_as_numbers_and_words_on_top_of_a_file(tmp_path: Path) -> None:
    tries = ["training.noise_scale=1,1.5", "features.kind=hashing,minilm", "model.hops=0"]
    space = search_space("auto", None, tries)
    assert space == {
        "training.noise_scale": [1, 1.5],
        "features.kind": ["hashing", "minilm"],
        "model.hops": [0],
    }
    assert len(combinations(space)) == 4
    file = tmp_path / "space.toml"
    file.write_text("[training]\nnoise_scale = [1, 2]\nepochs = 30\n")
    space = search_space("auto", file, ["training.noise_scale=3,4"])
    assert space == {"training.noise_scale": [3, 4], "training.epochs": [30]}
    # Words of a space do not tell where files lie on this machine.
    space = search_space("auto", None, [f"features.options.source={tmp_path}/a.vec,./b.vec"])
    assert in_words(space) == "features.options.source from a.vec, b.vec"
    inner = {"features.options": [{"sources": [f"{tmp_path}/a.vec"]}, {}]}
    assert str(tmp_path) not in in_words(inner)
    for recipe in ("auto", "paper-full", "paper-split"):
        assert len(combinations(search_space(recipe, None, []))) >= 2


@pytest.mark.parametrize(
    "text",
    [
        *(f"privacy.{name}=1,2" for name in PrivacySettings.model_fields),
        "recipe=auto,paper-split",
        "seed=1,2,3",
        "data.source=a,b",
        "training.noise_scale=1",
        "training.noise_scale",
        "training.noise_scale=",
        f"training.epochs={','.join(map(str, range(1, 102)))}",
    ],
)
def test_what_must_not_be_searched_is_refused(text: str) -> None:
    with pytest.raises(ConfigError):
        search_space("auto", None, [text])
    with pytest.raises(ConfigError, match="epsilon"):
        search_space("plain", None, [])
