"""Feeds broken and hostile files to everything that reads one.

    python scripts/fuzz.py [--inputs 2000] [--only WORDS] [--engine own|atheris] [--jobs 4]

An input is a valid file after some mutations; one that reaches lines of the package that none
reached before is kept and mutated further. Each must be read, or refused by an error of our
own, in one line. Anything else is a crash: another exception, a process that dies, more than
10 s of computing, more than 1 GiB of memory, a program or connection started, a pickle that
imports, a file opened outside of the folder. With ``--jobs`` every target is tried twice at
once, from two seeds. Exits with 1 if there was a crash; ``--keep`` names a folder for such
inputs.
"""

from __future__ import annotations

import argparse
import contextlib
import gzip
import importlib.util
import io
import json
import math
import mmap
import os
import pickle
import random
import re
import resource
import signal
import struct
import sys
import tempfile
import time
import traceback
import types
import zipfile
import zlib
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))

from faults import write_letters
from forked import Child, Work, import_everything, side_by_side, start

import privgcn
from privgcn.errors import LONGEST_MESSAGE, PrivGCNError

_SECONDS = 10.0
_SILENT_SECONDS = 60.0
_MEMORY = 1 << 30
_MOST_BYTES = 1 << 20
_MOST_DEATHS = 5
_PACKAGE = str(Path(privgcn.__file__).parent) + os.sep

Mutator = Callable[[random.Random, bytes], bytes]


@dataclass(frozen=True)
class Target:
    """Something that reads a file.

    Attributes:
        name: What is read.
        seeds: Valid inputs, made with the help of a folder.
        attempt: Reads an input in a folder that nothing else uses.
        mutators: How inputs are changed.
    """

    name: str
    seeds: Callable[[Path], list[bytes]]
    attempt: Callable[[Path, bytes], None]
    mutators: tuple[Mutator, ...]


# Mutations.

_TOKENS = (
    *(b"", b"\0", b"\xff", b"\xef\xbb\xbf", b"\n", b"\r\n", b"\t", b'"', b"'", b",", b";"),
    *(b"[", b"]", b"{", b"}", b"[" * 20_000, b'{"a":' * 5_000, b"null", b"true", b"NaN"),
    *(b"inf", b"1e999", b"-1", b"0", b"9" * 30, b"9" * 5_000, b"\\ud800", b"\xed\xa0\x80"),
    *(b"../../../etc/passwd", b"/dev/zero", b"\x1b[2J", b"=cmd|' /C calc'!A0", b"a" * 70_000),
)
_ODD: tuple[Any, ...] = (
    *(None, True, -1, 0, 1, 2, 1e308, -1e308, 5e-324, float("nan"), float("inf")),
    *(2**31, 2**53 + 1, 2**63, 10**30, -(10**30), 0.5, "", "a", "\ud800", "\0", "\x1b[2J"),
    *("../../etc/passwd", "/dev/zero", "a" * 5_000, "1", "nan", [], {}, [[]], [None], {"": 0}),
    *([0] * 5_000, {"a": {"a": {"a": []}}}, ["a", 1, None]),
)
_NUMBER = re.compile(rb"-?\d+(\.\d+)?(e-?\d+)?")


def mutated_bytes(draw: random.Random, data: bytes) -> bytes:
    """Changes, removes, doubles or inserts some bytes anywhere."""
    place = draw.randrange(len(data) + 1)
    length = draw.choice((1, 1, 2, 4, 16, 256, len(data)))
    piece = data[place : place + length]
    kind = draw.randrange(6)
    if kind == 0 and place < len(data):
        changed = bytes([data[place] ^ (1 << draw.randrange(8))])
        return data[:place] + changed + data[place + 1 :]
    if kind == 1:
        return data[:place] + data[place + length :]
    if kind == 2:
        return data[:place] + piece * draw.choice((2, 3, 100)) + data[place + length :]
    if kind == 3:
        return data[:place]
    if kind == 4:
        return data[:place] + draw.randbytes(length % 64) + data[place + length :]
    return data[:place] + draw.choice(_TOKENS) + data[place + draw.choice((0, length)) :]


def mutated_number(draw: random.Random, data: bytes) -> bytes:
    """Puts an odd value in place of a number that is written out."""
    found = list(_NUMBER.finditer(data[: 1 << 16]))
    if not found:
        return mutated_bytes(draw, data)
    chosen = draw.choice(found)
    value = str(draw.choice(_ODD)).encode("utf-8", "replace")
    return data[: chosen.start()] + value + data[chosen.end() :]


def mutated_lines(draw: random.Random, data: bytes) -> bytes:
    """Removes, doubles or swaps lines."""
    lines = data.splitlines(keepends=True) or [b""]
    first, second = draw.randrange(len(lines)), draw.randrange(len(lines))
    kind = draw.randrange(3)
    if kind == 0:
        del lines[first]
    elif kind == 1:
        lines.insert(second, lines[first])
    else:
        lines[first], lines[second] = lines[second], lines[first]
    return b"".join(lines)


