from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from tests.features.documents import of_texts, of_vectors

from privgcn.errors import DataError
from privgcn.features import base, featurizer_from_state, make_featurizer


def test_given_vectors_always_name_where_they_come_from() -> None:
    own = of_vectors(np.eye(3, 5, dtype=np.float32))
    made = make_featurizer(None, {}, own).fit(own)
    assert made.kind == "given"
    assert made.dimension == 5
    assert made.transform(own) is own.vectors
    assert made.learned is not None
    assert "unknown" in made.learned
    known = of_vectors(own.vectors, "counts")
    published = make_featurizer(None, {}, known).fit(known)
    assert published.learned is not None
    assert "counts" in published.learned
    again = featurizer_from_state(made.state())
    assert again.learned == made.learned
    with pytest.raises(DataError, match="must have 5 numbers"):
        again.transform(of_vectors(np.zeros((2, 4), dtype=np.float32)))


def test_what_a_kind_needs_is_named() -> None:
    with pytest.raises(DataError, match="need vectors"):
        make_featurizer("given", None, of_texts("a")).fit(of_texts("a"))
    with pytest.raises(DataError, match="need texts"):
        make_featurizer("hashing", None, of_texts("a")).fit(of_vectors(np.zeros((2, 2))))


def test_many_dense_rows_lie_in_a_nameless_file(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
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
def test_a_name_in_a_model_file_leads_nowhere_outside_a_folder(
    name: str, tmp_path: Path
) -> None:
    (tmp_path / "secret").mkdir()
    (tmp_path / "home" / "a").mkdir(parents=True)
    assert base.in_folder(name, tmp_path / "home") is None
    assert base.in_folder("a", tmp_path / "home") == tmp_path / "home" / "a"


def test_class_names_are_encoded_as_words() -> None:
    made = make_featurizer("static", None, of_texts("a")).fit(of_texts("a"))
    assert isinstance(made, base.PublicVectors)
    joined, plain = (made.names_encoded([f"Neural{sign}Networks"]) for sign in "_ ")
    assert np.array_equal(joined, plain)
