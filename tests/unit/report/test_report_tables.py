import csv
import io
import json

import pytest

from privgcn.errors import DataError
from privgcn.report import Difference, MeanStd, Table
from privgcn.report.formats import NOTHING
from privgcn.report.records import read_record
from privgcn.report.table_markup import table_html

RECORD = {
    "title": "Table 1",
    "columns": ["dataset", "ours", "published"],
    "rows": [
        ["cora", {"mean": 0.7012, "std": 0.012}, 0.56],
        ["pubmed", None, 0.54],
    ],
    "notes": ["Five seeds."],
    "decimals": 2,
}


def table(**changes):
    return Table.model_validate({**RECORD, **changes})


def test_a_stored_table_is_the_same_table():
    made = Table(
        title="Table 1",
        columns=("a", "b", "c", "d"),
        rows=(("x", MeanStd(0.5, 0.1), 3, None), (True, Difference(-0.25), 0.5, "y")),
    )
    stored = json.loads(json.dumps(made.model_dump(mode="json"), allow_nan=False))

    assert stored["rows"][0][:2] == ["x", {"mean": 0.5, "std": 0.1}]
    assert stored["rows"][1][:2] == [True, {"difference": -0.25}]
    assert Table.model_validate(stored) == made
    assert [type(cell) for cell in Table.model_validate(stored).rows[1]] == [
        bool, Difference, float, str,
    ]  # fmt: skip


def test_markdown_has_means_deviations_and_escaped_text():
    text = table(rows=[["a|b <i> *c*\n_d_", {"mean": 0.7012, "std": 0.012}, 0.56]]).markdown()

    assert "| a\\|b \\<i\\> \\*c\\* \\_d\\_ | 0.70 ± 0.01 | 0.56 |" in text
    assert "| :-- | --: | --: |" in text
    assert text.endswith("Five seeds.\n")


def test_csv_keeps_precision_and_gives_deviations_their_own_column():
    rows = list(csv.reader(io.StringIO(table().csv())))

    assert rows[0] == ["dataset", "ours", "ours std", "published"]
    assert rows[1] == ["cora", "0.7012", "0.012", "0.56"]
    assert rows[2] == ["pubmed", "", "", "0.54"]


def test_csv_text_cannot_be_a_formula():
    text = table(rows=[["=SUM(A1)", 1, -2]]).csv()

    assert "'=SUM(A1),1,-2" in text


def test_a_lone_dash_is_no_formula():
    text = table(rows=[["-", 1, 2], ["-1+2", 1, 2], ["--", 1, 2]]).csv()

    assert text.splitlines()[1:] == ["-,1,2", "'-1+2,1,2", "'--,1,2"]


def test_html_has_caption_scopes_and_escaped_text():
    html = table_html(table(rows=[["<b>x</b>", 1, 2]], title="<i>"))

    assert "<b>" not in html
    assert "<i>" not in html
    assert "<caption>" in html
    assert html.count('scope="col"') == 3
    assert html.count('scope="row"') == 1


def test_a_phone_names_a_row_in_its_first_cell():
    rows = [["cora", "sgd", 2, 0.5], ["cora", "adam", None, 0.5], ["pubmed", "sgd", 2, 0.5]]
    html = table_html(table(columns=["dataset", "optimiser", "epsilon", "score"], rows=rows))

    assert '<bdi>cora</bdi><span class="keys">sgd, epsilon 2</span>' in html
    assert '<bdi class="again">cora</bdi><span class="keys">adam</span>' in html
    assert "<bdi>pubmed</bdi>" in html
    assert html.count('"brief key"') == 3
    assert html.count('"n key"') == 4


@pytest.mark.parametrize(
    ("columns", "row"),
    [
        (["a", "b"], ["x", 0.5]),
        (["a", "b"], ["x", "y"]),
        (["a", "b", "c", "d", "e", "f"], ["u", "v", "w", "x", "y", 0.5]),
        (
            ["a", "b", "c"],
            [
                "x",
                "words that say more than which row it is " * 3,
                0.5,
            ],
        ),
    ],
)
def test_columns_that_name_no_row_stay_where_they_are(columns, row):
    assert "key" not in table_html(table(columns=columns, rows=[row]))


def test_a_difference_shows_its_sign_and_none_where_it_rounds_to_zero():
    rows = [["a", {"difference": 0.1412}, 1], ["b", {"difference": -0.048}, 1]]
    made = table(rows=[*rows, ["c", {"difference": -0.004}, 1]])

    texts = [made.text_of(row[1], "ours") for row in made.rows]
    assert texts == ["+0.14", "\N{MINUS SIGN}0.05", "0.00"]


def test_the_deviation_is_that_of_a_sample():
    assert MeanStd.of([0.5, 0.7]).std == pytest.approx(0.1414, abs=1e-4)
    assert MeanStd.of([0.5]) == MeanStd(0.5, None)
    assert "| 0.50 |" in table(rows=[["a", MeanStd.of([0.5]), 1]]).markdown()


def test_decimals_by_column():
    text = table(decimals={"ours": 4}).markdown()

    assert "0.7012 ± 0.0120" in text
    assert "0.560" in text


def test_values_that_are_none_read_as_a_dash():
    assert f"| {NOTHING} |" in table(rows=[["a", float("nan"), None]]).markdown()


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"title": 3}, "'title'"),
        ({"columns": []}, "'columns'"),
        ({"columns": ["a", "a", "b"]}, "distinct"),
        ({"rows": {}}, "'rows'"),
        ({"rows": [["cora", 1]]}, "3 cells"),
        ({"rows": [["cora", {"mean": "x", "std": 1}, 1]]}, r"'rows\.0\.1"),
        ({"rows": [["cora", {"mean": float("nan")}, 1]]}, r"'rows\.0\.1"),
        ({"rows": [["cora", [1, 2], 1]]}, r"'rows\.0\.1"),
        ({"decimals": -1}, "'decimals"),
        ({"colour": "red"}, "'colour'"),
    ],
)
def test_bad_tables_are_refused_with_the_rule(changes, words):
    with pytest.raises(DataError, match=words):
        read_record(Table, {**RECORD, **changes}, "a table")


def test_latex_escapes_and_has_booktabs_rules() -> None:
    table = Table(
        title="A & B_1",
        columns=("name", "F1 (%)"),
        rows=(("50 % {x} \\\\ ~^", MeanStd(0.5, 0.01)), ("<b>", Difference(-0.25))),
        notes=("See #1.",),
    )
    made = table.latex()
    assert r"\caption{A \& B\_1}" in made
    assert r"\begin{tabular}{lr}" in made
    assert r"name & F1 (\%) \\" in made
    assert r"0.500 $\pm$ 0.010 \\" in made
    assert r"$<$b$>$ & $-$0.250 \\" in made
    assert r"\textasciitilde{}\textasciicircum{}" in made
    assert r"{\footnotesize See \#1.}" in made
    assert made.index(r"\bottomrule") < made.index(r"\end{tabular}")
