"""``privgcn attack``: what do released models give away, with and without privacy?"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from privgcn.cli.audit import target_of
from privgcn.cli.flags import AsJson, Chosen, RunOrSource, settings
from privgcn.cli.output import check_out, print_json, print_table, say, shown_progress

if TYPE_CHECKING:
    from privgcn.audit.attacks import Attacks


@settings(
    *("epsilon", "delta", "unit", "features", "seed"),
    epsilon="Of the private models; a run has its own (default: 1).",
)
def attack(
    source: RunOrSource,
    chosen: Chosen,
    shadows: Annotated[
        int, typer.Option(help="Models of each kind that tell membership; even.", min=4)
    ] = 16,
    column: Annotated[
        str | None, typer.Option(help="A column of the documents to infer, or label.")
    ] = None,
    out: Annotated[
        Path | None, typer.Option(help="A file for 'privgcn report --evidence'.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Attack models with and without privacy: membership, edges, a private column."""
    from privgcn import progress
    from privgcn.audit.attacks import attack as attack_target
    from privgcn.files import write_atomically
    from privgcn.runs.folder import is_stored

    if out is not None:
        check_out(out, _holds_attacks)
    more: dict[str, Any] = {}
    if chosen.flags["privacy.epsilon"] is None and chosen.config is None:
        more = {} if is_stored(Path(source)) else {"privacy__epsilon": 1.0}
    target = target_of(source, chosen, **more)
    with shown_progress():
        progress.begin("attacking")
        result = attack_target(target, shadows=shadows, column=column)
    if out is not None:
        write_atomically(out, result.model_dump_json(indent=1) + "\n")
    if as_json:
        print_json(result.model_dump(mode="json"))
        return
    _print(result)
    if out is not None:
        say(f"Wrote {out}. Next: privgcn report RUN --evidence {out}")


def _holds_attacks(path: Path) -> bool:
    from privgcn.audit.attacks import read_attacks
    from privgcn.errors import DataError

    try:
        read_attacks(path)
    except DataError:
        return False
    return True


def _print(result: Attacks) -> None:
    from privgcn.audit.bounds import FALSE_POSITIVES
    from privgcn.report.attacks import attack_name, notes

    rates = [f"TPR at {rate:.1%} FPR" for rate in FALSE_POSITIVES]
    for attacked in dict.fromkeys(row.attack for row in result.rows):
        rows = [row for row in result.rows if row.attack == attacked]
        others = any(row.others is not None for row in rows)
        numbers = ["AUC", *rates, *(["AUC of others"] if others else [])]
        print_table(
            f"{result.source}: {attack_name(attacked, result.column)}",
            {"model": False, "inference": False} | dict.fromkeys(numbers, True),
            [
                (
                    row.model,
                    row.inference or "-",
                    *map(_short, [row.auc, *row.tpr, *([row.others] if row.others else [])]),
                )
                for row in rows
            ],
        )
    for line in (*notes(result.model_dump()), "No guarantee covers inference full-graph."):
        say(line)


def _short(measured: Any) -> str:
    """A number and the farther end of its interval."""
    value, low, high = measured
    return f"{value:.3f} ±{max(high - value, value - low):.3f}"
