"""What a run has seen: evaluation, prediction and coverage tell the truth about it."""

from __future__ import annotations

import csv
import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from privgcn.cli import app
from privgcn.errors import ConfigError, DataError

WORDS = {"heart": "pulse pressure valve beat", "skin": "rash itch cream spot"}


def call(*arguments: str) -> str:
    done = CliRunner().invoke(app, list(arguments), catch_exceptions=False)
    assert done.exit_code == 0, done.output
    return done.stdout


def letters(
    folder: Path, numbers: range, *, split: bool = False, owners: int | None = None
) -> Path:
    """Letters of two kinds, each with a word of its own."""
    folder.mkdir(parents=True, exist_ok=True)
    lines = []
    for number in numbers:
        kind = ("heart", "skin")[number % 2]
        record: dict[str, Any] = {"id": f"d{number}", "label": kind}
        record["text"] = f"{WORDS[kind]} letter word{number}"
        if split:
            record["split"] = "test" if number % 6 in (4, 5) else "train"
        if owners is not None:
            record["owner"] = f"p{number % owners}"
        lines.append(json.dumps(record))
    (folder / "documents.jsonl").write_text("\n".join(lines) + "\n")
    return folder


def train(source: Path, out: Path, *more: str) -> Path:
    call("train", str(source), "--epsilon", "8", "--delta", "1e-4", "--out", str(out), *more)
    return out


