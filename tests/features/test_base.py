from __future__ import annotations

import numpy as np
import pytest
from tests.features.documents import of_texts, of_vectors

from privgcn.errors import DataError
from privgcn.features import base, featurizer_from_state, make_featurizer


def test_given_vectors_always_name_where_they_come_from():
    own = of_vectors(np.eye(3, 5, dtype=np.float32))
    made = make_featurizer(None, {}, own).fit(own)
    assert (made.kind, made.dimension) == ("given", 5)
    assert made.transform(own) is own.vectors
    assert "unknown" in made.learned
    known = of_vectors(own.vectors, "counts")
    assert "counts" in make_featurizer(None, {}, known).fit(known).learned
    again = featurizer_from_state(made.state())
    assert again.learned == made.learned
    for other, got in ((of_vectors(np.zeros((2, 4))), "Got 4"), (of_texts("a"), "no vectors")):
        with pytest.raises(DataError, match=f"must have 5 numbers.*{got}"):
            again.transform(other)


def test_what_a_kind_needs_is_named():
    with pytest.raises(DataError, match="need vectors"):
        make_featurizer("given", None, of_texts("a")).fit(of_texts("a"))
    with pytest.raises(DataError, match="need texts"):
        make_featurizer("hashing", None, of_texts("a")).fit(of_vectors(np.zeros((2, 2))))


def test_many_dense_rows_lie_in_a_nameless_file(monkeypatch, tmp_path):
    corpus = of_texts("One heart.", "A sonata.", "Another letter.")
    made = make_featurizer("static", None, corpus).fit(corpus)
    rows = made.transform(corpus)
    monkeypatch.setattr(base, "ON_DISK", 1)
    monkeypatch.setattr(base.PublicVectors, "_chunk", 2)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    on_disk = made.transform(corpus)
    assert isinstance(on_disk, np.memmap)
    assert list(tmp_path.iterdir()) == []
    assert np.array_equal(on_disk, rows)
    # Empty arrays need no file.
    assert made.transform(of_texts()).shape == (0, 256)


# hazard 29
@pytest.mark.parametrize(
    "name",
    ["../secret", "/etc", "a/../../b", "..", "", "~/x", "http://host/x", "a/b/c", "a\x00b"],
)
def test_a_name_in_a_model_file_leads_nowhere_outside_a_folder(name, tmp_path):
    (tmp_path / "secret").mkdir()
    (tmp_path / "home" / "a").mkdir(parents=True)
    assert base.in_folder(name, tmp_path / "home") is None
    assert base.in_folder("a", tmp_path / "home") == tmp_path / "home" / "a"


def test_class_names_are_encoded_as_words():
    made = make_featurizer("static", None, of_texts("a")).fit(of_texts("a"))
    joined, plain = (made.names_encoded([f"Neural{sign}Networks"]) for sign in "_ ")
    assert np.array_equal(joined, plain)
