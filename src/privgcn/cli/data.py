"""``privgcn datasets`` and ``fetch``: which datasets are known, and how they come here."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from privgcn.cli.flags import AsJson
from privgcn.cli.output import leads, print_json, print_table, say, verbosity
from privgcn.errors import DataError

if TYPE_CHECKING:
    from privgcn.data.catalogue import DatasetCard


def datasets(
    data_dir: Annotated[
        Path | None,
        typer.Option(help="Where to look (default: PRIVGCN_DATA or the user cache folder)."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """List the known datasets and whether they are on this machine."""
    from privgcn.data.catalogue import dataset, dataset_names
    from privgcn.data.download import data_folder

    folder = data_folder(data_dir)
    records = [_record(dataset(name), folder) for name in dataset_names()]
    if as_json:
        print_json({"data_dir": str(folder), "datasets": records})
        return
    shown = ("name", "kind", "documents", "edges", "classes", "here", "title")
    print_table(
        None,
        {title: title in ("documents", "edges", "classes") for title in shown},
        [
            (
                record["name"],
                record["kind"],
                f"{record['documents']:,}",
                "?" if record["edges"] is None else f"{record['edges']:,}",
                str(record["classes"]),
                record["where"] if record["where"] in _PLACES else "yes",
                record["title"],
            )
            for record in records
        ],
    )
    say(f"Data folder: {folder}")


_PLACES = ("generated", "not fetched")


def _record(card: DatasetCard, folder: Path) -> dict[str, Any]:
    missing, where = card.missing(folder), _PLACES[0]
    if card.files:
        where = _PLACES[1] if missing else str((folder / card.files[0].path).parent)
    sizes = ("documents", "edges", "classes", "features", "language", "licence")
    return {
        "name": card.name,
        "title": card.title,
        "kind": "synthetic" if card.synthetic else "real",
        "synthetic": card.synthetic,
        "available": not missing,
        "where": where,
        "downloadable": bool(card.files) and all(file.url for file in card.files),
        **{name: getattr(card, name) for name in sizes},
    }


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
    """Download a dataset and verify its SHA-256."""
    from privgcn.data.catalogue import dataset
    from privgcn.data.download import copy_from, data_folder
    from privgcn.data.download import fetch as download

    card, folder, sizes = dataset(name), data_folder(data_dir), {}
    if source is None:
        bar = sys.stderr.isatty() and verbosity() != "quiet" and leads()
        files = download(card, folder, progressbar=bar)
    else:
        if not card.files:
            raise DataError(
                f"The dataset '{card.name}' must have raw files to be taken from a folder. It "
                "is synthetic and generated on this machine. Leave out --from."
            )
        files = copy_from(card, source, folder)
        corpus = card.load(folder, 0)
        # Each size beside the one that is described.
        sizes = {
            "documents": (len(corpus), card.documents),
            "edges": (corpus.edges.shape[1], card.edges),
            "classes": (corpus.num_classes, card.classes),
        }
    if as_json:
        record = {"dataset": card.name, "data_dir": str(folder), "files": list(map(str, files))}
        print_json({**record, "sizes": sizes} if sizes else record)
    elif not files:
        say(f"{card.name} is synthetic and generated on this machine: nothing to download.")
    elif not sizes:
        say(f"{card.name}: {len(files)} files, checked, in {files[0].parent}")
    else:
        say(f"{card.name}: {len(files)} files in {files[0].parent}, prepared.")
        for what, (size, described) in sizes.items():
            same = ", as described" if size == described else f" (!= {described})"
            say(f"  {what}: {size}{'' if described is None else same}")
