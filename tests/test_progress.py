"""A run says what it is doing, to whoever watches."""

import io
import sys
from pathlib import Path

import polars as pl
import pytest

from privgcn import progress
from privgcn.cli.progress import shown_stages
from privgcn.config import make_settings
from privgcn.data import load_corpus
from privgcn.runs.train import train
from terminal import Terminal


class Notes:
    """A watcher that remembers."""

    def __init__(self) -> None:
        self.seen: list[str] = []
        self.done: dict[str, tuple[int, int]] = {}

    def begin(self, name: str) -> None:
        self.seen.append(name)

    def advance(self, done: int, total: int) -> None:
        self.done[self.seen[-1]] = (done, total)


def test_a_run_tells_its_stages_in_order_and_counts_its_steps() -> None:
    notes, settings = Notes(), make_settings(epsilon=1.0, changes={"features.kind": "hashing"})
    with progress.watched(notes):
        trial = train(load_corpus("clinic"), settings)
        trial.predictions("alone")
        trial.predictions("own-graph")
    predictions = ["prediction alone", "prediction own-graph"]
    assert notes.seen == ["reading", "features", "training", *predictions]
    assert notes.done["training"] == (30, 30)
    documents = len(trial.corpus)
    assert notes.done["features"] == (documents // 1000 * 1000, documents)


@pytest.mark.parametrize("suffix", ["jsonl", "csv"])
def test_reading_counts_its_lines(tmp_path: Path, suffix: str) -> None:
    rows, file = 2500, tmp_path / f"documents.{suffix}"
    frame = pl.DataFrame({"id": range(rows), "text": ["a\nb"] * rows})
    frame.cast(pl.String).write_ndjson(file) if suffix == "jsonl" else frame.write_csv(file)
    (tmp_path / "edges.csv").write_text("source,target\n0,1\n")
    notes, lines = Notes(), len(file.read_text().split("\n"))
    with progress.watched(notes):
        load_corpus(tmp_path)
    assert notes.seen == ["reading", "reading links"]
    done, total = notes.done["reading"]
    assert done == total // 1000 * 1000 > 0
    assert lines - 1 <= total <= lines


def test_nobody_watches_by_default() -> None:
    notes = Notes()
    with progress.watched(notes):
        pass
    progress.begin("training")
    progress.advance(1, 2)
    assert notes.seen == []


@pytest.mark.parametrize("where", [Terminal, io.StringIO])
def test_stages_are_shown_on_a_terminal_and_nowhere_else(
    where: type[io.StringIO], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr(sys, "stderr", where())
    with shown_stages():
        progress.begin("reading")
        progress.begin("training")
        progress.advance(3, 4)
    shown = sys.stderr.getvalue()  # type: ignore[attr-defined]
    assert ("left:" in shown) == (where is Terminal)
    assert ("training" in shown and "75%" in shown) == (where is Terminal)
    assert bool(shown) == (where is Terminal)


def test_a_stage_without_a_count_has_a_name_and_its_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr(sys, "stderr", Terminal())
    with shown_stages():
        progress.begin("report")
    shown = sys.stderr.getvalue()  # type: ignore[attr-defined]
    assert "report" in shown
    assert "0:00:00" in shown
    assert "left:" not in shown
    assert "%" not in shown
