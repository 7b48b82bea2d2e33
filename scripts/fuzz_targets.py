"""What ``fuzz.py`` feeds: everything that reads a file, with valid inputs for it."""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import pickle
import struct
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import torch
from faults import write_letters
from fuzz_mutations import (
    JSON,
    TEXT,
    Mutator,
    in_gzip,
    in_zip,
    mutated_bytes,
    mutated_number,
    packed,
    unpacked,
)
from scipy.sparse import csr_matrix

from privgcn import GraphClassifier, load_corpus
from privgcn.config import Overrides, make_settings, resolve, to_toml
from privgcn.data import Corpus, pokec, reddit
from privgcn.data.mnist import read_idx
from privgcn.data.planetoid import unpickle
from privgcn.errors import PrivGCNError
from privgcn.evidence.attack_record import read_attacks
from privgcn.experiments.declared import read_declared
from privgcn.experiments.store import RecordStore
from privgcn.experiments.tasks import make_task
from privgcn.privacy.ledger import Ledger
from privgcn.privacy.statement import PrivacyStatement
from privgcn.runs.candidates import SearchSpace
from privgcn.runs.folder import read_folder, write_folder
from privgcn.runs.predictions import predict_source
from privgcn.runs.run import verify
from privgcn.training.checkpoint import Checkpoint

Seeds = Callable[[Path], list[bytes]]


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
    seeds: Seeds
    attempt: Callable[[Path, bytes], Any]
    mutators: tuple[Mutator, ...]


def file_target(
    name: str,
    file: str,
    seeds: Seeds | list[bytes],
    read: Callable[[Path], Any],
    mutators: tuple[Mutator, ...],
) -> Target:
    """A target whose input is one file of this name."""

    def attempt(place: Path, data: bytes) -> None:
        (place / file).write_bytes(data)
        read(place / file)

    made = (lambda folder: seeds) if isinstance(seeds, list) else seeds
    return Target(name, made, attempt, mutators)


# A user's folder.

_ROWS = [
    {"id": "1", "text": "one", "label": "a", "split": "train", "owner": "x"},
    {"id": "2", "text": "two", "label": "b", "split": "train", "owner": "y"},
    {"id": "3", "text": "three", "label": "a", "split": "test", "owner": "z"},
    {"id": "4", "text": "four", "label": "b", "split": "validation", "owner": "w"},
]
_LINKS = [{"source": "1", "target": "2"}, {"source": "3", "target": "4"}]


def written(rows: Sequence[Mapping[str, Any]], suffix: str) -> bytes:
    """A table in one of the formats."""
    if suffix == ".jsonl":
        return "".join(json.dumps(row) + "\n" for row in rows).encode()
    content = io.BytesIO()
    frame = pl.DataFrame(list(rows))
    if suffix == ".parquet":
        frame.write_parquet(content)
    else:
        frame.write_csv(content, separator="\t" if suffix == ".tsv" else ",")
    return content.getvalue()


def beside_documents(path: Path) -> Corpus:
    """The corpus of a folder that has links or vectors, and gets documents."""
    (path.parent / "documents.csv").write_bytes(written(_ROWS, ".csv"))
    return load_corpus(path.parent)


def table_target(kind: str, suffix: str) -> Target:
    """Documents or links."""
    alone = kind == "documents"
    rows: Sequence[Mapping[str, Any]] = _ROWS if alone else _LINKS
    bare = [{key: row[key] for key in list(row)[:2]} for row in rows]

    def seeds(folder: Path) -> list[bytes]:
        return [written(each, suffix) for each in (rows, bare, list(rows) * 50)]

    read = (lambda path: load_corpus(path.parent)) if alone else beside_documents
    name = f"{kind}{suffix}"
    return file_target(name, name, seeds, read, JSON if suffix == ".jsonl" else TEXT)


def vector_seeds(folder: Path) -> list[bytes]:
    found = []
    for kind in ("f4", "f8", "i8", "O", "U3", "?"):
        content = io.BytesIO()
        np.save(content, np.ones((4, 3)).astype(kind), allow_pickle=True)
        found.append(content.getvalue())
    content = io.BytesIO()
    np.savez(content, a=np.ones((4, 3)))
    return [*found, content.getvalue()]


