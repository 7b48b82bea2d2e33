"""Whatever the files of a run or a ledger hold: they are read, or refused in one line."""

from __future__ import annotations

import copy
import hashlib
import json
import tomllib
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from random import Random
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
from privgcn.runs.folder import MANIFEST, MODEL, SEEN, SETTINGS, STATEMENT, WEIGHTS, read_folder
from privgcn.runs.run import Run, bound_settings, verify

ODD = [None, True, -1, 0, 3, 2**53, 10**30, 10**400, 1e308, 0.5, "", "x" * 5000, "\x1b[2J"]
ODD += ["\ud800", "../../x", "matched", "module", "static", [], {}, [[1]], {"kind": "x"}]
PIECES = [b"", b"\x00", b"\xff", b"[" * 3000, b"9" * 5000, b"1e999", b"NaN", b"\\ud800"]
PIECES += [b'"', b"{", b"}", b",", b"\n", b"\x1b[2J", b"null"]
CORPUS = small_corpus()
RANDOM = st.integers(0, 2**32).map(Random)


def edited(random: Random, tree: Any) -> Any:
    """A tree with some values replaced, removed, repeated or multiplied."""
    tree = copy.deepcopy(tree)
    for _ in range(random.randint(1, 3)):
        if not tree:
            break
        node, key = _place(random, tree)
        act, old = random.randrange(8), node[key]
        if act == 0:
            del node[key]
        elif act == 1 and isinstance(old, list):
            node[key] = old * 2
        elif act == 2 and type(old) in (int, float):
            node[key] = old * random.choice([-1, 3, 1_000, 10**9])
        else:
            node[key] = copy.deepcopy(random.choice(ODD))
    return tree


def _place(random: Random, tree: Any) -> tuple[Any, Any]:
    """Every level is as likely as a long list at its end."""
    keys = list(tree) if isinstance(tree, dict) else range(len(tree))
    key = random.choice(keys)
    inner = tree[key]
    if isinstance(inner, dict | list) and inner and random.random() < 0.9:
        return _place(random, inner)
    return tree, key


def cut_and_spliced(random: Random, content: bytes) -> bytes:
    data = bytearray(content)
    for _ in range(random.randint(1, 4)):
        at = random.randint(0, len(data))
        data[at : at + random.randint(0, 3)] = random.choice(PIECES)
    return bytes(data[: random.choice([None, None, len(data) // 2])])


def of_a_file(random: Random, name: str, content: bytes) -> bytes:
    """What somebody who means harm writes in place of a file."""
    if random.random() < 0.5:
        return cut_and_spliced(random, content)
    with suppress(ValueError, TypeError, AttributeError):
        if name == SETTINGS:
            tree = edited(random, tomllib.loads(content.decode()))
            return to_toml(tree).encode("utf-8", "surrogatepass")
        size = int.from_bytes(content[:8], "little")
        if name in (WEIGHTS, SEEN):
            header = json.dumps(edited(random, json.loads(content[8 : 8 + size]))).encode()
            return len(header).to_bytes(8, "little") + header + content[8 + size :]
        return json.dumps(edited(random, json.loads(content))).encode()
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
        lambda: run.statement,
        lambda: run.model().probabilities(CORPUS.test, "own-graph"),
        lambda: run.roles(CORPUS, own=True),
    )


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return run_folder(tmp_path_factory.mktemp("runs") / "run", CORPUS)


@pytest.fixture(scope="module")
def honest(folder: Path) -> Run:
    return Run(folder)


# hazard 31
@pytest.mark.parametrize("name", [MODEL, SETTINGS, STATEMENT, WEIGHTS, SEEN])
@settings(max_examples=40)
@given(random=RANDOM)
def test_an_edited_file_is_read_or_refused(honest: Run, name: str, random: Random) -> None:
    use(run_of({**honest.files, name: of_a_file(random, name, honest.content(name))}))


@settings(max_examples=40)
@given(random=RANDOM)
def test_an_edited_manifest_is_read_or_refused(
    folder: Path, tmp_path_factory: pytest.TempPathFactory, random: Random
) -> None:
    content = of_a_file(random, MANIFEST, (folder / MANIFEST).read_bytes())
    other = tmp_path_factory.mktemp("other")
    (other / MANIFEST).write_bytes(content)
    read_or_refused(lambda: read_folder(other), lambda: verify(other))


# Numbers near the largest overflow, which answers no question and costs nothing.
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("what", [MODEL, SETTINGS, WEIGHTS])
@settings(max_examples=30)
@given(random=RANDOM)
def test_a_model_that_was_edited_and_signed_again_is_read_or_refused(
    honest: Run, what: str, random: Random
) -> None:
    """Whoever can rewrite all files can make them fit each other."""
    record, tensors = honest.record(MODEL), load(honest.content(WEIGHTS))
    tree, claim = tomllib.loads(honest.content(SETTINGS).decode()), honest.statement
    assert claim is not None
    if what == MODEL:
        record = edited(random, record)
    elif what == SETTINGS:
        tree = edited(random, tree)
    else:
        name = random.choice(sorted(tensors))
        worse = random.choice([np.nan, 3e38, 0.0, -1.0])
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
    use(run_of({**honest.files, **files}))


@settings(max_examples=60)
@given(random=RANDOM)
def test_an_edited_ledger_is_read_or_refused(
    honest: Run, tmp_path_factory: pytest.TempPathFactory, random: Random
) -> None:
    """With a head that fits, or with another."""
    ledger = Ledger(tmp_path_factory.mktemp("ledger") / "ledger.jsonl")
    claim = honest.statement
    assert claim is not None
    ledger.record(claim)
    content = of_a_file(random, "ledger.jsonl", ledger.path.read_bytes()) + b"\n"
    ledger.path.write_bytes(content)
    head = hashlib.sha256(content).hexdigest().encode() + b"\n"
    Path(f"{ledger.path}.head").write_bytes(random.choice([head, head, b"\xff"]))
    read_or_refused(lambda: ledger.spent(1e-3), lambda: ledger.record(claim))
