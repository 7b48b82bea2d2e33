"""``privgcn fetch``: downloads a dataset and checks it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from privgcn.cli.options import AsJson
from privgcn.cli.output import print_json
from privgcn.errors import DataError, shown

if TYPE_CHECKING:
    from privgcn.corpus.card import DatasetCard


def fetch(
    name: Annotated[
        str, typer.Argument(help="Name of a dataset; 'privgcn datasets' lists them.")
    ],
    data_dir: Annotated[
        Path | None,
        typer.Option(help="Where to put it (default: PRIVGCN_DATA or the user cache folder)."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Download a dataset, verify its SHA-256, and resume an interrupted download."""
    from privgcn.corpus.location import data_folder

    card = _card(name)
    folder = data_folder(data_dir)
    files = _download(card, folder)
    if as_json:
        print_json(
            {"dataset": card.name, "data_dir": str(folder), "files": [str(f) for f in files]}
        )
    elif files:
        typer.echo(f"{card.name}: {len(files)} files, checked, in {files[0].parent}")
    else:
        typer.echo(
            f"{card.name} is synthetic and generated on this machine: nothing to download."
        )


def _card(name: str) -> DatasetCard:
    from privgcn.corpus.catalogue import DATASETS, did_you_mean

    if name not in DATASETS:
        raise DataError(
            f"The 'name' of fetch must be one of {', '.join(DATASETS)}. Got {shown(name)}."
            f"{did_you_mean(name)}"
        )
    return DATASETS[name]


def _download(card: DatasetCard, folder: Path) -> list[Path]:
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        DownloadColumn,
        Progress,
        TextColumn,
        TimeRemainingColumn,
    )

    from privgcn.corpus.fetch import fetch as fetch_files

    bars = Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        DownloadColumn(),
        TimeRemainingColumn(),
        console=Console(stderr=True),
    )
    tasks = {Path(file.path).name: bars.add_task(Path(file.path).name) for file in card.files}
    with bars:
        return fetch_files(
            card,
            folder,
            lambda file, done, total: bars.update(tasks[file], completed=done, total=total),
        )
