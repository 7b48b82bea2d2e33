"""``privgcn train``: documents and links in; a classifier, scores and a statement out."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from privgcn.cli.options import AsJson
from privgcn.cli.output import Overwrite, print_json

if TYPE_CHECKING:
    from privgcn.config import Settings
    from privgcn.privacy.statement import PrivacyStatement
    from privgcn.runs.replicas import Replicas


def train(
    source: Annotated[str, typer.Argument(help="A dataset's name or a folder of documents.")],
    epsilon: Annotated[
        float | None, typer.Option(help="Privacy budget; without it, no privacy.")
    ] = None,
    delta: Annotated[
        float | None, typer.Option(help="Delta of the guarantee (default: 1e-5).")
    ] = None,
    unit: Annotated[
        str | None, typer.Option(help="What is protected: document, person, part or graph.")
    ] = None,
    relation: Annotated[str | None, typer.Option(help="remove or replace.")] = None,
    parts: Annotated[
        str | None, typer.Option(help="each, a number, or column:NAME (declared public).")
    ] = None,
    sampling: Annotated[str | None, typer.Option(help="all, poisson or epoch.")] = None,
    recipe: Annotated[
        str, typer.Option(help="auto, plain, paper-full or paper-split.")
    ] = "auto",
    optimizer: Annotated[str | None, typer.Option(help="sgd or adam.")] = None,
    features: Annotated[
        str | None, typer.Option(help="Feature kind, such as hashing, tfidf or minilm.")
    ] = None,
    classes: Annotated[
        str | None, typer.Option(help="The class set, comma-separated: a declared public fact.")
    ] = None,
    seed: Annotated[int, typer.Option(help="Of partition and first weights.", min=0)] = 0,
    reproducible: Annotated[
        bool, typer.Option(help="Seed noise and samples too; the run must not be released.")
    ] = False,
    config: Annotated[Path | None, typer.Option(help="A settings file (TOML).")] = None,
    overrides: Annotated[
        list[str] | None, typer.Option("--set", help="Change one setting: a.b=c.")
    ] = None,
    out: Annotated[Path | None, typer.Option(help="Run folder (default: below runs).")] = None,
    overwrite: Overwrite = False,
    as_json: AsJson = False,
) -> None:
    """Train a classifier on documents and links, privately when given an epsilon."""
    from privgcn.config import parse_assignment, read_settings
    from privgcn.training.recipes import make_settings

    changes: dict[str, Any] = {} if config is None else read_settings(config)
    changes |= dict(parse_assignment(text) for text in overrides or [])
    changes |= _given(
        {
            "privacy.delta": delta,
            "privacy.unit": unit,
            "privacy.relation": relation,
            "privacy.parts": parts,
            "privacy.sampling": sampling,
            "privacy.reproducible": reproducible or None,
            "features.kind": features,
            "data.source": source,
            "data.classes": classes.split(",") if classes else None,
        }
    )
    recipe = changes.pop("recipe", recipe) if recipe == "auto" else recipe
    epsilon = changes.pop("privacy.epsilon", None) if epsilon is None else epsilon
    settings = make_settings(
        recipe, epsilon=epsilon, optimizer=optimizer, seed=seed, changes=changes
    )
    record = train_and_write(settings, out, overwrite=overwrite)
    if as_json:
        print_json(record)
    else:
        print_run(Path(record["run"]))


def train_and_write(
    settings: Settings, out: Path | None, *, overwrite: bool = False
) -> dict[str, Any]:
    """Trains, scores and writes a run folder; returns what ``--json`` prints."""
    from privgcn.cli.progress import progress_bar
    from privgcn.corpus import load_corpus
    from privgcn.corpus.load import resolved_source
    from privgcn.runs.claims import statement_of
    from privgcn.runs.folder import check_target, unfinished_place
    from privgcn.runs.replicas import train_replicas
    from privgcn.training.checkpoint import clear_checkpoint

    begun = time.perf_counter()
    source = resolved_source(str(settings.data.source))
    settings = settings.changed({"data.source": source})
    if out is not None:
        check_target(out, overwrite=overwrite)
    corpus = load_corpus(source, classes=settings.data.classes, seed=settings.seed)
    folder = out if out is not None else _default_folder(settings, corpus.name)
    check_target(folder, overwrite=overwrite)
    unfinished = unfinished_place(folder)
    with progress_bar("training") as progress:
        replicas = train_replicas(
            corpus, settings, progress=progress, checkpoint_folder=unfinished
        )
    statement = statement_of(replicas.fitted, corpus.train, replicas.featurizer)
    record = score_and_write(folder, replicas, statement, overwrite=overwrite)
    clear_checkpoint(unfinished)
    return {**record, "seconds": round(time.perf_counter() - begun, 3)}


def score_and_write(
    folder: Path, replicas: Replicas, statement: PrivacyStatement | None, *, overwrite: bool
) -> dict[str, Any]:
    """Scores a trained model and writes its run folder; no time goes into the record."""
    import numpy as np

    from privgcn.cli.progress import progress_bar
    from privgcn.evaluation.metrics import HEADLINE
    from privgcn.report import Report
    from privgcn.runs.replicas import baseline_scores
    from privgcn.runs.run import score_table, write_run
    from privgcn.runs.saved import SavedModel

    settings, corpus = replicas.fitted.settings, replicas.corpus
    with progress_bar("scoring"):
        scores = score_table(replicas, baseline_scores(replicas))
    classes = np.asarray(corpus.classes)
    saved = SavedModel(replicas.fitted, replicas.featurizer, classes, statement)
    page = Report.of_run(settings, statement, scores).html()
    write_run(folder, saved, corpus, scores, page, overwrite=overwrite)
    return {
        "run": str(folder),
        "dataset": corpus.name,
        "synthetic": corpus.facts.synthetic,
        "settings": settings.model_dump(),
        "statement": None if statement is None else statement.model_dump(mode="json"),
        "scores": {
            mode: {key: row[key] for key in HEADLINE} for mode, row in scores["modes"].items()
        },
        "baselines": scores["baselines"],
    }


def print_run(folder: Path) -> None:
    """Shows a finished run to a person."""
    from rich.console import Console

    from privgcn.cli.scores import guarantee_line, scores_table
    from privgcn.runs.run import Run

    run = Run(folder)
    console = Console()
    console.print(scores_table(run.scores, private=run.statement is not None))
    typer.echo(guarantee_line(run.statement))
    typer.echo(f"Run: {folder}    Report: {folder / 'report.html'}")
    if run.statement is not None:
        typer.echo(f"Next: privgcn verify {folder}; privgcn release {folder} DIR")


def _given(values: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in values.items() if value is not None}


def _default_folder(settings: Settings, name: str) -> Path:
    words = [name, settings.recipe]
    if settings.privacy is not None:
        words.append(
            f"epsilon-{settings.privacy.epsilon:g}" if settings.privacy.epsilon else "noise"
        )
        words.append(settings.privacy.unit)
    return Path("runs") / "-".join([*words, f"seed-{settings.seed}"])
