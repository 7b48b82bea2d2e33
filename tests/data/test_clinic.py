from __future__ import annotations

import numpy as np
import pytest
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