def mutated_json(draw: random.Random, data: bytes) -> bytes:
    """Changes one value or name somewhere in a JSON text, or in one of its lines."""
    lines = data.splitlines() if data.count(b"\n{") else [data]
    chosen = draw.randrange(len(lines) or 1)
    try:
        tree = [json.loads(lines[chosen])]
        _change(draw, tree)
        lines[chosen] = json.dumps(tree[0]).encode("utf-8", "surrogatepass")
    except (ValueError, RecursionError, IndexError):
        return mutated_bytes(draw, data)
    return b"\n".join(lines) + b"\n"


def _change(draw: random.Random, tree: Any) -> None:
    while True:
        keys = list(tree) if isinstance(tree, dict) else list(range(len(tree)))
        if not keys:
            return
        key = draw.choice(keys)
        if isinstance(tree[key], dict | list) and tree[key] and draw.random() < 0.8:
            tree = tree[key]
            continue
        kind = draw.randrange(5)
        if kind == 0:
            del tree[key]
        elif kind == 1 and isinstance(tree, dict):
            tree[draw.choice(("", "a", "format", "kind", key + "s"))] = tree.pop(key)
        elif kind == 2 and isinstance(tree, list):
            tree.insert(draw.randrange(len(tree)), tree[draw.randrange(len(tree))])
        else:
            tree[key] = draw.choice(_ODD)
        return


def in_gzip(inner: Mutator) -> Mutator:
    """Mutates what is compressed, not how."""

    def mutated(draw: random.Random, data: bytes) -> bytes:
        try:
            plain = gzip.decompress(data)
        except (OSError, EOFError, zlib.error):
            return mutated_bytes(draw, data)
        return gzip.compress(inner(draw, plain), compresslevel=1, mtime=0)

    return mutated


def in_zip(*inner: Mutator) -> Mutator:
    """Mutates one member of an archive, or its name."""

    def mutated(draw: random.Random, data: bytes) -> bytes:
        try:
            members = unpacked(data)
            name = draw.choice(list(members))
        except (zipfile.BadZipFile, OSError, ValueError, IndexError, zlib.error, RuntimeError):
            return mutated_bytes(draw, data)
        kind = draw.randrange(10)
        if kind == 0:
            del members[name]
        elif kind == 1:
            members[draw.choice(("../escape", "/tmp/escape", "a" * 200, name + "x"))] = b"x"
        else:
            members[name] = draw.choice(inner)(draw, members[name])
        return packed(members)

    return mutated


def packed(members: Mapping[str, bytes]) -> bytes:
    """An archive of some files."""
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w") as archive:
        for name, data in members.items():
            archive.writestr(name, data)
    return content.getvalue()


def unpacked(data: bytes) -> dict[str, bytes]:
    """The files of an archive that ``packed`` made."""
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


# What reads files. Imports are in the functions: the copies of this process have them all.

_ROWS = [
    {"id": "1", "text": "one", "label": "a", "split": "train", "owner": "x"},
    {"id": "2", "text": "two", "label": "b", "split": "train", "owner": "y"},
    {"id": "3", "text": "three", "label": "a", "split": "test", "owner": "z"},
    {"id": "4", "text": "four", "label": "b", "split": "validation", "owner": "w"},
]
_LINKS = [{"source": "1", "target": "2"}, {"source": "3", "target": "4"}]
_TEXT = (mutated_bytes, mutated_lines, mutated_number)
_JSON = (mutated_json, mutated_bytes, mutated_number)


def written(rows: Sequence[Mapping[str, Any]], suffix: str) -> bytes:
    """A table in one of the formats."""
    import polars as pl

    if suffix == ".jsonl":
        return "".join(json.dumps(row) + "\n" for row in rows).encode()
    content = io.BytesIO()
    frame = pl.DataFrame(list(rows))
    if suffix == ".parquet":
        frame.write_parquet(content)
    else:
        frame.write_csv(content, separator="\t" if suffix == ".tsv" else ",")
    return content.getvalue()


def table_target(kind: str, suffix: str, rows: Sequence[Mapping[str, Any]]) -> Target:
    """Documents or links of a user's folder."""
    name = f"{kind}{suffix}"

    def attempt(place: Path, data: bytes) -> None:
        from privgcn.corpus import load_corpus

        if kind != "documents":
            (place / "documents.csv").write_bytes(written(_ROWS, ".csv"))
        (place / name).write_bytes(data)
        load_corpus(place)

    def seeds(folder: Path) -> list[bytes]:
        bare = [{key: row[key] for key in list(row)[:2]} for row in rows]
        return [written(each, suffix) for each in (rows, bare, list(rows) * 50)]

    return Target(name, seeds, attempt, _JSON if suffix == ".jsonl" else _TEXT)


