from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from privgcn.data import Corpus, ReadReport, load_corpus
from privgcn.errors import DataError

RECORDS = [
    {"id": "007", "text": "one, two", "label": "a", "owner": "p"},
    {"id": "8", "text": 'say "hi"\nagain', "label": "b", "owner": "p"},
    {"id": "ä", "text": "drei", "label": "a", "owner": "q"},
    {"id": "10", "text": "vier", "label": "b", "owner": "r"},
]


def write(folder: Path, kind: str, records: list[dict[str, object]] = RECORDS) -> Path:
    folder.mkdir(exist_ok=True)
    frame = pl.DataFrame(records)
    if kind == "jsonl":
        lines = [json.dumps(record) for record in records]
        (folder / "documents.jsonl").write_text("\n".join(lines) + "\n", encoding="utf-8")
    elif kind == "csv":
        frame.write_csv(folder / "documents.csv")
    else:
        frame.write_parquet(folder / "documents.parquet")
    return folder


def refused(folder: Path, *words: str, **options: object) -> str:
    with pytest.raises(DataError) as caught:
        load_corpus(folder, **options)  # type: ignore[arg-type]
    message = str(caught.value)
    assert caught.value.exit_code == 2
    for word in words:
        assert word.lower() in message.lower()
    assert "\n" not in message
    return message


@pytest.mark.parametrize("kind", ["jsonl", "csv", "parquet"])
def test_the_three_formats_give_the_same_corpus(tmp_path: Path, kind: str) -> None:
    folder = write(tmp_path / "letters", kind)
    (folder / "edges.csv").write_text("source,target\n007,8\n8,007\n8,8\nä,10\n", "utf-8")
    corpus = load_corpus(folder)
    assert corpus.name == "letters"
    assert list(corpus.ids) == ["007", "8", "ä", "10"]
    assert corpus.texts is not None
    assert corpus.texts[1] == 'say "hi"\nagain'
    assert corpus.classes == ("a", "b")
    assert corpus.labels.tolist() == [0, 1, 0, 1]
    assert corpus.edges.tolist() == [[0, 2], [1, 3]]
    assert corpus.owner_names == ("p", "q", "r")
    assert not corpus.owners_cross_splits
    assert corpus.facts.split_origin == "random"
    assert not corpus.facts.classes_declared
    assert not corpus.facts.synthetic
    assert corpus.facts.source == str(folder)


def test_numbers_in_ids_labels_and_columns_are_read_as_strings(tmp_path: Path) -> None:
    rows = [{"id": row, "text": "x", "label": row % 2, "ward": 1.5 * row} for row in range(4)]
    for kind in ("jsonl", "csv", "parquet"):
        folder = write(tmp_path / kind, kind, rows)  # type: ignore[arg-type]
        pl.DataFrame({"source": [0, 1], "target": [2, 3]}).write_parquet(
            folder / "edges.parquet"
        )
        corpus = load_corpus(folder)
        assert list(corpus.ids) == ["0", "1", "2", "3"]
        assert corpus.classes == ("0", "1")
        assert list(corpus.columns["ward"]) == ["0.0", "1.5", "3.0", "4.5"]
        assert corpus.edges.tolist() == [[0, 1], [2, 3]]


def test_excel_habits_are_fine(tmp_path: Path) -> None:
    """A byte order mark, CRLF, blank lines and spaces in the header."""
    tmp_path.joinpath("documents.csv").write_bytes(
        b'\xef\xbb\xbfid, text,label\r\n1,"a\r\nb",x\r\n\r\n2,c,y\r\n'
    )
    tmp_path.joinpath("edges.csv").write_bytes(b"\xef\xbb\xbfsource,target\r\n1,2\r\n")
    corpus = load_corpus(tmp_path)
    assert corpus.texts == ("a\r\nb", "c")
    assert corpus.edges.shape == (2, 1)


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


def test_columns_keep_the_order_of_the_file(tmp_path: Path) -> None:
    names = [f"column{number}" for number in range(20)]
    record = {"id": "1", "text": "a", **dict.fromkeys(names, "x")}
    (tmp_path / "documents.jsonl").write_text(json.dumps(record))
    assert list(load_corpus(tmp_path).columns) == names


def test_long_texts_are_read(tmp_path: Path) -> None:
    rows = [
        {"id": str(row), "text": "word " * 40_000, "label": "ab"[row % 2]} for row in range(3)
    ]
    assert load_corpus(write(tmp_path, "csv", rows)).texts is not None  # type: ignore[arg-type]


