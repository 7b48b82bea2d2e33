"""Fills the templates; everything that is not markup of our own is escaped."""

from __future__ import annotations

from functools import cache
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined

from privgcn.report.charts import svg
from privgcn.report.figures import Figure
from privgcn.report.markup import finalize
from privgcn.report.table_markup import table_html

WIDE, NARROW = 760, 336
# With more points than this, a keyboard reader is offered a way past them.
_MANY_POINTS = 12


def render(template: str, summary: dict[str, Any]) -> str:
    """One page. The same summary gives the same bytes."""
    return (
        _environment()
        .get_template(template)
        .render(page=summary, draw=draw, table_html=table_html)
    )


def draw(figure: Figure, name: str) -> dict[str, Any]:
    """A figure in the two widths that a page switches between."""
    points = sum(len(series.points) for series in figure.series)
    return {
        "wide": svg(figure, width=WIDE, name=f"{name}-wide"),
        "narrow": svg(figure, width=NARROW, name=f"{name}-narrow"),
        "many": points > _MANY_POINTS,
    }


@cache
def _environment() -> Environment:
    return Environment(
        loader=PackageLoader("privgcn.report"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        finalize=finalize,
    )
