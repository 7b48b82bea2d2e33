"""Encoded texts on disk, found by their content, so that a text is encoded once.

A cache is a folder of shards. A shard holds some keys and their vectors, is never changed,
and is named after the sha256 of its own bytes. It is written under another name and then
moved, so runs in parallel never see half of one. Of several runs that want the same texts one
encodes them and the others wait; the system frees the lock of one that dies. Runs that share
some texts only may encode those twice. A shard whose bytes do not match its name is thrown
away.

Vectors of a text tell much about the text: the folder is readable by its owner only.
"""

from __future__ import annotations

import hashlib
import io
import os
import re
import warnings
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from privgcn import progress
from privgcn.errors import ConfigError, DataError
from privgcn.files import lock, write_atomically, writing

_KEY_BYTES = 32
_SHARD_TEXTS = 4096

_OWN_FOLDER = re.compile(r"[0-9a-f]{32}")
_OWN_FILE = re.compile(r"[0-9a-f]{64}\.(npz|lock)|\.[0-9a-f]{64}\.npz\.\w+")

Encode = Callable[[list[str]], npt.NDArray[np.float32]]


class VectorCache:
    """Vectors of texts under one encoder.

    Args:
        folder: Where shards of all encoders are.
        identity: Everything about the encoder that can change a vector.
        dimension: Length of a vector.
    """

    def __init__(self, folder: Path, identity: str, dimension: int) -> None:
        self._identity = hashlib.sha256(identity.encode()).digest()
        self._folder = folder / self._identity.hex()[:32]
        self._dimension = dimension

    def vectors(
        self, texts: Sequence[str], encode: Encode, done: Callable[[int], None] | None = None
    ) -> npt.NDArray[np.float32]:
        """The vectors of ``texts``, encoding only those that are not stored.

        Args:
            texts: May repeat; each different one is encoded at most once.
            encode: Turns texts into vectors.
            done: Is told how many different texts are ready, the stored ones first.

        Raises:
            DataError: The folder cannot be written.
        """
        keys = [self._key(text) for text in texts]
        wanted = dict(zip(keys, texts, strict=True))
        read: set[Path] = set()
        found = self._read(wanted.keys(), read)
        if done is not None:
            done(len(found))
        if len(found) < len(wanted):
            with self._alone(wanted.keys()):
                # What another run has encoded meanwhile.
                found = self._read(wanted.keys(), read) | found
                self._encode(wanted, found, encode, done)
        out = np.empty((len(keys), self._dimension), dtype=np.float32)
        for row, key in enumerate(keys):
            out[row] = found[key]
        return out

    def _encode(
        self,
        wanted: Mapping[bytes, str],
        found: dict[bytes, npt.NDArray[np.float32]],
        encode: Encode,
        done: Callable[[int], None] | None,
    ) -> None:
        """Adds what is missing to what was found, and stores it."""
        missing = [key for key in wanted if key not in found]
        # Texts of about one length share a batch, whatever order the corpus has.
        missing.sort(key=lambda key: len(wanted[key]), reverse=True)
        for start in range(0, len(missing), _SHARD_TEXTS):
            part = missing[start : start + _SHARD_TEXTS]
            fresh = encode([wanted[key] for key in part])
            self._write(part, fresh)
            found.update(zip(part, fresh, strict=True))
            if done is not None:
                done(len(found))

    @contextmanager
    def _alone(self, wanted: Collection[bytes]) -> Iterator[None]:
        """Waits while another run encodes the same texts."""
        name = hashlib.sha256(b"".join(sorted(wanted))).hexdigest()
        path = self._folder / f"{name}.lock"
        with self._writable():
            handle = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
        try:
            try:
                lock(handle, wait=False)
            except BlockingIOError:
                progress.begin("waiting for a run that encodes the same texts")
                lock(handle)
                progress.begin("features")
            except OSError:
                pass  # A file system without locks: at worst a text is encoded twice.
            yield
            # Whoever comes now finds the vectors; Windows deletes no file that is open.
            with suppress(OSError):
                path.unlink()
        finally:
            os.close(handle)

    def _key(self, text: str) -> bytes:
        return hashlib.sha256(self._identity + text.encode("utf-8", "surrogatepass")).digest()

    def _read(
        self, wanted: Collection[bytes], read: set[Path]
    ) -> dict[bytes, npt.NDArray[np.float32]]:
        """The vectors in shards that are not among those read, which are noted there."""
        found: dict[bytes, npt.NDArray[np.float32]] = {}
        for path in sorted({*self._folder.glob("*.npz")} - read):
            shard = self._read_shard(path)
            if shard is None:
                continue
            read.add(path)
            keys, vectors = shard
            for row, key in enumerate(keys):
                if key in wanted and key not in found:
                    found[key] = vectors[row]
        return found

    def _read_shard(self, path: Path) -> tuple[list[bytes], npt.NDArray[np.float32]] | None:
        try:
            data = path.read_bytes()
        except FileNotFoundError:
            # Another run threw it away between listing and reading.
            return None
        if hashlib.sha256(data).hexdigest() != path.stem:
            warnings.warn(
                f"The cached vectors in {path} were damaged and are thrown away; their texts "
                "are encoded again.",
                RuntimeWarning,
                stacklevel=2,
            )
            path.unlink(missing_ok=True)
            return None
        with np.load(io.BytesIO(data), allow_pickle=False) as arrays:
            keys, vectors = arrays["keys"].tobytes(), arrays["vectors"]
        cut = range(0, len(keys), _KEY_BYTES)
        return [keys[start : start + _KEY_BYTES] for start in cut], vectors

    def _write(self, keys: list[bytes], vectors: npt.NDArray[np.float32]) -> None:
        buffer = io.BytesIO()
        packed = np.frombuffer(b"".join(keys), dtype=np.uint8)
        np.savez(buffer, keys=packed, vectors=vectors)
        data = buffer.getvalue()
        target = self._folder / f"{hashlib.sha256(data).hexdigest()}.npz"
        with self._writable():
            write_atomically(target, data, mode=0o600)

    @contextmanager
    def _writable(self) -> Iterator[None]:
        """Makes the folder, and says in words why something in it cannot be written."""
        try:
            with writing(self._folder):
                self._folder.mkdir(parents=True, exist_ok=True, mode=0o700)
                yield
        except ConfigError as error:
            raise DataError(
                f"The cache folder must be writable. {error} Give another one with the option "
                "'cache_dir', or set XDG_CACHE_HOME."
            ) from error


