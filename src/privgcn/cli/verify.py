"""``privgcn verify``: does the privacy claim of a run follow from its files?"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from privgcn.cli.flags import AsJson
from privgcn.cli.output import print_json, say


def verify(
    run: Annotated[
        Path,
        typer.Argument(help="A run or release folder, or a statement file.", metavar="RUN"),
    ],
    as_json: AsJson = False,
) -> None:
    """Recompute epsilon from the files of a run; fail if any of them was edited."""
    from privgcn.privacy.wording import round_up
    from privgcn.runs.run import verify as verify_run

    verification = verify_run(run)
    statement = verification.statement
    if as_json:
        names = ("epsilon", "delta", "unit", "relation", "accountant", "releasable")
        record = {name: getattr(statement, name) for name in names}
        checked = {"checked": list(verification.checked), "digest": statement.digest()}
        print_json({"verified": True, **record, **checked})
        return
    say(
        f"verified: epsilon <= {round_up(statement.epsilon)} at delta = {statement.delta:g}, "
        f"unit {statement.unit}, relation {statement.relation}"
    )
    say(f"checked against each other: {', '.join(verification.checked)}")
    if not statement.releasable:
        say("not releasable: noise and samples came from a seed")
