"""``privgcn check``, ``datasets``, ``fetch`` and ``cache``: what is on this machine."""

from __future__ import annotations

import shlex
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer
from typer import Argument, Option

from privgcn.cli.flags import READING, Chosen, takes
from privgcn.cli.output import print_json, print_table, say, shown_progress, watched_by_a_person
from privgcn.errors import ConfigError, DataError

if TYPE_CHECKING:
    from privgcn.data.catalogue import DatasetCard


@takes("classes", *READING)
def check(source: str, chosen: Chosen, as_json: bool = False) -> None:
    """List everything that is wrong with documents, with examples and remedies."""
    from privgcn.config import resolve
    from privgcn.data.check import check_documents

    reading = resolve(*chosen.overrides()).data.reading
    with shown_progress():
        found = check_documents(source, **reading)
    if as_json:
        problems = [asdict(problem) for problem in found.problems]
        facts = {"facts": found.facts, "options": found.options}
        print_json({"trainable": found.trainable, "problems": problems, **facts})
    else:
        stops = [problem for problem in found.problems if problem.stops]
        others = [problem for problem in found.problems if not problem.stops]
        for number, problem in enumerate((*stops, *others), start=1):
            head = f"Problem {number}" if problem.stops else "Note"
            say(f"{head}: {problem.rule}.")
            more = problem.count - len(problem.examples)
            if problem.examples:
                say("  Got " + "; ".join(problem.examples) + f"; {more:,} more" * (more > 0))
            if problem.remedy:
                say(f"  {problem.remedy}.")
        _print_facts(found.facts)
        options = {**reading, **found.options}
        words = [word for name, value in options.items() for word in (f"--{name}", str(value))]
        if found.trainable:
            unit = ["--unit", "person"] * bool(found.facts["owners"] or options.get("owner"))
            following = ["train", source, *words, "--epsilon", "1", *unit]
            say(f"Nothing stops training. Next: privgcn {shlex.join(following)}")
        else:
            say(f"Mend what is wrong. Next: privgcn {shlex.join(['check', source, *words])}")
    if not found.trainable:
        raise typer.Exit(2)


def _print_facts(facts: dict[str, Any]) -> None:
    if not facts:
        return
    owners = "" if facts["owners"] is None else f" of {facts['owners']:,} owners"
    say(f"Found {facts['documents']:,} documents{owners} and {facts['edges']:,} edges.")
    for name in ("classes", "split"):
        counts = ", ".join(f"{key} {count:,}" for key, count in facts[name].items() if count)
        if counts:
            say(f"{name.capitalize()}: {counts}.")
    if facts["unlabelled"]:
        say(f"Without a label: {facts['unlabelled']:,}.")


@takes(data_dir="Where to look (default: PRIVGCN_DATA or the user cache folder).")
def datasets(data_dir: Path | None = None, as_json: bool = False) -> None:
    """List the known datasets and whether they are on this machine."""
    from privgcn.data.catalogue import dataset, dataset_names
    from privgcn.data.download import data_folder
    from privgcn.report.tables import Table

    folder = data_folder(data_dir)
    records = [_record(dataset(name), folder) for name in dataset_names()]
    if as_json:
        print_json({"data_dir": str(folder), "datasets": records})
        return
    names = ("name", "kind", "documents", "edges", "classes")
    rows = [
        (
            *(record[name] for name in names),
            record["where"] if record["where"] in _PLACES else "yes",
            record["title"],
        )
        for record in records
    ]
    print_table(Table(f"Data folder: {folder}", (*names, "here", "title"), rows))


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


@takes(
    name=Argument(help="Name of a dataset; 'privgcn datasets' lists them."),
    data_dir="Where to put it (default: PRIVGCN_DATA or the user cache folder).",
    copy=Option(
        "--from",
        help="A folder that has the raw files: copy them, prepare the dataset, check it.",
    ),
)
def fetch(
    name: str, data_dir: Path | None = None, copy: Path | None = None, as_json: bool = False
) -> None:
    """Download a dataset and verify its SHA-256."""
    from privgcn.data.catalogue import dataset
    from privgcn.data.download import copy_from, data_folder
    from privgcn.data.download import fetch as download

    card, folder, sizes = dataset(name), data_folder(data_dir), {}
    if copy is None:
        files = download(card, folder, progressbar=watched_by_a_person())
    elif not card.files:
        raise DataError(
            f"The dataset '{card.name}' must have raw files to be taken from a folder. It is "
            "synthetic and generated on this machine. Leave out --from."
        )
    else:
        files = copy_from(card, copy, folder)
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
    else:
        say(f"{card.name}: {len(files)} files, checked, in {files[0].parent}")
        for what, (size, described) in sizes.items():
            same = ", as described" if size == described else f" (!= {described})"
            say(f"  {what}: {size}{'' if described is None else same}")


@takes(
    purge="Delete the cached vectors.",
    cache_dir="The folder, where the option cache_dir of the features named one.",
)
def cache(purge: bool = False, cache_dir: Path | None = None, as_json: bool = False) -> None:
    """Show or delete the cached vectors of encoded texts.

    They are vectors of private texts: no privacy guarantee covers them.
    """
    from privgcn.features.cache import cache_contents, default_cache

    folder = default_cache() if cache_dir is None else cache_dir.expanduser()
    if folder.exists() and not folder.is_dir():
        raise ConfigError(f"The 'cache-dir' of cache must be a folder. Got the file {folder}.")
    contents = cache_contents(folder, purge=purge)
    if as_json:
        print_json({**contents._asdict(), "folder": str(folder), "purged": purge})
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
