"""Files with mistakes, or made by somebody who means harm: one line, little memory."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from data.ways import checked
from privgcn.data import load_corpus
from privgcn.data.check import check_documents
from privgcn.data.parquet import row_groups
from privgcn.errors import DataError

GOOD = "id,text,label\n1,one,a\n2,two,b\n3,three,a\n4,four,b\n"
DIGITS = "7" * 5_000
DEEP = "[" * 100_000

Trick = Callable[[Path], object]


def text(content: str | bytes) -> Trick:
    data = content.encode() if isinstance(content, str) else content
    return lambda path: path.write_bytes(data)


def link(target: str) -> Trick:
    return lambda path: path.symlink_to(target)


def saved(values: Any, kind: Any = None) -> Trick:
    return lambda path: np.save(path, np.array(values, dtype=kind), allow_pickle=True)


def table(**columns: list[Any]) -> Trick:
    return lambda path: pl.DataFrame(columns).write_parquet(path)


def header(shape: str, descr: str = "'<f4'") -> Trick:
    """A ``features.npy`` whose header says anything at all."""
    words = f"{{'descr': {descr}, 'fortran_order': False, 'shape': {shape}, }}".encode()
    return text(b"\x93NUMPY\x02\x00" + len(words).to_bytes(4, "little") + words + bytes(64))


def archive(path: Path) -> None:
    np.savez(path.with_suffix(".npz"), a=np.zeros((4, 1)))
    path.with_suffix(".npz").rename(path)


def broken_parquet(path: Path) -> None:
    """The ends are intact and everything between them is not."""
    table(source=["1"] * 999, target=["2"] * 999)(path)
    data = path.read_bytes()
    path.write_bytes(data[:4] + bytes(byte ^ 0xA5 for byte in data[4:-8]) + data[-8:])


def record(**values: object) -> str:
    return json.dumps({"id": "1", "text": "one", **values}) + "\n"


CSV, JSONL, PARQUET = "documents.csv", "documents.jsonl", "documents.parquet"
EDGES, NUMBERED, VECTORS = "edges.csv", "edges.npy", "features.npy"
# A sentence about a mistake or an attack: the file, its content, words of the answer.
BAD: dict[str, tuple[Any, ...]] = {
    "no id column": (CSV, text("key,text\n1,a\n"), "'id'", "'key'"),
    "column twice": (CSV, text("id,text,text\n1,a,b\n"), "'text' twice"),
    "after line breaks": (CSV, text('id,text\n1,"a\n\nb"\n2,\n'), "'2'", "line 5"),
    "nothing": (CSV, text("\n\n"), "empty", "header"),
    "no records": (JSONL, text(""), "at least one document"),
    "number as text": (JSONL, text('{"id":"1","text":5}\n'), "string", "line 1"),
    "list as id": (JSONL, text(record(id=[1])), "'id'", "line 1"),
    "list as label": (JSONL, text(record(label=["x"])), "'label'", "single value", "line 1"),
    "nested text": (PARQUET, table(id=["1"], text=[["a"]]), "'text'", "strings"),
    "cut json": (JSONL, text(record() + '{"id":"2","te'), "line 2", "cut"),
    "not an object": (JSONL, text("[1]\n"), "line 1", "JSON object", "list"),
    "cut in a row": (CSV, text("id,text,label\n1,a,x\n2,b"), "line 3", "fields", "cut"),
    "too many fields": (CSV, text("id,text\n1,a,b\n"), "line 2", "2 fields", "quotes"),
    "two separators": (CSV, text("id;text,label\n1;a,x\n"), "'id;text', 'label'", "'id'"),
    "a separator twice": (CSV, text("id;text\n1;a\n2,b\n"), "2 fields", "Line 3", "';'"),
    "latin-1": (CSV, text(b"id,text\n1,a\n2,gr\xfcn\n"), "UTF-8", "Line 3", "0xfc", "cp1252"),
    "utf-16": (CSV, text(GOOD.encode("utf-16")), "UTF-8", "Line 1", "encoding utf-16"),
    "a pipe": (CSV, os.mkfifo, "regular file"),
    "no end": (JSONL, link("/dev/zero"), "symbolic link"),
    "a link outside": (CSV, link("/etc/passwd"), "symbolic link"),
    "a long id": (JSONL, text(f'{{"id": {DIGITS}, "text": "a"}}\n'), "Line 1"),
    "a long float": (JSONL, text('{"id": 1, "age": 1e999}\n'), "Line 1"),
    "a long name": (CSV, text(f"{DIGITS},text\n1,a\n"), "'id'"),
    "deep nesting": (JSONL, text(f'{{"id": {DEEP}\n'), "nested too deeply"),
    "half a character": (JSONL, text(record(text="\ud800")), "Line 1"),
    "not a number": (JSONL, text('{"id": 1, "label": NaN}\n'), "Line 1"),
    "terminal codes": (CSV, text("id,text\n\x1b[2J,a\n\x1b[2J,b\n"), "again"),
    "codes in owners": (CSV, text("id,text,owner\n1,a,\x1b[2Jx\n2,b,\x1b[2JX\n"), "and lower"),
    "many keys": (JSONL, text("".join(f'{{"k{n}": 1}}\n' for n in range(5_000))), "columns"),
    "a long line": (JSONL, text(b'{"id": "' + b"a" * (2 << 20)), "longer"),
    "a table as text": (CSV, broken_parquet, "UTF-8"),
    "an unknown format": ("documents.xlsx", text(GOOD), "'documents.xlsx'"),
    "edges: with commas": (EDGES, text("source;target,a\n1;2,1\n"), "'source'", "'1;2'"),
    "edges: the last is cut": (EDGES, text("source,target\n1,2\n1,"), "last line may"),
    "edges: an unknown format": ("edges.json", text("[]"), "'edges.json'"),
    "edges: text as a table": ("edges.parquet", text("source,target\n1,2\n"), "Parquet"),
    "edges: nested": ("edges.parquet", table(source=[["1"]], target=["2"]), "single values"),
    "edges: a name twice": (EDGES, text("source,target, target\n1,2,3\n"), "once"),
    "edges: columns": (NUMBERED, saved(np.zeros((3, 2), int)), "shape", NUMBERED),
    "edges: no document": (NUMBERED, saved([[0, 1], [1, 4]]), "from 0. Got 4", NUMBERED),
    "edges: negative": (NUMBERED, saved([[0, 1], [1, -1]]), "Got -1"),
    "edges: floats": (NUMBERED, saved([[0.0], [1.0]]), "numeric array"),
    "vectors: too few": (VECTORS, saved(np.zeros((3, 2))), "4 documents", "(3, 2)", VECTORS),
    "vectors: flat": (VECTORS, saved(np.zeros(4)), "two-dimensional", "(4,)"),
    "vectors: empty": (VECTORS, saved(np.zeros((4, 0))), "(4, 0)"),
    "vectors: NaN": (VECTORS, saved([[1.0], [np.nan], [0], [0]]), "finite", "Row 1"),
    "vectors: large": (VECTORS, saved([[1.0], [0], [1e300], [0]]), "float32", "Row 2"),
    "vectors: objects": (VECTORS, saved([[None]] * 4, object), "numpy.save"),
    "vectors: wide": (VECTORS, header(f"(4, {10**14})"), "numpy.save"),
    "vectors: digits": (VECTORS, header(f"(4, {DIGITS})"), "numpy.save"),
    "vectors: negative": (VECTORS, header("(-4, -4)"), "features.npy"),
    "vectors: deep": (VECTORS, header("(" * 5_000), "numpy.save"),
    "vectors: records": (VECTORS, header("(4, 1)", "[('a', '<f4')]"), "two-dimensional"),
    "vectors: an archive": (VECTORS, archive, "numpy.save"),
}


# hazard 31
@pytest.mark.parametrize("name", BAD)
def test_a_hostile_file_is_one_printable_line(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: Any, name: str
) -> None:
    monkeypatch.setattr("privgcn.data.readers._MOST_RECORD", 1 << 20)
    file, trick, *words = BAD[name]
    if not file.startswith("documents"):
        (tmp_path / CSV).write_text(GOOD)
    trick(tmp_path / file)
    with pytest.raises(DataError) as caught:
        load_corpus(tmp_path)
    message = checked(caught.value, *words)
    assert "root" not in message.replace(str(tmp_path), "")
    # A check, which goes on, ends as well.
    assert not check_documents(tmp_path).trainable
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize("stem", ["documents", "features", "edges"])
def test_truncated_files(tmp_path: Path, stem: str) -> None:
    table(id=list("1234"), text=["word"] * 4)(tmp_path / PARQUET)
    table(source=list("1234"), target=list("2341"))(tmp_path / "edges.parquet")
    saved(np.zeros((4, 5)))(tmp_path / VECTORS)
    path = next(tmp_path.glob(f"{stem}.*"))
    content = path.read_bytes()
    for size in (0, 3, 60, len(content) // 2, len(content) - 5, len(content) - 1):
        path.write_bytes(content[:size])
        with pytest.raises(DataError) as caught:
            load_corpus(tmp_path)
        checked(caught.value, str(path), "cut")


def test_a_folder_may_be_named_through_a_link(tmp_path: Path) -> None:
    (tmp_path / "letters").mkdir()
    (tmp_path / "letters" / CSV).write_text(GOOD)
    (tmp_path / "link").symlink_to("letters")
    assert len(load_corpus(tmp_path / "link")) == 4


def sparse_jsonl(path: Path) -> None:
    """300 KB of empty records and one wide one; a table of them has 100 million fields."""
    wide = json.dumps({f"k{number}": 1 for number in range(990)})
    path.write_text(f"{wide}\n" + "{}\n" * 100_000)


def zeros(path: Path) -> None:
    """A few kilobytes of Parquet that promise gigabytes."""
    frame = pl.select(pl.zeros(6_000_000, pl.Int8()).alias("id"))
    frame.with_columns(pl.lit("a" * 1_000).alias("text")).write_parquet(path)


BOMBS: dict[str, tuple[str, Trick, str]] = {
    "sparse": (JSONL, sparse_jsonl, "rare columns"),
    "deep": (JSONL, text('{"id": 1, "text": ' + '{"a": [' * 200_000), "nested too deeply"),
    "lines": (CSV, text("id,text\n" + "\n" * 1_000_000), "at least one document"),
    "rows": (PARQUET, zeros, "times its size"),
    "compressed": (PARQUET, table(id=["1"], text=["a" * (150 << 20)]), "times its size"),
    "edges": ("edges.parquet", zeros, "times its size"),
}

READ = """
import resource, sys
import numpy, polars
from privgcn.data import ingest, load_corpus
from privgcn.errors import DataError
polars.DataFrame({"a": ["b"]}).join(polars.DataFrame({"a": ["b"]}), on="a")
used = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
most = used + (400 << 20)
resource.setrlimit(resource.RLIMIT_AS, (most, most))
try:
    load_corpus(sys.argv[1])
