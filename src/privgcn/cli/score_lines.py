"""How scores look on a terminal."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from privgcn.modes import facts_of

if TYPE_CHECKING:
    from rich.table import Table

    from privgcn.privacy.statement import PrivacyStatement


def scores_table(scores: dict[str, Any], *, private: bool) -> Table:
    """Scores by inference mode, with the baselines below."""
    from rich.table import Table
    from rich.text import Text

    from privgcn.report.scores import COVERED, NOT_COVERED

    name = scores["dataset"] + (" (synthetic)" if scores["synthetic"] else "")
    table = Table(title=Text(f"Test documents of {name}"), title_justify="left")
    table.add_column("inference: the model sees")
    for column in ("micro-F1", "macro-F1"):
        table.add_column(column, justify="right")
    if private:
        table.add_column("guarantee")
    for mode, row in scores["modes"].items():
        sees, covered = facts_of(mode)
        mark = [COVERED if covered else NOT_COVERED] if private else []
        table.add_row(f"{mode}: {sees}", *_figures(row), *mark)
    table.add_section()
    for baseline, row in scores["baselines"].items():
        table.add_row(f"baseline: {baseline}", *_figures(row), *([""] if private else []))
    return table


def guarantee_line(statement: PrivacyStatement | None) -> str:
    """The guarantee in one sentence."""
    if statement is None:
        return "No privacy guarantee: trained without --epsilon."
    from privgcn.privacy.statement_text import round_up
    from privgcn.report.formats import number

    return (
        f"Guarantee: epsilon at most {round_up(statement.epsilon)} at delta "
        f"{number(statement.delta)}, unit {statement.unit}, relation {statement.relation}."
    )


def _figures(row: dict[str, Any]) -> list[str]:
    values = [row[key] for key in ("micro_f1", "macro_f1")]
    return ["-" if value is None else f"{value:.3f}" for value in values]
