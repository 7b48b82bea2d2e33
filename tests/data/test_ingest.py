"""Files as people export them: their formats and habits, and sizes beyond memory."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from data.ways import FILES, Columns, place, read, refused, write
from privgcn.data import load_corpus
from privgcn.data.corpus import Strings
from privgcn.errors import DataError
from privgcn.storage import mapping

GOOD = "id,text,label\n1,one,a\n2,two,b\n3,three,a\n4,four,b\n"


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


def test_spreadsheets_write_semicolons_where_a_comma_marks_decimals(tmp_path: Path) -> None:
    text = '\ufeffid;text;"size; in m";label\r\n1;a, b;"1,5";x\r\n2;"c;d";2,5;y\r\n'
    (tmp_path / "documents.csv").write_bytes(text.encode())
    (tmp_path / "edges.csv").write_text("source;target\n1;2\n")
    corpus = load_corpus(tmp_path)
    assert corpus.texts == ("a, b", "c;d")
    assert list(corpus.columns["size; in m"]) == ["1,5", "2,5"]
    assert corpus.edges.T.tolist() == [[0, 1]]
    assert corpus.remarks == (
        "Semicolons separate 'documents.csv'.",
        "Semicolons separate 'edges.csv'.",
    )
    # Beside commas they belong to a name.
    for name in ('"a;b"', "a;b"):
        (tmp_path / "documents.csv").write_text(f"id,text,{name}\n1,x,2\n2,y,3\n")
        assert list(load_corpus(tmp_path).columns) == ["a;b"]


@pytest.mark.parametrize("way", FILES)
def test_numbers_in_ids_labels_and_columns_are_strings(way: str, tmp_path: Path) -> None:
    columns: Columns = {"id": [*range(4)], "text": ["x"] * 4, "label": [0, 1, 0, 1]}
    columns["ward"] = [0.0, 1.5, 3.0, 4.5]
    corpus = read(way, tmp_path, columns, {"source": [0, 1], "target": [2, 3]})
    assert list(corpus.ids) == ["0", "1", "2", "3"]
    assert corpus.classes == ("0", "1")
    assert list(corpus.columns["ward"]) == ["0.0", "1.5", "3.0", "4.5"]
    assert corpus.edges.tolist() == [[0, 1], [2, 3]]


def test_fields_may_differ_between_lines_and_be_lists(tmp_path: Path) -> None:
    (tmp_path / "documents.jsonl").write_text(
        '{"id": "a", "text": "x\\u2028y", "label": 1}\n\n'
        '{"id": 2, "text": "y", "label": "1", "tags": ["q", 1]}\n'
        '{"id": 3, "text": "z", "label": true}\n'
    )
    corpus = load_corpus(tmp_path)
    assert corpus.classes == ("1", "true")
    assert list(corpus.columns["tags"]) == ["", '["q", 1]', ""]
    assert corpus.texts == ("x\u2028y", "y", "z")
    nested = pl.DataFrame({"id": ["1"], "text": ["a"], "tags": [["p", "q"]]})
    nested.write_parquet(tmp_path / "nested.parquet")
    assert list(load_corpus(tmp_path / "nested.parquet").columns["tags"]) == ['["p", "q"]']


@pytest.mark.parametrize("way", FILES)
def test_large_files_are_read_in_blocks_and_their_texts_stay_on_disk(
    way: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, most in (("readers._ROWS_AT_ONCE", 3), ("readers._BYTES_AT_ONCE", 1)):
        monkeypatch.setattr(f"privgcn.data.{name}", most)
    monkeypatch.setattr("privgcn.storage.MOST_IN_MEMORY", 10)
    columns: Columns = {
        "id": [str(row) for row in range(10)],
        "text": [f"text \u00e4 {row}" for row in range(10)],
        "rare": [None] * 9 + ["here"],
    }
    edges: Columns = {"source": ["0"] * 10, "target": [str(row) for row in range(10)]}
    corpus = read(way, tmp_path, columns, edges, row_group_size=3)
    assert isinstance(corpus.texts, Strings)
    assert mapping(corpus.texts.data) is not None
    assert corpus.texts == tuple(columns["text"])
    assert corpus.select([9, 0, 5]).texts == tuple(columns["text"][row] for row in (9, 0, 5))
    assert list(corpus.ids) == columns["id"]
    assert list(corpus.columns["rare"]) == [""] * 9 + ["here"]
    assert corpus.edges.tolist() == [[0] * 9, list(range(1, 10))]
    edges["target"][2] = edges["target"][8] = "x"
    bad = {"columns": columns, "edges": edges, "row_group_size": 3}
    refused(way, tmp_path, "'x'", place(way, 2), "2 in all", **bad)
    columns["text"][4] = columns["text"][7] = None
    refused(way, tmp_path, "'text'", place(way, 4), "2 in all", **bad)


READ = """
import resource, sys
from privgcn import storage
from privgcn.data import ingest, load_corpus, readers
readers._BYTES_AT_ONCE = storage.MOST_IN_MEMORY = 1 << 20
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
    paths = []
    for count in (10, 1 << 13):
        columns = {"id": [*range(count)], "text": [f"{n:08}" * 1024 for n in range(count)]}
        paths.append(write(tmp_path / str(count), "documents", way, columns, 64).parent)
    done = subprocess.run(
        [sys.executable, "-c", READ, *paths], capture_output=True, text=True, check=True
    )
    assert int(done.stdout) < 32 << 10  # KiB, half of the file


