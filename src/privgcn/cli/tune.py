"""``privgcn tune``: a search for better settings that is paid for."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from privgcn.cli.options import AsJson
from privgcn.cli.output import Overwrite, print_json


def tune(
    source: Annotated[str, typer.Argument(help="A dataset's name or a folder of documents.")],
    epsilon: Annotated[
        float, typer.Option(help="Privacy budget of the whole search, winner included.")
    ],
    delta: Annotated[
        float | None, typer.Option(help="Delta of the guarantee (default: 1e-5).")
    ] = None,
    unit: Annotated[
        str | None, typer.Option(help="What is protected: document, person, part or graph.")
    ] = None,
    relation: Annotated[str | None, typer.Option(help="remove or replace.")] = None,
    recipe: Annotated[str, typer.Option(help="auto, paper-full or paper-split.")] = "auto",
    features: Annotated[str | None, typer.Option(help="Feature kind.")] = None,
    classes: Annotated[
        str | None, typer.Option(help="The class set, comma-separated: a declared public fact.")
    ] = None,
    space: Annotated[
        Path | None, typer.Option(help="A file (TOML) with a list of values per setting.")
    ] = None,
    tries: Annotated[
        list[str] | None, typer.Option("--try", help="Values to try: a.b=c,d,e.")
    ] = None,
    overrides: Annotated[
        list[str] | None, typer.Option("--set", help="Change one setting for all: a.b=c.")
    ] = None,
    expected_runs: Annotated[
        float, typer.Option(help="Runs on average; how many there are stays secret.")
    ] = 5.0,
    law: Annotated[
        str, typer.Option(help="Of the number of runs: poisson, logarithmic or geometric.")
    ] = "poisson",
    public_validation: Annotated[
        bool,
        typer.Option(
            "--public-validation", help="Declare the validation documents public: no noise."
        ),
    ] = False,
    seed: Annotated[int, typer.Option(help="Of partition and first weights.", min=0)] = 0,
    out: Annotated[
        Path | None, typer.Option(help="Run folder (default: runs/NAME-tuned).")
    ] = None,
    overwrite: Overwrite = False,
    as_json: AsJson = False,
) -> None:
    """Search for better settings; epsilon pays for all runs, and only the best is kept."""
    from privgcn.cli.progress import progress_bar
    from privgcn.cli.train import print_run, score_and_write
    from privgcn.config import parse_assignment
    from privgcn.corpus import load_corpus
    from privgcn.corpus.load import resolved_source
    from privgcn.errors import ConfigError
    from privgcn.privacy.selection import RunCount
    from privgcn.runs.folder import check_target
    from privgcn.runs.space import SearchSpace
    from privgcn.runs.tuning import search
    from privgcn.training.recipes import make_settings

    changes: dict[str, Any] = dict(parse_assignment(text) for text in overrides or [])
    changes |= {
        "privacy.delta": delta,
        "privacy.unit": unit,
        "privacy.relation": relation,
        "features.kind": features,
        "data.source": resolved_source(source),
        "data.classes": classes.split(",") if classes else None,
    }
    if changes.get("privacy.accountant", "rdp") != "rdp":
        raise ConfigError(
            "The 'privacy.accountant' of a search must be rdp. "
            f"Got {changes['privacy.accountant']!r}. Leave it out."
        )
    settings = make_settings(recipe, epsilon=epsilon, seed=seed, changes=changes)
    chosen_space = SearchSpace.of(recipe, space, tries or [])
    count = RunCount(law, expected_runs)
    corpus = load_corpus(source, classes=settings.data.classes, seed=seed)
    folder = out if out is not None else Path("runs") / f"{corpus.name}-tuned"
    check_target(folder, overwrite=overwrite)
    # No bar of runs done: how many there are must stay secret.
    with progress_bar("searching"):
        winner = search(
            corpus, settings, chosen_space, count, public_validation=public_validation
        )
    # No time and no count goes into the record.
    record = score_and_write(folder, winner.replicas, winner.statement, overwrite=overwrite)
    record["chosen"] = winner.chosen
    if as_json:
        print_json(record)
        return
    print_run(folder)
    words = ", ".join(f"{name} = {value}" for name, value in winner.chosen.items())
    typer.echo(f"Chosen: {words}. Epsilon pays for the whole search.")