def vectors_target() -> Target:
    """The feature array of a user's folder."""

    def seeds(folder: Path) -> list[bytes]:
        import numpy as np

        found = []
        for kind in ("f4", "f8", "i8", "O", "U3", "?"):
            content = io.BytesIO()
            np.save(content, np.ones((4, 3)).astype(kind), allow_pickle=True)
            found.append(content.getvalue())
        content = io.BytesIO()
        np.savez(content, a=np.ones((4, 3)))
        return [*found, content.getvalue()]

    def attempt(place: Path, data: bytes) -> None:
        from privgcn.corpus import load_corpus

        (place / "documents.csv").write_bytes(written(_ROWS, ".csv"))
        (place / "features.npy").write_bytes(data)
        corpus = load_corpus(place)
        if corpus.vectors is not None:
            corpus.vectors.sum()

    return Target("features.npy", seeds, attempt, _TEXT)


def settings_target() -> Target:
    """A user's settings."""

    def seeds(folder: Path) -> list[bytes]:
        from privgcn.config import to_toml
        from privgcn.training.recipes import make_settings

        made = [make_settings(recipe, epsilon=1.0) for recipe in ("auto", "paper-split")]
        made.append(make_settings("plain"))
        return [to_toml(settings.model_dump()).encode() for settings in made]

    def attempt(place: Path, data: bytes) -> None:
        from privgcn.training.recipes import by_command_line, resolve

        (place / "settings.toml").write_bytes(data)
        resolve(*by_command_line({}, None, place / "settings.toml"))

    return Target("settings (TOML)", seeds, attempt, _TEXT)


def grid_target() -> Target:
    """A user's own experiment."""
    seed = b"""title = "Ours"
seeds = 3
[[grid]]
dataset = ["clinic", "cora"]
recipe = "auto"
epsilon = [1, 2, 4.5]
features = ["hashing", "tfidf"]
fraction = [0.5, 1.0]
[[grid]]
dataset = "clinic"
recipe = "plain"
"""
    many = b"".join(b'a%d = ["x", "y", "z"]\n' % number for number in range(40))
    wide = b'[[grid]]\ndataset = [%s]\nrecipe = "auto"\nepsilon = [%s]\n'
    numbers = b",".join(b"%d" % number for number in range(1, 2000))
    names = b",".join(b'"d%d"' % number for number in range(1, 2000))

    def attempt(place: Path, data: bytes) -> None:
        from privgcn.experiments.declared import read_declared

        (place / "grid.toml").write_bytes(data)
        read_declared(place / "grid.toml").points()

    seeds = [seed, seed + many, wide % (names, numbers)]
    return Target("experiments (TOML)", lambda folder: seeds, attempt, _TEXT)


def space_target() -> Target:
    """What a search chooses among."""
    seed = b'[training]\nreach = [0.5, 1.0, 2.0]\n[features]\nkind = ["hashing", "tfidf"]\n'
    flat = b'"training.reach" = [0.5, 1.0]\n"training.epochs" = [1, 2, 3]\n'

    def attempt(place: Path, data: bytes) -> None:
        from privgcn.runs.candidates import SearchSpace
        from privgcn.training.recipes import make_settings

        (place / "space.toml").write_bytes(data)
        SearchSpace.of("auto", place / "space.toml", []).candidates(
            make_settings("auto", epsilon=1.0)
        )

    return Target("search spaces (TOML)", lambda folder: [seed, flat], attempt, _TEXT)


def folders(folder: Path) -> list[dict[str, bytes]]:
    """The files of a private run, a model without privacy and a release."""
    from privgcn import GraphClassifier, load_corpus
    from privgcn.runs.folder import read_folder

    source = folder / "letters"
    if not source.exists():
        write_letters(source)
        train = load_corpus(source).train
        private = GraphClassifier(epsilon=8.0, delta=1e-2, features="hashing")
        private.fit(train).save(folder / "private")
        plain = GraphClassifier(features="tfidf", settings={"training.epochs": 2})
        plain.fit(train).save(folder / "plain")
    return [dict(read_folder(folder / name).files) for name in ("private", "plain")]


