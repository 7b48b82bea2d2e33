import json

import pytest
import typer
from typer.testing import CliRunner

from privgcn import Report
from privgcn.cli.report import report
from privgcn.config import to_toml
from privgcn.errors import ConfigError, DataError, PrivacyContractError
from privgcn.report.results import write_outcome
from privgcn.runs.folder import write_folder

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
    edited = json.dumps({**record, "epsilon": 0.01})

    with pytest.raises(PrivacyContractError, match="epsilon"):
        Report.of_folders([build.sealed(folder, **{"statement.json": edited})])
    path.write_text(json.dumps(record), "utf-8")
    with pytest.raises(DataError, match="was edited"):
        Report.of_folders([folder])


def test_a_lost_statement_is_not_a_run_without_privacy(build, statement, tmp_path):
    folder = build.folder(tmp_path / "run", statement)
    build.sealed(folder, **{"statement.json": None})

    with pytest.raises(DataError, match=r"has no statement\.json"):
        Report.of_folders([folder])


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("scores.json", b"{", "not valid JSON"),
        ("scores.json", b"[]", "must hold one JSON object"),
        ("scores.json", b"\xff\xfe", "not UTF-8"),
        ("settings.toml", b"a = ", "not valid TOML"),
        ("settings.toml", b"nonsense = 1", "nonsense"),
        ("settings.toml", None, "no settings.toml"),
        ("statement.json", b"{}", "statement"),
    ],
)
def test_bad_files_get_one_clear_error(build, statement, tmp_path, name, content, words):
    folder = build.folder(tmp_path / "run", statement)
    build.sealed(folder, **{name: content})

    with pytest.raises((DataError, ConfigError, PrivacyContractError), match=words) as caught:
        Report.of_folders([folder])
    assert caught.value.exit_code == 2


def test_a_release_has_a_card_and_no_report(build, statement, tmp_path):
    settings = to_toml(build.settings(statement).model_dump())
    files = {"settings.toml": settings, "statement.json": statement.to_json()}
    write_folder(tmp_path / "released", "release", files)

    with pytest.raises(DataError, match=r"Name the run itself.*card\.html"):
        Report.of_folders([tmp_path / "released"])


def test_bad_folders_get_one_clear_error(tmp_path, results):
    with pytest.raises(DataError, match="There is no folder"):
        Report.of_folders([tmp_path / "nowhere"])
    with pytest.raises(DataError, match="neither"):
        Report.of_folders([tmp_path])
    with pytest.raises(ConfigError, match="at least one folder"):
        Report.of_folders([])
    (results / "tables.json").write_text("3", "utf-8")
    with pytest.raises(DataError, match="must hold a list"):
        Report.of_folders([results])


@pytest.mark.parametrize("private", [True, False])
def test_one_run_beside_results_is_one_run(build, statement, tmp_path, results, private):
    run = build.folder(tmp_path / "run", statement if private else None)
    html = Report.of_folders([run, results]).html()

    assert "1 runs" not in html
    assert "side by side" not in html
    assert f"1 run on archive, {'with' if private else 'without'} a privacy" in html
    assert ("This model was trained without privacy" in html) != private


def test_a_folder_that_is_there_twice_is_refused(build, tmp_path, results):
    run = build.folder(tmp_path / "run", None)

    for one in (run, results):
        with pytest.raises(ConfigError, match="twice"):
            Report.of_folders([one, one / ".." / one.name])


def written(folder, title, *names, **parts):
    """A results folder as ``reproduce`` leaves it."""
    for name in names or ("",):
        part = folder / name
        part.mkdir(parents=True, exist_ok=True)
        table = {**TABLE, "title": f"Table of {name or title}"}
        (part / "tables.json").write_text(json.dumps([table]), "utf-8")
        (part / "notes.json").write_text(json.dumps([f"Not private: {name or title}"]), "utf-8")
        write_outcome(part, f"Title of {name or title}", failures=parts.get("failures", ()))
    if names:
        write_outcome(folder, title, **{"failures": (), **parts, "experiments": names})
    return folder


