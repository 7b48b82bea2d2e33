"""``privgcn reproduce`` as a user meets it, on an experiment small enough for a test."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import typer
from typer.testing import CliRunner

from line_task import KIND
from privgcn.cli import main
from privgcn.cli.reproduce import reproduce
from privgcn.errors import ConfigError, DataError, DataNotAvailableError
from privgcn.experiments.grid import Experiment, Grid
from privgcn.experiments.paper import reproduce as reproduction
from privgcn.experiments.paper import targets
from privgcn.experiments.paper.takeaways import SURVIVES
from privgcn.experiments.results import Options, Presentation, Results, figure
from privgcn.report import Table
from privgcn.report.results import NOT_MEASURED, Takeaway

HERE = str(Path(__file__).parent)
APP = typer.Typer(pretty_exceptions_enable=False)
APP.command("reproduce")(reproduce)


def _invoke(*words: str) -> Any:
    return CliRunner().invoke(APP, list(words))


def _plan(options: Options) -> Experiment:
    noises: list[Any] = [0.1, 1.0] if options.quick else [0.1, 0.5, 1.0]
    if "pubmed" in options.datasets:
        noises.append("broken")
    axes = {"dataset": list(options.datasets), "noise": noises}
    return Experiment("tiny", [Grid(axes, KIND)], options.seeds)


def _present(results: Results, options: Options) -> Presentation:
    cells = {
        noise: results.score(KIND, {"dataset": options.datasets[0], "noise": noise})
        for noise in (0.1, 1.0)
    }
    table = Table(
        title="A line with noise",
        columns=("noise", "score"),
        rows=tuple(cells.items()),
        notes=("<script>alert(1)</script>",),
    )
    return Presentation([table], figure("A line", "noise", {"ours": cells}), ["Tiny."])


@pytest.fixture(autouse=True)
def _tiny_target(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(HERE)
    paths = [HERE, *[path for path in sys.path if path]]
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(dict.fromkeys(paths)))
    tiny = targets.Target("Tiny", _plan, _present, ("clinic",), ("clinic",), question="Why?")
    monkeypatch.setitem(targets.TARGETS, "tiny", tiny)


def test_a_name_or_a_file_but_not_both(tmp_path: Path) -> None:
    (tmp_path / "grid.toml").write_text("[[grid]]\ndataset='clinic'\nrecipe='plain'\n")
    config = ["--config", str(tmp_path / "grid.toml")]
    for words, told in (
        ([], "Give one of the two"),
        (["tiny", *config], "Give one of the two"),
        ([*config, "--seeds", "2"], "has them in its file"),
    ):
        result = _invoke(*words)
        assert told in str(result.exception)


def test_tables_figures_and_a_page_are_written(tmp_path: Path) -> None:
    out = tmp_path / "out"
    result = _invoke("tiny", "--out", str(out), "--seeds", "3", "--workers", "1")
    assert result.exit_code == 0, result.output
    assert "A line with noise" in result.stdout
    assert "9 runs done now, 0 kept, 0 failed. Wall time" in result.stdout
    assert "runs done" in result.stderr, "progress goes to stderr"
    assert json.loads((out / "tables.json").read_text())[0]["title"] == "A line with noise"
    assert (out / "figures.json").exists()
    assert "| 0.100 |" in (out / "tables.md").read_text()
    assert (out / "tables" / "01.csv").read_text().startswith("noise,score,score std")
    assert (out / "figures" / "01.svg").read_text().startswith("<?xml")
    page = (out / "report.html").read_text()
    assert "A line with noise" in page
    assert "<script>alert" not in page
    assert '<p class="lede">Why?</p>' in page
    assert "All runs are of one code: " in page
    assert re.search(r"\d s of wall time on \d+ cores\.", page)


def test_several_experiments_have_a_folder_each(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(targets.TARGETS, "again", targets.TARGETS["tiny"])
    result = _invoke("tiny,again", "--quick", "--out", str(tmp_path))
    assert result.exit_code == 0, result.output
    assert "4 runs done now" in result.stdout, "what they share is run once"
    for name in ("tiny", "again"):
        assert (tmp_path / name / "tables.json").exists()
    assert (tmp_path / "report.html").exists()


def test_json_is_one_object(tmp_path: Path) -> None:
    result = _invoke("tiny", "--quick", "--out", str(tmp_path), "--json")
    record = json.loads(result.stdout)
    assert record["runs"] == record["done"] == 4
    assert record["failed"] == 0
    assert record["tables"]["tiny"][0]["columns"] == ["noise", "score"]


def test_an_earlier_folder_needs_resume_and_nothing_is_repeated(tmp_path: Path) -> None:
    words = ["tiny", "--out", str(tmp_path), "--workers", "1"]
    assert _invoke(*words, "--quick").exit_code == 0
    refused = _invoke(*words)
    assert isinstance(refused.exception, ConfigError)
    assert "Add --resume" in str(refused.exception)
    more = json.loads(_invoke(*words, "--resume", "--seeds", "4", "--json").stdout)
    assert (more["kept"], more["done"], more["runs"]) == (4, 8, 12)


def test_failed_runs_are_shown_and_the_rest_go_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(targets, "_named", lambda target, datasets: list(datasets))
    words = ["tiny", "--out", str(tmp_path), "--datasets", "pubmed", "--seeds", "1"]
    result = _invoke(*words, "--workers", "1")
    assert result.exit_code == 1
    assert "3 runs done now, 0 kept, 1 failed" in result.stdout
    told = "Failed: pubmed, noise broken, seed 0: ArithmeticError: no line to fit"
    assert told in result.stderr
    again = json.loads(_invoke(*words, "--resume", "--json").stdout)
    assert (again["kept"], again["failed"]) == (3, 1)
    (failure,) = again["failures"]
    assert failure["label"] == "pubmed, noise broken, seed 0"
    assert failure["settings"] == {"dataset": "pubmed", "noise": "broken"}
    assert failure["seeds"] == [0]
    assert "no line to fit" in failure["reason"]


def test_failures_of_seeds_that_were_not_asked_for_are_not_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(targets, "_named", lambda target, datasets: list(datasets))
    words = ["tiny", "--out", str(tmp_path), "--workers", "1", "--json"]
    both = json.loads(_invoke(*words, "--datasets", "pubmed", "--seeds", "2").stdout)
    assert [failure["seeds"] for failure in both["failures"]] == [[0, 1]]
    other = _invoke(*words, "--datasets", "clinic", "--resume")
    assert json.loads(other.stdout)["failures"] == []


def test_a_damaged_record_is_named_and_run_again(tmp_path: Path) -> None:
    words = ["tiny", "--quick", "--out", str(tmp_path), "--workers", "1"]
    assert _invoke(*words).exit_code == 0
    sorted((tmp_path / "records").glob("*/*.json"))[0].write_text("{")
    result = _invoke(*words, "--resume")
    assert "1 runs done now, 3 kept, 0 failed" in result.stdout
    assert "Damaged record set aside and run again: clinic, noise " in result.stderr


def test_mistakes_are_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    out = ["--out", str(tmp_path / "out")]
    wrong = _invoke("table9", *out)
    assert isinstance(wrong.exception, ConfigError)
    assert "table1" in str(wrong.exception)
    assert isinstance(_invoke("tiny", "--engine", "slurm", *out).exception, ConfigError)
    monkeypatch.setenv("PRIVGCN_DATA", str(tmp_path))
    missing = _invoke("table1", "--datasets", "cora", *out)
    assert isinstance(missing.exception, DataNotAvailableError)
    assert not (tmp_path / "out").exists(), "nothing is half-written"


def test_records_can_be_shown_without_running_any(tmp_path: Path) -> None:
    page, out = tmp_path / "page.md", str(tmp_path / "out")
    assert _invoke("tiny", "--quick", "--out", out).exit_code == 0
    words = ["tiny", "--quick", "--only-show", "--out", out, "--write-docs", str(page)]
    shown = _invoke(*words)
    assert shown.exit_code == 0
    assert "0 runs done now" in shown.output
    assert "--quick --only-show --write-docs" in page.read_text()


def test_where_there_are_no_records_none_are_shown_and_nothing_is_made(tmp_path: Path) -> None:
    mine = tmp_path / "letters"
    mine.mkdir()
    (mine / "letter.txt").write_text("mine")
    for folder in (tmp_path / "nowhere", mine):
        shown = _invoke("tiny", "--quick", "--only-show", "--out", str(folder))
        assert isinstance(shown.exception, DataError)
        assert shown.exception.exit_code == 2
        assert f"{folder} has no records" in str(shown.exception)
    assert sorted(tmp_path.rglob("*")) == [mine, mine / "letter.txt"]


def test_the_page_of_the_documentation_is_generated(tmp_path: Path) -> None:
    page = tmp_path / "reproduction.md"
    words = ["tiny", "--quick", "--out", str(tmp_path / "out"), "--write-docs", str(page)]
    assert _invoke(*words).exit_code == 0
    text = page.read_text()
    assert text.startswith("# Reproduction of the paper")
    assert "## The five take-aways" in text
    assert "**Not measured**" in text
    assert "[reproduction-tables.md](reproduction-tables.md)" in text
    assert "All runs are of one code" in text
    assert "A line with noise" in (tmp_path / "reproduction-tables.md").read_text()
    assert (tmp_path / "reproduction.csv").read_text().startswith("dataset,setting,")


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["all", "--datasets", "typo"], "Got 'typo'"),
        (["experiment-b,as-released", "--datasets", "cora,typo"], "Got 'typo'"),
        (["table1", "--datasets", "typo"], "Got 'typo'"),
        (["features", "--datasets", "cora"], "which have raw text. Got 'cora'"),
        (
            ["tiny", "--out", "letter"],
            "must be a folder that can be read and written. Got letter: ",
        ),
        (["tiny", "--out", "letter/below"], "Got letter/below: Not a directory"),
        (["tiny", "--out", "/proc/nowhere"], "Got /proc/nowhere: "),
        (["tiny", "--write-docs", "folder"], "Got folder: that is a folder"),
        (["tiny", "--write-docs", "letter/page.md"], "letter is not a folder"),
    ],
)
def test_a_mistake_is_one_clear_line_before_any_run(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    words: list[str],
    told: str,
) -> None:
    (tmp_path / "letter").write_text("Dear reader")
    (tmp_path / "folder").mkdir()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", ["privgcn", "reproduce", *words])
    with pytest.raises(SystemExit) as stop:
        main()
    said = capsys.readouterr()
    assert stop.value.code == 2
    assert told in said.err
    assert len(said.err.splitlines()) == 1, said.err
    assert said.out == ""
    assert sorted(path.name for path in tmp_path.iterdir()) == ["folder", "letter"]
    assert (tmp_path / "letter").read_text() == "Dear reader"


def test_a_device_that_is_not_there_is_told_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PRIVGCN_DEVICE", "cuda")
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    refused = _invoke("tiny", "--out", str(tmp_path / "out"))
    assert isinstance(refused.exception, ConfigError)
    assert "finds no CUDA device" in str(refused.exception)
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("measured", [True, False])
def test_verdicts_are_shown_where_any_was_measured(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, measured: bool
) -> None:
    judged = [
        Takeaway("Noise is fine.", SURVIVES if measured else NOT_MEASURED, ("0.7.",), "a rule"),
        Takeaway("Adam is better.", NOT_MEASURED, (), "a rule"),
    ]
    monkeypatch.setattr(reproduction, "takeaways", lambda *_: judged)
    shown = _invoke("tiny", "--quick", "--out", str(tmp_path), "--workers", "1").stdout
    assert ("- Noise is fine: survives." in shown) == measured
    assert ("- Adam is better: not measured." in shown) == measured
    assert "0.7." not in shown


_SCRIPT = """
from test_reproduce import _plan, _present
from privgcn.cli import main
from privgcn.experiments.paper import targets

if __name__ == "__main__":
    targets.TARGETS["tiny"] = targets.Target("Tiny", _plan, _present, ("clinic",), ("clinic",))
    main()
"""


def test_an_interrupt_says_how_to_go_on(tmp_path: Path) -> None:
    script = tmp_path / "tiny.py"
    script.write_text(_SCRIPT)
    process = subprocess.Popen(
        [sys.executable, str(script), "reproduce", "tiny", "--out", str(tmp_path / "out")],
        stderr=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stderr is not None
    try:
        assert "runs done" in process.stderr.readline()
        process.send_signal(signal.SIGINT)
        output, errors = process.communicate(timeout=60)
    finally:
        process.kill()
    assert process.returncode == 130, errors
    stopped = "Stopped. Nothing unfinished was left behind. Add --resume to continue."
    assert errors.splitlines() == [stopped]
    assert output == ""
