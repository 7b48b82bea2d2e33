"""``privgcn train``: documents and links in; a classifier, scores and a statement out."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from privgcn.cli.options import (
    AsJson,
    Classes,
    Config,
    Delta,
    Device,
    Features,
    Language,
    Overrides,
    Relation,
    Seed,
    Source,
    Unit,
)
from privgcn.cli.output import Overwrite, print_json
from privgcn.errors import ConfigError

if TYPE_CHECKING:
    from privgcn.config import Settings
    from privgcn.runs.train import Trial
    from privgcn.training.ranks import Team


def train(
    source: Source,
    epsilon: Annotated[
        float | None, typer.Option(help="Privacy budget; without it, no privacy.")
    ] = None,
    delta: Delta = None,
    unit: Unit = None,
    relation: Relation = None,
    parts: Annotated[
        str | None, typer.Option(help="each, a number, or column:NAME (declared public).")
    ] = None,
    sampling: Annotated[str | None, typer.Option(help="all, poisson or epoch.")] = None,
    recipe: Annotated[
        str | None, typer.Option(help="auto (default), plain, paper-full or paper-split.")
    ] = None,
    optimizer: Annotated[str | None, typer.Option(help="sgd or adam.")] = None,
    balanced: Annotated[
        bool | None,
        typer.Option(help="Let rare classes count as much as frequent ones, for macro F1."),
    ] = None,
    features: Features = None,
    language: Language = None,
    classes: Classes = None,
    seed: Seed = None,
    seeds: Annotated[
        int,
        typer.Option(
            help="Train with so many seeds to see how far the score varies. The first is the "
            "model; the others are scored and forgotten.",
            min=1,
        ),
    ] = 1,
    device: Device = None,
    reproducible: Annotated[
        bool | None,
        typer.Option(help="Seed noise and samples too; the run must not be released."),
    ] = None,
    config: Config = None,
    overrides: Overrides = None,
    out: Annotated[Path | None, typer.Option(help="Run folder (default: below runs).")] = None,
    overwrite: Overwrite = False,
    as_json: AsJson = False,
) -> None:
    """Train a classifier on documents and links, privately when given an epsilon."""
    from privgcn.training.ranks import Ranks
    from privgcn.training.recipes import by_command_line, resolve

    ranks = Ranks.of_environment()
    if not ranks.leads:
        from privgcn.training.shared_parts import assist

        assist(ranks)
        return
    flags = {
        "recipe": recipe,
        "seed": seed,
        "training.optimizer": optimizer,
        "training.device": device,
        "training.balanced": balanced,
        "features.kind": features,
        "features.language": language,
        "data.source": source,
        "data.classes": None if classes is None else classes.split(","),
        "privacy.epsilon": epsilon,
        "privacy.delta": delta,
        "privacy.unit": unit,
        "privacy.relation": relation,
        "privacy.parts": parts,
        "privacy.sampling": sampling,
        "privacy.reproducible": reproducible,
    }
    with ranks.joined() as team:
        settings = resolve(*by_command_line(flags, overrides, config))
        record = train_and_write(settings, out, overwrite=overwrite, seeds=seeds, team=team)
    if as_json:
        print_json(record)
    else:
        print_run(Path(record["run"]))


def train_and_write(
    settings: Settings,
    out: Path | None,
    *,
    overwrite: bool = False,
    seeds: int = 1,
    team: Team | None = None,
) -> dict[str, Any]:
    """Trains, scores and writes a run folder; returns what ``--json`` prints."""
    from privgcn.cli.progress import progress_bar
    from privgcn.cli.score_lines import outlook_lines
    from privgcn.corpus import load_corpus
    from privgcn.corpus.catalogue import resolved_source
    from privgcn.features import choose
    from privgcn.runs import train
    from privgcn.runs.expected import outlook_of
    from privgcn.runs.folder import check_target, unfinished_place
    from privgcn.training.checkpoint import clear_checkpoint

    begun = time.perf_counter()
    if team is not None and settings.privacy is None:
        raise ConfigError(
            "Training without privacy runs in one process. Leave out torchrun, or add "
            "--epsilon 1."
        )
    source = resolved_source(str(settings.data.source))
    settings = settings.changed({"data.source": source})
    if out is not None:
        check_target(out, overwrite=overwrite)
    corpus = load_corpus(source, classes=settings.data.classes, seed=settings.seed)
    if corpus.read_report is not None:
        typer.echo(str(corpus.read_report), err=True)
    if settings.privacy is None:
        typer.echo("NOT PRIVATE: no --epsilon was given.", err=True)
    elif corpus.owners is not None and settings.privacy.unit == "document":
        typer.echo(
            "Each document is protected by itself. Documents have owners: --unit person "
            "protects all documents of a person together.",
            err=True,
        )
    if settings.features.kind is None and corpus.vectors is None:
        size, language = train.public_size(corpus, settings), settings.features.language
        typer.echo(str(choose(size, language=language)), err=True)
    for line in outlook_lines(outlook_of(corpus, settings)):
        typer.echo(line, err=True)
    if seeds > 1:
        last = settings.seed + seeds - 1
        typer.echo(
            f"The model is that of seed {settings.seed}, whatever it scores. Seeds up to "
            f"{last} only show how far the score varies.",
            err=True,
        )
    folder = out if out is not None else _default_folder(settings, corpus.name)
    check_target(folder, overwrite=overwrite)
    unfinished = unfinished_place(folder)
    with progress_bar("training") as progress:
        trial = train.train(
            corpus, settings, progress=progress, checkpoint_folder=unfinished, team=team
        )
    record = score_and_write(folder, trial, overwrite=overwrite, seeds=seeds)
    clear_checkpoint(unfinished)
    return {**record, "seconds": round(time.perf_counter() - begun, 3)}


def score_and_write(
    folder: Path, trial: Trial, *, overwrite: bool, seeds: int = 1
) -> dict[str, Any]:
    """Scores a trained model and writes its run folder with a report."""
    from privgcn.cli.progress import progress_bar
    from privgcn.report import Report
    from privgcn.runs.run import write_run

    with progress_bar("scoring"):
        return write_run(
            folder,
            trial,
            lambda *found: Report.of_run(*found).html(),
            overwrite=overwrite,
            seeds=seeds,
        )


def print_run(folder: Path) -> None:
    """Shows a finished run to a person."""
    from rich.console import Console

    from privgcn.cli.score_lines import (
        expected_lines,
        guarantee_line,
        reference_lines,
        repeat_lines,
        scores_table,
    )
    from privgcn.evaluation.baselines import baselines_left_out
    from privgcn.runs.run import Run

    run = Run(folder)
    Console().print(scores_table(run.scores, private=run.statement is not None))
    for line in (
        *reference_lines(run.scores),
        *repeat_lines(run.scores, run.statement),
        *expected_lines(run.scores),
        *baselines_left_out(run.settings),
        guarantee_line(run.statement),
    ):
        typer.echo(line)
    typer.echo(f"Run: {folder}    Report: {folder / 'report.html'}")
    if run.statement is not None:
        typer.echo(f"Next: privgcn verify {folder}; privgcn release {folder} DIR")


def _default_folder(settings: Settings, name: str) -> Path:
    words = [name, settings.recipe]
    if settings.privacy is not None:
        words.append(
            f"epsilon-{settings.privacy.epsilon:g}" if settings.privacy.epsilon else "noise"
        )
        words.append(settings.privacy.unit)
    return Path("runs") / "-".join([*words, f"seed-{settings.seed}"])