def model_target(*, signed: bool) -> Target:
    """A model folder, with a manifest that fits or as somebody left it."""

    def seeds(folder: Path) -> list[bytes]:
        found = folders(folder)
        if not signed:
            for name, files in zip(("private", "plain"), found, strict=True):
                files["manifest.json"] = (folder / name / "manifest.json").read_bytes()
        return [packed(files) for files in found]

    def attempt(place: Path, data: bytes) -> None:
        from privgcn.runs.folder import write_folder
        from privgcn.runs.predictions import predict_source
        from privgcn.runs.run import verify

        files = unpacked(data)
        model = place / "model"
        if signed:
            write_folder(model, "run", {Path(name).name: c for name, c in files.items()})
        else:
            model.mkdir()
            for name, content in files.items():
                (model / Path(name).name).write_bytes(content)
        new = place / "new"
        new.mkdir()
        (new / "documents.csv").write_text("id,text\n1,one\n2,new\n")
        with contextlib.suppress(PrivGCNError):
            verify(model)
        predict_source(model, str(new), "own-graph")

    inner = in_zip(mutated_json, mutated_bytes, mutated_number)
    name = "models, signed" if signed else "models, unsigned"
    return Target(name, seeds, attempt, (inner,))


def statement_target() -> Target:
    """A statement alone."""

    def seeds(folder: Path) -> list[bytes]:
        return [folders(folder)[0]["statement.json"]]

    def attempt(place: Path, data: bytes) -> None:
        from privgcn.runs.run import verify

        (place / "statement.json").write_bytes(data)
        verify(place / "statement.json")

    return Target("statements", seeds, attempt, _JSON)


def ledger_target() -> Target:
    """A ledger whose head fits."""

    def seeds(folder: Path) -> list[bytes]:
        from privgcn.privacy.ledger import Ledger
        from privgcn.privacy.statement import PrivacyStatement

        path = folder / "ledger.jsonl"
        text = folders(folder)[0]["statement.json"].decode()
        Ledger(path).record(PrivacyStatement.from_json(text))
        return [path.read_bytes(), path.read_bytes() * 2]

    def attempt(place: Path, data: bytes) -> None:
        import hashlib

        from privgcn.privacy.ledger import Ledger

        path = place / "ledger.jsonl"
        path.write_bytes(data)
        Path(f"{path}.head").write_text(hashlib.sha256(data).hexdigest() + "\n")
        Ledger(path).entries()
        Ledger(path).spent(1e-3)

    return Target("ledgers", seeds, attempt, _JSON)


def pickle_target() -> Target:
    """Planetoid's pickles."""

    def seeds(folder: Path) -> list[bytes]:
        import numpy as np
        from scipy.sparse import csr_matrix

        values: list[Any] = [np.eye(3, dtype=np.int32), csr_matrix(np.eye(3)), {0: [1, 2]}]
        made = [pickle.dumps(value, protocol=2) for value in values]
        # As numpy and scipy were called in Python 2.
        for old, new in (
            (b"cnumpy._core.multiarray", b"cnumpy.core.multiarray"),
            (b"cscipy.sparse._csr", b"cscipy.sparse.csr"),
        ):
            made = [data.replace(old, new) for data in made]
        hostile = [b"cos\nsystem\n(S'true'\ntR.", b"c__builtin__\neval\n(S'1+1'\ntR."]
        hostile += [b"cnumpy\nload\n(S'x'\ntR.", b"cbuiltins\n__import__\n(S'os'\ntR."]
        return [*made, *hostile]

    def attempt(place: Path, data: bytes) -> None:
        from privgcn.corpus.planetoid import unpickle

        unpickle(data)

    return Target("Planetoid pickles", seeds, attempt, _TEXT)


def reddit_target() -> Target:
    """Reddit's two archives."""

    def seeds(folder: Path) -> list[bytes]:
        import numpy as np

        draw = np.random.default_rng(0)
        data, graph = io.BytesIO(), io.BytesIO()
        kinds = np.repeat([1, 2, 3], 40).astype("<i4")
        np.savez(
            data,
            feature=draw.standard_normal((120, 4)),
            label=(np.arange(120) % 3).astype("<i4"),
            node_types=kinds,
        )
        row, col = draw.integers(0, 120, (2, 300)).astype("<i4")
        np.savez(graph, row=row, col=col)
        return [packed({"data": data.getvalue(), "graph": graph.getvalue()})]

    def attempt(place: Path, data: bytes) -> None:
        from privgcn.corpus.reddit import prepare

        files = unpacked(data)
        for name in ("data", "graph"):
            (place / f"{name}.npz").write_bytes(files.get(name, b""))
        prepare(place / "data.npz", place / "graph.npz", 0, place)

    inner = in_zip(in_zip(mutated_bytes, mutated_number), mutated_bytes)
    return Target("Reddit archives", seeds, attempt, (inner,))