def test_a_folder_without_labels_or_links_is_fine_for_predictions(tmp_path: Path) -> None:
    (tmp_path / "documents.csv").write_text("id,text\n1,a\n2,b\n")
    corpus = load_corpus(tmp_path)
    assert corpus.labels.tolist() == [-1, -1]
    assert corpus.classes == ()
    assert corpus.edges.shape == (2, 0)
    with pytest.raises(DataError, match="label"):
        corpus.check_trainable()


def test_a_given_split_is_kept(tmp_path: Path) -> None:
    rows = [
        {"id": "1", "text": "a", "label": "x", "split": "train"},
        {"id": "2", "text": "b", "label": "y", "split": "train"},
        {"id": "3", "text": "c", "label": None, "split": "test"},
        {"id": "4", "text": "d", "label": "y", "split": "validation"},
    ]
    corpus = load_corpus(write(tmp_path, "jsonl", rows))  # type: ignore[arg-type]
    assert corpus.split.tolist() == [0, 0, 2, 1]
    assert corpus.facts.split_origin == "given"
    corpus.check_trainable()


def test_vectors_stand_in_for_text(tmp_path: Path) -> None:
    (tmp_path / "documents.csv").write_text("id,label\n1,a\n2,b\n")
    np.save(tmp_path / "features.npy", np.arange(6).reshape(2, 3))
    corpus = load_corpus(tmp_path)
    assert corpus.texts is None
    assert isinstance(corpus.vectors, np.ndarray)
    assert corpus.vectors.dtype == np.float32
    assert corpus.facts.public_vectors is None


def test_declared_classes(tmp_path: Path) -> None:
    folder = write(tmp_path, "csv")
    corpus = load_corpus(folder, classes=["b", "a", "c"])
    assert corpus.classes == ("b", "a", "c")
    assert corpus.labels.tolist() == [1, 0, 1, 0]
    assert corpus.facts.classes_declared
    refused(folder, "'label'", "declared classes", "'b'", "'8'", "line 3", classes=["a", "c"])
    refused(folder, "'classes'", "two different", classes=["a", "a"])
    refused(folder, "'classes'", classes="ab")


def test_the_random_split_follows_the_seed(tmp_path: Path) -> None:
    rows = [{"id": str(row), "text": "x", "label": "ab"[row % 2]} for row in range(40)]
    folder = write(tmp_path, "csv", rows)  # type: ignore[arg-type]
    one, same, other = (load_corpus(folder, seed=seed).split for seed in (1, 1, 2))
    assert (one == same).all()
    assert (one != other).any()
    assert np.bincount(one).tolist() == [32, 4, 4]


# Every way in which documents can be wrong: file name, content, words of the message.
BAD_DOCUMENTS = {
    "duplicate id": ("documents.csv", "id,text\n1,a\n2,b\n1,c\n", ["'1'", "line 2", "line 4"]),
    "empty id": ("documents.csv", "id,text\n,a\n", ["'id'", "line 2"]),
    "empty text": (
        "documents.csv",
        "id,text\n1,a\n2,\n3, \n",
        ["'text'", "'2'", "line 3", "2 in all"],
    ),
    "blank text": (
        "documents.jsonl",
        '{"id":"1","text":" \\n"}\n',
        ["'text'", "'1'", "line 1"],
    ),
    "null text": ("documents.jsonl", '{"id":"1","text":null}\n', ["'text'", "'1'"]),
    "number as text": (
        "documents.jsonl",
        '{"id":"1","text":5}\n',
        ["'text'", "string", "line 1"],
    ),
    "list as id": ("documents.jsonl", '{"id":[1],"text":"a"}\n', ["'id'", "line 1"]),
    "list as label": (
        "documents.jsonl",
        '{"id":"1","text":"a","label":["x","y"]}\n',
        ["'label'", "single value", "line 1"],
    ),
    "missing label": (
        "documents.csv",
        "id,text,label\n1,a,x\n2,b,\n3,c,y\n",
        ["'label'", "'2'", "line 3"],
    ),
    "missing training label": (
        "documents.csv",
        "id,text,label,split\n1,a,x,train\n2,b,,train\n3,c,y,train\n4,d,,test\n",
        ["'label'", "'2'", "line 3", "1 in all"],
    ),
    "one class": ("documents.csv", "id,text,label\n1,a,x\n2,b,x\n", ["two classes", "'x'"]),
    "no id column": ("documents.csv", "key,text\n1,a\n", ["'id'", "'key'"]),
    "no text column": ("documents.csv", "id,body\n1,a\n", ["'text'", "'body'"]),
    "column twice": ("documents.csv", "id,text,text\n1,a,b\n", ["'text' twice"]),
    "bad split": ("documents.csv", "id,text,split\n1,a,dev\n", ["'split'", "'dev'", "line 2"]),
    "empty split": ("documents.csv", "id,text,split\n1,a,\n", ["'split'", "line 2"]),
    "owner missing": (
        "documents.csv",
        "id,text,owner\n1,a,p\n2,b,\n3,c,\n",
        ["'owner'", "'2'", "2 in all"],
    ),
    "no documents": ("documents.csv", "id,text\n", ["at least one document"]),
    "empty file": ("documents.jsonl", "", ["at least one document"]),
    "cut json": ("documents.jsonl", '{"id":"1","text":"a"}\n{"id":"2","te', ["line 2", "cut"]),
    "not an object": ("documents.jsonl", "[1]\n", ["line 1", "JSON object", "list"]),
    "cut in quotes": ("documents.csv", 'id,text\n1,"a\nb"\n2,"c\nd', ["line 4", "cut"]),
    "cut in a row": ("documents.csv", "id,text,label\n1,a,x\n2,b", ["line 3", "fields", "cut"]),
    "too many fields": ("documents.csv", "id,text\n1,a,b\n", ["line 2", "2 fields", "quotes"]),
}


