"""``privgcn release``: what may be published."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from privgcn.cli.flags import AsJson, Overwrite
from privgcn.cli.output import print_json, say


def release(
    run: Annotated[Path, typer.Argument(help="A run folder.", metavar="RUN")],
    folder: Annotated[Path, typer.Argument(help="Where to write.", metavar="DIR")],
    ledger: Annotated[
        Path | None, typer.Option(help="Record the release in this ledger file.")
    ] = None,
    budget: Annotated[
        float | None, typer.Option(help="Total epsilon of all releases in the ledger.")
    ] = None,
    delta: Annotated[
        float | None,
        typer.Option(help="Delta of the budget; the same for every release in a ledger."),
    ] = None,
    with_learned_features: Annotated[
        bool, typer.Option(help="Also release features that were learned from protected texts.")
    ] = False,
    about: Annotated[
        str | None, typer.Option(help="For the card: what the documents are; made public.")
    ] = None,
    intended_use: Annotated[
        str | None, typer.Option(help="For the card: what the model is for.")
    ] = None,
    contact: Annotated[str | None, typer.Option(help="For the card: whom to ask.")] = None,
    overwrite: Overwrite = False,
    as_json: AsJson = False,
) -> None:
    """Write what may be published: model, statement and privacy card."""
    from privgcn.errors import ConfigError
    from privgcn.privacy.ledger import Budget, Ledger
    from privgcn.privacy.wording import round_up
    from privgcn.report.card import About, card_html, card_markdown
    from privgcn.runs import release as releases
    from privgcn.runs.folder import CARD, CARD_PAGE
    from privgcn.runs.run import Run

    if budget is not None and ledger is None:
        raise ConfigError("The option --budget needs --ledger, which counts what was spent.")
    if (budget is None) != (delta is None):
        raise ConfigError(
            "A budget is an epsilon at a delta. Give --budget and --delta together, and the "
            "same --delta for every release of a ledger."
        )
    finished = Run(run)
    statement = releases.releasable_statement(finished, learned_features=with_learned_features)
    releases.check_release_target(finished, folder, overwrite=overwrite)
    spent = None
    if ledger is not None:
        limit = None if budget is None or delta is None else Budget(budget, delta)
        spent = Ledger(ledger).record(statement, budget=limit)
    kind = finished.model().featurizer.kind
    described = releases.public_settings(finished.settings, kind).model_dump(exclude={"data"})
    said = About(about, finished.settings.data.classes, intended_use, contact)
    pages = {
        CARD: card_markdown(statement, described, said),
        CARD_PAGE: card_html(statement, described, said),
    }
    releases.write_release(finished, folder, pages, overwrite=overwrite)
    if as_json:
        print_json({"release": str(folder), "epsilon": statement.epsilon, "spent": spent})
        return
    say(f"Released to {folder}: model, statement and card.")
    if spent is not None:
        say(f"All releases in {ledger} together: epsilon {round_up(spent)}.")
