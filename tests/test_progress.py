"""A run says what it is doing, to whoever watches."""

import pytest

from builders import small_frame, small_settings, write_corpus
from privgcn import progress
from privgcn.data import load_corpus
from privgcn.runs.prepare import prepare
from privgcn.runs.train import train


class Notes:
    """A watcher that remembers."""

    def __init__(self):
        self.names = []
        self.done = {}

    def begin(self, name):
        self.names.append(name)

    def advance(self, done, total):
        self.done[self.names[-1]] = (done, total)


def test_a_run_tells_its_stages_in_order_and_counts_its_steps(tmp_path):
    notes, silent = Notes(), Notes()
    source = write_corpus(tmp_path / "corpus", small_frame(), [("d0", "d1")])
    with progress.watched(silent), progress.watched(notes):
        run = train(prepare(load_corpus(source), small_settings()))
        for mode in ("alone", "own-graph", "alone"):
            run.predictions(mode)
    stages = ["features", "features", "training", "prediction alone", "prediction own-graph"]
    assert [name for name in notes.names if not name.startswith("reading")] == stages
    assert notes.done["training"][1] == 30
    assert notes.done["features"][1] == len(run.corpus)
    # Nobody watches by default, nor after the block.
    with pytest.raises(ValueError, match="stop"), progress.watched(silent):
        raise ValueError("stop")
    progress.begin("training")
    progress.advance(1, 2)
    assert silent.names == []


def test_a_long_stage_prints_a_line_now_and_then(capsys: pytest.CaptureFixture[str]) -> None:
    for seconds in (0.0, 60.0):
        with progress.watched(progress.Printed(seconds, stages=False)):
            progress.begin("encoding")
            progress.advance(900, 1_000)
    assert capsys.readouterr().out.splitlines() == [
        "encoding ...",
        "encoding: 900 of 1,000, 0 s left",
    ]
