"""``privgcn tune``: a search for better settings that is paid for."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from privgcn.cli.options import (
    AsJson,
    Classes,
    Config,
    Delta,
    Features,
    Overrides,
    Relation,
    Seed,
    Source,
    Unit,
)
from privgcn.cli.output import print_json

if TYPE_CHECKING:
    from privgcn.estimator.tuning import Winner


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
        str, typer.Option(help="Of the number of runs: poisson, logarithmic or geometric.")
    ] = "poisson",
    public_validation: Annotated[
        bool,
        typer.Option(
            "--public-validation", help="Declare the validation documents public: no noise."
        ),
    ] = False,
    seed: Seed = None,
    out: Annotated[
        Path | None, typer.Option(help="Run folder (default: runs/NAME-tuned).")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Search for better settings; epsilon pays for all runs, and only the best is kept."""
    from privgcn.cli.progress import progress_bar
    from privgcn.cli.train import print_run
    from privgcn.corpus import load_corpus
    from privgcn.estimator.space import SearchSpace
    from privgcn.estimator.tuning import search
    from privgcn.privacy.selection import RunCount
    from privgcn.training.recipes import resolve
    from privgcn.training.wishes import by_command_line, merged

    flags = {
        "recipe": recipe,
        "seed": seed,
        "features.kind": features,
        "data.source": source,
        "data.classes": None if classes is None else classes.split(","),
        "privacy.epsilon": epsilon,
        "privacy.delta": delta,
        "privacy.unit": unit,
        "privacy.relation": relation,
    }
    wishes = by_command_line(flags, overrides, config)
    settings = resolve(*wishes)
    chosen_space = SearchSpace.of(settings.recipe, space, tries or [])
    chosen_space.check_wishes(merged(wishes))
    count = RunCount(law, expected_runs)
    corpus = load_corpus(source, classes=settings.data.classes, seed=settings.seed)
    # No bar of runs done: how many there are must stay secret.
    with progress_bar("searching"):
        winner = search(
            corpus, settings, chosen_space, count, public_validation=public_validation
        )
    folder = out if out is not None else Path("runs") / f"{corpus.name}-tuned"
    record = _write(folder, winner)
    if as_json:
        print_json(record)
        return
    print_run(folder)
    words = ", ".join(f"{name} = {value}" for name, value in winner.chosen.items())
    typer.echo(f"Chosen: {words}. Epsilon pays for the whole search.")


def _write(folder: Path, winner: Winner) -> dict[str, Any]:
    """Writes the winner's run folder; no time and no count goes into the record."""
    from privgcn.estimator.model_folder import SavedModel
    from privgcn.estimator.replicas import baseline_scores
    from privgcn.estimator.run_folder import score_table, write_run
    from privgcn.evaluation.baselines import baselines_left_out
    from privgcn.evaluation.metrics import HEADLINE
    from privgcn.report import Report

    replicas, statement = winner.replicas, winner.statement
    settings, corpus = replicas.fitted.settings, replicas.corpus
    scores = score_table(replicas, baseline_scores(replicas))
    saved = SavedModel(replicas.fitted, replicas.featurizer, corpus.classes, statement)
    page = Report.of_run(settings, statement, scores).html()
    write_run(folder, saved, scores, {"report.html": page})
    return {
        "run": str(folder),
        "dataset": corpus.name,
        "synthetic": corpus.facts.synthetic,
        "chosen": winner.chosen,
        "settings": settings.model_dump(),
        "statement": statement.model_dump(mode="json"),
        "scores": {
            mode: {key: row[key] for key in HEADLINE} for mode, row in scores["modes"].items()
        },
        "baselines": scores["baselines"],
        "baselines_left_out": baselines_left_out(settings),
    }