@pytest.mark.parametrize("case", BAD_DOCUMENTS)
def test_bad_documents_get_one_clear_error(tmp_path: Path, case: str) -> None:
    name, content, words = BAD_DOCUMENTS[case]
    (tmp_path / name).write_text(content)
    refused(tmp_path, str(tmp_path / name), *words)


def test_gaps_and_one_class_are_fine_where_labels_are_not_needed(tmp_path: Path) -> None:
    (tmp_path / "documents.csv").write_text("id,text,label\n1,a,x\n2,b,\n")
    assert load_corpus(tmp_path, require_labels=False).labels.tolist() == [0, -1]


@pytest.mark.parametrize("name", ["documents.jsonl", "documents.csv"])
def test_wrong_encoding(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_bytes("id,text\n1,a\n2,gr\u00fcn\n".encode("latin-1"))
    refused(tmp_path, name, "UTF-8", "Line 3", "0xfc")


def test_utf16_is_refused(tmp_path: Path) -> None:
    (tmp_path / "documents.csv").write_bytes("id,text\n1,a\n".encode("utf-16"))
    refused(tmp_path, "UTF-8", "Line 1")


def test_truncated_parquet(tmp_path: Path) -> None:
    path = write(tmp_path, "parquet") / "documents.parquet"
    whole = path.read_bytes()
    for size in (0, 3, len(whole) // 2, len(whole) - 5):
        path.write_bytes(whole[:size])
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
    write(write(tmp_path, "csv"), "jsonl")
    refused(tmp_path, names, "'documents.csv' and 'documents.jsonl'", "all but one")


def test_a_copy_in_another_format_does_no_harm(tmp_path: Path) -> None:
    write(tmp_path, "csv")
    for name in ("documents.xlsx", "documents.csv~", "edges.csv", "edges.csv.bak"):
        (tmp_path / name).write_text("source,target\n")
    assert len(load_corpus(tmp_path)) == 4


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("edges.csv", "source,target,kind\n007,8,x\n8,007,y\n8,8,x\nä,10,x\n"),
        ("edges.tsv", "source\ttarget\tkind\n007\t8\tx\n8\t007\ty\n8\t8\tx\nä\t10\tx\n"),
        (
            "edges.jsonl",
            '{"source": "007", "target": "8", "kind": "x"}\n{"source": 8, "target": "007"}\n'
            '{"source": "8", "target": 8}\n\n{"source": "ä", "target": 10}\n',
        ),
        ("edges.parquet", ""),
    ],
)
def test_links_in_every_format_and_what_was_read(
    tmp_path: Path, name: str, content: str
) -> None:
    folder = write(tmp_path, "jsonl")
    if content:
        (folder / name).write_text(content, "utf-8")
    else:
        ends = {"source": ["007", "8", "8", "ä"], "target": ["8", "007", "8", "10"]}
        pl.DataFrame({**ends, "kind": ["x"] * 4}).write_parquet(folder / name)
    corpus = load_corpus(folder)
    assert corpus.edges.tolist() == [[0, 2], [1, 3]]
    assert corpus.read_report == ReadReport(
        documents=4,
        owners=3,
        classes=2,
        links_read=4,
        links_kept=2,
        links_repeated=1,
        links_to_self=1,
        unused_columns=("kind",),
    )
    assert str(corpus.read_report) == (
        "Read 4 documents of 3 owners in 2 classes and 2 links; left out 1 repeated, "
        "1 to themselves; of the links, nothing uses 'kind'."
    )
    assert corpus.train.read_report is None


