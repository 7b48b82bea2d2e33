import re

import pytest

from privgcn import Report
from privgcn.errors import ConfigError, DataError
from privgcn.report import Figure, Table
from privgcn.report.comparison import RunRecord
from privgcn.report.formats import NOTHING
from privgcn.report.scores import Scores
from privgcn.report.wording import explained


def record(name, settings, statement, scores):
    return RunRecord(name, settings, statement, Scores.read(scores, name))


def references(*, best, **scores):
    rows = {name: {"micro_f1": value} for name, value in scores.items()}
    return {"own-graph": {"best": best, "scores": rows}}


HOSTILE = '<script>alert(1)</script>"><img src=x onerror=alert(2)>'


def text_of(html):
    body = re.sub(r"<style>.*?</style>", "", html, flags=re.DOTALL)
    return " ".join(re.sub(r"<[^>]*>", " ", body).split())


def test_private_run_says_what_is_guaranteed(build, statement, scores):
    text = text_of(Report.of_run(build.settings(statement), statement, scores).html())

    assert "ε ≤ " in text
    assert "δ·n = 0.002," in text
    assert "The guarantee protects one document: its text, its label and all its links" in text
    assert "Assumed to be public" in text
    assert "Not covered" in text
    assert "May be released, within what is covered" in text
    assert "Working copy, not for release" in text
    assert "privgcn release" in text
    assert "SYNTHETIC" not in text


def test_scores_stand_beside_baselines_by_mode(build, statement, scores):
    html = Report.of_run(build.settings(statement), statement, scores).html()
    text = text_of(html)

    rows = ("alone covered covered 0.600", "full-graph not covered not covered 0.800")
    order = [text.index(row) for row in rows]
    assert order == sorted(order)
    assert f"baseline: majority {NOTHING} 0.500" in text
    assert "micro-F1, inference own-graph" in text


def test_a_plain_run_stands_beside_the_best_reference(build, scores):
    scores["references"] = references(
        best="logistic regression", **{"logistic regression": 0.61}
    )
    scores["modes"] = {"own-graph": scores["modes"]["own-graph"]}
    text = text_of(Report.of_run(build.settings(None), None, scores).html())

    assert "Best without privacy 0.610 micro-F1, logistic regression" in text
    assert "Micro-F1 without privacy, by inference mode" in text
    assert "own-graph: logistic regression" in text


def test_a_best_reference_without_scores_is_refused(build, scores):
    scores["references"] = references(best="gcn", mlp=0.5)
    with pytest.raises(DataError, match="must have scores"):
        Report.of_run(build.settings(None), None, scores)


def test_seeds_are_a_table_that_says_what_publishing_costs(build, statement, scores):
    row = {"values": [0.31, 0.41, 0.47], "mean": 0.3967, "std": 0.0808, "interval": [0.2, 0.6]}
    scores["repeats"] = {
        "seeds": [0, 1, 2],
        "model": 0,
        "modes": {"own-graph": {"micro_f1": row}},
        "composed_epsilon": 1.7301,
    }
    text = text_of(Report.of_run(build.settings(statement), statement, scores).html())

    assert "0.397 ± 0.081" in text
    assert "0.200 to 0.600" in text
    assert "The model is that of seed 0, named beforehand" in text
    assert "would cost epsilon 1.731 together" in text


def test_the_model_is_not_its_own_baseline(build, statement):
    scores = build.scores()
    scores["baselines"]["graph-blind linear"] = scores["modes"]["alone"]
    own = {"model.kind": "linear", "model.hops": 0}
    page = text_of(Report.of_run(build.settings(statement, **own), statement, scores).html())
    other = {"model.kind": "gcn"}
    beside = text_of(
        Report.of_run(build.settings(statement, **other), statement, scores).html()
    )

    assert "Best baseline 0.500 micro-F1, majority" in page
    assert "graph-blind" not in page
    assert "Best baseline 0.600 micro-F1, graph-blind linear" in beside


def test_settings_that_had_no_effect_are_not_shown(build, statement, scores):
    private = text_of(Report.of_run(build.settings(statement), statement, scores).html())
    plain = text_of(Report.of_run(build.settings(None), None, scores).html())

    assert "training.parts" not in private
    assert "not set" not in private
    assert "training.parts 1" in plain


def test_a_mode_has_one_colour_in_both_charts(build, statement, scores):
    html = Report.of_run(build.settings(statement), statement, scores).html()
    bars, curve = html.split('id="curve"')

    for mode in ("alone", "own-graph", "full-graph (not covered)"):
        name = re.escape(f">{mode}</text>")
        [bar] = set(re.findall(name + r'<rect class="fill (s\d)"', bars))
        [point] = set(re.findall(r'class="fill (s\d)"[^>]*/><text[^>]*' + name, curve))
        assert bar == point