def test_vectors_stand_in_for_texts_and_large_ones_stay_in_their_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("privgcn.data.readers._BYTES_AT_ONCE", 64)
    (tmp_path / "documents.csv").write_text("id,label\n1,a\n2,b\n3,a\n4,b\n")
    rows = np.arange(12, dtype=np.float32).reshape(4, 3)
    for saved, mapped in ((rows, True), (np.asfortranarray(rows.astype(np.float64)), False)):
        np.save(tmp_path / "features.npy", saved)
        corpus = load_corpus(tmp_path)
        assert corpus.texts is None
        assert isinstance(corpus.vectors, np.memmap) == mapped
        assert corpus.vectors.dtype == np.float32
        np.testing.assert_array_equal(corpus.vectors, rows)
    rows[3, 1] = np.nan
    np.save(tmp_path / "features.npy", rows)
    with pytest.raises(DataError, match=r"finite .* Row 3"):
        load_corpus(tmp_path)


def test_which_file_is_meant_must_be_clear(tmp_path: Path) -> None:
    names = "documents.jsonl, documents.csv, documents.tsv, documents.parquet"
    with pytest.raises(DataError, match=f"{names}. Got none"):
        load_corpus(tmp_path)
    (tmp_path / "documents.csv").write_text(GOOD)
    (tmp_path / "documents.jsonl").write_text('{"id": 1, "text": "a"}')
    with pytest.raises(DataError, match=f"{names}. Got 'documents.csv' and 'documents.jsonl'"):
        load_corpus(tmp_path)
    (tmp_path / "documents.jsonl").unlink()
    # Nor are edges under another name ignored without a word.
    (tmp_path / "links.csv").write_text("source,target\n1,2\n")
    (remark,) = load_corpus(tmp_path).remarks or ()
    assert remark.startswith("There are no edges, and nothing is read from 'links.csv'. If")
    corpus = load_corpus(tmp_path, edges=tmp_path / "links.csv")
    assert (corpus.edges.shape[1], corpus.remarks) == (1, ())
    # A copy in another format does no harm.
    for name in ("documents.xlsx", "documents.csv~", "edges.csv", "edges.csv.bak"):
        (tmp_path / name).write_text("source,target\n")
    assert len(load_corpus(tmp_path)) == 4
