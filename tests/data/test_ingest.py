"""Files as people export them: their formats, habits and mistakes."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from data.ways import FILES, Columns, checked, place, read, write
from privgcn.data import load_corpus
from privgcn.data.corpus import Strings
from privgcn.errors import DataError

GOOD = "id,text,label\n1,one,a\n2,two,b\n3,three,a\n4,four,b\n"


def refused(folder: Path, *words: str) -> str:
    with pytest.raises(DataError) as caught:
        load_corpus(folder)
    return checked(caught.value, *words)


def test_excel_habits_are_fine(tmp_path: Path) -> None:
    """A byte order mark, CRLF or CR alone, blank lines, spaces in the header, long texts."""
    tmp_path.joinpath("documents.csv").write_bytes(
        b'\xef\xbb\xbfid, text,label\r\n1,"a\r\n\r\nb",x\r\n\r\n2,c,y\r\n'
    )
    tmp_path.joinpath("edges.csv").write_bytes(b"\xef\xbb\xbfsource,target\r\n1,2\r\n")
    corpus = load_corpus(tmp_path)
    assert corpus.texts == ("a\r\n\r\nb", "c")
    assert corpus.edges.shape == (2, 1)
    long = "word " * 40_000
    (tmp_path / "documents.csv").write_text(f"id,text,z,a\r1,{long},,\r2,b,,\r", newline="")
    corpus = load_corpus(tmp_path)
    assert corpus.texts == (long, "b")
    assert list(corpus.columns) == ["z", "a"]


@pytest.mark.parametrize("way", FILES)
def test_numbers_in_ids_labels_and_columns_are_strings(way: str, tmp_path: Path) -> None:
    columns: Columns = {
        "id": list(range(4)),
        "text": ["x"] * 4,
        "label": [0, 1, 0, 1],
        "ward": [0.0, 1.5, 3.0, 4.5],
    }
    corpus = read(way, tmp_path, columns, {"source": [0, 1], "target": [2, 3]})
    assert list(corpus.ids) == ["0", "1", "2", "3"]
    assert corpus.classes == ("0", "1")
    assert list(corpus.columns["ward"]) == ["0.0", "1.5", "3.0", "4.5"]
    assert corpus.edges.tolist() == [[0, 1], [2, 3]]


def test_jsonl_fields_may_differ_between_lines(tmp_path: Path) -> None:
    (tmp_path / "documents.jsonl").write_text(
        '{"id": "a", "text": "x\\u2028y", "label": 1}\n\n'
        '{"id": 2, "text": "y", "label": "1", "tags": ["q", 1]}\n'
        '{"id": 3, "text": "z", "label": true}\n'
    )
    corpus = load_corpus(tmp_path)
    assert corpus.classes == ("1", "true")
    assert list(corpus.columns["tags"]) == ["", '["q", 1]', ""]
    assert corpus.texts is not None
    assert corpus.texts[0] == "x\u2028y"


@pytest.mark.parametrize("way", FILES)
def test_large_files_are_read_in_blocks_and_their_texts_stay_on_disk(
    way: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, most in (("readers._ROWS_AT_ONCE", 3), ("readers._BYTES_AT_ONCE", 1)):
        monkeypatch.setattr(f"privgcn.data.{name}", most)
    monkeypatch.setattr("privgcn.data.corpus._MOST_IN_MEMORY", 10)
    columns: Columns = {
        "id": [str(row) for row in range(10)],
        "text": [f"text \u00e4 {row}" for row in range(10)],
        "rare": [None] * 9 + ["here"],
    }
    edges: Columns = {"source": ["0"] * 10, "target": [str(row) for row in range(10)]}

    def written() -> Path:
        for stem, own in (("documents", columns), ("edges", edges)):
            path = write(tmp_path, stem, way, own)
            if way == "parquet":
                pl.read_parquet(path).write_parquet(path, row_group_size=3)
        return tmp_path

    corpus = load_corpus(written())
    assert isinstance(corpus.texts, Strings)
    assert not isinstance(corpus.texts.data, bytes)
    assert corpus.texts == tuple(columns["text"])
    assert corpus.select([9, 0, 5]).texts == tuple(columns["text"][row] for row in (9, 0, 5))
    assert list(corpus.ids) == columns["id"]
    assert list(corpus.columns["rare"]) == [""] * 9 + ["here"]
    assert corpus.edges.tolist() == [[0] * 9, list(range(1, 10))]
    edges["target"][2] = edges["target"][8] = "x"
    refused(written(), "'x'", place(way, 2), "2 in all")
    columns["text"][4] = columns["text"][7] = None
    refused(written(), "'text'", place(way, 4), "2 in all")


READ = """
import resource, sys
from privgcn.data import corpus, ingest, load_corpus, readers
readers._BYTES_AT_ONCE = corpus._MOST_IN_MEMORY = 1 << 20
def peak():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
load_corpus(sys.argv[1])
before = peak()
texts = load_corpus(sys.argv[2]).texts
assert sum(map(len, texts)) == 64 << 20
print(peak() - before)
"""


@pytest.mark.parametrize("way", FILES)
def test_a_large_file_is_never_in_memory_as_a_whole(way: str, tmp_path: Path) -> None:
    for name, count in (("small", 10), ("large", 1 << 13)):
        columns = {
            "id": list(range(count)),
            "text": [f"{row:08}" * 1024 for row in range(count)],
        }
        path = write(tmp_path / name, "documents", way, columns)
        if way == "parquet":
            frame = pl.read_parquet(path)
            frame.write_parquet(path, compression="uncompressed", row_group_size=64)
    done = subprocess.run(
        [sys.executable, "-c", READ, str(tmp_path / "small"), str(tmp_path / "large")],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) < 32 << 10  # KiB, half of the file


def test_vectors_stand_in_for_texts_and_large_ones_stay_in_their_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("privgcn.data.readers._MOST_IN_MEMORY", 10)
    monkeypatch.setattr("privgcn.data.readers._BYTES_AT_ONCE", 64)
    (tmp_path / "documents.csv").write_text("id,label\n1,a\n2,b\n3,a\n4,b\n")
    rows = np.arange(12, dtype=np.float32).reshape(4, 3)
    np.save(tmp_path / "features.npy", rows)
    vectors, texts = load_corpus(tmp_path).vectors, load_corpus(tmp_path).texts
    assert texts is None
    assert isinstance(vectors, np.memmap)
    np.testing.assert_array_equal(vectors, rows)
    np.save(tmp_path / "features.npy", np.asfortranarray(rows.astype(np.float64)))
    assert not isinstance(load_corpus(tmp_path).vectors, np.memmap)
    assert load_corpus(tmp_path).vectors.dtype == np.float32
    np.testing.assert_array_equal(load_corpus(tmp_path).vectors, rows)
    rows[3, 1] = np.nan
    np.save(tmp_path / "features.npy", rows)
    refused(tmp_path, "Row 3", "finite")


@pytest.mark.parametrize(
    ("array", "words"),
    [
        (np.zeros((3, 2)), ["4 documents", "(3, 2)"]),
        (np.zeros(4), ["two-dimensional", "(4,)"]),
        (np.zeros((4, 0)), ["(4, 0)"]),
        (np.array([["a"]] * 4), ["numeric"]),
        (np.array([[1.0], [np.nan], [0], [0]]), ["finite", "Row 1"]),
        (np.array([[1.0], [0], [1e300], [0]]), ["float32", "Row 2"]),
        (np.array([[None]] * 4, dtype=object), ["numpy.save"]),
    ],
)
def test_bad_vectors(tmp_path: Path, array: np.ndarray, words: list[str]) -> None:
    (tmp_path / "documents.csv").write_text(GOOD)
    np.save(tmp_path / "features.npy", array, allow_pickle=True)
    refused(tmp_path, str(tmp_path / "features.npy"), *words)


@pytest.mark.parametrize("stem", ["documents", "features", "edges"])
def test_truncated_files(tmp_path: Path, stem: str) -> None:
    frame = pl.DataFrame({"id": list("1234"), "text": ["word"] * 4})
    frame.write_parquet(tmp_path / "documents.parquet")
    frame.rename({"id": "source", "text": "target"}).write_parquet(tmp_path / "edges.parquet")
    np.save(tmp_path / "features.npy", np.zeros((4, 5)))
    path = next(tmp_path.glob(f"{stem}.*"))
    content = path.read_bytes()
    for size in (0, 3, 60, len(content) // 2, len(content) - 5, len(content) - 1):
        path.write_bytes(content[:size])
        refused(tmp_path, str(path), "cut")


def test_nested_parquet_columns(tmp_path: Path) -> None:
    pl.DataFrame({"id": ["1"], "text": ["a"], "tags": [["p", "q"]]}).write_parquet(
        tmp_path / "documents.parquet"
    )
    assert list(load_corpus(tmp_path).columns["tags"]) == ['["p", "q"]']
    pl.DataFrame({"id": ["1"], "text": [["a"]]}).write_parquet(tmp_path / "documents.parquet")
    refused(tmp_path, "'text'", "strings")


def test_which_file_is_meant_must_be_clear(tmp_path: Path) -> None:
    names = "documents.jsonl, documents.csv, documents.tsv, documents.parquet"
    refused(tmp_path, names, "none")
    (tmp_path / "documents.csv").write_text(GOOD)
    (tmp_path / "documents.jsonl").write_text('{"id": 1, "text": "a"}')
    refused(tmp_path, names, "'documents.csv' and 'documents.jsonl'", "all but one")
    (tmp_path / "documents.jsonl").unlink()
    # A copy in another format does no harm.
    for name in ("documents.xlsx", "documents.csv~", "edges.csv", "edges.csv.bak"):
        (tmp_path / name).write_text("source,target\n")
    assert len(load_corpus(tmp_path)) == 4


def test_spreadsheets_write_semicolons_where_a_comma_marks_decimals(tmp_path: Path) -> None:
    text = '\ufeffid;text;"size; in m";label\r\n1;a, b;"1,5";x\r\n2;"c;d";2,5;y\r\n'
    (tmp_path / "documents.csv").write_bytes(text.encode())
    corpus = load_corpus(tmp_path)
    assert corpus.texts == ("a, b", "c;d")
    assert list(corpus.columns["size; in m"]) == ["1,5", "2,5"]
    assert corpus.summary.endswith("0 edges. Semicolons separate 'documents.csv'.")
    (tmp_path / "edges.csv").write_text("source;target\n1;2\n")
    both = load_corpus(tmp_path)
    assert both.edges.T.tolist() == [[0, 1]]
    assert both.summary.endswith("Semicolons separate 'edges.csv'.")
    # Beside commas they belong to a name.
    for name in ('"a;b"', "a;b"):
        (tmp_path / "documents.csv").write_text(f"id,text,{name}\n1,x,2\n2,y,3\n")
        assert list(load_corpus(tmp_path).columns) == ["a;b"]


CSV, JSONL = "documents.csv", "documents.jsonl"
# Mistakes that only a file can make: its name, content, words of the message.
BAD: dict[str, tuple[str, str, list[str]]] = {
    "no id column": (CSV, "key,text\n1,a\n", ["'id'", "'key'"]),
    "column twice": (CSV, "id,text,text\n1,a,b\n", ["'text' twice"]),
    "after line breaks": (CSV, 'id,text\n1,"a\n\nb"\n2,\n', ["'2'", "line 5"]),
    "nothing": (CSV, "\n\n", ["empty", "header"]),
    "no records": (JSONL, "", ["at least one document"]),
    "number as text": (JSONL, '{"id":"1","text":5}\n', ["string", "line 1"]),
    "list as id": (JSONL, '{"id":[1],"text":"a"}\n', ["'id'", "line 1"]),
    "list as label": (
        JSONL,
        '{"id":"1","label":["x"]}\n',
        ["'label'", "single value", "line 1"],
    ),
    "cut json": (JSONL, '{"id":"1","text":"a"}\n{"id":"2","te', ["line 2", "cut"]),
    "not an object": (JSONL, "[1]\n", ["line 1", "JSON object", "list"]),
    "cut in quotes": (CSV, 'id,text\n1,"a\nb"\n2,"c\nd', ["line 4", "cut"]),
    "cut in a row": (CSV, "id,text,label\n1,a,x\n2,b", ["line 3", "fields", "cut"]),
    "too many fields": (CSV, "id,text\n1,a,b\n", ["line 2", "2 fields", "quotes"]),
    "semicolons and commas": (
        CSV,
        "id;text,label\n1;a,x\n",
        ["'id;text', 'label'", "'id'"],
    ),
    "semicolons in some lines": (CSV, "id;text\n1;a\n2,b\n", ["2 fields", "Line 3", "';'"]),
    "edges with commas": ("edges.csv", "source;target,a\n1;2,1\n", ["'source'", "'1;2'"]),
}


@pytest.mark.parametrize("case", BAD)
def test_a_bad_file_gets_one_clear_error(tmp_path: Path, case: str) -> None:
    name, content, words = BAD[case]
    (tmp_path / "documents.csv").write_text(GOOD)
    if name.startswith("documents"):
        (tmp_path / "documents.csv").unlink()
    (tmp_path / name).write_text(content)
    refused(tmp_path, str(tmp_path / name), *words)


@pytest.mark.parametrize("name", ["documents.jsonl", "documents.csv"])
def test_wrong_encoding(tmp_path: Path, name: str) -> None:
    good = '{"id": 1, "text": "a"}\n' if name.endswith("l") else "id,text\n1,a\n"
    (tmp_path / name).write_bytes((good + "2,gr\u00fcn\n").encode("latin-1"))
    line = good.count("\n") + 1
    refused(tmp_path, name, "UTF-8", f"Line {line}", "0xfc")
    (tmp_path / name).write_bytes(good.encode("utf-16"))
    refused(tmp_path, "UTF-8", "Line 1")
