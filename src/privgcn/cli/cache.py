"""``privgcn cache``: what is stored of encoded texts, and its end."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Annotated

import typer

from privgcn.cli.flags import AsJson
from privgcn.cli.output import print_json, say
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
    from dataclasses import asdict

    from privgcn.features.cache import cache_contents, default_cache, purge_cache

    folder = default_cache() if cache_dir is None else cache_dir.expanduser()
    if folder.exists() and not folder.is_dir():
        raise ConfigError(f"The 'cache-dir' of cache must be a folder. Got the file {folder}.")
    contents = purge_cache(folder) if purge else cache_contents(folder)
    if as_json:
        print_json({**asdict(contents), "folder": str(folder), "purged": purge})
        return
    size = (
        f"{contents.files} files, {contents.size / 1e6:.1f} MB, of {contents.encoders} encoders"
    )
    if purge:
        say(f"Deleted from {folder}: {size}.")
        return
    say(f"{folder}: {size}.")
    if contents.files:
        which = "" if cache_dir is None else f" --cache-dir {shlex.quote(str(cache_dir))}"
        say("Vectors of private texts, not covered by any privacy guarantee.")
        say(f"Delete them with: privgcn cache --purge{which}")
