"""``privgcn check``, ``datasets``, ``fetch`` and ``cache``: what is on this machine."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from typer import Argument, Option

from privgcn.cli.flags import READING, Chosen, takes
from privgcn.cli.output import Answer, shown_progress
from privgcn.errors import ConfigError

if TYPE_CHECKING:
    from privgcn.data.check import Check


@takes("classes", *READING)
def check(source: str, chosen: Chosen) -> Answer:
    """List everything that is wrong with documents, with examples and remedies."""
    from privgcn.config import resolve
    from privgcn.data.check import check_documents

    reading = resolve(*chosen.overrides()).data.reading
    with shown_progress():
        found = check_documents(source, **reading)
    facts, options = found.facts, {**reading, **found.options}
    record = {
        "trainable": found.trainable,
        "problems": [asdict(problem) for problem in found.problems],
        "facts": facts,
        "options": found.options,
    }
    verb, more, after = "check", list[str](), "Mend what is wrong"
    if found.trainable:
        verb, more, after = "train", ["--epsilon", "1"], "Nothing stops training"
        more += ["--unit", "person"] * bool(facts["owners"] or options.get("owner"))
    words = [word for name, value in options.items() for word in (f"--{name}", str(value))]
    following = f"{after}. Next: privgcn {shlex.join([verb, source, *words, *more])}"
    lines = [*_problems(found), *_facts(facts), following]
    return Answer(record, lines, 0 if found.trainable else 2)


def _problems(found: Check) -> Iterator[str]:
    ranked = sorted(found.problems, key=lambda problem: not problem.stops)
    for number, problem in enumerate(ranked, start=1):
        yield f"{f'Problem {number}' if problem.stops else 'Note'}: {problem.rule}."
        more = problem.count - len(problem.examples)
        if problem.examples:
            yield "  Got " + "; ".join(problem.examples) + f"; {more:,} more" * (more > 0)
        if problem.remedy:
            yield f"  {problem.remedy}."


def _facts(facts: dict[str, Any]) -> Iterator[str]:
    if not facts:
        return
    owners = "" if facts["owners"] is None else f" of {facts['owners']:,} owners"
    yield f"Found {facts['documents']:,} documents{owners} and {facts['edges']:,} edges."
    for name in ("classes", "split"):
        counts = ", ".join(f"{key} {count:,}" for key, count in facts[name].items() if count)
        yield f"{name.capitalize()}: {counts}." if counts else ""
    yield f"Without a label: {facts['unlabelled']:,}." if facts["unlabelled"] else ""


@takes(data_dir="Where to look (default: PRIVGCN_DATA or the user cache folder).")
def datasets(data_dir: Path | None = None) -> Answer:
    """List the known datasets and whether they are on this machine."""
    from privgcn.data.catalogue import dataset, dataset_names
    from privgcn.files import data_folder
    from privgcn.report.tables import Table

    folder, records = data_folder(data_dir), []
    columns = ("name", "documents", "edges", "classes", "where", "title")
    for card in map(dataset, dataset_names()):
        known = {**vars(card), "where": "not fetched" if card.missing(folder) else "here"}
        more = ("features", "language", "licence")
        records.append({name: known[name] for name in (*columns, *more)})
    rows = [tuple(record[name] for name in columns) for record in records]
    table = Table(f"Data folder: {folder}", columns, rows)
    return Answer({"data_dir": str(folder), "datasets": records}, [table])


@takes(
    name=Argument(help="Name of a dataset; 'privgcn datasets' lists them."),
    data_dir="Where to put it (default: PRIVGCN_DATA or the user cache folder).",
    copy=Option("--from", help="A folder that has the raw files: copy, check and read them."),
)
def fetch(name: str, data_dir: Path | None = None, copy: Path | None = None) -> Answer:
    """Download a dataset and verify its SHA-256."""
    from privgcn.data.catalogue import dataset
    from privgcn.files import data_folder

    card, folder = dataset(name), data_folder(data_dir)
    files = card.fetch(folder, source=copy, progressbar=sys.stderr.isatty())
    lines = [f"{card.name} comes with the package: nothing to download."]
    if files:
        read = card.load(folder, 0).summary if copy is not None else ""
        lines = [f"{card.name}: {len(files)} files, checked, in {files[0].parent}", read]
    record = {"dataset": card.name, "data_dir": str(folder), "files": list(map(str, files))}
    return Answer(record, lines)


@takes(
    purge="Delete the cached vectors.",
    cache_dir="The folder, where the option cache_dir of the features named one.",
)
def cache(purge: bool = False, cache_dir: Path | None = None) -> Answer:
    """Show or delete the cached vectors of encoded texts.

    They are vectors of private texts: no privacy guarantee covers them.
    """
    from privgcn.features.cache import cache_contents, default_cache

    folder = default_cache() if cache_dir is None else cache_dir.expanduser()
    if folder.exists() and not folder.is_dir():
        raise ConfigError(f"The 'cache-dir' of cache must be a folder. Got the file {folder}.")
    files, size = cache_contents(folder, purge=purge)
    found = f"{files} files, {size / 1e6:.1f} MB"
    lines = [f"Deleted from {folder}: {found}." if purge else f"{folder}: {found}."]
    if files and not purge:
        which = [] if cache_dir is None else ["--cache-dir", str(cache_dir)]
        delete = shlex.join(["privgcn", "cache", "--purge", *which])
        lines.append(f"Vectors of private texts, which no guarantee covers. Delete: {delete}")
    record = {"files": files, "size": size, "folder": str(folder), "purged": purge}
    return Answer(record, lines)