def pokec_target() -> Target:
    """Pokec's two compressed tables."""

    def seeds(folder: Path) -> list[bytes]:
        from privgcn.corpus.pokec import CATS, COLUMNS, DOGS

        lines = []
        for user in range(1, 9):
            row = dict.fromkeys(COLUMNS, "null")
            row |= {
                "user_id": str(user),
                "completion_percentage": "50",
                "body": "a <b>word</b>",
            }
            row["pets"] = (CATS, DOGS)[user % 2][0]
            lines.append("\t".join(row.values()) + "\t\n")
        relations = gzip.compress(b"1\t2\n3\t4\n5\t8\n", mtime=0)
        profiles = gzip.compress("".join(lines).encode(), mtime=0)
        bomb = gzip.compress(bytes(64 << 20), compresslevel=1, mtime=0)
        good = {"profiles": profiles, "relations": relations}
        return [packed(good), packed({**good, "profiles": bomb})]

    def attempt(place: Path, data: bytes) -> None:
        from privgcn.corpus.pokec import prepare

        files = unpacked(data)
        for name in ("profiles", "relations"):
            (place / name).write_bytes(files.get(name, b""))
        prepare(place / "profiles", place / "relations", place)

    inner = in_zip(in_gzip(mutated_bytes), in_gzip(mutated_number), mutated_bytes)
    return Target("Pokec dumps", seeds, attempt, (inner,))


def images_target() -> Target:
    """MNIST's compressed arrays."""
    seed = gzip.compress(struct.pack(">HBBII", 0, 8, 2, 3, 4) + bytes(12), mtime=0)

    def attempt(place: Path, data: bytes) -> None:
        from privgcn.corpus.mnist import read_idx

        read_idx(data, "images")

    return Target(
        "MNIST arrays", lambda f: [seed], attempt, (mutated_bytes, in_gzip(mutated_bytes))
    )


def record_target() -> Target:
    """The records of an experiment."""

    def seeds(folder: Path) -> list[bytes]:
        from privgcn.experiments.store import RecordStore
        from privgcn.experiments.tasks import make_task

        point = {"dataset": "clinic", "recipe": "auto", "epsilon": 1}
        task = make_task("train", point, [0])
        with RecordStore(folder / "records") as store:
            store.add(task, [{"f1": 0.5}], 1.0)
        (found,) = (folder / "records" / "records").glob("*/*.json")
        name = str(found.relative_to(folder / "records"))
        with RecordStore(folder / "failed") as store:
            store.fail(task, "a reason")
        (failure,) = (folder / "failed" / "failures").glob("*.json")
        return [
            packed({name: found.read_bytes()}),
            packed({str(failure.relative_to(folder / "failed")): failure.read_bytes()}),
        ]

    def attempt(place: Path, data: bytes) -> None:
        from privgcn.experiments.store import RecordStore

        for name, content in unpacked(data).items():
            parts = Path(name).parts
            if not name.startswith("/") and ".." not in parts and len(name) < 250:
                (place / name).parent.mkdir(parents=True, exist_ok=True)
                (place / name).write_bytes(content)
        with RecordStore(place) as store:
            list(store)

    inner = in_zip(mutated_json, mutated_bytes, mutated_number)
    return Target("experiment records", seeds, attempt, (inner,))


def checkpoint_target() -> Target:
    """The state of a stopped run."""

    def seeds(folder: Path) -> list[bytes]:
        import torch

        from privgcn.training.checkpoint import Checkpoint

        checkpoint = Checkpoint(folder / "state", {"a": 1})
        checkpoint.write({"steps": torch.tensor(3), "weights": torch.ones(2, 2)})
        return [checkpoint.path.read_bytes()]

    def attempt(place: Path, data: bytes) -> None:
        from privgcn.training.checkpoint import Checkpoint

        checkpoint = Checkpoint(place, {"a": 1})
        checkpoint.path.write_bytes(data)
        checkpoint.load()

    return Target("checkpoints", seeds, attempt, _TEXT)


def attacks_target() -> Target:
    """What ``privgcn attack`` wrote."""
    measured = [0.5, 0.4, 0.6]
    row = {"attack": "links", "model": "epsilon 1", "inference": "alone", "auc": measured}
    row |= {"tpr": [measured, measured], "positives": 10, "covered": True, "others": None}
    record = {"source": "letters", "epsilon": 1.0, "unit": "document", "shadows": 4}
    seed = json.dumps({**record, "column": None, "rows": [row]}).encode()

    def attempt(place: Path, data: bytes) -> None:
        from privgcn.evidence.attack_record import read_attacks

        (place / "attacks.json").write_bytes(data)
        read_attacks(place / "attacks.json")

    return Target("attacks (JSON)", lambda folder: [seed], attempt, _JSON)


TARGETS = (
    *(table_target("documents", s, _ROWS) for s in (".jsonl", ".csv", ".tsv", ".parquet")),
    *(table_target("edges", s, _LINKS) for s in (".jsonl", ".csv", ".tsv", ".parquet")),
    vectors_target(),
    settings_target(),
    grid_target(),
    space_target(),
    model_target(signed=True),
    model_target(signed=False),
    statement_target(),
    ledger_target(),
    pickle_target(),
    reddit_target(),
    pokec_target(),
    images_target(),
    record_target(),
    checkpoint_target(),
    attacks_target(),
)