except DataError as error:
    print(error)
"""


# hazard 30
@pytest.mark.skipif(sys.platform != "linux", reason="limits memory as Linux does")
@pytest.mark.parametrize("name", BOMBS)
def test_a_small_file_cannot_fill_memory(tmp_path: Path, name: str) -> None:
    file, trick, word = BOMBS[name]
    if not file.startswith("documents"):
        (tmp_path / CSV).write_text(GOOD)
    trick(tmp_path / file)
    assert (tmp_path / file).stat().st_size < 4 << 20
    done = subprocess.run(
        [sys.executable, "-c", READ, str(tmp_path)],
        env={**os.environ, "POLARS_MAX_THREADS": "1", "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    assert word in done.stdout


@pytest.mark.parametrize("kind", ["zstd", "uncompressed", "snappy", "gzip", "lz4"])
def test_the_promised_memory_of_honest_tables_is_near_the_truth(
    kind: Any, tmp_path: Path
) -> None:
    random = np.random.default_rng(0)
    frame = pl.DataFrame(
        {
            "id": np.arange(50_000),
            "text": [f"word {number}" for number in random.integers(0, 10**6, 50_000)],
            "label": ["a", "b"] * 25_000,
            "tags": [["x"]] * 50_000,
        }
    )
    path = tmp_path / PARQUET
    frame.write_parquet(path, compression=kind, row_group_size=7_000)
    groups = row_groups(path.read_bytes())
    assert [rows for rows, _ in groups] == [7_000] * 7 + [1_000]
    needed = sum(memory for _, memory in groups)
    assert 0.3 * frame.estimated_size() < needed < 100 * path.stat().st_size
    assert len(load_corpus(tmp_path)) == 50_000


def test_every_broken_table_is_one_error(tmp_path: Path) -> None:
    path, random = tmp_path / PARQUET, np.random.default_rng(0)
    table(id=list("123"), text=["a", None, "c"])(path)
    content = path.read_bytes()
    broken = [
        {int(at): random.integers(0, 256) for at in random.integers(0, len(content), 3)}
        for _ in range(300)
    ]
    # The reader panics at some of these.
    frame = pl.DataFrame({"id": list("1234"), "text": ["one", None] * 2})
    frame.write_parquet(path, compression="uncompressed")
    plain = path.read_bytes()
    flipped = [{at: plain[at] ^ 64} for at in range(40, 50)]
    for good, changes, must in (
        *((content, b, False) for b in broken),
        *((plain, f, True) for f in flipped),
    ):
        data = bytearray(good)
        for at, byte in changes.items():
            data[at] = byte
        path.write_bytes(data)
        try:
            load_corpus(tmp_path)
        except DataError as error:
            checked(error)
        else:
            assert not must


PIECES = [b"\x00", b"\xff", *b'" , \r ; nan { [ \\ud800 P1 id'.split(b" ")]


@pytest.mark.parametrize("name", [CSV, JSONL])
def test_reading_ends_well_after_whatever_was_wrong(name: str, tmp_path: Path) -> None:
    lines = [record(label="ab"[row % 2], owner=f"P{row}") for row in range(6)]
    good = (GOOD if name == CSV else "".join(lines)).encode()
    random = np.random.default_rng(0)
    options: list[dict[str, Any]] = [{}, {"encoding": "utf-16"}, {"id": "text", "text": "id"}]
    for number in range(90):
        data = bytearray(good)
        for at in random.integers(0, len(data), number % 4 + 1):
            data[at : at + random.integers(0, 4)] = PIECES[random.integers(0, len(PIECES))]
        (tmp_path / name).write_bytes(data)
        check_documents(tmp_path, **options[number % 3])
        try:
            load_corpus(tmp_path, **options[number % 3])
        except DataError as error:
            checked(error)