FAILURE = {
    "label": "dataset cora",
    "seeds": [0, 1],
    "reason": "ArithmeticError: <b>no</b>",
}
TAKEAWAY = {
    "claim": "Noise <i>helps</i>.",
    "verdict": "does not survive",
    "evidence": ["cora: 0.1."],
    "rule": "By more than 0.03.",
}


class TestExperiments:
    def test_notes_and_titles_are_on_the_page_of_one_experiment(self, tmp_path):
        html = Report.of_folders([written(tmp_path / "table1", "Table 1")]).html()

        assert "<h1><bdi>Title of Table 1</bdi></h1>" in html
        assert '<p class="lede">Not private: Table 1</p>' in html

    def test_several_experiments_are_read_from_their_sub_folders(self, tmp_path):
        html = Report.of_folders([written(tmp_path, "Two experiments", "one", "two")]).html()

        assert "<h1><bdi>Two experiments</bdi></h1>" in html
        for name in ("one", "two"):
            assert f"<bdi>Title of {name}</bdi></h2>" in html
            assert f"<p>Not private: {name}</p>" in html
            assert f'aria-label="Table: Table of {name}"' in html

    def test_a_table_of_an_earlier_call_is_not_reported(self, tmp_path):
        written(tmp_path, "Earlier")
        html = Report.of_folders([written(tmp_path, "Both", "one", "two")]).html()
        assert "Table of Earlier" not in html

        html = Report.of_folders([written(tmp_path, "Later")]).html()
        assert "Table of Later" in html
        assert "Table of one" not in html

    def test_missing_notes_are_called_missing(self, tmp_path):
        folder = written(tmp_path / "table1", "Table 1")
        (folder / "notes.json").unlink()

        assert "The notes of these results are missing" in Report.of_folders([folder]).html()

    def test_take_aways_disagreements_and_failures(self, tmp_path):
        told = {**TABLE, "title": "Every published number"}
        folder = written(
            tmp_path,
            "Both",
            "one",
            "two",
            failures=[FAILURE],
            takeaways=[TAKEAWAY],
            disagreements=told,
        )
        html = Report.of_folders([folder]).html()

        assert "What survives" in html
        assert "Noise &lt;i&gt;helps&lt;/i&gt;." in html
        assert '<span class="tag no">does not survive</span>' in html
        assert "cora: 0.1." in html
        assert "Rule: By more than 0.03." in html
        assert 'aria-label="Table: Every published number"' in html
        assert html.count('data-test="failures"') == 1
        assert "dataset cora" in html
        assert "ArithmeticError: &lt;b&gt;no" in html

    def test_failures_are_also_on_the_page_of_one_and_beside_runs(self, build, tmp_path):
        folder = written(tmp_path / "table1", "Table 1", failures=[FAILURE])
        run = build.folder(tmp_path / "run", None)

        for paths in ([folder], [folder, run]):
            assert 'data-test="failures"' in Report.of_folders(paths).html()

    def test_nothing_measured_is_no_section(self, tmp_path):
        claim = {**TAKEAWAY, "verdict": "not measured"}
        folder = written(tmp_path, "Both", "one", "two", takeaways=[claim])

        assert "What survives" not in Report.of_folders([folder]).html()

    @pytest.mark.parametrize(
        ("content", "words"),
        [
            ([], "summary"),
            ({}, "'title'"),
            ({"title": "T", "experiments": ["../elsewhere"]}, "sub-folders"),
            ({"title": "T", "experiments": ["nowhere"]}, "lost its sub-folder"),
            ({"title": "T", "experiments": [3]}, "'experiments"),
            ({"title": "T", "takeaways": [{"claim": "c"}]}, "'takeaways"),
            ({"title": "T", "takeaways": 3}, "'takeaways'"),
            ({"title": "T", "failures": [{}]}, "'failures"),
            ({"title": "T", "disagreements": {"title": "t"}}, "columns'"),
        ],
    )
    def test_damaged_summaries_get_one_clear_error(self, results, content, words):
        (results / "summary.json").write_text(json.dumps(content), "utf-8")

        with pytest.raises(DataError, match=words):
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
