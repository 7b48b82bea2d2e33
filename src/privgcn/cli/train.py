"""``privgcn train``, ``tune`` and ``demo``: documents in, a run folder out."""

from __future__ import annotations

import os
import shlex
import sys
import time
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer
from typer import Option

from privgcn.cli.flags import READING, Chosen, takes
from privgcn.cli.output import (
    note,
    print_json,
    print_table,
    say,
    shown_progress,
    verbosity,
    watched_by_a_person,
)

if TYPE_CHECKING:
    from privgcn.config import Settings
    from privgcn.data import Corpus
    from privgcn.mechanism.ranks import Ranks
    from privgcn.privacy.statement import PrivacyStatement
    from privgcn.runs.prepare import PreparedRun

_DEMO = Path("runs/demo")
_MOST_CLASSES = 20


@takes(
    *("epsilon", "noise_multiplier", "delta", "unit", "relation", "parts", "sampling"),
    *("recipe", "optimizer", "balanced", "features", "encoder", "language", "classes"),
    *READING,
    *("seed", "device", "reproducible"),
    recipe="auto (default), plain, paper-full or paper-split.",
    seeds=Option(
        help="Train with so many seeds to see how far the score varies. The first is the "
        "model; the others are scored and forgotten.",
        min=1,
    ),
    dry_run="Read and check everything, train nothing.",
)
def train(
    source: str,
    chosen: Chosen,
    seeds: int = 1,
    out: Path | None = None,
    overwrite: bool = False,
    dry_run: bool = False,
    as_json: bool = False,
) -> None:
    """Train a classifier on documents and edges, privately when given an epsilon."""
    from privgcn.config import flattened, resolve
    from privgcn.mechanism.ranks import Ranks
    from privgcn.report.page import run_page
    from privgcn.runs.run import write_run
    from privgcn.runs.train import train as train_model

    begun = time.perf_counter()
    overrides = chosen.overrides(data__source=source)
    with Ranks.of_environment() as ranks, shown_progress():
        shared = ranks if ranks.size > 1 else None
        resolved = resolve(*overrides)
        said = any("privacy.unit" in flattened(values) for _, values in overrides)
        asks = not (as_json or dry_run or shared or said)
        prepared, folder = _read(
            resolved, out, overwrite=overwrite, dry_run=dry_run, asks=asks, ranks=shared
        )
        if not dry_run:
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
            record = write_run(folder, run, run_page, overwrite=overwrite, seeds=seeds)
            record["seconds"] = round(time.perf_counter() - begun, 3)
    if not dry_run:
        _print_run(record, run.model.statement, as_json=as_json)
    elif not as_json:
        say("Dry run: nothing was trained or written.")
    else:
        print_json(
            {
                "dry_run": True,
                "run": str(folder),
                "dataset": prepared.corpus.name,
                "read": asdict(_report(prepared.corpus)),
                "settings": prepared.settings.model_dump(),
            }
        )


@takes(
    *("epsilon", "delta", "unit", "relation", "recipe", "features", "classes"),
    *READING,
    *("seed", "device"),
    epsilon="Privacy budget of the whole search, winner included.",
    space="A file (TOML) with a list of values per setting.",
    tries=Option("--try", help="Values to try: a.b=c,d,e."),
    expected_runs="Runs on average; how many there are stays secret.",
    law="Distribution of the number of runs: poisson.",
    public_validation="Declare the validation documents public: no noise.",
    out="Run folder (default: runs/NAME-tuned).",
)
def tune(
    source: str,
    chosen: Chosen,
    space: Path | None = None,
    tries: list[str] | None = None,
    expected_runs: float = 5.0,
    law: str = "poisson",
    public_validation: bool = False,
    out: Path | None = None,
    overwrite: bool = False,
    as_json: bool = False,
) -> None:
    """Search for better settings; epsilon covers all runs, and only the best is stored."""
    from privgcn import progress
    from privgcn.config import resolve
    from privgcn.data import load_corpus, resolved_source
    from privgcn.errors import ConfigError
    from privgcn.privacy.selection import RunCount
    from privgcn.report.page import run_page
    from privgcn.runs.folder import check_target
    from privgcn.runs.run import write_run
    from privgcn.runs.tune import search, search_space

    if law != "poisson":
        raise ConfigError(f"The 'law' of a search must be poisson. Got {law!r}. Leave it out.")
    overrides = chosen.overrides(data__source=resolved_source(source))
    resolved = resolve(*overrides)
    candidates = search_space(resolved.recipe, space, tries or [])
    count = RunCount(expected_runs)
    with shown_progress():
        corpus = load_corpus(source, seed=resolved.seed, **resolved.data.reading)
    if corpus.read_report is not None:
        note(str(corpus.read_report))
    folder = out if out is not None else Path("runs") / f"{corpus.name}-tuned"
    check_target(folder, overwrite=overwrite)
    with shown_progress("searching"):
        # Nothing of the search is counted: how many runs there are must stay secret.
        with progress.watched(None):
            run, values = search(
                corpus, resolved, candidates, count, public_validation=public_validation
            )
        record = write_run(folder, run, run_page, overwrite=overwrite)
    record["chosen"] = values
    _print_run(record, run.model.statement, as_json=as_json)
    if not as_json:
        words = ", ".join(f"{name} = {value}" for name, value in values.items())
        say(f"Chosen: {words}. Epsilon covers the whole search.")


