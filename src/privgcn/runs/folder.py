"""The files of a run, a saved model or a release: their names, manifest, reading and writing.

This module alone knows them. A folder is read whole, and only if its manifest fits: every
file is regular, of bounded size and has the hash that was written, none is missing and none
was added. Whoever can write the folder can also write a new manifest; ``verify`` then still
computes the claim again.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import tempfile
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, StringConstraints, ValidationError

from privgcn.errors import ConfigError, DataError
from privgcn.files import check_room, flush_folder, read_bounded, umask, writing
from privgcn.privacy.checks import read_json

MANIFEST = "manifest.json"
MODEL, WEIGHTS, SETTINGS = "model.json", "model.safetensors", "settings.toml"
STATEMENT, SCORES, TRAINED = "statement.json", "scores.json", "trained.json"
REPORT, CARD, CARD_PAGE = "report.html", "card.md", "card.html"

Kind = Literal["run", "model", "release"]
_NAMES = (MODEL, WEIGHTS, SETTINGS, STATEMENT, SCORES, TRAINED, REPORT, CARD, CARD_PAGE)

_FORMAT = 1
_MOST_BYTES = 1 << 28
_MOST_WEIGHTS = 1 << 32
_MOST_MANIFEST = 1 << 16
_WRITERS = "Name a folder that 'privgcn train' or 'privgcn release' wrote."


def _known_name(name: str) -> str:
    if name not in _NAMES:
        raise ValueError("a file that no run has")
    return name


class _Manifest(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    format: Literal[1]
    kind: Kind
    files: dict[
        Annotated[str, AfterValidator(_known_name)],
        Annotated[str, StringConstraints(pattern="^[0-9a-f]{64}$")],
    ]


@dataclass(frozen=True, eq=False)
class Stored:
    """A folder whose manifest fits, with everything in it.

    Attributes:
        folder: Where it lies.
        kind: A ``run``, a ``model`` that ``save`` wrote, or a ``release``.
        files: What each file holds.
    """

    folder: Path
    kind: Kind
    files: Mapping[str, bytes]

    def content(self, name: str) -> bytes:
        """The bytes of a file that must be there."""
        if name not in self.files:
            raise DataError(f"There is no {name} in the {self.kind} {self.folder}. {_WRITERS}")
        return self.files[name]

    def text(self, name: str) -> str:
        """A file as text."""
        try:
            return self.content(name).decode("utf-8")
        except UnicodeDecodeError:
            raise DataError(f"The file {self.folder / name} is not UTF-8 text.") from None

    def record(self, name: str) -> dict[str, Any]:
        """A file as the JSON object that it must hold."""
        return json_object(self.text(name), self.folder / name)


def is_stored(folder: Path) -> bool:
    """Whether a folder says that it is one of ours; nothing is checked."""
    return (folder / MANIFEST).exists()


def read_folder(folder: Path) -> Stored:
    """Reads a folder that was written by :func:`write_folder`.

    Raises:
        DataError: It is none, or a file in it was edited, removed or added.
    """
    try:
        there = set(os.listdir(folder)) - {MANIFEST}
    except (FileNotFoundError, NotADirectoryError):
        raise DataError(f"The folder {folder} does not exist. {_WRITERS}") from None
    except OSError as error:
        raise DataError(f"The folder {folder} cannot be read: {error.strerror}.") from None
    manifest = _manifest(folder)
    added, missing = there - manifest.files.keys(), manifest.files.keys() - there
    if added:
        raise DataError(
            f"The {manifest.kind} {folder} must hold exactly what its manifest lists. "
            f"{min(added)} was added. Move it elsewhere."
        )
    if missing:
        raise DataError(
            f"The {manifest.kind} {folder} must hold exactly what its manifest lists. "
            f"{min(missing)} is missing. Copy the whole folder again."
        )
    files = {}
    for name, expected in manifest.files.items():
        most = _MOST_WEIGHTS if name == WEIGHTS else _MOST_BYTES
        files[name] = read_bounded(folder / name, most=most)
        if hashlib.sha256(files[name]).hexdigest() != expected:
            raise DataError(
                f"The file {folder / name} was edited: its SHA-256 is not the one in "
                f"{MANIFEST}. Do not rely on it; copy the folder again."
            )
    return Stored(folder, manifest.kind, files)


def check_target(folder: Path, *, overwrite: bool) -> None:
    """Refuses a place that cannot or must not be written; to be asked before any work.

    Raises:
        ConfigError: The folder holds something that is not ours, or that was changed, or
            ``overwrite`` was not given, or the place cannot be written.
    """
    place = _resolved(folder)
    if place.exists() and not place.is_dir():
        raise ConfigError(f"{folder} must be a folder. Got a file. Name another place.")
    with writing(folder):
        if place.exists() and any(place.iterdir()):
            _check_replaceable(folder, overwrite=overwrite)
        check_room(place)


def write_folder(
    folder: Path, kind: Kind, files: Mapping[str, str | bytes], *, overwrite: bool = False
) -> None:
    """Writes files and their manifest as one folder: whole, or not at all.

    An earlier folder of ours is moved aside first and comes back if anything fails. Of it
    only the files on its manifest are removed.

    Raises:
        ConfigError: :func:`check_target` refuses the place, or the disk is full.
    """
    check_target(folder, overwrite=overwrite)
    place = _resolved(folder)
    contents = {n: t.encode() if isinstance(t, str) else t for n, t in files.items()}
    hashes = {name: hashlib.sha256(data).hexdigest() for name, data in contents.items()}
    manifest = {"format": _FORMAT, "kind": kind, "files": hashes}
    with writing(folder):
        place.parent.mkdir(parents=True, exist_ok=True)
        draft = Path(tempfile.mkdtemp(dir=place.parent, prefix=f".{place.name}."))
        try:
            mode = place.stat().st_mode & 0o777 if place.exists() else 0o777 & ~umask()
            for name, data in contents.items():
                _write_synced(draft / name, data)
            _write_synced(draft / MANIFEST, (json.dumps(manifest, indent=1) + "\n").encode())
            os.chmod(draft, mode)
            flush_folder(draft)
            _put_in_place(draft, place)
            flush_folder(place.parent)
        except BaseException:
            shutil.rmtree(draft, ignore_errors=True)
            raise


def unfinished_place(folder: Path) -> Path:
    """Where a run that will be written to ``folder`` leaves its checkpoints."""
    place = _resolved(folder)
    return place.with_name(f".{place.name}.unfinished")


def lies_in(inner: Path, outer: Path) -> bool:
    """Whether ``inner`` is ``outer`` or lies in it, wherever links lead."""
    return _resolved(inner).is_relative_to(_resolved(outer))


def json_object(text: str, path: Path) -> dict[str, Any]:
    """The JSON object that a file holds.

    Raises:
        DataError: It holds something else.
    """
    try:
        record = read_json(text)
    except ValueError as error:
        raise DataError(f"The file {path} is not valid JSON: {error}.") from None
    if not isinstance(record, dict):
        raise DataError(f"The file {path} must hold one JSON object.")
    return record


def _manifest(folder: Path) -> _Manifest:
    path = folder / MANIFEST
    if not path.exists():
        raise DataError(f"The folder {folder} has no {MANIFEST}. {_WRITERS}")
    try:
        text = read_bounded(path, most=_MOST_MANIFEST).decode("utf-8")
        return _Manifest.model_validate(json_object(text, path))
    except (ValidationError, UnicodeDecodeError):
        raise DataError(
            f"The file {path} is not a manifest of format {_FORMAT}. Copy the folder again."
        ) from None


def _check_replaceable(folder: Path, *, overwrite: bool) -> None:
    if not is_stored(folder):
        raise ConfigError(
            f"The folder {folder} is not empty and is no run or release: nothing in it will be "
            "replaced. Name another folder."
        )
    try:
        kind = read_folder(folder).kind
    except DataError as error:
        raise ConfigError(
            f"The folder {folder} is not empty, and nothing in it will be replaced: {error} "
            "Name another folder."
        ) from None
    if not overwrite:
        raise ConfigError(
            f"The folder {folder} holds a {kind} already. Add --overwrite (in Python: "
            "overwrite=True) to replace it, or name another folder."
        )


def _put_in_place(draft: Path, place: Path) -> None:
    if not place.exists() or not any(place.iterdir()):
        os.replace(draft, place)
        return
    ours = (*_manifest(place).files, MANIFEST)
    aside = Path(tempfile.mkdtemp(dir=place.parent, prefix=f".{place.name}.old."))
    old = aside / place.name
    os.replace(place, old)
    try:
        os.replace(draft, place)
    except BaseException:
        os.replace(old, place)
        aside.rmdir()
        raise
    for name in ours:
        (old / name).unlink(missing_ok=True)
    # Whatever somebody put there in the meantime stays.
    with suppress(OSError):
        old.rmdir()
        aside.rmdir()


def _write_synced(path: Path, data: bytes) -> None:
    with path.open("wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())


def _resolved(folder: Path) -> Path:
    with writing(folder):
        return folder.resolve()
