"""``privgcn datasets``: which datasets are known, where they are, and their sizes."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from privgcn.cli.options import AsJson
from privgcn.cli.output import print_json


def datasets(
    data_dir: Annotated[
        Path | None,
        typer.Option(help="Where to look (default: PRIVGCN_DATA or the user cache folder)."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """List the known datasets and whether they are on this machine."""
    from privgcn.data.location import data_folder

    folder = data_folder(data_dir)
    records = _records(folder)
    if as_json:
        print_json({"data_dir": str(folder), "datasets": records})
    else:
        _print_table(records, folder)


def _records(folder: Path) -> list[dict[str, Any]]:
    from privgcn.data.catalogue import DATASETS

    records = []
    for card in DATASETS.values():
        missing = card.missing(folder)
        if not card.files:
            place = "generated"
        elif missing:
            place = "not fetched"
        else:
            place = str((folder / card.files[0].path).parent)
        records.append(
            {
                "name": card.name,
                "title": card.title,
                "kind": "synthetic" if card.synthetic else "real",
                "synthetic": card.synthetic,
                "available": not missing,
                "where": place,
                "downloadable": bool(card.files) and all(file.url for file in card.files),
                "documents": card.documents,
                "links": card.links,
                "classes": card.classes,
                "features": card.features,
                "language": card.language,
                "licence": card.licence,
            }
        )
    return records


def _print_table(records: list[dict[str, Any]], folder: Path) -> None:
    from rich.console import Console
    from rich.table import Table

    table = Table(box=None, pad_edge=False)
    for title in ("name", "kind", "documents", "links", "classes", "here", "title"):
        numeric = title in ("documents", "links", "classes")
        table.add_column(title, justify="right" if numeric else "left", no_wrap=True)
    for record in records:
        links = "?" if record["links"] is None else f"{record['links']:,}"
        table.add_row(
            record["name"],
            record["kind"],
            f"{record['documents']:,}",
            links,
            str(record["classes"]),
            record["where"] if record["where"] in ("generated", "not fetched") else "yes",
            record["title"],
        )
    console = Console()
    if not console.is_terminal:
        # A file or a pipe has no width; nothing should be cut there.
        console = Console(width=160)
    console.print(table)
    console.print(f"Data folder: {folder}", soft_wrap=True, highlight=False, markup=False)
