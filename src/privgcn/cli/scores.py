"""How a run and its scores look on a terminal."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from privgcn.cli.output import print_table, say

if TYPE_CHECKING:
    from privgcn.privacy.statement import PrivacyStatement


def print_run(record: Mapping[str, Any], statement: PrivacyStatement | None) -> None:
    """Shows a finished run to a person.

    Args:
        record: What ``--json`` prints.
        statement: Of the run; ``None`` without privacy.
    """
    from privgcn.privacy.wording import guarantee_line
    from privgcn.report.scores import forecast_notes

    modes = record["scores"]
    if any(row["documents"] for row in modes.values()):
        print_scores({**record, "modes": modes}, private=statement is not None)
    else:
        say("No document has the split 'test' and a label: nothing was scored.")
    for line in (
        *_reference_lines(record),
        *_repeat_lines(record),
        *forecast_notes(record),
        *record["baselines_left_out"],
        guarantee_line(statement),
    ):
        say(line)
    folder = record["run"]
    say(f"Run: {folder}    Report: {folder}/report.html")
    if statement is not None:
        word = shlex.quote(folder)
        say(f"Next: privgcn verify {word}; privgcn release {word} DIR")


def print_scores(scores: Mapping[str, Any], *, private: bool) -> None:
    """Shows scores by inference mode with 95 % intervals, and the baselines below."""
    from privgcn.config import facts_of
    from privgcn.report.scores import COVERAGE, coverage, documents

    name = scores["dataset"] + (" (synthetic)" if scores["synthetic"] else "")
    columns = {"inference: the model sees": False, "micro-F1": True, "macro-F1": True}
    rows = [
        (f"{mode}: {facts_of(mode).sees}", *_figures(row), *([coverage(mode)] * private))
        for mode, row in scores["modes"].items()
    ]
    rows += [
        (f"baseline: {baseline}", *_figures(row), *([""] * private))
        for baseline, row in scores["baselines"].items()
    ]
    print_table(
        f"{documents(scores)} of {name}, with 95 % intervals",
        columns | ({COVERAGE: False} if private else {}),
        rows,
        after=len(scores["modes"]),
    )


def _reference_lines(record: Mapping[str, Any]) -> list[str]:
    """The non-private references by inference mode, and which of them is the best."""
    lines = []
    for mode, row in record.get("references", {}).items():
        each = ", ".join(f"{name} {_score(one)}" for name, one in row["scores"].items())
        lines.append(f"{mode}: {each}. Best on the validation documents: {row['best']}.")
    return ["Without privacy, micro-F1 by inference mode:", *lines] if lines else []


def _repeat_lines(record: Mapping[str, Any]) -> list[str]:
    """The scores over seeds, and what publishing those of all seeds would cost."""
    repeats = record.get("repeats")
    if repeats is None:
        return []
    count, lines = len(repeats["seeds"]), []
    for mode, rows in repeats["modes"].items():
        if "micro_f1" in rows:
            row = rows["micro_f1"]
            low, high = row["interval"]
            lines.append(
                f"{mode}: micro-F1 {row['mean']:.3f} ± {row['std']:.3f} over {count} seeds, "
                f"95 % {low:.3f} to {high:.3f}; the model, seed {repeats['model']}: "
                f"{row['values'][0]:.3f}."
            )
    if repeats["composed_epsilon"] is not None:
        from privgcn.privacy.wording import round_up

        lines.append(
            f"Each seed trained on the private documents. To publish anything of all {count}, "
            f"their scores included, would be {count} releases: epsilon at most "
            f"{round_up(repeats['composed_epsilon'])} together. Keep these scores to yourself."
        )
    return lines


def _figures(row: Mapping[str, Any]) -> list[str]:
    return [_score(row, key) for key in ("micro_f1", "macro_f1")]


def _score(row: Mapping[str, Any], key: str = "micro_f1") -> str:
    if row[key] is None:
        return "-"
    low, high = row["intervals"][key]
    return f"{row[key]:.3f} ({low:.3f}-{high:.3f})"
