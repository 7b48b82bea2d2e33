"""A table as HTML, readable on a phone too.

The first column stays in sight when a table is scrolled sideways. Where further columns say
which row it is (a method, a setting), a phone shows them in the first one, so that a number
never stands without its name.
"""

from __future__ import annotations

from markupsafe import Markup

from privgcn.report.formats import is_number
from privgcn.report.markup import element, joined
from privgcn.report.tables import Table

_MANY_COLUMNS = 7
_BRIEF = 24
_LONGEST_KEY = 80
_MOST_KEYS = 4


def table_html(table: Table) -> Markup:
    """An HTML table: caption, row and column headers, numbers set to the right."""
    keys = key_columns(table)
    head = []
    for i, column in enumerate(table.columns):
        kinds = ["n" if table.numeric(i) else "", "key" if i in keys else ""]
        head.append(element("th", column, scope="col", class_=_classes(kinds)))
    # Where the first column tells rows apart, what follows on a phone is an aside.
    names = [row[0] for row in table.rows]
    aside = "keys" if len(set(names)) < len(names) else "keys aside"
    body = []
    above: str | None = None
    for row in table.rows:
        texts = table.texts(row)
        named = [
            f"{table.columns[i]} {texts[i]}" if is_number(row[i]) else texts[i]
            for i in keys
            if row[i] not in (None, "-")
        ]
        inside = element("bdi", texts[0], class_="again" if texts[0] == above else None)
        if named:
            inside += element("span", ", ".join(named), class_=aside)
        cells = [element("th", inside, scope="row")]
        for i, text in enumerate(texts[1:], 1):
            brief = "brief" if len(text) <= _BRIEF else ""
            kinds = ["n" if table.numeric(i) else brief, "key" if i in keys else ""]
            cells.append(element("td", text, class_=_classes(kinds)))
        body.append(element("tr", joined(cells)))
        above = texts[0]
    return element(
        "table",
        element("caption", element("span", table.title)),
        element("thead", element("tr", joined(head))),
        element("tbody", joined(body)),
        class_="dense" if len(table.columns) > _MANY_COLUMNS else None,
    )


def key_columns(table: Table) -> range:
    """The columns after the first that only say which row it is; none where they are many."""
    end = 0
    while end < len(table.columns) and all(
        cell is None
        or isinstance(cell, int)
        or (isinstance(cell, str) and len(cell) <= _LONGEST_KEY)
        for cell in (row[end] for row in table.rows)
    ):
        end += 1
    return range(1, end) if 1 < end <= _MOST_KEYS and end < len(table.columns) else range(0)


def _classes(names: list[str]) -> str | None:
    return " ".join(filter(None, names)) or None