@takes(
    epsilon="Privacy budget epsilon.",
    out="Run folder; an earlier demo in runs/demo is replaced.",
)
def demo(
    epsilon: float = 1.0, out: Path = _DEMO, overwrite: bool = False, as_json: bool = False
) -> None:
    """Train on the bundled synthetic clinic letters, protecting each patient."""
    from privgcn.config import make_settings
    from privgcn.report.page import run_page
    from privgcn.runs.folder import is_stored
    from privgcn.runs.run import Run, write_run
    from privgcn.runs.train import train as train_model

    begun = time.perf_counter()
    if out == _DEMO and is_stored(out):
        overwrite = overwrite or Run(out).settings.data.source == "clinic"
    named = {
        "data.source": "clinic",
        "features.kind": "static",
        "privacy.unit": "person",
        "privacy.epsilon": epsilon,
    }
    with shown_progress():
        settings = make_settings(changes=named)
        prepared, folder = _read(settings, out, overwrite=overwrite)
        run = train_model(prepared)
        record = write_run(folder, run, run_page, overwrite=overwrite)
    record["seconds"] = round(time.perf_counter() - begun, 3)
    if not as_json:
        say(
            "Synthetic letters of a clinic; no real person is described. Task: which "
            "department does a letter belong to?\nTrained with differential privacy: the "
            "guarantee below holds for each patient.\n"
        )
    _print_run(record, run.model.statement, as_json=as_json)