def test_no_table_is_there_twice(build, statement, scores):
    html = Report.of_run(build.settings(statement), statement, scores).html()
    scored = html.split('id="scores"')[1].split("</section>")[0]

    assert scored.count("<table") == 1


def test_scores_say_how_many_documents_they_are_over(build, statement, scores):
    for entry in scores["modes"].values():
        entry["documents"] = 1234

    html = Report.of_run(build.settings(statement), statement, scores).html()
    assert "Scores on the 1,234 test documents" in html


def test_seeded_run_must_not_be_released(build, scores):
    seeded = build.statement(releasable=False)
    text = text_of(Report.of_run(build.settings(seeded), seeded, scores).html())

    assert "The model must not be released" in text
    assert "May be released, within what is covered" not in text


def test_run_without_privacy_says_so_plainly(build, scores):
    text = text_of(Report.of_run(build.settings(None), None, scores).html())

    assert "No privacy guarantee" in text
    assert "Nothing: there is no privacy guarantee." in text
    assert "ε" not in text
    assert "covered by the guarantee" not in text


def test_synthetic_documents_wear_a_badge(build, statement):
    scores = build.scores(synthetic=True)
    html = Report.of_run(build.settings(statement), statement, scores).html()

    assert 'data-test="synthetic">SYNTHETIC<' in html
    assert "no real person wrote" in html


def test_nothing_is_loaded_and_no_script_runs(build, statement, scores):
    html = Report.of_run(build.settings(statement), statement, scores).html()

    assert html.startswith("<!DOCTYPE html>")
    assert "<script" not in html
    assert not re.findall(r'(?:src|href)="(?!#|data:,)', html)
    assert not re.search(r"@import|url\((?!#)", html)
    assert "default-src 'none'" in html


def test_hostile_labels_names_and_paths_stay_text(build):
    statement = build.statement()
    scores = build.scores((HOSTILE, "b\x00\ud800"))
    scores["dataset"] = HOSTILE
    scores["baselines"][HOSTILE] = {"micro_f1": 0.1}
    settings = build.settings(statement, **{"data.source": HOSTILE, "recipe": HOSTILE})
    html = Report.of_run(settings, statement, scores).html()

    assert "<script" not in html
    assert "<img" not in html
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in html
    html.encode("utf-8")


def test_ids_are_unique_and_links_lead_somewhere(build, statement, scores):
    html = Report.of_run(build.settings(statement), statement, scores).html()
    ids = re.findall(r'\bid="([^"]+)"', html)

    assert len(ids) == len(set(ids))
    assert set(re.findall(r'href="#([^"]+)"', html)) <= set(ids)


def test_many_classes_are_numbered(build, statement):
    scores = build.scores(tuple(f"class {i}" for i in range(41)))
    html = Report.of_run(build.settings(statement), statement, scores).html()

    assert html.count('class="confusion numbered"') == 3
    assert "Columns are numbered like the rows" in html


def test_same_run_same_bytes(build, statement, scores):
    first, second = (
        Report.of_run(build.settings(statement), statement, scores).html() for _ in range(2)
    )

    assert first == second


def test_saved_whole_and_atomically(build, statement, scores, tmp_path):
    report = Report.of_run(build.settings(statement), statement, scores)
    path = report.save(tmp_path / "new" / "report.html")

    assert path.read_text("utf-8") == report.html()
    assert [p.name for p in path.parent.iterdir()] == ["report.html"]
    with pytest.raises(ConfigError, match="must not be a folder"):
        report.save(tmp_path)


def test_statement_and_settings_must_belong_together(build, statement, scores):
    with pytest.raises(ConfigError, match="private settings without a statement"):
        Report.of_run(build.settings(statement), None, scores)
    with pytest.raises(ConfigError, match="statement without privacy settings"):
        Report.of_run(build.settings(None), statement, scores)


@pytest.mark.parametrize(
    "scores",
    [
        [],
        {},
        {"modes": {}},
        {"modes": {"sideways": {"micro_f1": 1}}},
        {"modes": {"alone": {}}},
        {"modes": {"alone": {"micro_f1": 1}}, "baselines": {"majority": 3}},
        {"modes": {"alone": {"micro_f1": 1, "confusion": [[1, 2]]}}, "classes": ["a"]},
        {"modes": {"alone": {"micro_f1": 1, "confusion": [[1]]}}, "classes": []},
    ],
)
def test_scores_that_could_only_be_misread_are_refused(build, scores):
    with pytest.raises(DataError, match="scores"):
        Report.of_run(build.settings(None), None, scores)


def test_a_run_scored_in_one_mode_only_has_a_page(build, statement):
    scores = {"modes": {"alone": {"micro_f1": None}}, "dataset": "x"}

    html = Report.of_run(build.settings(statement), statement, scores).html()
    assert NOTHING in html
    assert "no test documents with a label, so nothing was scored" in html


