"""Whatever the files of a run or a ledger hold: they are read, or refused in one line."""

from __future__ import annotations

import copy
import hashlib
import json
import tomllib
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.numpy import load, save

from builders import run_folder, small_corpus
from privgcn.config import parse_settings, to_toml
from privgcn.errors import PrivGCNError
from privgcn.privacy.ledger import Ledger
from privgcn.privacy.statement import PrivacyStatement
from privgcn.privacy.verify import DIGEST_KEY, model_sha256
from privgcn.runs.folder import (
    MANIFEST,
    MODEL,
    SEEN,
    SETTINGS,
    STATEMENT,
    WEIGHTS,
    read_folder,
)
from privgcn.runs.model import bound_settings
from privgcn.runs.run import Run, verify

ODD = [None, True, -1, 0, 3, 2**53, 10**30, 10**400, 1e308, 0.5, "", "x" * 5000, "\x1b[2J"]
ODD += ["\ud800", "../../x", "matched", "module", "static", [], {}, [[1]], {"kind": "x"}]
PIECES = [b"", b"\x00", b"\xff", b"[" * 3000, b"9" * 5000, b"1e999", b"NaN", b"\\ud800"]
PIECES += [b'"', b"{", b"}", b",", b"\n", b"\x1b[2J", b"null"]
CORPUS = small_corpus()


@st.composite
def edited(draw: Any, tree: Any) -> Any:
    """A tree with some values replaced, removed, repeated or multiplied."""
    tree = copy.deepcopy(tree)
    for _ in range(draw(st.integers(1, 3))):
        places = list(_places(tree))
        if not places:
            break
        node, key = draw(st.sampled_from(places))
        act, old = draw(st.integers(0, 7)), node[key]
        if act == 0:
            del node[key]
        elif act == 1 and isinstance(old, list):
            node[key] = old * 2
        elif act == 2 and type(old) in (int, float):
            node[key] = old * draw(st.sampled_from([-1, 3, 1_000, 10**9]))
        else:
            node[key] = copy.deepcopy(draw(st.sampled_from(ODD)))
    return tree


def _places(tree: Any) -> Iterator[tuple[Any, Any]]:
    if isinstance(tree, dict | list):
        for key in list(tree) if isinstance(tree, dict) else range(len(tree)):
            yield tree, key
            yield from _places(tree[key])


