"""``privgcn train``, ``tune`` and ``demo``: documents in, a run folder out."""

from __future__ import annotations

import os
import shlex
import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from typer import Option

from privgcn.cli.flags import READING, Chosen, takes
from privgcn.cli.output import Answer, Line, note, shown_progress, verbosity

if TYPE_CHECKING:
    from privgcn.config import Settings
    from privgcn.data import Corpus
    from privgcn.privacy.statement import PrivacyStatement

_DEMO = Path("runs/demo")


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
) -> Answer | None:
    """Train a classifier on documents and edges, privately when given an epsilon."""
    from privgcn.config import resolve

    settings = resolve(*chosen.overrides(source=source))
    return _run(settings, out, overwrite, dry_run, seeds)


@takes(
    *("epsilon", "delta", "unit", "relation", "recipe", "features", "classes"),
    *READING,
    *("seed", "device"),
    epsilon="Privacy budget of the whole search, winner included.",
    space="A file (TOML) with a list of values per setting.",
    tries=Option("--try", help="Values to try: a.b=c,d,e."),
    expected_runs="Runs on average; how many there are stays secret.",
    public_validation="Declare the validation documents public: no noise.",
    out="Run folder (default: runs/NAME-tuned).",
)
def tune(
    source: str,
    chosen: Chosen,
    space: Path | None = None,
    tries: list[str] | None = None,
    expected_runs: float = 5.0,
    public_validation: bool = False,
    out: Path | None = None,
    overwrite: bool = False,
) -> Answer:
    """Search for better settings; epsilon covers all runs, and only the best is stored."""
    from privgcn import progress
    from privgcn.config import resolve
    from privgcn.privacy.selection import RunCount
    from privgcn.report.page import run_page
    from privgcn.runs.folder import check_target
    from privgcn.runs.run import write_run
    from privgcn.runs.tune import search, search_space

    settings = resolve(*chosen.overrides(source=source))
    candidates = search_space(settings.recipe, space, tries or [])
    count = RunCount(expected_runs)
    with shown_progress():
        settings, corpus = _read(settings)
        folder = out if out is not None else Path("runs") / f"{corpus.name}-tuned"
        check_target(folder, overwrite=overwrite)
        progress.begin("searching")
        # Nothing of the search is counted: how many runs there are must stay secret.
        with progress.watched(None):
            run, values = search(
                corpus, settings, candidates, count, public_validation=public_validation
            )
        record = write_run(folder, run, run_page, overwrite=overwrite)
    words = ", ".join(f"{name} = {value}" for name, value in values.items())
    last = f"Chosen: {words}. Epsilon covers the whole search."
    return _answer({**record, "chosen": values}, run.model.statement, last)


@takes(
    epsilon="Privacy budget epsilon.",
    out="Run folder; an earlier demo in runs/demo is replaced.",
)
def demo(epsilon: float = 1.0, out: Path = _DEMO, overwrite: bool = False) -> Answer | None:
    """Train on the bundled synthetic clinic letters, protecting each patient."""
    from privgcn.config import make_settings
    from privgcn.runs.folder import is_stored
    from privgcn.runs.run import Run

    if out == _DEMO and is_stored(out):
        overwrite = overwrite or Run(out).settings.data.source == "clinic"
    note(
        "Synthetic letters of a clinic; no real person is described. Task: which department "
        "does a letter belong to?\nTraining with differential privacy: the guarantee below "
        "holds for each patient."
    )
    named = {"features.kind": "static", "privacy.unit": "person", "privacy.epsilon": epsilon}
    settings = make_settings(changes={"data.source": "clinic", **named})
    return _run(settings, out, overwrite)


