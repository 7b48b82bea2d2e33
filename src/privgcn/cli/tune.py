"""``privgcn tune``: a search for better settings that is paid for."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from privgcn.cli.options import (
    AsJson,
    Classes,
    Config,
    Delta,
    Device,
    Features,
    Overrides,
    Relation,
    Seed,
    Source,
    Unit,
)
from privgcn.cli.output import Overwrite, names_in, note, print_json


def tune(
    source: Source,
    epsilon: Annotated[
        float | None, typer.Option(help="Privacy budget of the whole search, winner included.")
    ] = None,
    delta: Delta = None,
    unit: Unit = None,
    relation: Relation = None,
    recipe: Annotated[
        str | None, typer.Option(help="auto (default), paper-full or paper-split.")
    ] = None,
    features: Features = None,
    classes: Classes = None,
    space: Annotated[
        Path | None, typer.Option(help="A file (TOML) with a list of values per setting.")
    ] = None,
    tries: Annotated[
        list[str] | None, typer.Option("--try", help="Values to try: a.b=c,d,e.")
    ] = None,
    config: Config = None,
    overrides: Overrides = None,
    expected_runs: Annotated[
        float, typer.Option(help="Runs on average; how many there are stays secret.")
    ] = 5.0,
    law: Annotated[
        str,
        typer.Option(
            help="Distribution of the number of runs: poisson, logarithmic or geometric."
        ),
    ] = "poisson",
    public_validation: Annotated[
        bool,
        typer.Option(
            "--public-validation", help="Declare the validation documents public: no noise."
        ),
    ] = False,
    seed: Seed = None,
    device: Device = None,
    out: Annotated[
        Path | None, typer.Option(help="Run folder (default: runs/NAME-tuned).")
    ] = None,
    overwrite: Overwrite = False,
    as_json: AsJson = False,
) -> None:
    """Search for better settings; epsilon covers all runs, and only the best is kept."""
    from privgcn import progress
    from privgcn.cli.progress import shown_stages
    from privgcn.cli.train import print_run, score_and_write
    from privgcn.config import Overrides, merged, resolve
    from privgcn.data import load_corpus
    from privgcn.data.catalogue import resolved_source
    from privgcn.privacy.accounting.selection import RunCount
    from privgcn.runs.candidates import SearchSpace
    from privgcn.runs.folder import check_target
    from privgcn.runs.tune import search

    flags = {
        "recipe": recipe,
        "seed": seed,
        "training.device": device,
        "features.kind": features,
        "data.source": resolved_source(source),
        "data.classes": names_in(classes),
        "privacy.epsilon": epsilon,
        "privacy.delta": delta,
        "privacy.unit": unit,
        "privacy.relation": relation,
    }
    wishes = Overrides.command_line(flags, overrides, config)
    settings = resolve(*wishes)
    chosen_space = SearchSpace.of(settings.recipe, space, tries or [])
    chosen_space.check_wishes(merged(wishes))
    count = RunCount(law, expected_runs)
    with shown_stages():
        corpus = load_corpus(source, classes=settings.data.classes, seed=settings.seed)
    if corpus.read_report is not None:
        note(str(corpus.read_report))
    folder = out if out is not None else Path("runs") / f"{corpus.name}-tuned"
    check_target(folder, overwrite=overwrite)
    # Nothing of the search is counted: how many runs there are must stay secret.
    with shown_stages():
        progress.begin("searching")
        with progress.watched(None):
            winner = search(
                corpus, settings, chosen_space, count, public_validation=public_validation
            )
        record = score_and_write(folder, winner.trial, overwrite=overwrite)
    record["chosen"] = winner.chosen
    if as_json:
        print_json(record)
        return
    print_run(folder)
    words = ", ".join(f"{name} = {value}" for name, value in winner.chosen.items())
    typer.echo(f"Chosen: {words}. Epsilon covers the whole search.")
