"""``privgcn demo``: the bundled corpus, private, with a report."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated

import typer

from privgcn.cli.flags import AsJson, Overwrite
from privgcn.cli.output import print_json, say, shown_progress

_FOLDER = Path("runs/demo")


def demo(
    epsilon: Annotated[float, typer.Option(help="Privacy budget epsilon.")] = 1.0,
    out: Annotated[
        Path, typer.Option(help="Run folder; an earlier demo in runs/demo is replaced.")
    ] = _FOLDER,
    overwrite: Overwrite = False,
    as_json: AsJson = False,
) -> None:
    """Train on the bundled synthetic clinic letters, protecting each patient."""
    from privgcn.cli.scores import print_run
    from privgcn.cli.train import read, score_and_write
    from privgcn.config import Overrides, resolve
    from privgcn.runs.folder import is_stored
    from privgcn.runs.run import Run
    from privgcn.runs.train import train

    begun = time.perf_counter()
    if out == _FOLDER and is_stored(out):
        overwrite = overwrite or Run(out).settings.data.source == "clinic"
    named = {
        "data.source": "clinic",
        "features.kind": "static",
        "privacy.unit": "person",
        "privacy.epsilon": epsilon,
    }
    with shown_progress():
        settings = resolve(Overrides.typed(named, flags=True))
        prepared, folder = read(settings, out, overwrite=overwrite)
        run = train(prepared)
        record = score_and_write(folder, run, overwrite=overwrite)
    record["seconds"] = round(time.perf_counter() - begun, 3)
    if as_json:
        print_json(record)
        return
    say(
        "Synthetic letters of a clinic; no real person is described. Task: which department "
        "does a letter belong to?\nTrained with differential privacy: the guarantee below "
        "holds for each patient.\n"
    )
    print_run(record, run.model.statement)
