"""``privgcn train``: documents and edges in; a classifier, scores and a statement out."""

from __future__ import annotations

import sys
import time
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from privgcn.cli.flags import AsJson, Chosen, Overwrite, Source, settings
from privgcn.cli.output import detail, note, print_json, say, shown_progress, verbosity

if TYPE_CHECKING:
    from privgcn.config import Settings
    from privgcn.data import Corpus
    from privgcn.mechanism.ranks import Ranks
    from privgcn.runs.prepare import PreparedRun
    from privgcn.runs.train import TrainedRun

_MOST_CLASSES = 20


@settings(
    *("epsilon", "delta", "unit", "relation", "parts", "sampling", "recipe", "optimizer"),
    *("balanced", "features", "language", "classes", "seed", "device", "reproducible"),
    recipe="auto (default), plain, paper-full or paper-split.",
)
def train(
    source: Source,
    chosen: Chosen,
    seeds: Annotated[
        int,
        typer.Option(
            help="Train with so many seeds to see how far the score varies. The first is the "
            "model; the others are scored and forgotten.",
            min=1,
        ),
    ] = 1,
    out: Annotated[Path | None, typer.Option(help="Run folder (default: below runs).")] = None,
    overwrite: Overwrite = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Read and check everything, train nothing.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Train a classifier on documents and edges, privately when given an epsilon."""
    from privgcn.cli.scores import print_run
    from privgcn.config import merged, resolve
    from privgcn.mechanism.ranks import Ranks
    from privgcn.runs.train import train as train_model

    begun = time.perf_counter()
    overrides = chosen.overrides(data__source=source)
    with Ranks.of_environment() as ranks, shown_progress():
        shared = ranks if ranks.size > 1 else None
        resolved = resolve(*overrides)
        asks = not (as_json or dry_run or shared) and "privacy.unit" not in merged(overrides)
        prepared, folder = read(resolved, out, overwrite=overwrite, asks=asks, ranks=shared)
        if dry_run:
            corpus = prepared.corpus
            record: dict[str, Any] = {
                "dry_run": True,
                "run": str(folder),
                "dataset": corpus.name,
                "read": asdict(_report(corpus)),
                "settings": prepared.settings.model_dump(),
            }
            statement = None
        else:
            if seeds > 1:
                note(
                    f"The model is that of seed {resolved.seed}, whatever it scores. Seeds up "
                    f"to {resolved.seed + seeds - 1} only show how far the score varies."
                )
            run = train_model(prepared)
            if not ranks.leads:
                return
            # Other seeds are trained by this process alone.
            run = replace(run, prepared=replace(prepared, ranks=None))
            record = score_and_write(folder, run, overwrite=overwrite, seeds=seeds)
            record["seconds"] = round(time.perf_counter() - begun, 3)
            statement = run.model.statement
    if as_json:
        print_json(record)
    elif dry_run:
        say("Dry run: nothing was trained or written.")
    else:
        print_run(record, statement)


def read(
    settings: Settings,
    out: Path | None,
    *,
    overwrite: bool,
    asks: bool = False,
    ranks: Ranks | None = None,
) -> tuple[PreparedRun, Path]:
    """Reads the documents, says what they are and how they are protected, and decides the run.

    Args:
        settings: Everything that decides the run.
        out: The run folder; ``None`` makes one below ``runs``.
        overwrite: Whether an earlier run there may be replaced.
        asks: Whether nobody said what to protect, so that a person at a terminal is asked.
        ranks: The processes that share the training.

    Returns:
        The run, ready to be trained, and its folder.
    """
    from privgcn.config import to_toml
    from privgcn.data import load_corpus, resolved_source
    from privgcn.features import choose
    from privgcn.runs.folder import check_target
    from privgcn.runs.prepare import prepare, public_size

    source = resolved_source(str(settings.data.source))
    settings = settings.changed({"data.source": source})
    if out is not None:
        check_target(out, overwrite=overwrite)
    corpus = load_corpus(source, classes=settings.data.classes, seed=settings.seed)
    if settings.privacy is None:
        note("NOT PRIVATE: no --epsilon was given.")
    note(str(_report(corpus)))
    settings = _protected(settings, corpus, asks=asks)
    folder = out if out is not None else _default_folder(settings, corpus.name)
    check_target(folder, overwrite=overwrite)
    prepared = prepare(corpus, settings, ranks=ranks)
    features = settings.features
    if features.kind is None and corpus.vectors is None:
        note(str(choose(public_size(corpus, settings), language=features.language)))
    elif features.kind is None:
        note(
            f"Features: the {prepared.featurizer.dimension:,} numbers given for each document."
        )
    if prepared.forecast is not None:
        low, high = prepared.forecast.interval
        note(
            f"Expect a micro-F1 of {low:.2f} to {high:.2f} (own-graph) at this size and "
            "epsilon: so it was in four of five runs on other corpora."
        )
        for line in prepared.forecast.advice:
            note(line)
    detail(to_toml(settings.model_dump()).strip())
    return prepared, folder


def _report(corpus: Corpus) -> Any:
    """What was read; of a dataset that is known by name, what it has."""
    from privgcn.data import ReadReport

    edges = corpus.edges.shape[1]
    owners = None if corpus.owner_names is None else len(corpus.owner_names)
    return corpus.read_report or ReadReport(
        len(corpus), owners, corpus.num_classes, edges_read=edges, edges_stored=edges
    )


def _protected(settings: Settings, corpus: Corpus, *, asks: bool) -> Settings:
    """Says what is protected; asks where documents have owners and nobody said it."""
    if corpus.read_report is None and corpus.num_classes <= _MOST_CLASSES:
        # Of a public dataset; how often a class occurs is private otherwise.
        counts = [(corpus.labels == code).sum() for code in range(corpus.num_classes)]
        pairs = zip(corpus.classes, counts, strict=True)
        note("Classes: " + ", ".join(f"{name} {count:,}" for name, count in pairs) + ".")
    if settings.privacy is not None and corpus.owners is not None:
        return with_unit(settings, asks=asks)
    if settings.privacy is not None and corpus.read_report and corpus.columns:
        names = ", ".join(f"'{name}'" for name in corpus.columns)
        note(
            f"No column is named 'owner', so no person is protected as a whole. If one of "
            f"{names} says whose a document is, rename it and add --unit person."
        )
    return settings


def with_unit(settings: Settings, *, asks: bool) -> Settings:
    """Asks whom to protect where documents have owners and nobody said it.

    Without anybody at a terminal each document stays protected by itself, and a note says so.
    """
    from privgcn import progress

    if settings.privacy is None or settings.privacy.unit != "document":
        return settings
    if asks and verbosity() != "quiet" and sys.stdin.isatty() and sys.stderr.isatty():
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
    units = [unit for unit in ("document", "person") if text and unit.startswith(text.strip())]
    if len(units) != 1:
        raise typer.BadParameter("answer document or person")
    return units[0]


def score_and_write(
    folder: Path, run: TrainedRun, *, overwrite: bool, seeds: int = 1
) -> dict[str, Any]:
    """Scores a trained model and writes its run folder with a report; what JSON prints."""
    from privgcn.report.page import run_page
    from privgcn.runs.run import write_run

    return write_run(folder, run, run_page, overwrite=overwrite, seeds=seeds)


def _default_folder(settings: Settings, name: str) -> Path:
    words = [name, settings.recipe]
    if settings.privacy is not None:
        words.append(
            f"epsilon-{settings.privacy.epsilon:g}" if settings.privacy.epsilon else "noise"
        )
        words.append(settings.privacy.unit)
    return Path("runs") / "-".join([*words, f"seed-{settings.seed}"])
