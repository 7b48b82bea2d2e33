"""Pages: the report of a run, of several runs or of an experiment, and the privacy card."""

from privgcn.report.card import card_html, card_markdown
from privgcn.report.figures import Figure
from privgcn.report.report import Report
from privgcn.report.tables import Difference, MeanStd, Table

__all__ = ["Difference", "Figure", "MeanStd", "Report", "Table", "card_html", "card_markdown"]
