"""The files of a run, a saved model or a release: their names, manifest, reading and writing.

A folder is read whole, and only if its manifest fits: every file is regular, of bounded size
and has the hash that was written, none is missing and none was added. Whoever can write the
folder can also write a new manifest; ``verify`` then still computes the claim again.

Runs and saved models are for their owner alone, whatever the umask: a run holds keyed hashes
of its training documents beside their key. Only a release has the usual permissions.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import secrets
import shutil
import tempfile
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, StringConstraints, ValidationError

from privgcn.errors import ConfigError, DataError, reason
from privgcn.files import check_room, flush_folder, read_bounded, write_synced, writing
from privgcn.privacy.values import read_json

MANIFEST = "manifest.json"
MODEL, WEIGHTS, SETTINGS = "model.json", "model.safetensors", "settings.toml"
STATEMENT, SCORES, SEEN = "statement.json", "scores.json", "documents_seen.safetensors"
REPORT, CARD, CARD_PAGE = "report.html", "README.md", "card.html"

Kind = Literal["run", "model", "release"]
_NAMES = (MODEL, WEIGHTS, SETTINGS, STATEMENT, SCORES, SEEN, REPORT, CARD, CARD_PAGE)
_Name = Annotated[str, StringConstraints(pattern=f"^({'|'.join(map(re.escape, _NAMES))})$")]

_FORMAT = 2
_MOST_BYTES, _MOST_BINARY, _MOST_MANIFEST = 1 << 28, 1 << 32, 1 << 16
WRITERS = "Name a folder that 'privgcn train' or 'privgcn release' wrote."


class _Manifest(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    format: Literal[2]
    kind: Kind
    files: dict[_Name, Annotated[str, StringConstraints(pattern="^[0-9a-f]{64}$")]]


def is_stored(folder: Path) -> bool:
    """Whether a folder says that it is one of ours; nothing is checked."""
    return (folder / MANIFEST).exists()


def read_folder(folder: Path) -> tuple[Kind, dict[str, bytes]]:
    """What a folder of ours is, and its files, unless one was edited, removed or added."""
    try:
        there = set(os.listdir(folder)) - {MANIFEST}
    except (FileNotFoundError, NotADirectoryError):
        raise DataError(f"The folder {folder} does not exist. {WRITERS}") from None
    except OSError as error:
        raise DataError(f"The folder {folder} cannot be read: {error.strerror}.") from None
    manifest = _manifest(folder)
    for name in sorted(there ^ manifest.files.keys()):
        wrong, remedy = "is missing", "Copy the whole folder again"
        if name in there:
            wrong, remedy = "was added", "Move it elsewhere"
        raise DataError(
            f"The {manifest.kind} {folder} must hold exactly what its manifest lists. {name} "
            f"{wrong}. {remedy}."
        )
    files = {}
    for name, expected in manifest.files.items():
        most = _MOST_BINARY if name in (WEIGHTS, SEEN) else _MOST_BYTES
        files[name] = read_bounded(folder / name, most=most)
        if hashlib.sha256(files[name]).hexdigest() != expected:
            raise DataError(
                f"The file {folder / name} was edited: its SHA-256 is not the one in "
                f"{MANIFEST}. Do not rely on it; copy the folder again."
            )
    return manifest.kind, files


def check_target(folder: Path, *, overwrite: bool) -> None:
    """Refuses a target that cannot or must not be written; to be called before any work."""
    with writing(folder):
        target = folder.resolve()
        if target.exists() and not target.is_dir():
            raise ConfigError(f"{folder} must be a folder. Got a file. Name another one.")
        if target.exists() and any(target.iterdir()):
            try:
                kind, _ = read_folder(folder)
            except DataError as error:
                raise ConfigError(
                    f"The folder {folder} is not empty, and nothing in it will be replaced: "
                    f"{error} Name another folder."
                ) from None
            if not overwrite:
                raise ConfigError(
                    f"The folder {folder} holds a {kind} already. Add --overwrite (in Python: "
                    "overwrite=True) to replace it, or name another folder."
                )
        check_room(target)


def write_folder(
    folder: Path, kind: Kind, files: Mapping[str, str | bytes], *, overwrite: bool = False
) -> None:
    """Writes files and their manifest as one folder: whole, or not at all.

    An earlier folder of ours is moved aside and comes back if anything fails; only the files
    on its manifest are removed.
    """
    check_target(folder, overwrite=overwrite)
    target = folder.resolve()
    contents = {n: t.encode() if isinstance(t, str) else t for n, t in files.items()}
    hashes = {name: hashlib.sha256(data).hexdigest() for name, data in contents.items()}
    manifest = {"format": _FORMAT, "kind": kind, "files": hashes}
    contents[MANIFEST] = (json.dumps(manifest, indent=1) + "\n").encode()
    of_folder, of_files = (0o777, 0o666) if kind == "release" else (0o700, 0o600)
    with writing(folder):
        target.parent.mkdir(parents=True, exist_ok=True)
        draft = target.with_name(f".{target.name}.{secrets.token_hex(6)}")
        draft.mkdir(mode=of_folder)
        try:
            for name, data in contents.items():
                write_synced(draft / name, data, mode=of_files)
            flush_folder(draft)
            _move(draft, target)
            flush_folder(target.parent)
        except BaseException:
            shutil.rmtree(draft, ignore_errors=True)
            raise


def json_object(content: bytes, path: Path) -> dict[str, Any]:
    """The JSON object that a file holds: no name twice, and no number that is not finite."""
    try:
        record = read_json(content.decode("utf-8"))
    except ValueError as error:
        raise DataError(f"The file {path} is not valid JSON: {reason(error)}.") from None
    if not isinstance(record, dict):
        raise DataError(f"The file {path} must hold one JSON object.")
    return record


def _manifest(folder: Path) -> _Manifest:
    path = folder / MANIFEST
    if not path.exists():
        raise DataError(f"The folder {folder} has no {MANIFEST}. {WRITERS}")
    try:
        content = read_bounded(path, most=_MOST_MANIFEST)
        return _Manifest.model_validate(json_object(content, path))
    except ValidationError:
        raise DataError(
            f"The file {path} is no manifest of format {_FORMAT}. Copy it, or train again."
        ) from None


def _move(draft: Path, target: Path) -> None:
    if not target.exists() or not any(target.iterdir()):
        os.replace(draft, target)
        return
    ours = (*_manifest(target).files, MANIFEST)
    aside = Path(tempfile.mkdtemp(dir=target.parent, prefix=f".{target.name}.old."))
    old = aside / target.name
    os.replace(target, old)
    try:
        os.replace(draft, target)
    except BaseException:
        os.replace(old, target)
        aside.rmdir()
        raise
    for name in ours:
        (old / name).unlink(missing_ok=True)
    # Whatever somebody put there in the meantime stays.
    with suppress(OSError):
        old.rmdir()
        aside.rmdir()