def _read(
    settings: Settings,
    out: Path | None,
    *,
    overwrite: bool,
    dry_run: bool = False,
    asks: bool = False,
    ranks: Ranks | None = None,
) -> tuple[PreparedRun, Path]:
    """Reads the documents, says what they are and how they are protected, and decides the run.

    Where nobody said what to protect (``asks``), a person at a terminal is asked.
    """
    from privgcn.config import to_toml
    from privgcn.data import load_corpus, resolved_source
    from privgcn.data.catalogue import usual_encodings
    from privgcn.features import NAMED, cache, choose
    from privgcn.privacy.statement import Fact
    from privgcn.runs.folder import check_target
    from privgcn.runs.prepare import prepare, public_size
    from privgcn.runs.release import runs_beside

    source, edges = resolved_source(str(settings.data.source)), settings.data.edges
    edges = None if edges is None else os.path.realpath(os.path.expanduser(edges))
    settings = settings.changed({"data.source": source, "data.edges": edges})
    if out is not None and not dry_run:
        check_target(out, overwrite=overwrite)
    corpus = load_corpus(source, seed=settings.seed, **settings.data.reading)
    if settings.privacy is None:
        note("NOT PRIVATE: no --epsilon was given.")
    note(str(_report(corpus)))
    if corpus.read_report is None and corpus.num_classes <= _MOST_CLASSES:
        # Of a public dataset; how often a class occurs is private otherwise.
        counts = [(corpus.labels == code).sum() for code in range(corpus.num_classes)]
        pairs = zip(corpus.classes, counts, strict=True)
        note("Classes: " + ", ".join(f"{name} {count:,}" for name, count in pairs) + ".")
    if corpus.owners is not None:
        settings = with_unit(settings, asks=asks)
    elif settings.privacy is not None and corpus.read_report and corpus.columns:
        names = ", ".join(f"'{name}'" for name in corpus.columns)
        note(
            f"No column is named 'owner', so no person is protected as a whole. If one of "
            f"{names} says whose a document is, add --owner with its name and --unit person."
        )
    privacy, features = settings.privacy, settings.features
    if out is None:
        words = [corpus.name, settings.recipe]
        if privacy is not None:
            words += [f"epsilon-{privacy.epsilon:g}" if privacy.epsilon else "noise"]
            words += [privacy.unit]
        out = Path("runs") / "-".join([*words, f"seed-{settings.seed}"])
        if not dry_run:
            check_target(out, overwrite=overwrite)
    beside = runs_beside(out, settings)
    if beside:
        note(
            f"{out.parent} holds other private runs of the same documents, such as "
            f"{beside[0].name}. Keeping the best of several is a search no epsilon counts, "
            "and the statement says so. To choose, use 'privgcn tune'."
        )
    gaps = (Fact("one_of_several"),) if beside else ()
    prepared = prepare(corpus, settings, ranks=ranks, gaps=gaps)
    if features.kind is None and usual_encodings(corpus.facts.source):
        note(f"Features: {prepared.featurizer.kind}, as the literature encodes {corpus.name}.")
    elif prepared.featurizer.kind == "given":
        note(
            f"Features: the {prepared.featurizer.dimension:,} numbers given for each document."
        )
    elif features.kind in (None, *NAMED) and not features.options:
        size, language = public_size(corpus, settings), features.language
        note(str(choose(size, language=language, wanted=features.kind)))
    if cache.enabled() and "cache_dir" in type(prepared.featurizer).model_fields:
        folder = features.options.get("cache_dir") or cache.default_cache()
        note(
            f"Vectors of the texts stay in {folder}, so that none is encoded twice: --no-cache "
            "keeps none, 'privgcn cache --purge' deletes them."
        )
    for line in prepared.advice:
        note(line)
    if verbosity() == "verbose":
        note(to_toml(settings.model_dump()).strip())
    return prepared, out


def _report(corpus: Corpus) -> Any:
    """What was read; of a dataset that is known by name, what it has."""
    from privgcn.data import ReadReport

    owners = None if corpus.owner_names is None else len(corpus.owner_names)
    return corpus.read_report or ReadReport(
        len(corpus), owners, corpus.num_classes, corpus.edges.shape[1]
    )


def with_unit(settings: Settings, *, asks: bool) -> Settings:
    """Asks whom to protect where documents have owners and nobody said it.

    Without anybody at a terminal each document stays protected by itself, and a note says so.
    """
    from privgcn import progress

    if settings.privacy is None or settings.privacy.unit != "document":
        return settings
    if asks and sys.stdin.isatty() and watched_by_a_person():
        progress.begin("")
        together = typer.confirm(
            "Documents have owners. Protect all documents of a person together? Otherwise each "
            "document is protected by itself.",
            err=True,
        )
        return settings.changed({"privacy.unit": "person"}) if together else settings
    note(
        "Each document is protected by itself. Documents have owners: --unit person "
        "protects all documents of a person together."
    )
    return settings


def _print_run(
    record: dict[str, Any], statement: PrivacyStatement | None, *, as_json: bool
) -> None:
    """Shows a finished run to a person, or its record to a program."""
    from privgcn.privacy.wording import guarantee_line
    from privgcn.report.scores import (
        deployment,
        mode_table,
        reference_table,
        repeat_table,
    )

    if as_json:
        print_json(record)
        return
    modes = record["scores"]
    if any(row["documents"] for row in modes.values()):
        print_table(mode_table({**record, "modes": modes}, private=statement is not None))
    else:
        say("No document has the split 'test' and a label: nothing was scored.")
    for table in (reference_table(record), repeat_table(record)):
        if table is not None:
            print_table(table)
            say("\n".join(table.notes))
    decided = [". ".join(deployment(record) or ())]
    for line in (*decided, *record["baselines_left_out"]):
        if line:
            say(line)
    say(guarantee_line(statement))
    folder = record["run"]
    say(f"Run: {folder}    Report: {folder}/report.html")
    if statement is not None:
        word = shlex.quote(folder)
        say(f"Next: privgcn verify {word}; privgcn release {word} DIR")
