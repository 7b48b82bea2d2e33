import csv
import io

import pytest

from privgcn.errors import ConfigError, DataError
from privgcn.report import Difference, MeanStd, Table
from privgcn.report.formats import NOTHING

RECORD = {
    "title": "Table 1",
    "columns": ["dataset", "ours", "published"],
    "rows": [
        ["cora", {"mean": 0.7012, "std": 0.012}, 0.56],
        {"dataset": "pubmed", "ours": None, "published": 0.54},
    ],
    "notes": "Five seeds.",
    "decimals": 2,
}


def table(**changes):
    return Table.from_dict({**RECORD, **changes})


def test_plain_dictionaries_become_tables():
    read = table()

    assert read.rows[0] == ("cora", MeanStd(0.7012, 0.012), 0.56)
    assert read.rows[1] == ("pubmed", None, 0.54)
    assert read.notes == ("Five seeds.",)
    assert Table.from_dict(read) is read


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
    html = table(rows=[["<b>x</b>", 1, 2]], title="<i>").html()

    assert "<b>" not in html
    assert "<i>" not in html
    assert "<caption>" in html
    assert html.count('scope="col"') == 3
    assert html.count('scope="row"') == 1


def test_a_phone_names_a_row_in_its_first_cell():
    rows = [["cora", "sgd", 2, 0.5], ["cora", "adam", None, 0.5], ["pubmed", "sgd", 2, 0.5]]
    html = table(columns=["dataset", "optimiser", "epsilon", "score"], rows=rows).html()

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
    assert "key" not in table(columns=columns, rows=[row]).html()


def test_ours_beside_published_with_the_difference():
    compared = table().with_difference("ours", "published")

    assert compared.columns[-1] == "difference"
    assert compared.rows[0][-1] == Difference(pytest.approx(0.1412))
    assert compared.rows[1][-1] is None
    assert "+0.14" in compared.markdown()


def test_difference_is_taken_at_the_published_digits():
    near = table(rows=[["cora", 0.564, 0.56], ["pubmed", 0.512, 0.56]])

    rounded = near.with_difference("ours", "published", digits=2)

    texts = [rounded.text_of(row[-1], "difference") for row in rounded.rows]
    assert texts == ["0.00", "\N{MINUS SIGN}0.05"]


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
        ({"rows": [{"dataset": 1, "other": 2}]}, "'other'"),
        ({"rows": [["cora", {"mean": "x", "std": 1}, 1]]}, "A cell"),
        ({"rows": [["cora", [1, 2], 1]]}, "A cell"),
        ({"decimals": -1}, "'decimals'"),
    ],
)
def test_bad_tables_are_refused_with_the_rule(changes, words):
    with pytest.raises(DataError, match=words):
        table(**changes)


def test_an_unknown_column_names_the_known_ones():
    with pytest.raises(ConfigError, match="dataset, ours, published"):
        table().with_difference("mine", "published")
