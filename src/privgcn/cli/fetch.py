"""``privgcn fetch``: brings a dataset to this machine and checks it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from privgcn.cli.options import AsJson
from privgcn.cli.output import print_json
from privgcn.errors import DataError, shown

if TYPE_CHECKING:
    from privgcn.data.card import DatasetCard


def fetch(
    name: Annotated[
        str, typer.Argument(help="Name of a dataset; 'privgcn datasets' lists them.")
    ],
    data_dir: Annotated[
        Path | None,
        typer.Option(help="Where to put it (default: PRIVGCN_DATA or the user cache folder)."),
    ] = None,
    source: Annotated[
        Path | None,
        typer.Option(
            "--from",
            help="A folder that has the raw files: copy them, prepare the dataset, check it.",
        ),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Download a dataset, verify its SHA-256, and resume an interrupted download."""
    from privgcn.data.location import data_folder

    card = _card(name)
    folder = data_folder(data_dir)
    if source is not None:
        files, sizes = _prepare(card, source, folder)
    else:
        files, sizes = _download(card, folder), None
    if as_json:
        record = {"dataset": card.name, "data_dir": str(folder), "files": list(map(str, files))}
        print_json(record if sizes is None else {**record, "sizes": sizes})
    elif sizes is not None:
        typer.echo(f"{card.name}: {len(files)} files in {files[0].parent}, prepared.")
        for what, (found, told) in sizes.items():
            same = (
                "" if told is None else ", as described" if found == told else f" (!= {told})"
            )
            typer.echo(f"  {what}: {found}{same}")
    elif files:
        typer.echo(f"{card.name}: {len(files)} files, checked, in {files[0].parent}")
    else:
        typer.echo(
            f"{card.name} is synthetic and generated on this machine: nothing to download."
        )


def _card(name: str) -> DatasetCard:
    from privgcn.data.catalogue import DATASETS, did_you_mean

    if name not in DATASETS:
        raise DataError(
            f"The 'name' of fetch must be one of {', '.join(DATASETS)}. Got {shown(name)}."
            f"{did_you_mean(name)}"
        )
    return DATASETS[name]


Sizes = dict[str, tuple[int, int | None]]


def _prepare(card: DatasetCard, source: Path, folder: Path) -> tuple[list[Path], Sizes]:
    """Copies and prepares, and counts: each size beside the one that is described."""
    from privgcn.data.fetch import copy_from

    if not card.files:
        raise DataError(
            f"The dataset '{card.name}' must have raw files to be taken from a folder. It is "
            "synthetic and generated on this machine. Leave out --from."
        )
    files = copy_from(card, source, folder)
    corpus = card.load(folder, 0)
    return files, {
        "documents": (len(corpus), card.documents),
        "links": (corpus.edges.shape[1], card.links),
        "classes": (corpus.num_classes, card.classes),
    }


def _download(card: DatasetCard, folder: Path) -> list[Path]:
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        DownloadColumn,
        Progress,
        TaskID,
        TextColumn,
        TimeRemainingColumn,
    )

    from privgcn.data.fetch import fetch as fetch_files

    bars = Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        DownloadColumn(),
        TimeRemainingColumn(),
        console=Console(stderr=True),
    )
    tasks: dict[str, TaskID] = {}

    def show(file: str, done: int, total: int | None) -> None:
        bars.start()
        if file not in tasks:
            tasks[file] = bars.add_task(file)
        bars.update(tasks[file], completed=done, total=total)

    try:
        return fetch_files(card, folder, show)
    finally:
        if tasks:
            bars.stop()