class TestWords:
    def test_numbers_are_rounded_against_the_claim(self, build):
        words = explained(build.statement(noise_multiplier=8.0))
        statement = build.statement(noise_multiplier=8.0)

        assert float(words["claim"].split()[2]) >= statement.epsilon

    def test_guess_is_bounded_as_the_definition_bounds_it(self, build):
        statement = build.statement(noise_multiplier=1e6)

        assert "is at most 1 times as likely" in explained(statement)["meaning"][0]
        assert "at most 50.1%" in explained(statement)["meaning"][1]

    def test_huge_epsilons_do_not_overflow_and_are_called_large(self, build):
        words = explained(build.statement(noise_multiplier=0.05))

        assert "is possibly more than a million times as likely" in words["meaning"][0]
        assert "at most 100%" in words["meaning"][1]
        assert any("Epsilon is large" in line for line in words["warnings"])

    def test_a_weak_delta_is_called_weak(self, build):
        words = explained(build.statement(delta=0.002))

        assert any("Delta is weak" in line for line in words["warnings"])


class TestComparison:
    def records(self, build, count=2):
        for i in range(count):
            statement = build.statement(noise_multiplier=8.0 * (i + 1))
            yield record(f"run-{i}", build.settings(statement), statement, build.scores())

    def test_runs_side_by_side_with_a_curve(self, build):
        plain = record("plain", build.settings(None), None, build.scores(best=0.9))
        html = Report.of_runs([*self.records(build), plain]).html()

        assert "3 runs side by side" in html
        assert "archive: score against epsilon (unit document, relation remove)" in html
        assert "without privacy, own-graph" in html
        assert "Some of these models were trained without privacy" in html

    def test_runs_are_compared_with_the_best_reference(self, build):
        scores = build.scores(best=0.9)
        scores["references"] = references(best="mlp", mlp=0.65, gcn=0.66)
        plain = record("plain", build.settings(None), None, scores)
        html = Report.of_runs([*self.records(build), plain]).html()

        assert "best without privacy, own-graph: mlp" in html
        assert "0.650" in text_of(html)
        assert "without privacy, own-graph<" not in html

    def test_scores_stand_beside_their_intervals_and_documents(self, build):
        scores = build.scores()
        for row in scores["modes"].values():
            row |= {"documents": 321, "intervals": {"micro_f1": [0.555, 0.777]}}
        plain = record("plain", build.settings(None), None, scores)
        text = text_of(Report.of_runs([*self.records(build), plain]).html())

        assert "321" in text
        assert "0.555 to 0.777" in text

    def test_other_units_get_a_chart_of_their_own(self, build):
        other = build.statement(relation="replace")
        replaced = record("other", build.settings(other), other, build.scores())
        html = Report.of_runs([*self.records(build), replaced]).html()

        assert html.count('data-test="figure"') == 2

    def test_repeated_runs_are_averaged(self, build):
        statement = build.statement()
        runs = [
            record(f"r{best}", build.settings(statement), statement, build.scores(best=best))
            for best in (0.7, 0.8)
        ]

        assert "0.650 ± 0.071" in Report.of_runs(runs).html()

    def test_partly_synthetic(self, build):
        made = record("made", build.settings(None), None, build.scores(synthetic=True))

        assert "PARTLY SYNTHETIC" in Report.of_runs([*self.records(build), made]).html()

    def test_no_runs(self):
        with pytest.raises(ConfigError, match="at least one run"):
            Report.of_runs([])


def line(points):
    series = [{"name": "s", "points": points}]
    return Figure.model_validate({"title": "F", "series": series})


class TestExperiment:
    def test_tables_figures_and_notes(self):
        table = Table(title="T <1>", columns=("a", "b"), rows=(("x", 1.5),), notes=("n",))
        figure = line([[1, 2], [2, 3]])
        html = Report.of_experiment("table1", [table], [figure], "What it shows.").html()

        assert "T &lt;1&gt;" in html
        assert "What it shows." in html
        assert html.count('data-test="figure"') == 1
        assert "The values as a table" in html

    def test_many_points_can_be_skipped(self):
        figure = line([[i, i] for i in range(30)])

        assert (
            "Skip the points of this chart"
            in Report.of_experiment("e", [], [figure], ()).html()
        )


def test_the_leading_score_has_its_interval_beside_it(build, statement, scores):
    scores["modes"]["own-graph"]["intervals"] = {"micro_f1": [0.41, 0.66]}
    html = Report.of_run(build.settings(statement), statement, scores).html()
    assert "micro-F1, inference own-graph; 95 %: 0.410 to 0.660" in text_of(html)


def test_one_test_document_is_one(build, statement):
    scores = {"modes": {"alone": {"micro_f1": 1.0, "documents": 1}}, "dataset": "x"}
    html = Report.of_run(build.settings(statement), statement, scores).html()
    assert "on the 1 test document is 1.000" in html