def test_documents_separated_by_tabs(tmp_path: Path) -> None:
    (tmp_path / "documents.tsv").write_text('id\ttext\n1\ta, b\n2\t"c\td"\n')
    assert load_corpus(tmp_path).texts == ("a, b", "c\td")


def test_spreadsheets_write_semicolons_where_a_comma_marks_decimals(tmp_path: Path) -> None:
    text = '\ufeffid;text;"size; in m";label\r\n1;a, b;"1,5";x\r\n2;"c;d";2,5;y\r\n'
    (tmp_path / "documents.csv").write_bytes(text.encode())
    corpus = load_corpus(tmp_path)
    assert corpus.texts == ("a, b", "c;d")
    assert corpus.columns["size; in m"].tolist() == ["1,5", "2,5"]
    assert str(corpus.read_report).endswith("0 links. Semicolons separate documents.csv.")
    (tmp_path / "edges.csv").write_text("source;target\n1;2\n")
    both = load_corpus(tmp_path)
    assert both.edges.T.tolist() == [[0, 1]]
    assert str(both.read_report).endswith("Semicolons separate documents.csv and edges.csv.")


@pytest.mark.parametrize("header", ['id,text,"a;b"', "id,text,a;b"])
def test_semicolons_beside_commas_belong_to_a_name(tmp_path: Path, header: str) -> None:
    (tmp_path / "documents.csv").write_text(f"{header}\n1,x,2\n")
    corpus = load_corpus(tmp_path)
    assert list(corpus.columns) == ["a;b"]
    assert "Semicolons" not in str(corpus.read_report)


# What people export every day, and the hint that helps them.
HINTS = {
    "upper case": ("ID,text\n1,a\n", ["Rename 'ID' to 'id'."]),
    "all in upper case": (
        "ID,Text,Label\n1,a,x\n",
        ["'ID' to 'id', 'Text' to 'text', 'Label'"],
    ),
    "optional in upper case": ("id,text,Label\n1,a,x\n", ["'Label'", "'label'"]),
    "semicolons and commas": (
        "id;text,label\n1;a,x\n",
        ["separated by semicolons: use commas"],
    ),
    "bars": ("id|text\n1|a, b, c\n", ["'id|text'", "separated by bars: use commas"]),
    "semicolons in some lines": ("id;text\n1;a\n2,b\n", ["2 fields", "Line 3", "';'"]),
    "semicolons, upper case": ("ID;Text\n1;a\n", ["Rename 'ID' to 'id', 'Text' to 'text'."]),
    "tabs": ("id\ttext\n1\ta\n", ["separated by tabs", ".tsv"]),
    "NaN": ("id,text,label\n1,a,x\n2,b,nan\n", ["'nan'", "missing value", "line 3"]),
    "spaces": ("id,text,label\n1,a,x\n2,b,x \n", ["'x '", "only by spaces", "line 3"]),
    "split": ("id,text,split\n1,a,Train\n", ["'Train'", "lower case"]),
}


@pytest.mark.parametrize("case", HINTS)
def test_habits_of_other_programs_get_a_hint(tmp_path: Path, case: str) -> None:
    content, words = HINTS[case]
    (tmp_path / "documents.csv").write_text(content)
    refused(tmp_path, *words)


def test_a_word_for_a_missing_value_can_be_a_declared_class(tmp_path: Path) -> None:
    (tmp_path / "documents.csv").write_text("id,text,label\n1,a,x\n2,b,nan\n")
    assert load_corpus(tmp_path, classes=["nan", "x"]).labels.tolist() == [1, 0]


BAD_EDGES = {
    "weight": ("source,target,weight\n007,8,0.5\n", ["'weight'", "every link counts the same"]),
    "Weight": ("source,target,Weight\n007,8,0.5\n", ["'Weight'"]),
    "upper case": ("Source,Target\n007,8\n", ["'Source' to 'source', 'Target' to 'target'"]),
    "spaces": ("source,target\n007,8 \n", ["'8 '", "Did you mean '8'"]),
    "floats": ("source,target\n10.0,8\n", ["'10.0'", "Did you mean '10'"]),
    "unknown source": ("source,target\n007,8\n9,8\n", ["'source'", "'9'", "line 3"]),
    "unknown target": ("source,target\n8,7\n", ["'target'", "'7'", "line 2"]),
    "cut row": ("source,target\n007,8\n8", ["'target'", "empty", "line 3", "cut"]),
    "wrong columns": ("from,to\n007,8\n", ["'source' and 'target'", "'from'"]),
    "semicolons and commas": ("source;target,a\n007;8,1\n", ["semicolons: use commas"]),
    "commas under semicolons": ("source;target\n007,8\n", ["'007,8'"]),
    "too many fields": ("source,target\n007,8,1\n", ["CSV"]),
    "open quote": ('source,target\n007,"8\n', ["CSV"]),
    "empty file": ("", ["empty", "header"]),
}


