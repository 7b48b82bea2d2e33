"""Files made by somebody who means harm: one line, and memory within reason."""

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


def header(shape: str, descr: str = "'<f4'") -> Trick:
    """A ``features.npy`` whose header says anything at all."""
    words = f"{{'descr': {descr}, 'fortran_order': False, 'shape': {shape}, }}".encode()
    return text(b"\x93NUMPY\x02\x00" + len(words).to_bytes(4, "little") + words + bytes(64))


def objects(path: Path) -> None:
    np.save(path, np.array([[None]] * 4, dtype=object), allow_pickle=True)


def archive(path: Path) -> None:
    np.savez(path.with_suffix(".npz"), a=np.zeros((4, 1)))
    path.with_suffix(".npz").rename(path)


def broken_parquet(path: Path) -> None:
    """The ends are intact and everything between them is not."""
    pl.DataFrame({"source": ["1"] * 999, "target": ["2"] * 999}).write_parquet(path)
    data = bytearray(path.read_bytes())
    data[4:-8] = bytes(byte ^ 0xA5 for byte in data[4:-8])
    path.write_bytes(data)


def nested_parquet(path: Path) -> None:
    pl.DataFrame({"source": [["1"]], "target": ["2"]}).write_parquet(path)


def record(**values: object) -> str:
    return json.dumps({"id": "1", "text": "one", **values}) + "\n"


CSV, JSONL, EDGES, VECTORS = "documents.csv", "documents.jsonl", "edges.csv", "features.npy"
# A sentence about what somebody tries: the file, the trick, and a word of the answer.
HOSTILE: dict[str, tuple[str, Trick, str]] = {
    "a pipe": (CSV, os.mkfifo, "regular file"),
    "no end": (JSONL, link("/dev/zero"), "symbolic link"),
    "a link outside": (CSV, link("/etc/passwd"), "symbolic link"),
    "a long id": (JSONL, text(f'{{"id": {DIGITS}, "text": "a"}}\n'), "Line 1"),
    "a long float": (JSONL, text('{"id": 1, "age": 1e999}\n'), "Line 1"),
    "a long id twice": (CSV, text(f"id,text\n{DIGITS},a\n{DIGITS},b\n"), "again"),
    "a long name": (CSV, text(f"{DIGITS},text\n1,a\n"), "'id'"),
    "deep nesting": (JSONL, text(f'{{"id": {DEEP}\n'), "nested too deeply"),
    "half a character": (JSONL, text(record(text="\ud800")), "Line 1"),
    "not a number": (JSONL, text('{"id": 1, "label": NaN}\n'), "Line 1"),
    "terminal codes": (CSV, text("id,text\n\x1b[2J,a\n\x1b[2J,b\n"), "again"),
    "codes in owners": (CSV, text("id,text,owner\n1,a,\x1b[2Jx\n2,b,\x1b[2JX\n"), "and lower"),
    "many columns": (CSV, text(",".join(map(str, range(10**5)))), "columns"),
    "many keys": (JSONL, text("".join(f'{{"k{n}": 1}}\n' for n in range(5_000))), "columns"),
    "a long line": (JSONL, text(b'{"id": "' + b"a" * (2 << 20)), "longer"),
    "a long field": (CSV, text(b"id,text\n1," + b"a" * (2 << 20)), "longer"),
    "not UTF-8": (CSV, text(b"id,text\n1,\xff\n"), "UTF-8"),
    "a table as text": (CSV, broken_parquet, "UTF-8"),
    "an unknown format": ("documents.xlsx", text(GOOD), "'documents.xlsx'"),
    "edges: a pipe": (EDGES, os.mkfifo, "regular file"),
    "edges: an unknown format": ("edges.json", text("[]"), "'edges.json'"),
    "edges: text as a table": ("edges.parquet", text("source,target\n1,2\n"), "Parquet"),
    "edges: a nested table": ("edges.parquet", nested_parquet, "single values"),
    "edges: a long id": (EDGES, text(f"source,target\n1,{DIGITS}\n"), "'target'"),
    "edges: a name twice": (EDGES, text("source,target, target\n1,2,3\n"), "once"),
    "vectors: a pipe": (VECTORS, os.mkfifo, "regular file"),
    "vectors: objects": (VECTORS, objects, "numpy.save"),
    "vectors: wide": (VECTORS, header(f"(4, {10**14})"), "numpy.save"),
    "vectors: overflow": (VECTORS, header(f"({2**62}, {2**62})"), "numpy.save"),
    "vectors: digits": (VECTORS, header(f"(4, {DIGITS})"), "numpy.save"),
    "vectors: negative": (VECTORS, header("(-4, -4)"), "features.npy"),
    "vectors: deep": (VECTORS, header("(" * 5_000), "numpy.save"),
    "vectors: a long header": (VECTORS, header("(4, 1)" + " " * 10**6), "numpy.save"),
    "vectors: records": (VECTORS, header("(4, 1)", "[('a', '<f4')]"), "two-dimensional"),
    "vectors: an archive": (VECTORS, archive, "numpy.save"),
}


