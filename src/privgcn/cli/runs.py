"""``privgcn evaluate``, ``predict``, ``verify``, ``release`` and ``report``: with a run."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from typer import Argument, Option

from privgcn.cli.flags import MODES, READING, REPLACE, RUN_OR_RELEASE, takes
from privgcn.cli.output import (
    STANDARD_OUTPUT,
    Answer,
    Line,
    check_out,
    note,
    say,
    shown_progress,
)
from privgcn.errors import ConfigError


@takes(
    *READING,
    run=RUN_OR_RELEASE,
    source=Argument(
        help="Labelled documents: a folder, a file or a dataset. Without, the run's own."
    ),
    inference=Option(help=f"{MODES}; or all.", metavar="MODE"),
)
def evaluate(
    run: Path,
    reading: dict[str, Any],
    source: str | None = None,
    inference: str = "all",
    encoder: Path | None = None,
) -> Answer:
    """Score a model on labelled documents that did not train it, with 95 % intervals."""
    from privgcn.privacy.wording import guarantee_line
    from privgcn.report.scores import mode_table
    from privgcn.runs.predictions import score_documents
    from privgcn.runs.run import Run

    finished = Run(run)
    with shown_progress():
        record = score_documents(finished, source, inference, encoder=encoder, reading=reading)
    claim, left_out = finished.statement, record["left_out"]
    lines: list[Line] = [
        mode_table({**record, "modes": record["scores"]}, private=claim is not None),
        f"Left out: {left_out} documents that the model was trained on." if left_out else "",
        guarantee_line(claim),
    ]
    return Answer(record, lines)


@takes(
    *("id", "text", "edges", "encoding"),
    run=RUN_OR_RELEASE,
    inference=Option(help=f"What a prediction may look at: {MODES}.", metavar="MODE"),
    out="A .csv file to write; - for standard output.",
    overwrite=REPLACE,
    all_classes="Also write the probability of every class.",
)
def predict(
    run: Path,
    source: str,
    reading: dict[str, Any],
    inference: str = "own-graph",
    out: Path = Path("predictions.csv"),
    overwrite: bool = False,
    all_classes: bool = False,
    encoder: Path | None = None,
) -> Answer | None:
    """Predict the class of each document of a folder.

    Of the documents that the run was made from, those that trained it are left out.
    """
    from privgcn.runs.predictions import predict_source

    if out.suffix not in ("", ".csv"):
        raise ConfigError(
            f"Predictions must be written to a file that ends with .csv. Got {out}. Rename it."
        )
    check_out(out, overwrite=overwrite)
    with shown_progress():
        predictions = predict_source(run, source, inference, encoder=encoder, reading=reading)
    answered, left_out = len(predictions.ids), predictions.left_out
    record = {
        "predictions": str(out),
        "documents": answered,
        "inference": inference,
        "covered": predictions.covered,
        "coverage": predictions.coverage,
        "training_documents": list(predictions.trained),
        "left_out": left_out,
    }
    lines = [f"Wrote {answered} predictions to {out} (inference {inference})."]
    if left_out:
        lines.append(
            f"Answered {answered} of {answered + left_out} documents. Left out: {left_out} "
            "documents that trained the model."
        )
    lines.append(predictions.coverage)
    if out == STANDARD_OUTPUT:
        say(predictions.csv_text(all_classes=all_classes).removesuffix("\n"))
        note("\n".join(lines))
        return None
    predictions.write(out, all_classes=all_classes)
    return Answer(record, lines)


@takes(run=Argument(help="A run or release folder, or a statement file.", metavar="RUN"))
def verify(run: Path) -> Answer:
    """Recompute epsilon from the files of a run; fail if any of them was edited."""
    from privgcn.privacy.wording import explained, guarantee_line
    from privgcn.runs.run import verify as verify_run

    statement, checked = verify_run(run)
    warnings = explained(statement)["warnings"]
    names = ("epsilon", "delta", "unit", "relation", "accountant", "releasable", "digest")
    claim = {name: getattr(statement, name) for name in names}
    record = {"verified": True, **claim, "checked": list(checked), "warnings": warnings}
    lines = [
        f"verified: {guarantee_line(statement).removeprefix('Guarantee: ')}",
        f"checked against each other: {', '.join(checked)}",
    ]
    return Answer(record, [*lines, *warnings])


@takes(
    folder=Argument(help="Where to write.", metavar="DIR"),
    ledger="Record the release in this ledger file.",
    budget="Total epsilon of all releases in the ledger.",
    delta="Delta of the budget; the same for every release in a ledger.",
    not_chosen="Declare that this model was not picked among several by looking at scores or "
    "documents.",
    registry="Also write the entry of the OpenDP deployments registry to this .yaml file.",
    entry="For the registry, what only you know: name=TEXT, data_curators=TEXT, ...",
    with_learned_features="Also release features that were learned from protected texts.",
    about="For the card: what the documents are; made public.",
    intended_use="For the card: what the model is for.",
    contact="For the card: whom to ask.",
)
def release(
    run: Path,
    folder: Path,
    ledger: Path | None = None,
    budget: float | None = None,
    delta: float | None = None,
    with_learned_features: bool = False,
    not_chosen: bool = False,
    registry: Path | None = None,
    entry: list[str] | None = None,
    about: str | None = None,
    intended_use: str | None = None,
    contact: str | None = None,
    overwrite: bool = False,
) -> Answer:
    """Write what may be published: model, statement and privacy card."""
    from privgcn.files import write_atomically
    from privgcn.privacy.ledger import Budget, Ledger
    from privgcn.privacy.wording import round_up
    from privgcn.report.card import privacy_card
    from privgcn.report.registry import registry_entry
    from privgcn.runs import run as runs
    from privgcn.runs.folder import CARD, CARD_PAGE

    if (budget, delta) != (None, None) and None in (ledger, budget, delta):
        raise ConfigError(
            "A budget is an epsilon at a delta, counted in a ledger. Give --ledger, --budget "
            "and --delta together, and the same --delta for every release of a ledger."
        )
    if entry and registry is None:
        raise ConfigError("The option --entry needs --registry, a .yaml file to write.")
    finished = runs.Run(run)
    runs.check_release_target(finished, folder, overwrite=overwrite)
    statement = runs.releasable_statement(
        finished, learned_features=with_learned_features, not_chosen=not_chosen
    )
    lines, listed, spent = [f"Released to {folder}: model, statement and card."], "", None
    if registry is not None:
        check_out(registry, overwrite=overwrite)
        known = {"description": about, "intended_use": intended_use}
        listed = registry_entry(statement, _answers(entry or [], known))
        lines.append(f"Registry entry, a draft to read before you send it: {registry}")
    if ledger is not None:
        limit = None if budget is None or delta is None else Budget(budget, delta)
        spent = Ledger(ledger).record(statement, budget=limit, not_chosen=not_chosen)
        lines.append(f"All releases in {ledger} together: epsilon {round_up(spent)}.")
    said = {"about": about, "intended_use": intended_use, "contact": contact}
    classes, public = finished.settings.data.classes, runs.public_settings(finished)
    pages = {
        name: privacy_card(statement, public, template=template, classes=classes, **said)
        for name, template in ((CARD, "card.md"), (CARD_PAGE, "card.html"))
    }
    runs.write_release(finished, folder, pages, overwrite=overwrite)
    if registry is not None:
        write_atomically(registry, listed, mode=0o666)
    record = {"release": str(folder), "epsilon": statement.epsilon, "spent": spent}
    return Answer(record, lines)


def _answers(entries: list[str], known: dict[str, str | None]) -> dict[str, list[str]]:
    answers: dict[str, list[str]] = {}
    for name, equals, value in (text.partition("=") for text in entries):
        if not equals:
            raise ConfigError(f"An --entry must be FIELD=TEXT. Got {name!r}.")
        answers.setdefault(name.strip(), []).append(value)
    return answers | {name: [text] for name, text in known.items() if text is not None}


@takes(
    runs=Argument(
        help="Folders that 'train' wrote; several runs are compared.",
        metavar="RUNS...",
        show_default=False,
    ),
    out="The page to write; - for standard output.",
    evidence="Attacks on the documents of one run, from 'privgcn attack --out'.",
    overwrite=REPLACE,
)
def report(
    runs: list[Path],
    out: Path = Path("report.html"),
    evidence: Path | None = None,
    overwrite: bool = False,
) -> Answer | None:
    """Make one self-contained HTML page: guarantee, scores, settings."""
    from privgcn.files import write_atomically
    from privgcn.report.page import folders_page

    check_out(out, overwrite=overwrite)
    with shown_progress("report"):
        page = folders_page(runs, evidence=evidence)
    if out == STANDARD_OUTPUT:
        say(page)
        return None
    write_atomically(out, page)
    return Answer({"report": str(out), "runs": list(map(str, runs))}, [f"report: {out}"])