# What no input may do.

_FORBIDDEN = {
    *("os.exec", "os.fork", "os.forkpty", "os.kill", "os.posix_spawn", "os.spawn", "os.system"),
    *(
        "subprocess.Popen",
        "socket.bind",
        "socket.connect",
        "urllib.Request",
        "pickle.find_class",
    ),
}
_CHANGES = {"os.chmod", "os.mkdir", "os.remove", "os.rename", "os.rmdir", "os.link"}
_READABLE = tuple(
    {
        sys.prefix,
        sys.base_prefix,
        str(Path(privgcn.__file__).parents[1]),
        "/proc",
        "/sys",
        "/etc/ld",
    }
    | {"/usr", "/lib", os.devnull}
    | {os.path.realpath(place) for place in sys.path if place}
)


class Guard:
    """Watches what a process does while an input is read."""

    def __init__(self, place: Path) -> None:
        self.place = str(place)
        self.watching = False
        self.seen: list[str] = []
        sys.addaudithook(self._hook)

    def _hook(self, event: str, given: tuple[Any, ...]) -> None:
        if not self.watching:
            return
        if event in _FORBIDDEN:
            self.seen.append(f"{event} {given!r:.200}")
        elif event in _CHANGES and given[-1] in (None, -1):
            # Otherwise the name is one in a folder that is open, and was looked at then.
            self._inside(event, given[0], ())
        elif event == "open" and not isinstance(given[0], int):
            writes = isinstance(given[2], int) and given[2] & (
                os.O_WRONLY | os.O_RDWR | os.O_CREAT
            )
            self._inside("open", given[0], () if writes else _READABLE)

    def _inside(self, event: str, path: Any, others: tuple[str, ...]) -> None:
        if path is None:
            return
        real = os.path.abspath(os.fsdecode(path))
        if not real.startswith((self.place, *others)):
            self.seen.append(f"{event} {real:.200}")


class TooSlowError(BaseException):
    """An input took too long; nothing in between may swallow that."""


def _too_slow(number: int, frame: types.FrameType | None) -> None:
    raise TooSlowError


def attempted(target: Target, guard: Guard, place: Path, data: bytes) -> tuple[str, str]:
    """Reads one input: ``read``, ``refused`` or ``crash``, and why."""
    for path in sorted(place.rglob("*"), reverse=True):
        path.rmdir() if path.is_dir() and not path.is_symlink() else path.unlink()
    guard.seen.clear()
    outcome, why = "read", ""
    signal.setitimer(signal.ITIMER_PROF, _SECONDS)
    guard.watching = True
    try:
        target.attempt(place, data)
    except PrivGCNError as error:
        outcome = "refused"
        said = str(error)
        if not (0 < len(said) <= LONGEST_MESSAGE and said.isprintable()):
            outcome = "crash"
            why = f"a message of {len(said)} characters that is not one short line"
    except _Unusable:
        outcome = "refused"
    except TooSlowError:
        outcome, why = "crash", f"more than {_SECONDS:g} s"
    except BaseException as error:
        frames = traceback.extract_tb(error.__traceback__)
        ours = [f for f in frames if f.filename.startswith(_PACKAGE)] or frames
        where = f"{Path(ours[-1].filename).name}:{ours[-1].lineno}"
        outcome, why = "crash", f"{type(error).__name__} at {where}: {error!s:.200}"
    finally:
        guard.watching = False
        signal.setitimer(signal.ITIMER_PROF, 0.0)
    if guard.seen:
        return "crash", guard.seen[0]
    return outcome, why


# An archive that carries several files to a target must itself be whole.
_Unusable = (zipfile.BadZipFile,)


@dataclass
class Lines:
    """Lines of the package that ran."""

    ever: set[tuple[types.CodeType, int]] = field(default_factory=set)
    now: set[tuple[types.CodeType, int]] = field(default_factory=set)

    def _inner(self, frame: types.FrameType, event: str, value: Any) -> Any:
        self.now.add((frame.f_code, frame.f_lineno))
        return self._inner

    def _outer(self, frame: types.FrameType, event: str, value: Any) -> Any:
        return self._inner if frame.f_code.co_filename.startswith(_PACKAGE) else None

    @contextlib.contextmanager
    def traced(self) -> Iterator[None]:
        """Collects the lines that run in the block."""
        self.now = set()
        sys.settrace(self._outer)
        try:
            yield
        finally:
            sys.settrace(None)

    def new(self) -> bool:
        """Whether the last block ran lines that none ran before."""
        more = not self.now <= self.ever
        self.ever |= self.now
        return more


