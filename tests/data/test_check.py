"""All that is wrong with an export comes to light at once."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

import pytest

from privgcn.data import load_corpus
from privgcn.data.check import Check, check_documents
from privgcn.errors import DataError

LABELS = ["Cardiology", "Surgery"]
ROWS: list[list[str]] = [
    [f"L{row:02}", f"Café letter {row} \u2013 5 €", LABELS[row % 2], f"P{row}", "train"]
    for row in range(40)
]
# The row and column that is spoilt, what stands there then, and what a check says of it.
MISTAKES: list[tuple[int, int, str, str, int]] = [
    (1, 0, "", "'id' of a document must not be empty", 1),
    (3, 0, "L02", "'id' of a document must be its own", 1),
    (4, 1, "", "'text' of a document must not be empty", 2),
    (5, 1, "  ", "'text' of a document must not be empty", 2),
    (6, 2, "cardiology", "Labels must not differ only by spaces", 2),
    (7, 2, "Surgery ", "Labels must not differ only by spaces", 2),
    (8, 2, "n/a", "must not read like a missing value", 1),
    (9, 2, "", "1 documents have no label", 1),
    (10, 3, "", "'owner' must be given for all", 1),
    (11, 3, "p12", "must differ by more than upper and lower case", 1),
    (13, 3, " P14", "differ from others by spaces or Unicode form", 1),
    (15, 3, "P16", "owners have documents on more than one side", 1),
    (17, 4, "Train", "'split' of a document must be one of", 2),
    (18, 4, "dev", "'split' of a document must be one of", 2),
]
EDGES = [["L00", "L02"], ["L00", "L99"], ["L00", ""], ["l00", "L02"], ["L00 ", "L98"]]
EDGE_RULES = {"'source' of an edge must be the id": 2, "'target' of an edge must be the id": 3}
NAMED = {"id": "Letter", "text": "BODY", "label": "Department", "owner": "Patient"}


@pytest.fixture
def export(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """What a spreadsheet program of a clinic writes, with everything wrong that can be."""
    monkeypatch.chdir(tmp_path)
    rows = [list(row) for row in ROWS]
    rows[16][4] = "test"
    for at, column, value, _, _ in MISTAKES:
        rows[at][column] = value
    for name, head, body in (
        ("letters.csv", [*NAMED.values(), "Split"], [*rows, ["L90", "too", "few"], ["L91"]]),
        ("referrals.csv", ["From", "To", "Date"], [[*pair, "2024"] for pair in EDGES]),
    ):
        with Path(name).open("w", encoding="cp1252", newline="") as file:
            csv.writer(file, delimiter=";").writerows([head, *body])
    return tmp_path / "letters.csv"


def found(check: Check, words: str) -> Any:
    (problem,) = (one for one in check.problems if words in one.rule)
    return problem


def test_two_checks_find_all_that_is_wrong_with_an_export(export: Path) -> None:
    """The first says how to read the file, the second also what is wrong with the edges."""
    first = check_documents(export)
    named = {**NAMED, "encoding": "cp1252"}
    assert first.options == {**named, "split": "random"}
    second = check_documents(export, edges="referrals.csv", **named)
    for check in (first, second):
        assert not check.trainable
        assert check.facts["documents"] == 40
        for row, column, _, words, count in MISTAKES:
            problem = found(check, words)
            if not problem.examples:
                assert str(count) in problem.rule
                continue
            assert problem.count == count, problem
            assert problem.remedy
            if column != 2 and "side" not in words:
                assert any(f"line {row + 2} of" in example for example in problem.examples)
        fields = found(check, "must have 5 fields in each record")
        assert fields.count == 2
        assert fields.examples == ("3 in line 42", "1 in line 43")
    assert "encoding" not in second.options
    for words, count in EDGE_RULES.items():
        assert found(second, words).count == count
    assert (
        "line 3 of referrals.csv"
        in found(second, "'target' of an edge must be the id").examples[0]
    )
    assert second.facts["edges"] == 1


@pytest.mark.parametrize("mark", ["", "\ufeff"])
def test_utf8_is_not_read_as_other_letters(tmp_path: Path, mark: str) -> None:
    """As where a run read cp1252 and new documents come in UTF-8."""
    path = tmp_path / "new.csv"
    path.write_text(f"{mark}id,text,label\n1,Größe,a\n2,two,b\n", encoding="utf-8")
    check = check_documents(path, encoding="cp1252")
    assert check.options == {"encoding": "utf-8"}
    with pytest.raises(
        DataError, match=r"encoding that was named, cp1252.* line [12].*--encoding utf-8"
    ):
        load_corpus(path, encoding="cp1252")
    for encoding in ("cp1252", "utf-8", "utf-16"):
        path.write_text("id,text,label\n1,Größe,a\n2,two,b\n", encoding=encoding)
        assert load_corpus(path, encoding=encoding).texts == ("Größe", "two")


def test_a_check_goes_on_after_broken_lines_and_wrong_names(tmp_path: Path) -> None:
    path = tmp_path / "Letters.jsonl"
    good = '{"key": "%d", "body": "a", "label": "%s"}\n'
    broken = '{"key": \n[1]\n{"key": 5, "body": 7, "label": ["x"]}\n'
    path.write_text("".join(good % (row, "xy"[row % 2]) for row in range(20)) + broken)
    check = check_documents(path, id="keys", text="body", label="lable", owner="nobody")
    assert found(check, "one JSON object on each line").count == 2
    assert "line 23" in found(check, "'text' must be a string").examples[0]
    for meaning in ("id", "label", "owner"):
        assert "Letters.jsonl" in found(check, f"The column of --{meaning} must be one of").rule
    assert check.options == {"id": "key", "label": "label"}
    assert check.facts["documents"] == 21


def test_what_is_missing_as_a_whole_is_one_problem(tmp_path: Path) -> None:
    path = tmp_path / "letters.csv"
    path.write_text("id,text\n1,a\n2,b\n")
    check = check_documents(path, edges=str(tmp_path / "none.csv"))
    assert [str(problem) for problem in check.problems] == [
        f"The file {tmp_path / 'none.csv'} does not exist."
    ]
    check = check_documents(path)
    assert "'label' for training documents" in str(check.problems[-1])
    with pytest.raises(DataError, match="Got neither"):
        check_documents(tmp_path / "nowhere")
    assert check_documents("clinic").facts["documents"] == 3_600
