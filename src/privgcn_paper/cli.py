"""``privgcn reproduce``: the paper's experiments, ours beside the published numbers."""

from __future__ import annotations

from pathlib import Path

import typer

from privgcn.cli.flags import takes
from privgcn.cli.output import Answer

_NAMES = (
    "table1, experiment-a, experiment-b, experiment-c, features, hard-cases, mnist, "
    "as-released; or all"
)


@takes(
    name=typer.Argument(help=f"The experiments, comma-separated: {_NAMES}."),
    datasets="Comma-separated, also folders of your own (default: the paper's, if here).",
    seeds=typer.Option(help="Seeds of every run (default: 5; 2 with --quick).", min=1),
    engine="local (this machine) or ray.",
    address="Address of the Ray cluster, for --engine ray.",
    workers="Processes of --engine local (default: one per core).",
    device="Where networks train: cpu or cuda.",
    encoder="The folder of the encoder of transformer features, such as multilingual BERT.",
    only_show="Run nothing: show the runs that are there.",
    quick="A small size that ends within five minutes.",
    out="Folder of the records (default: reproduction/NAME); with --only-show also a table of "
    "runs, such as docs/reproduction.csv.",
    write_docs="Also write a Markdown page on the whole, with figures and a CSV.",
)
def reproduce(
    name: str,
    datasets: str | None = None,
    seeds: int | None = None,
    engine: str = "local",
    address: str | None = None,
    workers: int | None = None,
    device: str = "cpu",
    encoder: Path | None = None,
    only_show: bool = False,
    quick: bool = False,
    out: Path | None = None,
    write_docs: Path | None = None,
) -> Answer:
    """Run an experiment of the paper and show ours beside the published numbers.

    Runs that are there are not made again, so a call that was stopped goes on where it was. The
    folder gets a table of all runs, runs.csv.
    """
    from privgcn.cli.output import note, shown_progress
    from privgcn.errors import ConfigError
    from privgcn.progress import advance, begin
    from privgcn_paper import page
    from privgcn_paper.experiments import available, chosen
    from privgcn_paper.results import runs_in
    from privgcn_paper.runner import Summary, Task, run_all

    for option, value, known in (
        ("device", device, ("cpu", "cuda")),
        ("engine", engine, ("local", "ray")),
    ):
        if value not in known:
            raise ConfigError(
                f"The '{option}' of reproduce must be {' or '.join(known)}. Got {value!r}."
            )
    picked, count = chosen(name).values(), seeds or (2 if quick else 5)
    folder = Path("reproduction") / name if out is None else out
    named = None if datasets is None else [one.strip() for one in datasets.split(",")]
    plans = [(one, one.points(named, quick=quick)) for one in picked]
    points = [point for _, own in plans for point in own]
    if not points:
        raise ConfigError(
            f"The 'datasets' of reproduce must be some that {name} has. Got {datasets!r}."
        )
    summary = Summary(0, 0, [], 0.0)
    if not only_show:
        asked = list(dict.fromkeys(str(point["dataset"]) for point in points))
        here, notes = available(asked, named=named is not None)
        for line in notes:
            note(line)
        place = None if encoder is None else str(encoder.expanduser().resolve())
        with shown_progress():
            begin(name)
            summary = run_all(
                [
                    Task(point, seed, place)
                    for point in points
                    for seed in range(count)
                    if point["dataset"] in here
                ],
                folder,
                workers=workers,
                engine=engine,
                address=address,
                device="cuda" if device == "cuda" else "cpu",
                progress=advance,
            )
    done, stored, failures, seconds = summary
    for task, why in failures:
        note(f"Failed: {task.label}, seed {task.seed}: {why}")
    runs = runs_in(folder)
    if folder.is_dir():
        runs.write(folder / "runs.csv")
    if write_docs is not None:
        page.write_reproduction(write_docs, runs)
    tables = [table for one, own in plans for table in page.experiment_parts(one, own, runs)[1]]
    record = {
        "experiment": name,
        "out": str(folder),
        "done": done,
        "stored": stored,
        "failed": len(failures),
        "seconds": round(seconds, 1),
        "failures": [
            {"run": task.label, "seed": task.seed, "reason": why} for task, why in failures
        ],
        "tables": [vars(table) for table in tables],
    }
    lines = [
        *(table.markdown() for table in tables),
        f"{done} runs made, {stored} were there, {len(failures)} failed; {seconds:.0f} s.",
        f"Results: {folder}",
    ]
    return Answer(record, lines, 1 if failures else 0)
