"""``privgcn demo``: the bundled corpus, private, with a report."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from privgcn.cli.options import AsJson
from privgcn.cli.output import Overwrite, print_json

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
    from privgcn.cli.progress import shown_stages
    from privgcn.cli.train import print_run, train_and_write
    from privgcn.config import Overrides, resolve
    from privgcn.runs.folder import is_stored
    from privgcn.runs.run import Run

    if out == _FOLDER and is_stored(out):
        overwrite = overwrite or Run(out).settings.data.source == "clinic"
    wishes = {
        "data.source": "clinic",
        "features.kind": "static",
        "privacy.unit": "person",
        "privacy.epsilon": epsilon,
    }
    with shown_stages():
        record = train_and_write(
            resolve(Overrides.typed(wishes, flags=True)), out, overwrite=overwrite
        )
    if as_json:
        print_json(record)
        return
    typer.echo(
        "Synthetic letters of a clinic; no real person is described. Task: which department "
        "does a letter belong to?\nTrained with differential privacy: the guarantee below "
        "holds for each patient.\n"
    )
    print_run(Path(record["run"]))