def _run(
    settings: Settings, out: Path | None, overwrite: bool, dry_run: bool = False, seeds: int = 1
) -> Answer | None:
    from privgcn.config import to_toml
    from privgcn.mechanism.ranks import Ranks
    from privgcn.privacy.statement import Fact
    from privgcn.report.page import run_page
    from privgcn.runs.folder import check_target
    from privgcn.runs.prepare import features_remark, prepare
    from privgcn.runs.run import runs_beside, write_run
    from privgcn.runs.train import train as train_model

    begun = time.perf_counter()
    with Ranks.of_environment() as ranks, shown_progress():
        if out is not None and not dry_run:
            check_target(out, overwrite=overwrite)
        settings, corpus = _read(settings)
        folder = out or _usual_folder(corpus, settings)
        if not dry_run:
            check_target(folder, overwrite=overwrite)
        beside = runs_beside(folder, settings)
        if beside:
            note(
                f"{folder.parent} holds other private runs of the same documents, such as "
                f"{beside[0].name}. Keeping the best of several is a search no epsilon counts, "
                "and the statement says so. To choose, use 'privgcn tune'."
            )
        prepared = prepare(corpus, settings, ranks=ranks if ranks.size > 1 else None)
        prepared = replace(prepared, gaps=(Fact("one_of_several"),) if beside else ())
        for line in (features_remark(prepared), *prepared.advice):
            note(line)
        if verbosity() == "verbose":
            note(to_toml(settings.model_dump()).strip())
        if dry_run:
            record = {
                "dry_run": True,
                "run": str(folder),
                "dataset": corpus.name,
                "read": {**corpus.sizes, "remarks": corpus.remarks or ()},
                "settings": settings.model_dump(),
            }
            return Answer(record, ["Dry run: nothing was trained or written."])
        if seeds > 1:
            note(
                f"The model is that of seed {settings.seed}, whatever it scores. Seeds up to "
                f"{settings.seed + seeds - 1} only show how far the score varies."
            )
        run = train_model(prepared)
        if not ranks.leads:
            return None
        record = write_run(folder, run, run_page, overwrite=overwrite, seeds=seeds)
    record["seconds"] = round(time.perf_counter() - begun, 3)
    return _answer(record, run.model.statement)


def _read(settings: Settings) -> tuple[Settings, Corpus]:
    from privgcn.data import load_corpus, resolved_source
    from privgcn.runs.prepare import unit_remark

    data = settings.data
    source, edges = resolved_source(str(data.source)), data.edges
    edges = None if edges is None else os.path.realpath(os.path.expanduser(edges))
    settings = settings.changed({"data.source": source, "data.edges": edges})
    corpus = load_corpus(source, seed=settings.seed, **settings.data.reading)
    if settings.privacy is None:
        note("NOT PRIVATE: no --epsilon was given.")
    note(corpus.summary)
    note(unit_remark(corpus, settings))
    return settings, corpus


def _usual_folder(corpus: Corpus, settings: Settings) -> Path:
    words, privacy = [corpus.name, settings.recipe], settings.privacy
    if privacy is not None:
        words.append(f"epsilon-{privacy.epsilon:g}" if privacy.epsilon else "noise")
        words.append(privacy.unit)
    return Path("runs") / "-".join([*words, f"seed-{settings.seed}"])


def _answer(record: dict[str, Any], statement: PrivacyStatement | None, *more: str) -> Answer:
    from privgcn.privacy.wording import guarantee_line
    from privgcn.report.scores import deployment, mode_table, reference_table, repeat_table

    folder, report = shlex.quote(record["run"]), shlex.quote(f"{record['run']}/report.html")
    scores: Line = "No document has the split 'test' and a label: nothing was scored."
    if any(row["documents"] for row in record["scores"].values()):
        scores = mode_table(
            {**record, "modes": record["scores"]}, private=statement is not None
        )
    lines = [
        scores,
        reference_table(record),
        repeat_table(record),
        ". ".join(deployment(record) or ()),
        guarantee_line(statement),
        f"Run: {folder}    Report: {report}",
        f"Next: privgcn verify {folder}; privgcn release {folder} DIR" if statement else "",
        *more,
    ]
    return Answer(record, lines)
