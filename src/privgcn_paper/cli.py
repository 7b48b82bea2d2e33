"""``privgcn reproduce``: the paper's experiments, ours beside the published numbers."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from privgcn_paper.experiments import Experiment

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
        typer.Option(help="Seeds of every run (default: the experiment's; 2 with --quick)."),
    ] = None,
    engine: Annotated[str, typer.Option(help="local (this machine) or ray.")] = "local",
    address: Annotated[
        str | None, typer.Option(help="Address of the Ray cluster, for --engine ray.")
    ] = None,
    workers: Annotated[
        int | None, typer.Option(help="Processes of --engine local (default: one per core).")
    ] = None,
    device: Annotated[str, typer.Option(help="Where networks train: cpu or cuda.")] = "cpu",
    only_show: Annotated[
        bool, typer.Option("--only-show", help="Run nothing: show the records that are there.")
    ] = False,
    quick: Annotated[
        bool, typer.Option("--quick", help="A small size that ends within five minutes.")
    ] = False,
    out: Annotated[
        Path | None, typer.Option(help="Folder of the records (default: reproduction/NAME).")
    ] = None,
    write_docs: Annotated[
        Path | None,
        typer.Option(help="Also write a Markdown page on the whole, with figures and a CSV."),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Run an experiment of the paper and show ours beside the published numbers.

    Records that are there are not run again, so a call that was stopped goes on where it was.
    """
    from privgcn.cli.output import note, print_json, shown_progress
    from privgcn.errors import ConfigError
    from privgcn.progress import advance, begin
    from privgcn_paper import page
    from privgcn_paper.experiments import available, chosen, read_experiment
    from privgcn_paper.results import Runs, read_records
    from privgcn_paper.runner import run_all

    if (name is None) == (config is None):
        raise ConfigError(
            f"The 'name' of reproduce must be {_NAMES}; or --config must name a TOML file with "
            "a grid of your own. Give one of the two."
        )
    if device not in ("cpu", "cuda"):
        raise ConfigError(f"The 'device' of reproduce must be cpu or cuda. Got {device!r}.")
    if config is None:
        picked, label = chosen(str(name)), str(name)
    else:
        picked, label = {config.stem: read_experiment(config)}, config.stem
    folder = Path("reproduction") / label if out is None else out
    named = None if datasets is None else [one.strip() for one in datasets.split(",")]
    plans: list[tuple[Experiment, list[dict[str, Any]]]] = []
    done = stored = 0
    seconds, failures = 0.0, []
    with shown_progress():
        for title, experiment in picked.items():
            wanted = named or (experiment.quick if quick else {}).get(
                "datasets", experiment.datasets
            )
            here, notes = available(list(wanted), named=named is not None)
            for line in notes:
                note(line)
            points = experiment.points(here, quick=quick)
            plans.append((experiment, points))
            if only_show:
                continue
            begin(title)
            summary = run_all(
                points,
                experiment.number_of_seeds(seeds, quick=quick),
                folder,
                workers=workers,
                engine=engine,
                address=address,
                device="cuda" if device == "cuda" else "cpu",
                progress=advance,
            )
            done, stored = done + summary.done, stored + summary.stored
            seconds += summary.seconds
            failures += summary.failures
    runs = Runs.of_records(read_records(folder).values())
    tables = [table for made, points in plans for table in page.view_tables(made, points, runs)]
    runs.write(folder / "runs.csv")
    if write_docs is not None:
        page.write_reproduction(
            write_docs,
            runs,
            f"privgcn reproduce {label} --only-show --out {folder} --write-docs {write_docs}",
        )
    if as_json:
        print_json(
            {
                "experiment": label,
                "out": str(folder),
                "done": done,
                "stored": stored,
                "failed": len(failures),
                "seconds": round(seconds, 1),
                "failures": [{"run": task.label, "reason": why} for task, why in failures],
                "tables": [vars(table) for table in tables],
            }
        )
    else:
        for table in tables:
            typer.echo(table.markdown())
        typer.echo(
            f"{done} runs made, {stored} stored before, {len(failures)} failed; {seconds:.0f} s."
        )
        for task, why in failures:
            typer.echo(f"Failed: {task.label}, seed {task.seed}: {why}", err=True)
        typer.echo(f"Table of runs: {folder / 'runs.csv'}")
    if failures:
        raise typer.Exit(1)