def read_vectors(path: Path) -> None:
    corpus = beside_documents(path)
    if corpus.vectors is not None:
        corpus.vectors.sum()


# What a user sets.


def settings_seeds(folder: Path) -> list[bytes]:
    made = [make_settings(recipe, epsilon=1.0) for recipe in ("auto", "paper-split")]
    made.append(make_settings("plain"))
    return [to_toml(settings.model_dump()).encode() for settings in made]


def grid_seeds(folder: Path) -> list[bytes]:
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
    return [seed, seed + many, wide % (names, numbers)]


_SPACES = [
    b'[training]\nreach = [0.5, 1.0, 2.0]\n[features]\nkind = ["hashing", "tfidf"]\n',
    b'"training.reach" = [0.5, 1.0]\n"training.epochs" = [1, 2, 3]\n',
]


def read_space(path: Path) -> None:
    SearchSpace.of("auto", path, []).candidates(make_settings("auto", epsilon=1.0))


# What runs leave.


def folders(folder: Path) -> list[dict[str, bytes]]:
    """The files of a private model and of one without privacy."""
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
        with suppress(PrivGCNError):
            verify(model)
        predict_source(model, str(new), "own-graph")

    name = "models, signed" if signed else "models, unsigned"
    return Target(name, seeds, attempt, (in_zip(*JSON),))


def statement_seeds(folder: Path) -> list[bytes]:
    return [folders(folder)[0]["statement.json"]]


def ledger_seeds(folder: Path) -> list[bytes]:
    path = folder / "ledger.jsonl"
    text = folders(folder)[0]["statement.json"].decode()
    Ledger(path).record(PrivacyStatement.from_json(text))
    return [path.read_bytes(), path.read_bytes() * 2]


def read_ledger(path: Path) -> None:
    """Reads a ledger whose head fits."""
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    Path(f"{path}.head").write_text(digest + "\n")
    Ledger(path).entries()
    Ledger(path).spent(1e-3)


def record_target() -> Target:
    """The records of an experiment."""

    def seeds(folder: Path) -> list[bytes]:
        point = {"dataset": "clinic", "recipe": "auto", "epsilon": 1}
        task = make_task("train", point, [0])
        with RecordStore(folder / "records") as store:
            store.add(task, [{"f1": 0.5}], 1.0)
        with RecordStore(folder / "failed") as store:
            store.fail(task, "a reason")
        made = []
        for place, pattern in (("records", "records/*/*.json"), ("failed", "failures/*.json")):
            (path,) = (folder / place).glob(pattern)
            made.append(packed({str(path.relative_to(folder / place)): path.read_bytes()}))
        return made

    def attempt(place: Path, data: bytes) -> None:
        for name, content in unpacked(data).items():
            parts = Path(name).parts
            if not name.startswith("/") and ".." not in parts and len(name) < 250:
                (place / name).parent.mkdir(parents=True, exist_ok=True)
                (place / name).write_bytes(content)
        with RecordStore(place) as store:
            list(store)

    return Target("experiment records", seeds, attempt, (in_zip(*JSON),))


def checkpoint_target() -> Target:
    """The state of a stopped run."""

    def seeds(folder: Path) -> list[bytes]:
        checkpoint = Checkpoint(folder / "state", {"a": 1})
        checkpoint.write({"steps": torch.tensor(3), "weights": torch.ones(2, 2)})
        return [checkpoint.path.read_bytes()]

    def attempt(place: Path, data: bytes) -> None:
        checkpoint = Checkpoint(place, {"a": 1})
        checkpoint.path.write_bytes(data)
        checkpoint.load()

    return Target("checkpoints", seeds, attempt, TEXT)


def attacks_seeds(folder: Path) -> list[bytes]:
    """What ``privgcn attack`` wrote."""
    measured = [0.5, 0.4, 0.6]
    row = {"attack": "links", "model": "epsilon 1", "inference": "alone", "auc": measured}
    row |= {"tpr": [measured, measured], "positives": 10, "covered": True, "others": None}
    record = {"source": "letters", "epsilon": 1.0, "unit": "document", "shadows": 4}
    return [json.dumps({**record, "column": None, "rows": [row]}).encode()]


# Raw files of datasets.


def pickle_seeds(folder: Path) -> list[bytes]:
    """Planetoid's pickles, and hostile ones."""
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


