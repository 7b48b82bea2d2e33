"""``privgcn reproduce`` as a user types it."""

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


def test_documents_of_one_s_own_are_run_shown_and_failures_named(typed, monkeypatch, tmp_path):
    def fails(batch, device):
        if batch[0].point["recipe"] == "as-released":
            raise ValueError("as it happens")
        return real(batch, device)

    real = runner.run
    monkeypatch.setattr(runner, "run", fails)
    letters = corpus_folder(tmp_path / "letters")
    words = ("experiment-a", "--datasets", letters, "--quick", "--seeds", 1, "--workers", 1)
    code, shown, said = typed(*words)
    assert code == 1
    assert "6 runs made, 0 were there, 3 failed" in shown
    assert "| fraction 0.1 | fraction 0.5 | fraction 1 |" in shown
    assert re.search(r"Failed: .*as-released, .*seed 0: ValueError: as it happens", said)
    assert len(Runs.read(tmp_path / "reproduction/experiment-a/runs.csv").rows) == 6
    code, shown, _ = typed(*words, "--json")
    made = json.loads(shown)
    assert (code, made["done"], made["stored"], made["failed"]) == (1, 0, 6, 3)
    assert made["failures"][0]["reason"] == "ValueError: as it happens"


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["tabel1"], "must be one of table1, .* Got 'tabel1'"),
        (["table1", "--device", "tpu"], "'device' .* must be cpu or cuda. Got 'tpu'"),
        (["table1", "--engine", "slurm"], "'engine' .* must be local or ray. Got 'slurm'"),
        (["table1", "--seeds", "0"], "'--seeds': Input should be greater than or equal to 1"),
        (["features", "--datasets", "cora"], "some that features has. Got 'cora'"),
        (["table1", "--only-show", "--out", "none"], "without --only-show first"),
        (["mnist", "--datasets", "mnist", "--out", "file/runs"], "file/runs cannot be written"),
    ],
)
def test_a_mistake_is_one_line_and_code_two(typed, monkeypatch, tmp_path, words, says):
    monkeypatch.setattr("privgcn_paper.experiments.available", lambda names, **_: (names, []))
    (tmp_path / "file").touch()
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

    def test_json_is_one_object_of_the_usual_folder_without_corrupt_records(self, typed, out):
        (out / f"{key_of(TABLE1[0], 0)}.json").write_text("{")
        code, shown, _ = typed("mnist", "--only-show", "--quick", "--json")
        made = json.loads(shown)
        assert (code, made["experiment"], made["out"]) == (0, "mnist", "reproduction/mnist")
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