@dataclass
class Session:
    """One target in one process after another, until enough inputs were tried."""

    target: Target
    folder: Path
    seed: int
    tried: int = 0
    counts: dict[str, int] = field(default_factory=dict)
    crashes: dict[str, bytes] = field(default_factory=dict)
    lines: int = 0
    deaths: int = 0

    def run(self, inputs: int, engine: str, until: float) -> None:
        """Tries so many inputs."""
        shared = mmap.mmap(-1, 64)
        while self.tried < inputs and self.deaths <= _MOST_DEATHS and time.monotonic() < until:
            shared[:8] = bytes(8)
            left = inputs - self.tried
            work = partial(self._own if engine == "own" else self._atheris, shared, left, until)
            child = start(work, self.folder / "log")
            code, died = self._watched(child, shared)
            self.tried += struct.unpack("<q", shared[:8])[0]
            self._collect()
            if died or code != 0:
                self.deaths += 1
                current = self.folder / "current"
                words = "no answer" if died else f"the process ended with {code}"
                last = child.said.strip().splitlines()[-1:] or [""]
                data = current.read_bytes() if current.exists() else b""
                self.crashes[f"{words}: {last[0]:.200}"] = data

    def _watched(self, child: Child, shared: mmap.mmap) -> tuple[int, bool]:
        seen, since = shared[:8], time.monotonic()
        while (code := child.ended()) is None:
            time.sleep(0.01)
            if shared[:8] != seen:
                seen, since = shared[:8], time.monotonic()
            elif time.monotonic() - since > _SILENT_SECONDS:
                return child.kill(), True
        return code, False

    def _collect(self) -> None:
        found = self.folder / "found.json"
        if found.exists():
            record = json.loads(found.read_text())
            for name, count in record["counts"].items():
                self.counts[name] = self.counts.get(name, 0) + count
            self.lines = max(self.lines, record["lines"])
            for why, data in record["crashes"].items():
                self.crashes[why] = bytes.fromhex(data)
            found.unlink()

    def _limited(self) -> tuple[Guard, Path]:
        place = self.folder / "place"
        place.mkdir(exist_ok=True)
        pages = int(Path("/proc/self/statm").read_text().split()[0])
        most = pages * resource.getpagesize() + _MEMORY
        resource.setrlimit(resource.RLIMIT_AS, (most, most))
        signal.signal(signal.SIGPROF, _too_slow)
        tempfile.tempdir = str(place)
        return Guard(place), place

    def _seeds(self) -> list[bytes]:
        folder = self.folder / "seeds"
        folder.mkdir(exist_ok=True)
        return self.target.seeds(folder)

    def _own(self, shared: mmap.mmap, inputs: int, until: float) -> None:
        """Mutates what reached new lines."""
        draw = random.Random(self.seed + self.deaths)
        pool = self._seeds()
        guard, place = self._limited()
        lines = Lines()
        counts: dict[str, int] = {}
        crashes: dict[str, str] = {}

        def told() -> None:
            record = {"counts": counts, "crashes": crashes, "lines": len(lines.ever)}
            (self.folder / "found.new").write_text(json.dumps(record))
            os.replace(self.folder / "found.new", self.folder / "found.json")

        waiting = list(pool)
        for number in range(1, inputs + 1):
            if time.monotonic() > until:
                break
            if waiting:
                data = waiting.pop()
            else:
                data = draw.choice(pool)
                for _ in range(draw.choice((1, 1, 1, 2, 4))):
                    data = draw.choice(self.target.mutators)(draw, data)[:_MOST_BYTES]
            (self.folder / "current").write_bytes(data)
            with lines.traced():
                outcome, why = attempted(self.target, guard, place, data)
            if lines.new() and len(data) <= 1 << 16:
                pool.append(data)
            counts[outcome] = counts.get(outcome, 0) + 1
            if outcome == "crash":
                crashes.setdefault(why, data.hex())
            if outcome == "crash" or number % 100 == 0:
                told()
            shared[:8] = struct.pack("<q", number)
        told()

    def _atheris(self, shared: mmap.mmap, inputs: int, until: float) -> None:
        """Leaves the mutations to libFuzzer; a crash ends the process."""
        import atheris

        for name, module in list(sys.modules.items()):
            if name.startswith("privgcn."):
                _instrument(atheris, module)
        corpus = self.folder / "corpus"
        corpus.mkdir(exist_ok=True)
        for number, data in enumerate(self._seeds()):
            (corpus / str(number)).write_bytes(data)
        guard, place = self._limited()
        tried = 0

        def one(data: bytes) -> None:
            nonlocal tried
            (self.folder / "current").write_bytes(data)
            outcome, why = attempted(self.target, guard, place, data)
            tried += 1
            shared[:8] = struct.pack("<q", tried)
            if outcome == "crash":
                print(why, flush=True)
                os._exit(77)
            if time.monotonic() > until:
                os._exit(0)

        names = [sys.argv[0], f"-atheris_runs={inputs}", "-max_len=65536", "-rss_limit_mb=0"]
        atheris.Setup([*names, f"-artifact_prefix={self.folder}/", str(corpus)], one)
        atheris.Fuzz()


