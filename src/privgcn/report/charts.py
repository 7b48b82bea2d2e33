"""Figures as SVG drawings."""

from __future__ import annotations

from pathlib import Path

from markupsafe import Markup

from privgcn.report.chart_bars import draw_bars
from privgcn.report.chart_lines import draw_lines
from privgcn.report.figures import Figure
from privgcn.report.writing import write_text


def svg(
    figure: Figure, *, width: int = 720, name: str = "figure", values: bool = True
) -> Markup:
    """The drawing.

    Args:
        figure: What to draw.
        width: In pixels; text keeps its size, so a phone gets a narrower drawing rather
            than a smaller one.
        name: Distinguishes the drawings of one page.
        values: Whether each point shows its value when pointed at or focused.
    """
    draw = draw_lines if figure.kind == "line" else draw_bars
    return draw(figure, width=width, name=name, values=values)


def save_svg(figure: Figure, path: str | Path, *, width: int = 720) -> Path:
    """Writes a vector file for a paper: no hover values, no page around it."""
    drawing = svg(figure, width=width, values=False)
    return write_text(path, f'<?xml version="1.0" encoding="UTF-8"?>\n{drawing}\n')