# hazard 31
@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_file_is_one_printable_line(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: Any, name: str
) -> None:
    monkeypatch.setattr("privgcn.data.readers._MOST_RECORD", 1 << 20)
    file, trick, word = HOSTILE[name]
    if not file.startswith("documents"):
        (tmp_path / "documents.csv").write_text(GOOD)
    trick(tmp_path / file)
    with pytest.raises(DataError) as caught:
        load_corpus(tmp_path)
    message = checked(caught.value, word)
    assert "root" not in message.replace(str(tmp_path), "")
    # A check, which goes on, ends as well.
    assert not check_documents(tmp_path).trainable
    assert capfd.readouterr() == ("", "")


def test_a_folder_may_be_named_through_a_link(tmp_path: Path) -> None:
    (tmp_path / "letters").mkdir()
    (tmp_path / "letters" / "documents.csv").write_text(GOOD)
    (tmp_path / "link").symlink_to("letters")
    assert len(load_corpus(tmp_path / "link")) == 4


def sparse_jsonl(path: Path) -> None:
    """300 KB of empty records and one wide one; a table of them has 100 million fields."""
    wide = json.dumps({f"k{number}": 1 for number in range(990)})
    path.write_text(f"{wide}\n" + "{}\n" * 100_000)


def deep_jsonl(path: Path) -> None:
    path.write_text('{"id": 1, "text": ' + '{"a": [' * 200_000 + "\n")


def many_lines(path: Path) -> None:
    path.write_text("id,text\n" + "\n" * 1_000_000)


def zeros(rows: int, kind: pl.DataType, **options: object) -> Trick:
    """A few kilobytes of Parquet that promise gigabytes."""

    def write(path: Path) -> None:
        frame = pl.select(pl.zeros(rows, kind).alias("id"))
        frame = frame.with_columns(pl.lit("a" * 1_000).alias("text"))
        frame.write_parquet(path, compression="zstd", **options)  # type: ignore[arg-type]

    return write


def long_text(path: Path) -> None:
    pl.DataFrame({"id": ["1"], "text": ["a" * (150 << 20)]}).write_parquet(path)


BOMBS: dict[str, tuple[str, Trick, str]] = {
    "sparse": ("documents.jsonl", sparse_jsonl, "rare columns"),
    "deep": ("documents.jsonl", deep_jsonl, "nested too deeply"),
    "lines": ("documents.csv", many_lines, "at least one document"),
    "rows": ("documents.parquet", zeros(6_000_000, pl.Int8()), "times its size"),
    "compressed": ("documents.parquet", long_text, "times its size"),
    "edges": ("edges.parquet", zeros(6_000_000, pl.Int8()), "times its size"),
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
    folder = tmp_path / "letters"
    folder.mkdir()
    if not file.startswith("documents"):
        (folder / "documents.csv").write_text(GOOD)
    trick(folder / file)
    assert (folder / file).stat().st_size < 4 << 20
    done = subprocess.run(
        [sys.executable, "-c", READ, str(folder)],
        env={**os.environ, "POLARS_MAX_THREADS": "1", "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    assert word in done.stdout


@pytest.mark.parametrize("kind", ["zstd", "uncompressed", "snappy", "gzip", "lz4"])
def test_the_promised_memory_of_honest_tables_is_near_the_truth(
    kind: str, tmp_path: Path
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
    path = tmp_path / "documents.parquet"
    frame.write_parquet(path, compression=kind, row_group_size=7_000)  # type: ignore[arg-type]
    size = path.stat().st_size
    groups = row_groups(path.read_bytes())
    assert [rows for rows, _ in groups] == [7_000] * 7 + [1_000]
    assert 0.3 * frame.estimated_size() < sum(memory for _, memory in groups) < 100 * size
    assert len(load_corpus(tmp_path)) == 50_000


def test_every_broken_footer_is_one_error(tmp_path: Path) -> None:
    path = tmp_path / "documents.parquet"
    pl.DataFrame({"id": list("123"), "text": list("abc")}).write_parquet(path)
    content = path.read_bytes()
    random = np.random.default_rng(0)
    for _ in range(300):
        data = bytearray(content)
        for at in random.integers(0, len(data), 3):
            data[at] = random.integers(0, 256)
        path.write_bytes(data)
        try:
            load_corpus(tmp_path)
        except DataError as error:
            checked(error)


@pytest.mark.parametrize("name", ["documents.csv", "documents.jsonl"])
def test_reading_ends_well_after_whatever_was_wrong(name: str, tmp_path: Path) -> None:
    lines = [record(label="ab"[row % 2], owner=f"P{row}").encode() for row in range(6)]
    good = GOOD.encode() if name == "documents.csv" else b"".join(lines)
    pieces = [
        b"\x00",
        b"\xff",
        b'"',
        b",",
        b"\r",
        b";",
        b"nan",
        b"{",
        b"[",
        b"\\ud800",
        b"P1",
        b"id",
    ]
    random = np.random.default_rng(0)
    options: list[dict[str, Any]] = [{}, {"encoding": "utf-16"}, {"id": "text", "text": "id"}]
    for number in range(90):
        data = bytearray(good)
        for at in random.integers(0, len(data), number % 4 + 1):
            data[at : at + random.integers(0, 4)] = pieces[random.integers(0, len(pieces))]
        (tmp_path / name).write_bytes(data)
        check_documents(tmp_path, **options[number % 3])
        try:
            load_corpus(tmp_path, **options[number % 3])
        except DataError as error:
            checked(error)
