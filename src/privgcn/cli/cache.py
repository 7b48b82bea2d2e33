"""``privgcn cache``: what is kept of encoded texts, and its end."""

from __future__ import annotations

import shlex
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from privgcn.cli.options import AsJson
from privgcn.cli.output import print_json
from privgcn.errors import ConfigError


def cache(
    purge: Annotated[bool, typer.Option("--purge", help="Delete the cached vectors.")] = False,
    cache_dir: Annotated[
        Path | None,
        typer.Option(help="The folder, where the option cache_dir of the features named one."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Show or delete the cached vectors of encoded texts.

    They are vectors of private texts: no privacy guarantee covers them.
    """
    from privgcn.features.cache import cache_contents, default_cache, purge_cache

    folder = default_cache() if cache_dir is None else cache_dir.expanduser()
    if folder.exists() and not folder.is_dir():
        raise ConfigError(f"The 'cache-dir' of cache must be a folder. Got the file {folder}.")
    held = purge_cache(folder) if purge else cache_contents(folder)
    if as_json:
        print_json({**asdict(held), "folder": str(folder), "purged": purge})
        return
    size = f"{held.files} files, {held.size / 1e6:.1f} MB, of {held.encoders} encoders"
    if purge:
        typer.echo(f"Deleted from {folder}: {size}.")
    else:
        typer.echo(f"{folder}: {size}.")
        if held.files:
            which = "" if cache_dir is None else f" --cache-dir {shlex.quote(str(cache_dir))}"
            typer.echo("Vectors of private texts, not covered by any privacy guarantee.")
            typer.echo(f"Delete them with: privgcn cache --purge{which}")
