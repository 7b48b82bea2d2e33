"""``privgcn reproduce`` as a user types it."""

from __future__ import annotations

import json
import re

import pytest

from builders import corpus_folder
from paper.fake_runs import fill
from privgcn.cli.app import run
from privgcn_paper import runner
from privgcn_paper.experiments import experiments
from privgcn_paper.results import Runs, key_of

MNIST = experiments()["mnist"].points(quick=True)
TABLE1 = experiments()["table1"].points(quick=True)


@pytest.fixture
def typed(capsys, monkeypatch, tmp_path):
    """Types words; returns the exit code, stdout and stderr."""
    monkeypatch.chdir(tmp_path)

    def type_words(*words):
        monkeypatch.setattr("sys.argv", ["privgcn", "reproduce", *map(str, words)])
        code = run(["reproduce", *map(str, words)])
        return code, *capsys.readouterr()

    return type_words


@pytest.fixture
def own(tmp_path):
    """A grid of a user's own, on documents of their own."""
    letters = corpus_folder(tmp_path / "letters")
    path = tmp_path / "own.toml"
    path.write_text(
        f"""
        title = "Letters"
        seeds = 1
        [[grid]]
        dataset = "{letters}"
        recipe = ["auto"]
        features = "hashing"
        epsilon = [2, 8]
        split = [[0.5, 0.1]]
        changes = {{ "features.options" = {{ dimension = 32 }}, "training.epochs" = 3 }}
        """
    )
    return path


def test_a_grid_of_one_s_own_runs_shows_and_leaves_its_results(typed, own, tmp_path):
    words = ("--config", own, "--workers", 1, "--seeds", 2, "--out", tmp_path / "out")
    code, shown, _ = typed(*words)
    assert code == 0
    assert "**Letters; own-graph**" in shown
    assert "4 runs made, 0 were there, 0 failed" in shown
    assert "| epsilon 2 | epsilon 8 |" in shown
    rows = Runs.read(tmp_path / "out" / "runs.csv").rows
    assert [(r["epsilon"], r["seed"]) for r in rows] == [(2, 0), (2, 1), (8, 0), (8, 1)]
    code, shown, _ = typed(*words)
    assert code == 0
    assert "0 runs made, 4 were there, 0 failed" in shown


def test_a_run_that_fails_is_named_and_the_code_is_one(typed, own, tmp_path, monkeypatch):
    def fails(batch, device):
        if batch[0].point["epsilon"] == 2:
            raise ValueError("as it happens")
        return real(batch, device)

    real = runner.run
    monkeypatch.setattr(runner, "run", fails)
    words = ("--config", own, "--workers", 1, "--out", tmp_path / "out")
    code, shown, said = typed(*words)
    assert code == 1
    assert "1 runs made, 0 were there, 1 failed" in shown
    assert re.search(r"Failed: .*epsilon 2, .*seed 0: ValueError: as it happens", said)
    code, shown, _ = typed(*words, "--json")
    assert code == 1
    assert json.loads(shown)["failures"][0]["reason"] == "ValueError: as it happens"


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["tabel1"], "must be one of table1, .* Got 'tabel1'"),
        ([], "must be table1, .* Give one of the two"),
        (["table1", "--config", "own.toml"], "Give one of the two"),
        (["table1", "--device", "tpu"], "'device' .* must be cpu or cuda. Got 'tpu'"),
        (["table1", "--engine", "slurm"], "'engine' .* must be local or ray. Got 'slurm'"),
        (["features", "--datasets", "cora"], "some that features has. Got 'cora'"),
        (["table1", "--only-show", "--out", "none"], "without --only-show first"),
        (["--config", "own.toml", "--out", "own.toml/runs"], "own.toml/runs cannot be written"),
    ],
)
def test_a_mistake_is_one_line_and_code_two(typed, own, words, says):
    code, shown, said = typed(*words)
    assert (code, shown) == (2, "")
    assert re.search(says, said)
    assert said.count("\n") == 1


def test_a_named_dataset_that_is_not_here_is_code_three(typed, monkeypatch, tmp_path):
    monkeypatch.setenv("PRIVGCN_DATA", str(tmp_path))
    code, shown, said = typed("table1", "--datasets", "pokec", "--json")
    assert (code, said) == (3, "")
    assert json.loads(shown)["error"]["exit_code"] == 3
    assert not (tmp_path / "reproduction").exists()


class TestOnlyShow:
    @pytest.fixture
    def out(self, tmp_path):
        return fill(tmp_path / "reproduction" / "mnist", [*MNIST, *TABLE1])

    def test_runs_nothing_and_needs_no_data(self, typed, out, monkeypatch, tmp_path):
        monkeypatch.setenv("PRIVGCN_DATA", str(tmp_path / "nowhere"))
        monkeypatch.setattr(runner, "run", None)
        code, shown, said = typed("table1,mnist", "--only-show", "--quick", "--out", out)
        assert (code, said) == (0, "")
        assert "0 runs made, 0 were there, 0 failed" in shown
        assert shown.index("Table 1") < shown.index("MNIST")
        assert len(Runs.read(out / "runs.csv").rows) == 2 * len([*MNIST, *TABLE1])

    def test_json_is_one_object_of_the_usual_folder_without_corrupt_records(self, typed, out):
        (out / f"{key_of(TABLE1[0], 0)}.json").write_text("{")
        code, shown, _ = typed("mnist", "--only-show", "--quick", "--json")
        made = json.loads(shown)
        assert (code, made["experiment"], made["out"]) == (0, "mnist", "reproduction/mnist")
        assert (made["done"], made["stored"], made["failed"], made["failures"]) == (0, 0, 0, [])
        (table,) = made["tables"]
        assert table["columns"][:4] == ["recipe", "epsilon", "lot", "noise"]
        assert len(table["rows"]) == len(MNIST)
        assert len(Runs.read(out / "runs.csv").rows) == 2 * len([*MNIST, *TABLE1]) - 1

    def test_a_table_of_runs_makes_the_same_page_twice(self, typed, out, tmp_path):
        docs = tmp_path / "docs"
        docs.mkdir()
        code, _, _ = typed("all", "--only-show", "--out", out, "--write-docs", docs / "r.md")
        assert code == 0
        files = {path: path.read_bytes() for path in docs.rglob("*.*")}
        words = ("all", "--only-show", "--out", docs / "r.csv", "--write-docs", docs / "r.md")
        code, _, _ = typed(*words)
        assert code == 0
        assert {path: path.read_bytes() for path in docs.rglob("*.*")} == files
        assert " ".join(map(str, words)) in (docs / "r.md").read_text()