@dataclass(frozen=True)
class CacheContents:
    """What lies in a cache folder.

    Attributes:
        folder: The folder.
        encoders: Encoders, or settings of one, whose vectors are there.
        files: Files of vectors.
        size: Of all of them, in bytes.
    """

    folder: Path
    encoders: int
    files: int
    size: int


def default_cache() -> Path:
    """Where vectors are kept when nobody named a folder."""
    from privgcn.data.location import cache_folder

    return cache_folder() / "features"


def cache_contents(folder: Path) -> CacheContents:
    """What a cache folder holds; nothing where there is no folder."""
    files = _own_files(folder)
    sizes = [path.stat().st_size for path in files]
    return CacheContents(folder, len({path.parent for path in files}), len(files), sum(sizes))


def purge_cache(folder: Path) -> CacheContents:
    """Deletes the cached vectors and nothing else; says what was deleted."""
    held = cache_contents(folder)
    for path in _own_files(folder):
        path.unlink(missing_ok=True)
    for own in _own_folders(folder):
        # A folder that holds anything of another origin stays.
        if not any(own.iterdir()):
            own.rmdir()
    return held


def _own_folders(folder: Path) -> list[Path]:
    found = folder.iterdir() if folder.is_dir() else ()
    return sorted(
        path
        for path in found
        if _OWN_FOLDER.fullmatch(path.name) and path.is_dir() and not path.is_symlink()
    )


def _own_files(folder: Path) -> list[Path]:
    return [
        path
        for own in _own_folders(folder)
        for path in sorted(own.iterdir())
        if _OWN_FILE.fullmatch(path.name)
    ]
