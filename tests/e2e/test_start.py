"""How the program starts, speaks and stops: help, imports, terminals, interrupts."""

from __future__ import annotations

import io
import os
import resource
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from typer.testing import CliRunner

from e2e.letters import PRIVATE, RUN, call, ended, notes_of
from privgcn.cli import STOPPED
from privgcn.cli.app import VERBS, app
from privgcn.cli.output import print_table
from privgcn.report.tables import Table


def test_a_table_fits_a_narrow_terminal(monkeypatch, capsys) -> None:
    table = Table("title", ("mode", "score", "what is seen"), [("alone", 0.5, "a text " * 12)])
    print_table(table)
    wide = capsys.readouterr().out.splitlines()
    monkeypatch.setenv("COLUMNS", "40")
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    print_table(table)
    narrow = capsys.readouterr().out.splitlines()

    assert len(wide) == 4
    assert all(len(line) <= 40 for line in narrow)
    assert " ".join(narrow[3:]).split() == wide[3].split()


class Terminal(io.StringIO):
    """Text that says it is a terminal."""

    def isatty(self) -> bool:
        return True


ACCOUNT = ["account", "--noise-multiplier", "4", "--steps", "100"]


IMPORTED = """
import sys
from privgcn.cli import main
for words in {commands!r}:
    sys.argv = ["privgcn", *words]
    try:
        main()
    except SystemExit as stopped:
        assert stopped.code == 0
print(*sys.modules, file=sys.stderr)
"""


def imported(*commands: list[str]) -> set[str]:
    """The modules that some commands import, one after the other."""
    code = IMPORTED.format(commands=commands)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return set(done.stderr.split())


@pytest.mark.parametrize("verb", [None, *VERBS])
def test_help_has_two_names_and_every_verb_speaks_alike(verb) -> None:
    words = [] if verb is None else [verb]
    short, long = (CliRunner().invoke(app, [*words, flag]) for flag in ("-h", "--help"))

    assert short.exit_code == long.exit_code == 0
    assert short.stdout == long.stdout
    assert "Usage" in short.stdout
    if verb is not None:
        for option in ("--json", "--quiet", "--verbose"):
            assert option in short.stdout, option


def test_help_lists_all_verbs_and_imports_little() -> None:
    shown, modules = call("--help"), imported(["--help"])

    assert all(f"\n  {verb} " in shown for verb in (*VERBS, "reproduce"))
    assert shown.index("Every day:") < shown.index("  train ") < shown.index("Budgets:")
    assert CliRunner().invoke(app, []).output.strip() == shown.strip()
    assert "privgcn.cli.train" in modules
    assert not {name for name in modules if name.startswith("privgcn_paper")}
    assert not modules & {"numpy", "pydantic", "torch", "rich", "rich.console", "polars"}


def test_what_needs_no_training_imports_no_torch(shelf) -> None:
    calibrate = ["calibrate", "--epsilon", "1", "--steps", "100"]
    plan = ["plan", "--documents", "300", "--classes", "10"]
    run = str(shelf / "run")
    modules = imported(
        ACCOUNT, calibrate, plan, ["datasets"], ["verify", run], ["report", run, "--out", "-"]
    )

    assert "privgcn.cli.plan" in modules
    assert "torch" not in modules


@pytest.mark.slow
def test_starting_takes_little_processor_time(shelf) -> None:
    """Twice what was measured, because machines differ."""
    for words, most in (
        (["--help"], 0.4),
        (ACCOUNT, 1.5),
        (["verify", str(shelf / "run")], 1.6),
    ):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run([*RUN, *words], capture_output=True, check=True)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        spent = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
        assert spent < most, words


def test_quiet_says_nothing_beside_the_result_and_verbose_all_settings(shelf) -> None:
    words = ["train", shelf / "letters", *PRIVATE, "--dry-run"]

    assert notes_of(*words, "--quiet") == ""
    assert "[training]" in notes_of(*words, "--verbose")


@pytest.mark.parametrize("quiet", [False, True])
@pytest.mark.parametrize("verb", ["predict", "evaluate", "report"])
def test_at_a_terminal_every_long_verb_says_what_it_does(
    verb: str, quiet: bool, shelf: Path, tmp_path: Path, monkeypatch
) -> None:
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr(sys, "stderr", Terminal())
    words = {
        "predict": [shelf / "letters", "--out", tmp_path / "p.csv"],
        "evaluate": [],
        "report": ["--out", tmp_path / "r.html"],
    }
    assert ended(monkeypatch, verb, shelf / "run", *words[verb], *["--quiet"] * quiet) == 0
    stage = "report" if verb == "report" else "prediction"
    assert (stage in sys.stderr.getvalue()) != quiet  # type: ignore[attr-defined]


