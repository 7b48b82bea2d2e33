"""Numbers of several versions of the code are never shown as if they were of one."""

from __future__ import annotations

from pathlib import Path

import pytest
from fake_records import record

from privgcn.errors import ConfigError
from privgcn.experiments import origin, store
from privgcn.experiments.origin import code_identity, fingerprint
from privgcn.experiments.paper.provenance import CALLS, noted_call
from privgcn.experiments.paper.reproduce import Reproduction, reproduce
from privgcn.experiments.runner import make_engine
from privgcn.experiments.store import RecordStore

PLAIN = {"dataset": "clinic", "recipe": "plain", "optimizer": "sgd"}


@pytest.fixture
def package(tmp_path: Path) -> Path:
    paper = [f"experiments/paper/{name}.py" for name in ("emulation", "released_mnist")]
    for name in ("training/fit.py", "report/page.py", *paper):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text('"""Doc."""\n\nRATE = 1.0  # the rate\n')
    return tmp_path


@pytest.mark.parametrize(
    "room",
    [
        "training/fit.py",
        "experiments/paper/emulation.py",
        "experiments/paper/released_mnist.py",
    ],
)
def test_what_decides_a_result_changes_the_fingerprint(package: Path, room: str) -> None:
    before = fingerprint(package)
    (package / room).write_text('"""Doc."""\n\nRATE = 2.0  # the rate\n')
    assert fingerprint(package) != before


def test_words_and_pages_do_not(package: Path) -> None:
    before = fingerprint(package)
    (package / "training/fit.py").write_text('"""Another text."""\nRATE = 1.0\n')
    (package / "report/page.py").write_text("WIDTH = 3\n")
    (package / "training/outlook.toml").write_text("foretold = 0.5\n")
    assert fingerprint(package) == before


def test_a_new_module_does(package: Path) -> None:
    before = fingerprint(package)
    (package / "training/more.py").write_text("STEPS = 3\n")
    assert fingerprint(package) != before


def test_the_package_has_one_identity() -> None:
    assert code_identity() == code_identity()
    assert code_identity().partition("+")[2] == fingerprint(origin._PACKAGE)


def _show(folder: Path, **more: bool) -> Reproduction:
    return reproduce(
        "table1",
        folder,
        make_engine("local", workers=1),
        datasets=["clinic"],
        seeds=2,
        command="privgcn reproduce table1",
        **more,
    )


def _fill(folder: Path, monkeypatch: pytest.MonkeyPatch, *codes: str) -> None:
    with RecordStore(folder) as records:
        for code, optimizer in zip(codes, ("sgd", "adam"), strict=False):
            monkeypatch.setattr(store, "code_identity", lambda code=code: code)
            record(records, "train", {**PLAIN, "optimizer": optimizer}, 0.8)


def test_one_code_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _fill(tmp_path, monkeypatch, "0.1+aaa", "0.1+aaa")
    note = _show(tmp_path, only_show=True).shown[0].presentation.notes[-1]
    assert "Command: privgcn reproduce table1. Seeds: 0 to 1. Written on 20" in note
    assert "All runs are of one code: 0.1+aaa. There are 4 of the 28 runs" in note
    assert note.endswith("that are there. Training took 2 s, run by run.")


def test_time_and_machine_are_those_of_the_calls(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _fill(tmp_path, monkeypatch, "0.1+aaa")
    call = '{"began": "2026-01-01"}\n{"seconds": 150, "machine": "2 cores"}\n'
    (tmp_path / CALLS).write_text(f"{call}{call}")
    with pytest.raises(KeyboardInterrupt), noted_call(tmp_path, "cpu", here=False):
        raise KeyboardInterrupt
    note = _show(tmp_path, only_show=True).shown[0].presentation.notes[-1]
    assert note.endswith("this folder took 5 min of wall time on 2 cores and a cluster.")
    with (tmp_path / CALLS).open("a") as file:
        file.write('{"began": "2026-01-02"}\n{"sec\n')
    note = _show(tmp_path, only_show=True).shown[0].presentation.notes[-1]
    assert "this folder took at least 5 min" in note, "one was killed"


def test_time_is_found_however_the_seeds_trained(tmp_path: Path) -> None:
    """Seeds that trained together on a device are tasks of their own elsewhere."""
    point = {"dataset": "clinic", "recipe": "auto", "epsilon": 1}
    with RecordStore(tmp_path) as records:
        record(records, "train", point, 0.8)
    assert _show(tmp_path, only_show=True).provenance.training_seconds == 1.0


def test_a_mixture_is_flagged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _fill(tmp_path, monkeypatch, "0.1+aaa", "0.1+bbb")
    note = _show(tmp_path, only_show=True).shown[0].presentation.notes[0]
    assert "MIXTURE" in note
    assert "0.1+aaa, 0.1+bbb" in note


def test_other_code_does_not_go_on_unasked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _fill(tmp_path, monkeypatch, "0.1+aaa")
    with pytest.raises(ConfigError, match=r"records of other code \(0.1\+aaa; this is 0"):
        _show(tmp_path, resume=True)


def test_every_python_gives_the_same_fingerprint(tmp_path: Path) -> None:
    """Runs made elsewhere, with another Python, are of the same code. A golden value."""
    source = "import math\n\n\ndef area(r: float = 1.0) -> float:\n    return math.pi * r**2\n"
    (tmp_path / "circle.py").write_text(source)
    assert fingerprint(tmp_path) == "2889910d71c9"