@st.composite
def cut_and_spliced(draw: Any, content: bytes) -> bytes:
    data = bytearray(content)
    for _ in range(draw(st.integers(1, 4))):
        at = draw(st.integers(0, len(data)))
        data[at : at + draw(st.integers(0, 3))] = draw(st.sampled_from(PIECES))
    return bytes(data[: draw(st.sampled_from([None, None, len(data) // 2]))])


@st.composite
def of_a_file(draw: Any, name: str, content: bytes) -> bytes:
    """What somebody who means harm writes in place of a file."""
    if draw(st.booleans()):
        return draw(cut_and_spliced(content))
    with suppress(ValueError, TypeError, AttributeError):
        if name == SETTINGS:
            tree = draw(edited(tomllib.loads(content.decode())))
            return to_toml(tree).encode("utf-8", "surrogatepass")
        size = int.from_bytes(content[:8], "little")
        if name in (WEIGHTS, SEEN):
            header = json.dumps(draw(edited(json.loads(content[8 : 8 + size])))).encode()
            return len(header).to_bytes(8, "little") + header + content[8 + size :]
        return json.dumps(draw(edited(json.loads(content)))).encode()
    return b""


def read_or_refused(*readings: Callable[[], object]) -> None:
    for reading in readings:
        found = None
        try:
            reading()
        except PrivGCNError as error:
            found = error
        assert found is None or (found.exit_code in (2, 3) and str(found).isprintable())


def run_of(files: Mapping[str, bytes]) -> Run:
    """As if a folder held these files under a manifest that fits."""
    run = Run(Path("run"))
    vars(run)["_stored"] = "run", files
    return run


def use(run: Run) -> None:
    read_or_refused(
        lambda: run.verification,
        lambda: run.model().probabilities(CORPUS.test, "own-graph"),
        lambda: run.roles(CORPUS, own=True),
    )


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return run_folder(tmp_path_factory.mktemp("runs") / "run", CORPUS)


@pytest.fixture(scope="module")
def honest(folder: Path) -> dict[str, bytes]:
    return dict(Run(folder).files)


# hazard 30, 31
@pytest.mark.parametrize("name", [MODEL, SETTINGS, STATEMENT, WEIGHTS, SEEN])
@settings(max_examples=40)
@given(data=st.data())
def test_an_edited_file_is_read_or_refused(
    honest: dict[str, bytes], name: str, data: Any
) -> None:
    use(run_of({**honest, name: data.draw(of_a_file(name, honest[name]))}))


@settings(max_examples=40)
@given(data=st.data())
def test_an_edited_manifest_is_read_or_refused(
    folder: Path, tmp_path_factory: pytest.TempPathFactory, data: Any
) -> None:
    content = data.draw(of_a_file(MANIFEST, (folder / MANIFEST).read_bytes()))
    other = tmp_path_factory.mktemp("other")
    (other / MANIFEST).write_bytes(content)
    read_or_refused(lambda: read_folder(other), lambda: verify(other))


# Numbers near the largest overflow, which answers no question and costs nothing.
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@settings(max_examples=60)
@given(data=st.data())
def test_a_model_that_was_edited_and_signed_again_is_read_or_refused(
    honest: dict[str, bytes], data: Any
) -> None:
    """Whoever can rewrite all files can make them fit each other."""
    record, tree = json.loads(honest[MODEL]), tomllib.loads(honest[SETTINGS].decode())
    tensors, claim = (
        load(honest[WEIGHTS]),
        PrivacyStatement.from_json(honest[STATEMENT].decode()),
    )
    what = data.draw(st.sampled_from([MODEL, SETTINGS, WEIGHTS]))
    if what == MODEL:
        record = data.draw(edited(record))
    elif what == SETTINGS:
        tree = data.draw(edited(tree))
    else:
        name = data.draw(st.sampled_from(sorted(tensors)))
        worse = data.draw(st.sampled_from([np.nan, 3e38, 0.0, -1.0]))
        tensors[name] = np.full_like(tensors[name], worse)
    try:
        made, weights = parse_settings(tree), save(tensors)
        digest = model_sha256(weights, record, bound_settings(made))
        content = to_toml(tree).encode("utf-8", "surrogatepass")
    except (PrivGCNError, ValueError, TypeError, UnicodeError):
        return
    facts = {"assumed_public": claim.assumed_public, "not_covered": claim.not_covered}
    own = PrivacyStatement.of(claim.plan, releasable=True, **facts, model_sha256=digest)
    files = {
        MODEL: json.dumps(record).encode(),
        SETTINGS: content,
        WEIGHTS: save(tensors, {DIGEST_KEY: own.digest}),
        STATEMENT: own.to_json().encode(),
    }
    use(run_of({**honest, **files}))


@settings(max_examples=60)
@given(data=st.data())
def test_an_edited_ledger_is_read_or_refused(
    honest: dict[str, bytes], tmp_path_factory: pytest.TempPathFactory, data: Any
) -> None:
    """With a head that fits, or with another."""
    ledger = Ledger(tmp_path_factory.mktemp("ledger") / "ledger.jsonl")
    claim = PrivacyStatement.from_json(honest[STATEMENT].decode())
    ledger.record(claim)
    content = data.draw(of_a_file("ledger.jsonl", ledger.path.read_bytes())) + b"\n"
    ledger.path.write_bytes(content)
    head = hashlib.sha256(content).hexdigest().encode() + b"\n"
    Path(f"{ledger.path}.head").write_bytes(data.draw(st.sampled_from([head, b"\xff"])))
    read_or_refused(lambda: ledger.spent(1e-3), lambda: ledger.record(claim))
