"""Fills the templates; everything that is not markup of our own is escaped."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from functools import cache
from importlib import resources
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined

from privgcn import __version__
from privgcn.report.charts import svg
from privgcn.report.drawing import Colours
from privgcn.report.figures import Figure
from privgcn.report.markup import finalize
from privgcn.report.table_markup import table_html
from privgcn.report.tables import markdown_text

_WIDE, _NARROW = 760, 336
# With more points than this, a keyboard reader is offered a way past them.
_MANY_POINTS = 12


def render(template: str, summary: dict[str, Any]) -> str:
    """One page. The same summary gives the same bytes."""
    colours = Colours()

    def draw(figure: Figure, name: str) -> dict[str, Any]:
        """A figure in the two widths that a page switches between."""
        points = sum(len(series.points) for series in figure.series)
        return {
            "wide": svg(figure, width=_WIDE, name=f"{name}-wide", colours=colours),
            "narrow": svg(figure, width=_NARROW, name=f"{name}-narrow", colours=colours),
            "many": points > _MANY_POINTS,
        }

    page = _environment().get_template(template)
    return page.render(page=summary, draw=draw, table_html=table_html, version=__version__)


@cache
def texts() -> Mapping[str, Any]:
    """What pages and cards say beside the statement, as a tree."""
    return tomllib.loads(resources.files(__package__).joinpath("texts.toml").read_text("utf-8"))


def notice(name: str, **values: str) -> dict[str, str]:
    """A notice: its tone, title and text."""
    return {key: text.format(**values) for key, text in texts()["notices"][name].items()}


def citations() -> list[dict[str, str]]:
    """The method's paper and this program, in words and as BibTeX."""
    return [
        {key: text.format(version=__version__) for key, text in entry.items()}
        for entry in texts()["citations"]
    ]


@cache
def _environment() -> Environment:
    made = Environment(
        loader=PackageLoader("privgcn.report"),
        autoescape=lambda name: name is None or not name.endswith(".md"),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        finalize=finalize,
    )
    made.filters["md"] = markdown_text
    return made
