from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from make_clinic import make_clinic

from privgcn.data import Corpus, load_corpus


@pytest.fixture(scope="module")
def clinic() -> Corpus:
    return load_corpus("clinic")


def test_it_is_what_the_script_writes_and_well_formed(clinic: Corpus) -> None:
    written = make_clinic()
    assert tuple(written["texts"]) == clinic.texts
    for name in ("edges", "labels", "split", "owners"):
        assert (np.array(written[name]) == getattr(clinic, name)).all()
    assert len(set(clinic.texts or ())) > 0.99 * len(clinic)
    assert not any("{" in text or "  " in text for text in clinic.texts or ())


def test_edges_join_letters_of_a_patient_and_referrals(clinic: Corpus) -> None:
    assert clinic.owners is not None
    letters = np.bincount(clinic.owners)
    assert letters.min() >= 1
    assert 3 < letters.mean() < 5
    assert not clinic.owners_cross_splits
    practices = set(zip(clinic.owners.tolist(), clinic.columns["practice"], strict=True))
    assert len(practices) == len(clinic.owner_names or ())
    same = clinic.owners[clinic.edges[0]] == clinic.owners[clinic.edges[1]]
    assert same.sum() == (letters * (letters - 1) // 2).sum()
    assert (~same).sum() > 1_500
    alike = clinic.labels[clinic.edges[0]] == clinic.labels[clinic.edges[1]]
    assert 0.8 < alike.mean() < 0.95


def test_text_alone_is_clearly_worse_than_text_and_edges(clinic: Corpus) -> None:
    """Logistic regression on a letter: about 0.68; on the letter and its edges: about 0.90."""
    from sklearn.feature_extraction.text import HashingVectorizer
    from sklearn.linear_model import LogisticRegression

    def score(hops: int) -> float:
        rows = []
        for part in (clinic.train, clinic.test):
            ones = np.ones(part.edges.shape[1])
            edges = sp.coo_array((ones, tuple(part.edges)), (len(part), len(part)))
            joined = edges + edges.T + sp.eye_array(len(part))
            scale = sp.diags_array(1 / np.sqrt(joined.sum(axis=1)))
            features = HashingVectorizer(n_features=1024).transform(part.texts or ())
            for _ in range(hops):
                features = scale @ joined @ scale @ features
            rows.append(sp.csr_array(features))
        model = LogisticRegression(C=10, max_iter=400).fit(rows[0], clinic.train.labels)
        return float(model.score(rows[1], clinic.test.labels))

    alone, joined = score(0), score(2)
    assert 0.6 < alone < 0.75
    assert joined > 0.85
    assert joined > alone + 0.15
