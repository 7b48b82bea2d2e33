"""Graphs at the edge of what a graph is: each trains, or is refused in one clear line."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest

from privgcn.config import Settings, make_settings
from privgcn.data import load_corpus
from privgcn.errors import PrivGCNError
from privgcn.runs.train import score_table, train

Row = dict[str, Any]
Link = tuple[str, str]
WORDS = {"a": "pulse pressure valve", "b": "rash itch cream"}
ALL = ("auto", "plain", "paper-split")


def documents(count: int = 24) -> list[Row]:
    splits = ("train", "train", "train", "validation", "test", "test")
    return [
        {
            "id": f"d{number}",
            "text": f"{WORDS['ab'[number % 2]]} letter",
            "label": "ab"[number % 2],
            "split": splits[number // 2 % 6],
        }
        for number in range(count)
    ]


def chain(rows: list[Row]) -> list[Link]:
    return [(one["id"], two["id"]) for one, two in zip(rows, rows[2:], strict=False)]


def changed(rows: list[Row], change: Callable[[Row], Row]) -> tuple[list[Row], list[Link]]:
    return [change(dict(row)) for row in rows], chain(rows)


def without_label(row: Row) -> Row:
    return {key: value for key, value in row.items() if key != "label"}


def one_class(row: Row) -> Row:
    return {**row, "label": "a"} if row["split"] == "train" else row


def third_class(row: Row) -> Row:
    return {**row, "label": "c"} if row["id"] in ("d8", "d9", "d10") else row


def unlabelled(split: str) -> Callable[[Row], Row]:
    return lambda row: without_label(row) if row["split"] == split else row


def graphs() -> dict[str, tuple[list[Row], list[Link]]]:
    rows = documents()
    hub = [("d0", row["id"]) for row in rows[1:]]
    return {
        "no links": (rows, []),
        "isolated documents": (rows, chain(rows[:12])),
        "self-loops": (rows, [(row["id"], row["id"]) for row in rows]),
        "duplicate links": (rows, [*chain(rows)] * 3 + [(b, a) for a, b in chain(rows)]),
        "one hub": (documents(200), [("d0", row["id"]) for row in documents(200)[1:]]),
        "hub and loops": (rows, [*hub, ("d0", "d0")]),
        "classes absent from training": changed(rows, third_class),
        "unlabelled test documents": changed(rows, unlabelled("test")),
        "a part without labels": changed(
            rows, lambda row: without_label(row) if row["id"] in ("d0", "d1") else row
        ),
        "one class in training": changed(rows, one_class),
        "unlabelled training documents": changed(rows, unlabelled("train")),
        "no labels": changed(rows, without_label),
        "two documents": (documents(2), [("d0", "d1")]),
        "one document": (documents(1), []),
    }


# What says so instead of training, and how; everything else trains with every recipe.
REFUSED = {
    "a part without labels": "label",
    "unlabelled training documents": "label",
    "no labels": "label",
    "one document": "classes",
}


def written(folder: Path, rows: Iterable[Row], links: Iterable[Link]) -> Path:
    folder.mkdir()
    lines = "".join(json.dumps(row) + "\n" for row in rows)
    (folder / "documents.jsonl").write_text(lines)
    pairs = "".join(f"{source},{target}\n" for source, target in links)
    (folder / "edges.csv").write_text(f"source,target\n{pairs}")
    return folder


def settings(recipe: str, **changes: Any) -> Settings:
    usual: dict[str, Any] = {"features.kind": "hashing", "training.epochs": 2}
    if recipe != "plain":
        usual |= {"privacy.epsilon": 8.0, "privacy.delta": 1e-3}
    if recipe == "paper-split":
        usual["privacy.parts"] = 2
    return make_settings(recipe, changes={**usual, **changes})


def outcome(source: Path, chosen: Settings) -> str:
    """``trained``, or the line of a refusal."""
    try:
        trial = train(load_corpus(source), chosen)
        table = score_table(trial)
    except PrivGCNError as error:
        return str(error)
    assert table["modes"]
    statement = trial.model.statement
    assert (statement is None) == (chosen.privacy is None)
    if statement is not None:
        statement.verify()
    return "trained"


@pytest.mark.parametrize("recipe", ALL)
@pytest.mark.parametrize("name", graphs())
def test_a_degenerate_graph_trains_or_is_refused_in_one_line(
    tmp_path: Path, name: str, recipe: str
) -> None:
    said = outcome(written(tmp_path / "letters", *graphs()[name]), settings(recipe))
    if name in REFUSED:
        assert REFUSED[name] in said
        assert "\n" not in said
    else:
        assert said == "trained"


@pytest.mark.parametrize("parts", [12, 13, 1_000])
def test_more_parts_than_documents(tmp_path: Path, parts: int) -> None:
    rows = documents()
    source = written(tmp_path / "letters", rows, chain(rows))
    said = outcome(source, settings("paper-split", **{"privacy.parts": parts}))
    training = sum(row["split"] == "train" for row in rows)
    if parts <= training:
        assert said == "trained"
    else:
        assert "parts" in said
        assert "\n" not in said
