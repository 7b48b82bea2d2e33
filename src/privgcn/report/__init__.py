"""Pages: the report of a run, of several runs or of an experiment, and the privacy card."""

from privgcn.report.card import About, card_html, card_markdown
from privgcn.report.figures import Figure, Point, Series
from privgcn.report.report import Report, is_report
from privgcn.report.tables import Difference, MeanStd, Table

__all__ = [
    "About",
    "Difference",
    "Figure",
    "MeanStd",
    "Point",
    "Report",
    "Series",
    "Table",
    "card_html",
    "card_markdown",
    "is_report",
]
