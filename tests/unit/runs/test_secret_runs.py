"""How many runs a search makes, and of which candidates, is chance and stays secret."""

from collections import Counter
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from scipy.stats import chisquare

from privgcn.config import Settings, make_settings
from privgcn.data.corpus import VALIDATION
from privgcn.privacy.accounting.selection import LAWS, RunCount
from privgcn.randomness import RandomSource
from privgcn.runs.candidates import SearchSpace
from privgcn.runs.tune import _Runs, search
from unit.runs.small_corpus import small_corpus

SPACE = SearchSpace({"training.reach": (1.0, 1.5, 2.0)})
SEARCHES = 120


def settings(**changes: Any) -> Settings:
    return make_settings("auto", epsilon=2.0, changes={"privacy.delta": 1e-3, **changes})


@pytest.mark.parametrize("law", LAWS)
def test_the_number_of_runs_follows_its_law_and_every_candidate_its_chance(
    monkeypatch: pytest.MonkeyPatch, law: str
) -> None:
    """Runs are counted and not made: one model stands for all."""
    count, corpus, chosen = RunCount(law, 3.0), small_corpus(), settings()
    runs = _Runs(corpus, chosen, SPACE, count, epsilon=2.0, public=False)
    model = runs.train(0)
    made: list[list[int]] = []

    def train(self: _Runs, number: int) -> Any:
        made[-1].append(number)
        return model

    monkeypatch.setattr("privgcn.runs.tune._Runs", lambda *_, **__: runs)
    monkeypatch.setattr(_Runs, "train", train)
    monkeypatch.setattr(_Runs, "winner", lambda *_: None)
    for _ in range(SEARCHES):
        made.append([])
        search(corpus, chosen, SPACE, count)
    lengths = Counter(min(len(numbers), 4) for numbers in made)
    first = count.probabilities(3)
    expected = [*(SEARCHES * first), SEARCHES * (1.0 - first.sum())]
    assert chisquare([lengths[size] for size in (1, 2, 3, 4)], expected).pvalue > 1e-6
    begun = Counter(numbers[0] for numbers in made)
    assert chisquare([begun[number] for number in range(3)]).pvalue > 1e-6
    every = Counter(number for numbers in made for number in numbers)
    assert chisquare([every[number] for number in range(3)]).pvalue > 1e-6


def test_private_documents_are_scored_each_by_itself() -> None:
    """Rows so weak that links would change many answers."""
    weak = np.random.default_rng(1).normal(size=(120, 6)).astype(np.float32)
    corpus = small_corpus(texts=False, vectors=weak)
    runs = _Runs(corpus, settings(), SPACE, RunCount("poisson", 3.0), epsilon=2.0, public=False)
    fitted = runs.train(0)
    runs.score_noise = 1e-9
    together = runs.score(0, fitted, RandomSource.secret())
    apart = 0.0
    for row in np.flatnonzero(corpus.split == VALIDATION):
        split = np.where(np.arange(120) == row, VALIDATION, np.minimum(2 * corpus.split, 2))
        runs.prepared.clear()
        runs.corpus = replace(corpus, split=split.astype(np.int8))
        apart += runs.score(0, fitted, RandomSource.secret())
    assert together == pytest.approx(apart, abs=1e-6)
