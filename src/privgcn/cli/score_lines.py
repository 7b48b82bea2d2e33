"""How scores look on a terminal."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from privgcn.config import facts_of

if TYPE_CHECKING:
    from rich.table import Table

    from privgcn.privacy.statement import PrivacyStatement
    from privgcn.training.outlook import Outlook


def scores_table(scores: dict[str, Any], *, private: bool) -> Table:
    """Scores by inference mode with 95 % intervals, and the baselines below."""
    from rich.table import Table
    from rich.text import Text

    from privgcn.report.scores import COVERED, NOT_COVERED

    name = scores["dataset"] + (" (synthetic)" if scores["synthetic"] else "")
    counts = {row["documents"] for row in scores["modes"].values()}
    tested = max(counts, default=0)
    scored = "1 test document" if tested == 1 else f"{tested:,} test documents"
    title = f"{scored} of {name}, with 95 % intervals"
    table = Table(title=Text(title), title_justify="left")
    table.add_column("inference: the model sees")
    for column in ("micro-F1", "macro-F1"):
        table.add_column(column, justify="right", no_wrap=True)
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


def reference_lines(scores: dict[str, Any]) -> list[str]:
    """The non-private references by inference mode, and which of them is the best."""
    lines = []
    for mode, row in scores.get("references", {}).items():
        told = ", ".join(f"{name} {_score(one)}" for name, one in row["scores"].items())
        lines.append(f"{mode}: {told}. Best on the validation documents: {row['best']}.")
    return ["Without privacy, micro-F1 by inference mode:", *lines] if lines else []


def repeat_lines(scores: dict[str, Any], statement: PrivacyStatement | None) -> list[str]:
    """The scores over seeds, and what publishing those of all seeds would cost."""
    repeats = scores.get("repeats")
    if repeats is None:
        return []
    count, lines = len(repeats["seeds"]), []
    for mode, rows in repeats["modes"].items():
        for row in (rows[name] for name in ("micro_f1",) if name in rows):
            low, high = row["interval"]
            lines.append(
                f"{mode}: micro-F1 {row['mean']:.3f} ± {row['std']:.3f} over {count} seeds, "
                f"95 % {low:.3f} to {high:.3f}; the model, seed {repeats['model']}: "
                f"{row['values'][0]:.3f}."
            )
    if statement is not None:
        from privgcn.privacy.statement_text import round_up

        lines.append(
            f"Each seed trained on the private documents. To publish anything of all {count}, "
            f"their scores included, would be {count} releases: epsilon at most "
            f"{round_up(repeats['composed_epsilon'])} together. Keep these scores to yourself."
        )
    return lines


def outlook_lines(found: Outlook | None) -> list[str]:
    """What can be expected of a run that is about to begin; nothing where nobody knows."""
    if found is None:
        return []
    low, high = found.expected.interval
    return [
        f"Expect a micro-F1 of {low:.2f} to {high:.2f} (own-graph) at this size and epsilon: "
        "so it was in four of five runs on other corpora.",
        *found.advice,
    ]


def expected_lines(scores: dict[str, Any]) -> list[str]:
    """Whether a score is what was expected."""
    expected = scores.get("expected")
    if expected is None:
        return []
    (low, high), value = expected["interval"], expected["score"]
    where = {-1: "below", 0: "within", 1: "above"}[(value > high) - (value < low)]
    return [
        f"The micro-F1 of {value:.3f} ({expected['mode']}) lies {where} what was expected, "
        f"{low:.3f} to {high:.3f}."
    ]


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
    return [_score(row, key) for key in ("micro_f1", "macro_f1")]


def _score(row: dict[str, Any], key: str = "micro_f1") -> str:
    if row[key] is None:
        return "-"
    # Runs of earlier versions have no intervals.
    ends = row.get("intervals", {}).get(key)
    return f"{row[key]:.3f}" + ("" if ends is None else f" ({ends[0]:.3f}-{ends[1]:.3f})")