def _instrument(atheris: Any, module: types.ModuleType) -> None:
    for owner in (module, *(v for v in vars(module).values() if isinstance(v, type))):
        if getattr(owner, "__module__", module.__name__) == module.__name__:
            for value in list(vars(owner).values()):
                function = getattr(value, "__func__", value)
                if getattr(function, "__module__", None) == module.__name__ and isinstance(
                    function, types.FunctionType
                ):
                    atheris.instrument_func(function)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--inputs", type=int, default=2_000, help="for each target")
    parser.add_argument("--only", default="", help="targets whose name holds these words")
    parser.add_argument("--engine", choices=("own", "atheris"), default="own")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--minutes", type=float, default=1e9, help="stop after so long")
    parser.add_argument("--jobs", type=int, default=1, help="processors to keep busy")
    parser.add_argument("--keep", type=Path, help="write inputs that crash into this folder")
    parser.add_argument("--json", type=Path, help="write the counts here")
    chosen = parser.parse_args(arguments)
    if chosen.engine == "atheris" and importlib.util.find_spec("atheris") is None:
        print("Error: atheris is not installed. Use --engine own.", file=sys.stderr)
        return 2
    import_everything()
    begun = time.monotonic()
    targets = [target for target in TARGETS if chosen.only in target.name]
    shares = 1 if chosen.jobs == 1 else 2
    works = deque(
        Work(target.name, 1, partial(_tried, target, chosen, chosen.seed + number, shares))
        for target in targets
        for number in range(shares)
    )
    # Each gets its share of the time, so that none is left out.
    turns = max(1, math.ceil(len(works) / chosen.jobs))
    chosen.seconds = 60.0 * chosen.minutes / turns
    record: dict[str, Any] = {}
    with tempfile.TemporaryDirectory(prefix="privgcn-fuzz-") as folder:
        for work, found, error in side_by_side(works, chosen.jobs, Path(folder)):
            if error is not None:
                found = {"inputs": 0, "crashes": {error: ""}, "counts": {}, "lines": 0}
            each = record.setdefault(
                work.name, {"inputs": 0, "crashes": 0, "lines": 0, "found": []}
            )
            each["inputs"] += found["inputs"]
            each["lines"] = max(each["lines"], found["lines"])
            for name, count in found["counts"].items():
                each[name] = each.get(name, 0) + count
            new = {
                why: data for why, data in found["crashes"].items() if why not in each["found"]
            }
            each["found"] += list(new)
            each["crashes"] = len(each["found"])
            print(
                f"{work.name:<24}{found['inputs']:>8} inputs{found['lines']:>7} lines"
                f"{len(new):>4} crashes",
                flush=True,
            )
            for why, data in new.items():
                print(f"    {why}")
                if chosen.keep is not None:
                    chosen.keep.mkdir(parents=True, exist_ok=True)
                    name = f"{work.name} {zlib.crc32(why.encode()):08x}".replace(" ", "-")
                    (chosen.keep / name).write_bytes(bytes.fromhex(data))
            if chosen.json is not None:
                text = json.dumps(_record(record, chosen.engine, begun), indent=1)
                chosen.json.write_text(text + "\n")
    total = _record(record, chosen.engine, begun)["total"]
    print(f"{total['inputs']} inputs, {total['crashes']} crashes, {total['seconds']:.0f} s.")
    return int(total["crashes"] > 0)


def _tried(target: Target, chosen: argparse.Namespace, seed: int, shares: int) -> Any:
    """What a share of a target's inputs came to."""
    until = time.monotonic() + max(1.0, chosen.seconds)
    with tempfile.TemporaryDirectory(prefix="privgcn-fuzz-") as folder:
        session = Session(target, Path(folder), seed)
        session.run(chosen.inputs // shares, chosen.engine, until)
    return {
        "inputs": session.tried,
        "counts": session.counts,
        "lines": session.lines,
        "crashes": {why: data.hex() for why, data in session.crashes.items()},
    }


def _record(targets: Mapping[str, Any], engine: str, begun: float) -> dict[str, Any]:
    total = {
        "inputs": sum(each["inputs"] for each in targets.values()),
        "crashes": sum(each["crashes"] for each in targets.values()),
        "engine": engine,
        "seconds": round(time.monotonic() - begun, 1),
    }
    order = [target.name for target in TARGETS if target.name in targets]
    return {"total": total, "targets": {name: targets[name] for name in order}}


if __name__ == "__main__":
    sys.exit(main())
