"""``privgcn tune``: a search for better settings that is paid for."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from privgcn.cli.flags import AsJson, Chosen, Overwrite, Source, settings
from privgcn.cli.output import note, print_json, say, shown_progress


@settings(
    *(
        "epsilon",
        "delta",
        "unit",
        "relation",
        "recipe",
        "features",
        "classes",
        "seed",
        "device",
    ),
    epsilon="Privacy budget of the whole search, winner included.",
)
def tune(
    source: Source,
    chosen: Chosen,
    space: Annotated[
        Path | None, typer.Option(help="A file (TOML) with a list of values per setting.")
    ] = None,
    tries: Annotated[
        list[str] | None, typer.Option("--try", help="Values to try: a.b=c,d,e.")
    ] = None,
    expected_runs: Annotated[
        float, typer.Option(help="Runs on average; how many there are stays secret.")
    ] = 5.0,
    law: Annotated[
        str,
        typer.Option(help="Distribution of the number of runs: poisson."),
    ] = "poisson",
    public_validation: Annotated[
        bool,
        typer.Option(
            "--public-validation", help="Declare the validation documents public: no noise."
        ),
    ] = False,
    out: Annotated[
        Path | None, typer.Option(help="Run folder (default: runs/NAME-tuned).")
    ] = None,
    overwrite: Overwrite = False,
    as_json: AsJson = False,
) -> None:
    """Search for better settings; epsilon covers all runs, and only the best is stored."""
    from privgcn import progress
    from privgcn.cli.scores import print_run
    from privgcn.cli.train import score_and_write
    from privgcn.config import merged, resolve
    from privgcn.data import load_corpus, resolved_source
    from privgcn.errors import ConfigError
    from privgcn.privacy.selection import RunCount
    from privgcn.runs.folder import check_target
    from privgcn.runs.tune import SearchSpace, search

    if law != "poisson":
        raise ConfigError(f"The 'law' of a search must be poisson. Got {law!r}. Leave it out.")
    overrides = chosen.overrides(data__source=resolved_source(source))
    resolved = resolve(*overrides)
    chosen_space = SearchSpace.of(resolved.recipe, space, tries or [])
    chosen_space.check_overrides(merged(overrides))
    count = RunCount(expected_runs)
    with shown_progress():
        corpus = load_corpus(source, classes=resolved.data.classes, seed=resolved.seed)
    if corpus.read_report is not None:
        note(str(corpus.read_report))
    folder = out if out is not None else Path("runs") / f"{corpus.name}-tuned"
    check_target(folder, overwrite=overwrite)
    # Nothing of the search is counted: how many runs there are must stay secret.
    with shown_progress():
        progress.begin("searching")
        with progress.watched(None):
            winner = search(
                corpus, resolved, chosen_space, count, public_validation=public_validation
            )
        record = score_and_write(folder, winner.run, overwrite=overwrite)
    record["chosen"] = winner.chosen
    if as_json:
        print_json(record)
        return
    print_run(record, winner.run.model.statement)
    words = ", ".join(f"{name} = {value}" for name, value in winner.chosen.items())
    say(f"Chosen: {words}. Epsilon covers the whole search.")
