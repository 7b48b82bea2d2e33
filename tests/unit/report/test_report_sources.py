import json

import pytest
import typer
from typer.testing import CliRunner

from privgcn import Report
from privgcn.cli.report import report
from privgcn.errors import ConfigError, DataError, PrivacyContractError

TABLE = {"title": "T", "columns": ["a"], "rows": [["x"]]}
FIGURE = {"title": "F", "series": [{"name": "s", "points": [[1, 2]]}]}


@pytest.fixture
def results(tmp_path):
    folder = tmp_path / "results"
    folder.mkdir()
    (folder / "tables.json").write_text(json.dumps([TABLE]), "utf-8")
    (folder / "figures.json").write_text(json.dumps([FIGURE]), "utf-8")
    return folder


def test_one_run_is_a_run_report_with_its_claim_checked(build, statement, tmp_path):
    html = Report.of_folders([build.folder(tmp_path / "mine", statement)]).html()

    assert "run report · <bdi>mine</bdi>" in html
    assert "Checked again when this page was made: statement, settings" in html


def test_runs_and_results_share_a_page(build, statement, tmp_path, results):
    one = build.folder(tmp_path / "a" / "run", statement)
    two = build.folder(tmp_path / "b" / "run", None)
    html = Report.of_folders([one, two, results]).html()

    assert "a/run" in html
    assert "b/run" in html
    assert 'aria-label="Table: T"' in html


def test_results_alone_are_an_experiment_report(results):
    assert "experiment report" in Report.of_folders([results]).html()


def test_an_edited_statement_is_never_repeated(build, statement, tmp_path):
    folder = build.folder(tmp_path / "run", statement)
    path = folder / "statement.json"
    record = json.loads(path.read_text("utf-8"))
    path.write_text(json.dumps({**record, "epsilon": 0.01}), "utf-8")

    with pytest.raises(PrivacyContractError, match="epsilon"):
        Report.of_folders([folder])


def test_a_lost_statement_is_not_a_run_without_privacy(build, statement, tmp_path):
    folder = build.folder(tmp_path / "run", statement)
    (folder / "statement.json").unlink()

    with pytest.raises(DataError, match=r"has no statement\.json"):
        Report.of_folders([folder])


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("scores.json", b"{", "not valid JSON"),
        ("scores.json", b"[]", "must be an object"),
        ("scores.json", b"\xff\xfe", "cannot be read"),
        ("settings.toml", b"a = ", "not valid TOML"),
        ("settings.toml", b"nonsense = 1", "nonsense"),
        ("settings.toml", None, "is missing"),
        ("statement.json", b"{}", "statement"),
    ],
)
def test_bad_files_get_one_clear_error(build, statement, tmp_path, name, content, words):
    folder = build.folder(tmp_path / "run", statement)
    path = folder / name
    path.unlink() if content is None else path.write_bytes(content)

    with pytest.raises((DataError, ConfigError, PrivacyContractError), match=words) as caught:
        Report.of_folders([folder])
    assert caught.value.exit_code == 2


def test_bad_folders_get_one_clear_error(tmp_path, results):
    with pytest.raises(DataError, match="There is no folder"):
        Report.of_folders([tmp_path / "nowhere"])
    with pytest.raises(DataError, match="neither"):
        Report.of_folders([tmp_path])
    with pytest.raises(ConfigError, match="at least one folder"):
        Report.of_folders([])
    (results / "tables.json").write_text("3", "utf-8")
    with pytest.raises(DataError, match="list of objects"):
        Report.of_folders([results])


class TestVerb:
    @pytest.fixture
    def app(self):
        app = typer.Typer()
        app.command("report")(report)
        return app

    def test_writes_the_page_and_says_where(self, app, build, tmp_path):
        run = build.folder(tmp_path / "run", None)
        out = tmp_path / "page.html"
        done = CliRunner().invoke(app, [str(run), "--out", str(out)])

        assert done.exit_code == 0
        assert done.stdout == f"report: {out}\n"
        assert "No privacy guarantee" in out.read_text("utf-8")

    def test_bad_input_is_an_error_of_ours_and_writes_nothing(self, app, tmp_path):
        out = tmp_path / "page.html"
        done = CliRunner().invoke(app, [str(tmp_path / "no"), "--out", str(out)])

        assert isinstance(done.exception, DataError)
        assert not out.exists()
