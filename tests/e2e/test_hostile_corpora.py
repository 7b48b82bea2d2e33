"""Documents, links and vectors made by somebody who means harm: one line, exit code 2."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from privgcn.cli import main

GOOD = "id,text,label\n1,one,a\n2,two,b\n3,three,a\n4,four,b\n"
DIGITS = "7" * 5_000
DEEP = "[" * 100_000

Trick = Callable[[Path], None]


def text(content: str | bytes) -> Trick:
    data = content.encode() if isinstance(content, str) else content
    return lambda path: path.write_bytes(data) and None


def zero(path: Path) -> None:
    path.symlink_to("/dev/zero")


def nowhere(path: Path) -> None:
    path.symlink_to("nowhere")


def header(shape: str, descr: str = "'<f4'") -> Trick:
    """A ``features.npy`` whose header says anything at all."""
    words = f"{{'descr': {descr}, 'fortran_order': False, 'shape': {shape}, }}".encode()
    return text(b"\x93NUMPY\x02\x00" + len(words).to_bytes(4, "little") + words + bytes(64))


def objects(path: Path) -> None:
    np.save(path, np.array([[None]] * 4, dtype=object), allow_pickle=True)


def archive(path: Path) -> None:
    np.savez(path.with_suffix(".npz"), a=np.zeros((4, 1)))
    path.with_suffix(".npz").rename(path)


def half_parquet(path: Path) -> None:
    frame = pl.DataFrame({"id": [str(row) for row in range(4)], "text": ["word"] * 4})
    frame.write_parquet(path)
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


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


# For each file the tricks, and a word of the answer.
DOCUMENTS: dict[str, tuple[str, Trick, str]] = {
    "pipe": ("documents.csv", os.mkfifo, "regular file"),
    "endless": ("documents.jsonl", zero, "regular file"),
    "folder": ("documents.parquet", Path.mkdir, "regular file"),
    "link to nothing": ("documents.csv", nowhere, "does not exist"),
    "long id": ("documents.jsonl", text(f'{{"id": {DIGITS}, "text": "a"}}\n'), "Line 1"),
    "long number": ("documents.jsonl", text(f'{{"id": 1, "age": {DIGITS}}}\n'), "Line 1"),
    "long float": ("documents.jsonl", text('{"id": 1, "age": 1e999}\n'), "Line 1"),
    "long id twice": ("documents.csv", text(f"id,text\n{DIGITS},a\n{DIGITS},b\n"), "again"),
    "long name": ("documents.csv", text(f"{DIGITS},text\n1,a\n"), "'id'"),
    "deep": ("documents.jsonl", text(f'{{"id": {DEEP}\n'), "nested too deeply"),
    "half a character": ("documents.jsonl", text(record(text="\ud800")), "Line 1"),
    "half a name": ("documents.jsonl", text(record(**{"\ud800": "a"})), "Line 1"),
    "not a number": ("documents.jsonl", text('{"id": 1, "label": NaN}\n'), "null"),
    "terminal codes": ("documents.csv", text("id,text\n\x1b[2J,a\n\x1b[2J,b\n"), "again"),
    "lines in ids": ("documents.csv", text('id,text\n"a\nb",a\n"a\nb",b\n'), "again"),
    "many columns": ("documents.csv", text(",".join(map(str, range(10**5)))), "columns"),
    "many keys": (
        "documents.jsonl",
        text("".join(f'{{"id": {row}, "k{row}": 1}}\n' for row in range(5_000))),
        "columns",
    ),
    "long line": ("documents.jsonl", text(b'{"id": "' + b"a" * (70 << 20)), "longer"),
    "long field": ("documents.csv", text(b"id,text\n1," + b"a" * (70 << 20)), "limit"),
    "not UTF-8": ("documents.csv", text(b"id,text\n1,\xff\n"), "UTF-8"),
    "NUL": ("documents.csv", text(b"id,text\n1,a\0b\n"), "0x00"),
    "ragged": ("documents.csv", text("id,text\n1,a\n2,b,c\n"), "Line 3"),
    "half a table": ("documents.parquet", half_parquet, "cut"),
    "text as a table": ("documents.parquet", text(GOOD), "Parquet"),
    "table as text": ("documents.csv", half_parquet, "UTF-8"),
    "unknown format": ("documents.xlsx", text(GOOD), "'documents.xlsx'"),
}
LINKS: dict[str, tuple[str, Trick, str]] = {
    "pipe": ("edges.csv", os.mkfifo, "regular file"),
    "endless": ("edges.parquet", zero, "regular file"),
    "folder": ("edges.tsv", Path.mkdir, "regular file"),
    "unknown format": ("edges.json", text("[]"), "'edges.json'"),
    "text as a table": ("edges.parquet", text("source,target\n1,2\n"), "Parquet"),
    "broken table": ("edges.parquet", broken_parquet, "Parquet"),
    "nested table": ("edges.parquet", nested_parquet, "single values"),
    "table as text": ("edges.csv", broken_parquet, "UTF-8"),
    "semicolons": ("edges.csv", text("source;target,x\n1;2,3\n"), "semicolons"),
    "ragged": ("edges.csv", text("source,target\n1,2\n3,4,1\n"), "edges.csv"),
    "long id": ("edges.csv", text(f"source,target\n1,{DIGITS}\n"), "'target'"),
    "long number": ("edges.jsonl", text(f'{{"source": 1, "target": {DIGITS}}}\n'), "Line 1"),
    "name twice": ("edges.csv", text("source,target, target\n1,2,3\n"), "once"),
    "list as id": ("edges.jsonl", text('{"source": 1, "target": [2]}\n'), "'target'"),
    "not UTF-8": ("edges.tsv", text(b"source\ttarget\n1\t\xff\n"), "UTF-8"),
    "NUL": ("edges.csv", text(b"source,target\n1,2\0\n"), "0x00"),
    "many columns": ("edges.csv", text(",".join(map(str, range(10**4)))), "columns"),
}
VECTORS: dict[str, tuple[str, Trick, str]] = {
    "pipe": ("features.npy", os.mkfifo, "regular file"),
    "endless": ("features.npy", zero, "regular file"),
    "folder": ("features.npy", Path.mkdir, "regular file"),
    "objects": ("features.npy", objects, "numpy.save"),
    "wide": ("features.npy", header(f"(4, {10**14})"), "numpy.save"),
    "wide and long": ("features.npy", header(f"({10**12}, {10**9})"), "numpy.save"),
    "overflow": ("features.npy", header(f"({2**62}, {2**62})"), "numpy.save"),
    "digits": ("features.npy", header(f"(4, {DIGITS})"), "numpy.save"),
    "negative": ("features.npy", header("(-4, -4)"), "features.npy"),
    "words": ("features.npy", header("('a', 'b')"), "numpy.save"),
    "deep": ("features.npy", header("(" * 5_000), "numpy.save"),
    "long header": ("features.npy", header("(4, 1)" + " " * 10**6), "numpy.save"),
    "records": ("features.npy", header("(4, 1)", "[('a', '<f4')]"), "two-dimensional"),
    "archive": ("features.npy", archive, "numpy.save"),
    "unknown format": ("features.npz", text(b"PK"), "'features.npz'"),
}
HOSTILE = {
    f"{kind}: {name}": case
    for kind, cases in (("documents", DOCUMENTS), ("links", LINKS), ("vectors", VECTORS))
    for name, case in cases.items()
}


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_corpus_is_one_line(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
    name: str,
) -> None:
    file, trick, word = HOSTILE[name]
    folder = tmp_path / "letters"
    folder.mkdir()
    if not file.startswith("documents"):
        (folder / "documents.csv").write_text(GOOD)
    trick(folder / file)
    out = tmp_path / "run"
    monkeypatch.setattr(sys, "argv", ["privgcn", "train", str(folder), "--out", str(out)])
    with pytest.raises(SystemExit) as stop:
        main()
    said = capfd.readouterr()
    assert stop.value.code == 2, said.err
    assert said.out == ""
    assert said.err.startswith("Error: ")
    assert said.err.count("\n") == 1
    assert said.err[:-1].isprintable()
    assert len(said.err) < 1_000
    assert word in said.err
    assert not out.exists()


def test_data_that_are_not_here_have_their_own_code(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "privgcn", "train", "cora"],
        env={**os.environ, "PRIVGCN_DATA": str(tmp_path)},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 3
    assert done.stderr.startswith("Error: The dataset 'cora' is not on this machine")
    assert done.stderr.count("\n") == 1