@pytest.mark.parametrize("case", BAD_EDGES)
def test_bad_links_get_one_clear_error(tmp_path: Path, case: str) -> None:
    content, words = BAD_EDGES[case]
    write(tmp_path, "csv")
    (tmp_path / "edges.csv").write_text(content)
    refused(tmp_path, str(tmp_path / "edges.csv"), *words)


def test_a_file_of_no_links_is_fine(tmp_path: Path) -> None:
    write(tmp_path, "csv")
    (tmp_path / "edges.csv").write_text("source,target\n")
    assert load_corpus(tmp_path).edges.shape == (2, 0)


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
    np.save(write(tmp_path, "csv") / "features.npy", array, allow_pickle=True)
    refused(tmp_path, str(tmp_path / "features.npy"), *words)


def test_truncated_vectors(tmp_path: Path) -> None:
    path = write(tmp_path, "csv") / "features.npy"
    np.save(path, np.zeros((4, 5)))
    whole = path.read_bytes()
    for size in (0, 5, 60, len(whole) - 1):
        path.write_bytes(whole[:size])
        refused(tmp_path, str(path), "cut")


def test_a_million_links_load_quickly(tmp_path: Path) -> None:
    count = 20_000
    rows = [{"id": f"d{row}", "text": "x", "label": "ab"[row % 2]} for row in range(count)]
    folder = write(tmp_path, "csv", rows)  # type: ignore[arg-type]
    ends = np.random.default_rng(0).integers(0, count, (2, 1_000_000))
    pl.DataFrame({"source": ends[0], "target": ends[1]}).select(
        pl.format("d{}", "source").alias("source"), pl.format("d{}", "target").alias("target")
    ).write_csv(folder / "edges.csv")
    corpus: Corpus = load_corpus(folder)
    assert 990_000 < corpus.edges.shape[1] < 1_000_000
    assert corpus.train.edges.shape[1] < corpus.edges.shape[1]


@pytest.mark.parametrize("road", ["folder", "frame"])
def test_how_much_an_owner_writes_moves_nobody_else(tmp_path: Path, road: str) -> None:
    """With one letter less, the first owner would come last by order of appearance."""
    owners = ["zoe", *(f"person {number}" for number in range(40)), "zoe"]
    letters: list[dict[str, object]] = [
        {"id": str(row), "text": "x", "label": "ab"[row % 2], "owner": owner}
        for row, owner in enumerate(owners)
    ]
    found = []
    for number, own in enumerate((letters, letters[1:], letters[:-1])):
        if road == "folder":
            corpus = load_corpus(write(tmp_path / str(number), "jsonl", own))
        else:
            corpus = Corpus.from_frame(pl.DataFrame(own))
        assert corpus.owners is not None
        assert corpus.owner_names is not None
        sides = zip(corpus.owners.tolist(), corpus.split.tolist(), strict=True)
        found.append((corpus.owner_names, dict(sides)))
    assert found[0] == found[1] == found[2]


def test_how_often_a_class_occurs_does_not_order_the_classes(tmp_path: Path) -> None:
    for number, labels in enumerate(("aaab", "abbb", "baaa", "bbba")):
        records = [{**r, "label": label} for r, label in zip(RECORDS, labels, strict=True)]
        folder = write(tmp_path / str(number), "jsonl", records)
        assert load_corpus(folder).classes == ("a", "b")


@pytest.mark.parametrize("name", ["links.csv", "Edge.jsonl", "link.npy"])
def test_links_by_another_name_are_not_ignored(tmp_path: Path, name: str) -> None:
    folder = write(tmp_path / "letters", "csv")
    (folder / name).write_text("source,target\n007,8\n")
    refused(folder, "edges", name, "rename")
    (folder / "edges.csv").write_text("source,target\n007,8\n")
    assert load_corpus(folder).edges.shape[1] == 1


def test_notes_about_links_are_no_links(tmp_path: Path) -> None:
    folder = write(tmp_path / "letters", "csv")
    (folder / "links.md").write_text("See also.")
    assert load_corpus(folder).edges.shape[1] == 0