@pytest.mark.parametrize("verb", VERBS)
def test_every_verb_answers_an_interrupt(verb: str, capsys, monkeypatch) -> None:
    def interrupted() -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("privgcn.cli.app._own_verb", lambda name: interrupted)
    assert ended(monkeypatch, verb) == 130
    assert capsys.readouterr().err == f"{STOPPED}\n"


def test_an_interrupt_within_an_exec_has_the_same_exit_code(tmp_path) -> None:
    """Python remembers such an interrupt, and would end by its signal, caught or not."""
    (tmp_path / "stopped.py").write_text(
        "from privgcn.cli import app, main\n"
        "app.run = lambda words: exec('raise KeyboardInterrupt')\n"
        "main()\n"
    )
    done = subprocess.run(
        [sys.executable, "-m", "stopped"], cwd=tmp_path, capture_output=True, text=True
    )
    assert (done.returncode, done.stderr) == (130, f"{STOPPED}\n")


@pytest.mark.parametrize("words", [[], ["datasets"], ["datasets", "--json"]])
def test_a_reader_that_goes_away_is_no_error(words: list[str]) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    done = subprocess.run([*RUN, *words], stdout=writing, stderr=subprocess.PIPE, timeout=60)
    os.close(writing)
    assert (done.returncode, done.stderr) == (1, b"")


ENDLESS = (*PRIVATE, "--recipe", "paper-split", "--set", "training.epochs=100000")


@pytest.mark.parametrize("seconds", [0.03, 0.2, 0.6])
def test_an_interrupt_while_it_starts_is_one_line(tmp_path, shelf, seconds: float) -> None:
    words = ["-X", "importtime", "-m", "privgcn", "train", str(shelf / "letters"), *ENDLESS]
    told, folder = tmp_path / "told", tmp_path / "here"
    folder.mkdir()
    with told.open("w") as errors:
        process = subprocess.Popen([sys.executable, *words], cwd=folder, stderr=errors)
        # Python itself starts; from here on we answer.
        while "| privgcn.cli\n" not in told.read_text():
            time.sleep(0.01)
        time.sleep(seconds)
        process.send_signal(signal.SIGINT)
        assert process.wait(timeout=60) == 130, told.read_text()
    said = [x for x in told.read_text().splitlines() if not x.startswith("import time:")]

    assert said[-1] == STOPPED
    assert "Traceback" not in told.read_text()
    assert not list(folder.rglob("*"))


def test_an_interrupt_gives_the_cursor_back_and_leaves_no_folder(tmp_path, shelf) -> None:
    words = [*RUN, "train", str(shelf / "letters"), *ENDLESS]
    ours, theirs = os.openpty()
    process = subprocess.Popen(
        words, cwd=tmp_path, stderr=theirs, env={**os.environ, "TERM": "xterm"}
    )
    os.close(theirs)
    with os.fdopen(ours, "rb", buffering=0) as terminal:
        seen = b""
        while b"training" not in seen:
            seen += terminal.read(4096)
        process.send_signal(signal.SIGINT)
        while STOPPED.encode() not in seen:
            seen += terminal.read(4096)
    assert process.wait(timeout=60) == 130, seen
    assert seen.rindex(b"\x1b[?25h") > seen.rindex(b"\x1b[?25l")
    assert not [path for path in tmp_path.rglob("*") if path.is_file()]


SWALLOWED = """
import os, signal, threading, time
import privgcn.cli, privgcn.cli.app

class Slow:
    def __del__(self):
        time.sleep(0.5)

def run(words):
    threading.Timer(0.2, lambda: os.kill(os.getpid(), signal.SIGINT)).start()
    slow = Slow()
    del slow
    time.sleep(60)

privgcn.cli.app.run = run
privgcn.cli.main()
"""


def test_an_interrupt_that_a_finalizer_swallows_comes_again() -> None:
    done = subprocess.run(
        [sys.executable, "-c", SWALLOWED], capture_output=True, text=True, timeout=40
    )
    assert done.returncode == 130, done.stderr
    assert "Stopped." in done.stderr
