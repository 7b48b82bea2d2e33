"""A run says what it is doing, to whoever watches."""

from __future__ import annotations

from pathlib import Path

import pytest

from builders import small_corpus, small_frame, small_settings, write_corpus
from privgcn import progress
from privgcn.data import load_corpus
from privgcn.runs.train import train_run


class Notes:
    """A watcher that remembers."""

    def __init__(self) -> None:
        self.names: list[str] = []
        self.done: dict[str, tuple[int, int]] = {}

    def begin(self, name: str) -> None:
        self.names.append(name)

    def advance(self, done: int, total: int) -> None:
        self.done[self.names[-1]] = (done, total)


def test_a_run_tells_its_stages_in_order_and_counts_its_steps(tmp_path: Path) -> None:
    notes = Notes()
    source = write_corpus(tmp_path / "corpus", small_frame(), [("d0", "d1")])
    with progress.watched(notes):
        run = train_run(load_corpus(source), small_settings())
        run.predictions("alone")
        run.predictions("own-graph")
        run.predictions("alone")
    assert [name for name in notes.names if not name.startswith("reading")] == [
        "features",
        "features",
        "training",
        "prediction alone",
        "prediction own-graph",
    ]
    assert notes.names[0] == "reading"
    assert notes.done["training"][1] == 30
    assert notes.done["features"][1] == len(run.corpus)


def test_nobody_watches_by_default_nor_after_the_block() -> None:
    notes = Notes()
    with pytest.raises(ValueError, match="stop"), progress.watched(notes):
        raise ValueError("stop")
    progress.begin("training")
    progress.advance(1, 2)
    with progress.watched(notes), progress.watched(None):
        train_run(small_corpus(), small_settings(training__epochs=2))
    assert notes.names == []
