from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from privgcn.data import load_corpus
from privgcn.data.corpus import TEST, TRAIN
from privgcn.errors import ConfigError, DataError
from privgcn.experiments.subsampling import corpus_for_runs, with_fraction


def test_a_fraction_keeps_the_share_of_every_class_and_all_test_documents() -> None:
    corpus = load_corpus("clinic")
    part = with_fraction(corpus, 0.3, seed=0)
    before = np.bincount(corpus.labels[corpus.split == TRAIN], minlength=corpus.num_classes)
    after = np.bincount(part.labels[part.split == TRAIN], minlength=corpus.num_classes)
    assert after.tolist() == [int(round(count * 0.3, 6)) for count in before]
    assert (part.split == TEST).sum() == (corpus.split == TEST).sum()
    assert len(part) == len(corpus) - before.sum() + after.sum()
    assert set(part.ids) <= set(corpus.ids)


def test_the_choice_is_named_as_not_covered_and_everything_else_stays() -> None:
    corpus = load_corpus("clinic")
    assert with_fraction(corpus, 1.0, seed=0) is corpus
    part = with_fraction(corpus, 0.5, seed=0)
    assert any("share of every class" in note for note in part.facts.not_covered)
    assert part.facts.synthetic
    again = with_fraction(corpus, 0.5, seed=0)
    assert part.ids.tolist() == again.ids.tolist()
    assert with_fraction(corpus, 0.5, seed=1).ids.tolist() != part.ids.tolist()


@pytest.mark.parametrize("fraction", [0.0, 1.5, -1.0])
def test_a_fraction_is_a_share(fraction: float) -> None:
    with pytest.raises(ConfigError, match="'fraction' of the data"):
        with_fraction(load_corpus("clinic"), fraction, seed=0)


def test_runs_need_test_documents(tmp_path: Path) -> None:
    rows = "".join(f"{n},word,{'ab'[n % 2]},train\n" for n in range(10))
    (tmp_path / "documents.csv").write_text(f"id,text,label,split\n{rows}")
    with pytest.raises(DataError, match=r"test documents.*split = \[\[0\.6, 0\.2\]\]"):
        corpus_for_runs(str(tmp_path), 1.0)
    assert (corpus_for_runs(str(tmp_path), 1.0, (0.6, 0.2)).split == TEST).sum() == 2