def predicted(run: Path, source: Path, out: Path, *more: str) -> dict[str, Any]:
    text = call("predict", str(run), str(source), "--out", str(out), "--json", *more)
    return dict(json.loads(text))


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Letters, a run on them, its release, and a run without privacy."""
    folder = tmp_path_factory.mktemp("place")
    source = letters(folder / "letters", range(240), split=True)
    run = train(source, folder / "run")
    call("release", str(run), str(folder / "released"))
    call("train", str(source), "--set", "training.epochs=5", "--out", str(folder / "plain"))
    return folder


def test_a_grown_folder_is_evaluated_on_unseen_documents_only(tmp_path: Path) -> None:
    source = letters(tmp_path / "letters", range(200))
    run = train(source, tmp_path / "run")
    before = json.loads(call("evaluate", str(run), "--json"))
    assert before["left_out"] == 0
    assert before["scores"] == json.loads((run / "scores.json").read_text())["modes"]
    assert before["scores"]["alone"]["documents"] == 20
    letters(source, range(230))
    after = json.loads(call("evaluate", str(run), "--json"))
    # The test documents of then, and the thirty that came.
    assert after["scores"]["alone"]["documents"] == 50
    assert after["left_out"] == 9
    assert f"Left out: {after['left_out']} test documents" in call("evaluate", str(run))


def test_a_document_that_trained_is_no_test_document_under_another_id_or_text(
    tmp_path: Path,
) -> None:
    source = letters(tmp_path / "letters", range(120), split=True)
    run = train(source, tmp_path / "run")
    lines = [json.loads(line) for line in (source / "documents.jsonl").read_text().splitlines()]
    lines[0] |= {"id": "renamed", "split": "test"}
    lines[1] |= {"text": "rewritten", "split": "test"}
    (source / "documents.jsonl").write_text("\n".join(map(json.dumps, lines)))
    found = json.loads(call("evaluate", str(run), "--json"))
    assert found["left_out"] == 2
    assert found["scores"]["alone"]["documents"] == 40


def test_new_letters_of_a_protected_person_are_not_evaluated(tmp_path: Path) -> None:
    source = letters(tmp_path / "letters", range(200), owners=100)
    run = train(source, tmp_path / "run", "--unit", "person", "--delta", "1e-3")
    letters(source, range(300), owners=100)
    found = json.loads(call("evaluate", str(run), "--json"))
    # Ten people were held out for the test, with three letters each by now, and ten for
    # validation, whose third letters nobody has seen. The eighty others trained.
    assert found["scores"]["alone"]["documents"] == 40


def test_nothing_unseen_is_one_clear_error(tmp_path: Path) -> None:
    source = letters(tmp_path / "letters", range(120), split=True)
    run = train(source, tmp_path / "run")
    lines = (source / "documents.jsonl").read_text().splitlines()
    kept = [line for line in lines if '"train"' in line]
    (source / "documents.jsonl").write_text("\n".join(kept))
    with pytest.raises(DataError, match="was not trained on"):
        call("evaluate", str(run))


def test_the_source_is_found_from_anywhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = letters(tmp_path / "letters", range(120), split=True)
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path)
    train(Path("letters"), tmp_path / "run")
    monkeypatch.chdir(tmp_path / "elsewhere")
    call("evaluate", str(tmp_path / "run"))
    found = predicted(tmp_path / "run", source, tmp_path / "p.csv")
    assert (found["documents"], found["left_out"]) == (40, 80)


def test_a_new_class_is_not_taken_for_another(tmp_path: Path) -> None:
    source = letters(tmp_path / "letters", range(120), split=True)
    run = train(source, tmp_path / "run")
    with (source / "documents.jsonl").open("a") as file:
        new = {"id": "new", "text": "a", "label": "bone", "split": "test"}
        file.write(json.dumps(new) + "\n")
    with pytest.raises(DataError, match="bone"):
        call("evaluate", str(run))


def test_training_documents_given_as_new_ones_are_named(tmp_path: Path, place: Path) -> None:
    other = letters(tmp_path / "other", range(1000, 1010))
    clean = predicted(place / "run", other, tmp_path / "p.csv")
    assert clean["covered"] is True
    assert clean["training_documents"] == []
    # Document 0 and 2 trained, 4 and 5 did not.
    with (other / "documents.jsonl").open("a") as file:
        for number, kind in ((0, "heart"), (2, "heart"), (4, "heart"), (5, "skin")):
            text = f"  {WORDS[kind]} letter\tword{number}"
            file.write(json.dumps({"id": f"copy{number}", "text": text}) + "\n")
    for mode, words in (("own-graph", "no prediction here"), ("alone", "the others are")):
        found = predicted(place / "run", other, tmp_path / "p.csv", "--inference", mode)
        assert found["covered"] is False
        assert found["training_documents"] == ["copy0", "copy2"]
        assert found["documents"] == 14
        assert "2 of 14 documents trained the model" in found["coverage"]
        assert words in found["coverage"]
    # The same names, by chance, are not the same documents.
    named = letters(tmp_path / "named", range(2000, 2010))
    text = (named / "documents.jsonl").read_text().replace('"d200', '"d')
    (named / "documents.jsonl").write_text(text)
    assert predicted(place / "run", named, tmp_path / "p.csv")["covered"] is True


def test_a_copy_of_the_corpus_is_recognised(tmp_path: Path, place: Path) -> None:
    shutil.copytree(place / "letters", tmp_path / "copy")
    found = predicted(place / "run", tmp_path / "copy", tmp_path / "p.csv")
    assert found["covered"] is False
    assert len(found["training_documents"]) == 160


def test_a_release_cannot_know_and_says_so(tmp_path: Path, place: Path) -> None:
    for source in (place / "letters", letters(tmp_path / "new", range(500, 510))):
        found = predicted(place / "released", source, tmp_path / "p.csv")
        assert found["covered"] is None
        assert found["coverage"] == (
            "Covered by the guarantee if none of these documents trained the model."
        )
    said = call(
        "predict", str(place / "released"), str(place / "letters"), "--out",
        str(tmp_path / "p.csv"),
    )  # fmt: skip
    assert "if none of these documents trained the model" in said


def test_full_graph_is_refused_without_training_documents_in_sight(
    tmp_path: Path, place: Path
) -> None:
    new = letters(tmp_path / "new", range(500, 510))
    full = ("--inference", "full-graph")
    for run in ("run", "plain"):
        with pytest.raises(ConfigError, match="has none"):
            predicted(place / run, new, tmp_path / "p.csv", *full)
    with pytest.raises(ConfigError, match="a release does not know"):
        predicted(place / "released", place / "letters", tmp_path / "p.csv", *full)
    assert not (tmp_path / "p.csv").exists()
    seen = predicted(place / "run", place / "letters", tmp_path / "p.csv", *full)
    assert seen["covered"] is False
    assert "training documents were seen" in seen["coverage"]


def test_a_run_without_privacy_claims_no_coverage(tmp_path: Path, place: Path) -> None:
    for mode in ("alone", "own-graph", "full-graph"):
        found = predicted(
            place / "plain", place / "letters", tmp_path / "p.csv", "--inference", mode
        )
        assert found["covered"] is False
        assert "No guarantee" in found["coverage"]
        assert "training documents" not in found["coverage"]


def test_fingerprints_are_keyed_and_stay_with_the_owner(tmp_path: Path, place: Path) -> None:
    first = json.loads((place / "run" / "trained.json").read_text())
    second = json.loads((place / "plain" / "trained.json").read_text())
    assert len(first["ids"]) == len(second["ids"]) == 160
    assert not set(first["ids"]) & set(second["ids"])
    assert first["key"] != second["key"]
    for path in (place / "released").iterdir():
        content = path.read_text(errors="ignore")
        assert first["key"] not in content
        assert not any(mark in content for mark in first["ids"])


def test_the_class_set_is_public_or_not_covered_and_never_both(place: Path) -> None:
    statement = json.loads((place / "run" / "statement.json").read_text())
    assert not [fact for fact in statement["assumed_public"] if "classes" in fact["code"]]
    assert {"code": "classes_from_labels", "count": 2} in statement["not_covered"]


def test_a_declared_class_set_is_public(tmp_path: Path, place: Path) -> None:
    train(place / "letters", tmp_path / "run", "--classes", "heart,skin,bone")
    statement = json.loads((tmp_path / "run" / "statement.json").read_text())
    assert {"code": "classes_declared", "count": 3} in statement["assumed_public"]
    assert not [fact for fact in statement["not_covered"] if "classes" in fact["code"]]


def test_no_cell_is_a_formula(tmp_path: Path) -> None:
    source = tmp_path / "letters"
    source.mkdir()
    lines = []
    for number in range(120):
        kind = ("=cmd()", "+skin")[number % 2]
        split = "test" if number < 6 else "train"
        name = ("=1+1", "+1 or so", "-2+3", "@home", "\tx", "-5")[number % 6]
        record = {"id": name if number < 6 else f"d{number}", "label": kind, "split": split}
        lines.append(json.dumps({**record, "text": f"{WORDS['heart']} {kind * 3} w{number}"}))
    (source / "documents.jsonl").write_text("\n".join(lines))
    train(source, tmp_path / "run")
    predicted(tmp_path / "run", source, tmp_path / "p.csv")
    with (tmp_path / "p.csv").open(newline="") as file:
        rows = list(csv.reader(file))[1:]
    assert [row[0] for row in rows] == ["'=1+1", "'+1 or so", "'-2+3", "'@home", "'\tx", "-5"]
    assert all(row[1][0] == "'" for row in rows)


@pytest.mark.parametrize("target", ["run", "run/inside", "."])
def test_a_release_never_destroys_its_run(place: Path, target: str) -> None:
    run, folder = place / "run", place / target
    before = {path.name: path.read_bytes() for path in run.iterdir()}
    for more in ((), ("--overwrite",)):
        with pytest.raises(ConfigError, match="apart from the run"):
            call("release", str(run), str(folder), *more)
    assert {path.name: path.read_bytes() for path in run.iterdir()} == before


@pytest.mark.parametrize(
    ("name", "old", "new"),
    [
        ("card.md", b"epsilon", b"Epsilon"),
        ("model.json", b'"heart",\n   "skin"', b'"skin",\n   "heart"'),
        ("settings.toml", b"hops = 10", b"hops = 11"),
        ("statement.json", b"epsilon", b"Epsilon"),
    ],
)
def test_every_verb_checks_the_manifest_first(
    tmp_path: Path, place: Path, name: str, old: bytes, new: bytes
) -> None:
    for kind in ("run", "released"):
        shutil.copytree(place / kind, tmp_path / kind)
        path = tmp_path / kind / name
        if not path.exists():
            continue
        assert old in path.read_bytes()
        path.write_bytes(path.read_bytes().replace(old, new, 1))
        folder, out = str(tmp_path / kind), str(tmp_path / "out")
        for arguments in (
            ["verify", folder],
            ["evaluate", folder],
            ["predict", folder, str(place / "letters"), "--out", out],
            ["release", folder, out],
            ["report", folder, "--out", out],
        ):
            with pytest.raises(DataError, match="was edited"):
                call(*arguments)
        assert not Path(out).exists()