def reddit_target() -> Target:
    """Reddit's two archives."""

    def seeds(folder: Path) -> list[bytes]:
        draw = np.random.default_rng(0)
        data, graph = io.BytesIO(), io.BytesIO()
        np.savez(
            data,
            feature=draw.standard_normal((120, 4)),
            label=(np.arange(120) % 3).astype("<i4"),
            node_types=np.repeat([1, 2, 3], 40).astype("<i4"),
        )
        row, col = draw.integers(0, 120, (2, 300)).astype("<i4")
        np.savez(graph, row=row, col=col)
        return [packed({"data": data.getvalue(), "graph": graph.getvalue()})]

    def attempt(place: Path, data: bytes) -> None:
        first, second = unpacked_into(place, data, ("data", "graph"), ".npz")
        reddit.prepare(first, second, 0, place)

    inner = in_zip(in_zip(mutated_bytes, mutated_number), mutated_bytes)
    return Target("Reddit archives", seeds, attempt, (inner,))


def pokec_target() -> Target:
    """Pokec's two compressed tables."""

    def seeds(folder: Path) -> list[bytes]:
        lines = []
        for user in range(1, 9):
            row = dict.fromkeys(pokec.COLUMNS, "null")
            row |= {"user_id": str(user), "completion_percentage": "50"}
            row |= {"body": "a <b>word</b>", "pets": (pokec.CATS, pokec.DOGS)[user % 2][0]}
            lines.append("\t".join(row.values()) + "\t\n")
        relations = gzip.compress(b"1\t2\n3\t4\n5\t8\n", mtime=0)
        profiles = gzip.compress("".join(lines).encode(), mtime=0)
        bomb = gzip.compress(bytes(64 << 20), compresslevel=1, mtime=0)
        good = {"profiles": profiles, "relations": relations}
        return [packed(good), packed({**good, "profiles": bomb})]

    def attempt(place: Path, data: bytes) -> None:
        pokec.prepare(*unpacked_into(place, data, ("profiles", "relations")), place)

    inner = in_zip(in_gzip(mutated_bytes), in_gzip(mutated_number), mutated_bytes)
    return Target("Pokec dumps", seeds, attempt, (inner,))


def unpacked_into(
    place: Path, data: bytes, names: tuple[str, str], suffix: str = ""
) -> tuple[Path, Path]:
    """Writes two files of an archive; one that is not there is empty."""
    files = unpacked(data)
    first, second = (place / f"{name}{suffix}" for name in names)
    first.write_bytes(files.get(names[0], b""))
    second.write_bytes(files.get(names[1], b""))
    return first, second


_IMAGES = [gzip.compress(struct.pack(">HBBII", 0, 8, 2, 3, 4) + bytes(12), mtime=0)]
_SUFFIXES = (".jsonl", ".csv", ".tsv", ".parquet")

SETTINGS = file_target(
    "settings (TOML)",
    "settings.toml",
    settings_seeds,
    lambda path: resolve(*Overrides.command_line({}, None, path)),
    TEXT,
)
TARGETS = (
    *(table_target("documents", suffix) for suffix in _SUFFIXES),
    *(table_target("edges", suffix) for suffix in _SUFFIXES),
    file_target("features.npy", "features.npy", vector_seeds, read_vectors, TEXT),
    SETTINGS,
    file_target(
        "experiments (TOML)",
        "grid.toml",
        grid_seeds,
        lambda path: read_declared(path).points(),
        TEXT,
    ),
    file_target("search spaces (TOML)", "space.toml", _SPACES, read_space, TEXT),
    model_target(signed=True),
    model_target(signed=False),
    file_target("statements", "statement.json", statement_seeds, verify, JSON),
    file_target("ledgers", "ledger.jsonl", ledger_seeds, read_ledger, JSON),
    Target("Planetoid pickles", pickle_seeds, lambda place, data: unpickle(data), TEXT),
    reddit_target(),
    pokec_target(),
    Target(
        "MNIST arrays",
        lambda folder: _IMAGES,
        lambda place, data: read_idx(data, "images"),
        (mutated_bytes, in_gzip(mutated_bytes)),
    ),
    record_target(),
    checkpoint_target(),
    file_target("attacks (JSON)", "attacks.json", attacks_seeds, read_attacks, JSON),
)
