"""``privgcn reproduce``: the paper's experiments, ours beside the published numbers."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from privgcn.cli.options import AsJson
from privgcn.cli.output import print_json

if TYPE_CHECKING:
    from privgcn.experiments.declared import Declared
    from privgcn.experiments.paper.reproduce import Reproduction

_NAMES = (
    "table1, experiment-a, experiment-b, experiment-c, features, hard-cases, mnist, "
    "ablation, as-released; or all"
)


def reproduce(
    name: Annotated[
        str | None, typer.Argument(help=f"The experiments, comma-separated: {_NAMES}.")
    ] = None,
    config: Annotated[
        Path | None,
        typer.Option(help="A TOML file with a grid of your own, instead of a name."),
    ] = None,
    datasets: Annotated[
        str | None, typer.Option(help="Comma-separated; default: the paper's, if here.")
    ] = None,
    seeds: Annotated[
        int | None,
        typer.Option(help="Seeds of every configuration (default: 5; 2 with --quick)."),
    ] = None,
    engine: Annotated[str, typer.Option(help="local (this machine) or ray.")] = "local",
    address: Annotated[
        str | None, typer.Option(help="Address of the Ray cluster, for --engine ray.")
    ] = None,
    workers: Annotated[
        int | None, typer.Option(help="Processes of --engine local (default: one per core).")
    ] = None,
    device: Annotated[
        str | None,
        typer.Option(help="Where runs train: auto (what is faster), cpu or cuda."),
    ] = None,
    resume: Annotated[
        bool, typer.Option("--resume", help="Go on with the records in the results folder.")
    ] = False,
    only_show: Annotated[
        bool,
        typer.Option("--only-show", help="Run nothing: show the records that are there."),
    ] = False,
    mixed: Annotated[
        bool,
        typer.Option("--mixed", help="Go on beside records of other code; pages say so."),
    ] = False,
    quick: Annotated[
        bool, typer.Option("--quick", help="A small size that ends within five minutes.")
    ] = False,
    out: Annotated[
        Path | None, typer.Option(help="Results folder (default: reproduction/NAME).")
    ] = None,
    write_docs: Annotated[
        Path | None,
        typer.Option(help="Also write a Markdown page on the whole, with figures and a CSV."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Run an experiment of the paper and show ours beside the published numbers.

    With --config, run a grid of your own on the same engine.
    """
    from privgcn.experiments.paper.pages import write_pages
    from privgcn.experiments.paper.reproduce import reproduce as run
    from privgcn.experiments.paper.reproduction_page import write_reproduction
    from privgcn.experiments.paper.targets import chosen_targets
    from privgcn.experiments.progress import make_progress
    from privgcn.experiments.runner import make_engine

    experiment, label = _experiment(name, config, datasets, seeds, quick)
    if isinstance(experiment, str):
        chosen_targets(experiment)
    if write_docs is not None:
        _check_page(write_docs)
    words = [name] if name is not None else [f"--config {config}"]
    words += [*(["--quick"] if quick else []), *(["--only-show"] if only_show else [])]
    words += [] if datasets is None else [f"--datasets {datasets}"]
    words += [] if seeds is None else [f"--seeds {seeds}"]
    command = " ".join(["privgcn reproduce", *words])
    folder = out if out is not None else Path("reproduction") / label
    done = run(
        experiment,
        folder,
        make_engine(engine, workers=workers, address=address, device=device),
        datasets=None if datasets is None else [d.strip() for d in datasets.split(",")],
        seeds=seeds,
        quick=quick,
        resume=resume,
        only_show=only_show,
        mixed=mixed,
        command=command,
        device=device,
        progress=make_progress(),
    )
    page = write_pages(folder, done)
    if write_docs is not None:
        write_reproduction(write_docs, done, f"{command} --write-docs {write_docs}")
    if as_json:
        print_json(_record(label, folder, page, done))
    else:
        _print(page, done)
    if done.summary.failed:
        raise typer.Exit(1)


def _experiment(
    name: str | None,
    config: Path | None,
    datasets: str | None,
    seeds: int | None,
    quick: bool,
) -> tuple[str | Declared, str]:
    """What to run, and what its folder is called."""
    from privgcn.errors import ConfigError
    from privgcn.experiments.declared import read_declared

    if (name is None) == (config is None):
        raise ConfigError(
            f"The 'name' of reproduce must be {_NAMES}; or --config must name a TOML file "
            "with a grid of your own. Give one of the two."
        )
    if config is None:
        return str(name), str(name)
    if datasets is not None or seeds is not None or quick:
        raise ConfigError(
            "The options --datasets, --seeds and --quick are for the paper's experiments. A "
            "grid of your own has them in its file."
        )
    return read_declared(config), config.stem


def _check_page(path: Path) -> None:
    """Refuses a page that could not be written, before hours of runs."""
    import os

    from privgcn.errors import ConfigError

    above = path.absolute().parent
    while not above.exists():
        above = above.parent
    problems = {
        "that is a folder": path.is_dir(),
        f"{above} is not a folder": not above.is_dir(),
        f"{above} cannot be written": not os.access(above, os.W_OK),
    }
    for problem, found in problems.items():
        if found:
            raise ConfigError(
                "The 'write-docs' of reproduce must be a file that can be written. Got "
                f"{path}: {problem}. Name a Markdown file, such as reproduction.md."
            )


def _record(name: str, folder: Path, page: Path, done: Reproduction) -> dict[str, Any]:
    return {
        "experiment": name,
        "out": str(folder),
        "report": str(page),
        **vars(done.summary),
        "seconds": round(done.summary.seconds, 1),
        "training_seconds": round(done.provenance.training_seconds, 1),
        "failures": [
            {key: failure[key] for key in ("label", "settings", "seeds", "reason")}
            for failure in done.failures
        ],
        "torn": done.torn,
        "takeaways": [vars(takeaway) for takeaway in done.takeaways],
        "tables": {
            shown.name: [table.model_dump(mode="json") for table in shown.presentation.tables]
            for shown in done.shown
        },
    }


def _print(page: Path, done: Reproduction) -> None:
    from privgcn.experiments.progress import duration
    from privgcn.report.results import NOT_MEASURED

    for shown in done.shown:
        for table in shown.presentation.tables:
            typer.echo(table.markdown())
        for note in shown.presentation.notes:
            typer.echo(note)
    if any(takeaway.verdict != NOT_MEASURED for takeaway in done.takeaways):
        typer.echo("\nThe paper's take-aways:")
        for takeaway in done.takeaways:
            reach = f", {takeaway.reach}" if takeaway.reach else ""
            typer.echo(f"- {takeaway.claim.rstrip('.')}: {takeaway.verdict}{reach}.")
    summary = done.summary
    typer.echo(
        f"\n{summary.done} runs done now, {summary.kept} kept, {summary.failed} failed. "
        f"Wall time {duration(summary.seconds)}."
    )
    for failure in done.failures:
        typer.echo(f"Failed: {failure['label']}: {failure['reason']}", err=True)
    for name in done.torn:
        typer.echo(f"Damaged record set aside and run again: {name}", err=True)
    typer.echo(f"Report: {page}")
