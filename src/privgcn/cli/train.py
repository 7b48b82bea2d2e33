"""``privgcn train``: documents and links in; a classifier, scores and a statement out."""

from __future__ import annotations

import shlex
import sys
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
from privgcn.cli.output import Overwrite, detail, names_in, note, print_json, voice
from privgcn.cli.progress import shown_stages
from privgcn.errors import ConfigError

if TYPE_CHECKING:
    from privgcn.config import Settings
    from privgcn.data import Corpus, ReadReport
    from privgcn.runs.train import Trial
    from privgcn.training.ranks import Team

_MOST_CLASSES = 20


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
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Read and check everything, train nothing.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Train a classifier on documents and links, privately when given an epsilon."""
    from privgcn.config import Overrides, merged, resolve
    from privgcn.training.ranks import Ranks

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
        "data.classes": names_in(classes),
        "privacy.epsilon": epsilon,
        "privacy.delta": delta,
        "privacy.unit": unit,
        "privacy.relation": relation,
        "privacy.parts": parts,
        "privacy.sampling": sampling,
        "privacy.reproducible": reproducible,
    }
    wishes = Overrides.command_line(flags, overrides, config)
    with ranks.joined() as team, shown_stages():
        settings = resolve(*wishes)
        if dry_run:
            record = _dry_run(settings, out, overwrite=overwrite)
        else:
            asks = not as_json and team is None and "privacy.unit" not in merged(wishes)
            record = train_and_write(
                settings, out, overwrite=overwrite, asks=asks, seeds=seeds, team=team
            )
    if as_json:
        print_json(record)
    elif dry_run:
        typer.echo("Dry run: nothing was trained or written.")
    else:
        print_run(Path(record["run"]))


def train_and_write(
    settings: Settings,
    out: Path | None,
    *,
    overwrite: bool = False,
    asks: bool = False,
    seeds: int = 1,
    team: Team | None = None,
) -> dict[str, Any]:
    """Trains, scores and writes a run folder; returns what ``--json`` prints.

    Args:
        settings: Everything that decides the run.
        out: The run folder.
        overwrite: Whether an earlier run there may be replaced.
        asks: Whether nobody said what to protect, so that a person at a terminal is asked.
        seeds: How many seeds are scored; the model is that of the first.
        team: The ranks that share the work; this is rank 0.
    """
    from privgcn.runs import train
    from privgcn.runs.folder import check_target, unfinished_place
    from privgcn.training.checkpoint import clear_checkpoint

    begun = time.perf_counter()
    if team is not None and settings.privacy is None:
        raise ConfigError(
            "Training without privacy runs in one process. Leave out torchrun, or add "
            "--epsilon 1."
        )
    settings, corpus = _read(settings, out, overwrite=overwrite, asks=asks)
    if seeds > 1:
        last = settings.seed + seeds - 1
        note(
            f"The model is that of seed {settings.seed}, whatever it scores. Seeds up to "
            f"{last} only show how far the score varies."
        )
    folder = out if out is not None else _default_folder(settings, corpus.name)
    check_target(folder, overwrite=overwrite)
    unfinished = unfinished_place(folder)
    trial = train.train(corpus, settings, checkpoint_folder=unfinished, team=team)
    record = score_and_write(folder, trial, overwrite=overwrite, seeds=seeds)
    clear_checkpoint(unfinished)
    return {**record, "seconds": round(time.perf_counter() - begun, 3)}


def _dry_run(settings: Settings, out: Path | None, *, overwrite: bool) -> dict[str, Any]:
    """Everything that comes before training, and what ``--json`` prints of it."""
    from dataclasses import asdict

    from privgcn.runs.folder import check_target

    settings, corpus = _read(settings, out, overwrite=overwrite, asks=False)
    folder = out if out is not None else _default_folder(settings, corpus.name)
    check_target(folder, overwrite=overwrite)
    return {
        "dry_run": True,
        "run": str(folder),
        "dataset": corpus.name,
        "read": asdict(_report(corpus)),
        "settings": settings.model_dump(),
    }


def _read(
    settings: Settings, out: Path | None, *, overwrite: bool, asks: bool
) -> tuple[Settings, Corpus]:
    """Reads the documents and says what they are and how they are protected."""
    import numpy as np

    from privgcn.cli.score_lines import outlook_lines
    from privgcn.config import to_toml
    from privgcn.data import load_corpus
    from privgcn.data.catalogue import resolved_source
    from privgcn.features import choose
    from privgcn.runs import train
    from privgcn.runs.expected import check_plan, outlook_of
    from privgcn.runs.folder import check_target
    from privgcn.training.devices import check_device

    check_device(settings.training.device)
    source = resolved_source(str(settings.data.source))
    settings = settings.changed({"data.source": source})
    if out is not None:
        check_target(out, overwrite=overwrite)
    corpus = load_corpus(source, classes=settings.data.classes, seed=settings.seed)
    if settings.privacy is None:
        note("NOT PRIVATE: no --epsilon was given.")
    note(str(_report(corpus)))
    corpus.check_trainable()
    if corpus.read_report is None and corpus.num_classes <= _MOST_CLASSES:
        # Of the catalogue, and so public; how often a class occurs is private otherwise.
        counts = np.bincount(corpus.labels[corpus.labels >= 0], minlength=corpus.num_classes)
        pairs = zip(corpus.classes, counts.tolist(), strict=True)
        note("Classes: " + ", ".join(f"{name} {count:,}" for name, count in pairs) + ".")
    if settings.privacy is not None and corpus.owners is not None:
        settings = _with_unit(settings, asks=asks)
    elif settings.privacy is not None and corpus.read_report and corpus.columns:
        names = ", ".join(f"'{name}'" for name in corpus.columns)
        note(
            f"No column is named 'owner', so no person is protected as a whole. If one of "
            f"{names} says whose a document is, rename it and add --unit person."
        )
    check_plan(corpus, settings)
    if settings.features.kind is None and corpus.vectors is None:
        size, language = train.public_size(corpus, settings), settings.features.language
        note(str(choose(size, language=language)))
    elif corpus.vectors is not None and settings.features.kind is None:
        note(f"Features: the {corpus.vectors.shape[1]:,} numbers given for each document.")
    for line in outlook_lines(outlook_of(corpus, settings)):
        note(line)
    detail(to_toml(settings.model_dump()).strip())
    return settings, corpus


def _report(corpus: Corpus) -> ReadReport:
    """What was read; of a dataset of the catalogue, what it has."""
    from privgcn.data import ReadReport

    return corpus.read_report or ReadReport.of(corpus, corpus.edges)


def _with_unit(settings: Settings, *, asks: bool) -> Settings:
    """Asks whom to protect where documents have owners and nobody said it.

    Without anybody at a terminal each document stays protected by itself, and a note says so.
    """
    from privgcn import progress

    assert settings.privacy is not None
    if settings.privacy.unit != "document":
        return settings
    if asks and voice() != "quiet" and sys.stdin.isatty() and sys.stderr.isatty():
        progress.begin("")
        answer = typer.prompt(
            "Documents have owners. Protect each document by itself, or all documents of a "
            "person together? (document, person)",
            default="document",
            type=str,
            err=True,
            value_proc=_unit_answer,
        )
        return settings.changed({"privacy.unit": answer})
    note(
        "Each document is protected by itself. Documents have owners: --unit person "
        "protects all documents of a person together."
    )
    return settings


def _unit_answer(text: str) -> str:
    found = [unit for unit in ("document", "person") if text and unit.startswith(text.strip())]
    if len(found) != 1:
        raise typer.BadParameter("answer document or person")
    return found[0]


def score_and_write(
    folder: Path, trial: Trial, *, overwrite: bool, seeds: int = 1
) -> dict[str, Any]:
    """Scores a trained model and writes its run folder with a report."""
    from privgcn.report import Report
    from privgcn.runs.run import write_run

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
    if any(row["documents"] for row in run.scores["modes"].values()):
        Console().print(scores_table(run.scores, private=run.statement is not None))
    else:
        typer.echo("No document has the split 'test' and a label: nothing was scored.")
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
        word = shlex.quote(str(folder))
        typer.echo(f"Next: privgcn verify {word}; privgcn release {word} DIR")


def _default_folder(settings: Settings, name: str) -> Path:
    words = [name, settings.recipe]
    if settings.privacy is not None:
        words.append(
            f"epsilon-{settings.privacy.epsilon:g}" if settings.privacy.epsilon else "noise"
        )
        words.append(settings.privacy.unit)
    return Path("runs") / "-".join([*words, f"seed-{settings.seed}"])
