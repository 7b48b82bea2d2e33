from __future__ import annotations

import struct
from collections.abc import Callable

import numpy as np
import pytest


@pytest.fixture
def no_network(monkeypatch: pytest.MonkeyPatch) -> None:
    """Any attempt to reach another machine fails."""

    def refuse(*arguments: object, **options: object) -> None:
        raise AssertionError("the network was asked")

    for name in ("socket.connect", "create_connection", "getaddrinfo"):
        monkeypatch.setattr(f"socket.{name}", refuse)


WORDS = ["</s>", "pes", "mačka"]


def _fasttext_bytes(
    matrix: np.ndarray,
    shortest: int = 3,
    longest: int = 4,
    buckets: int = 10,
    quantised: int = 0,
) -> bytes:
    """A model as fastText's own writer lays it out."""
    settings = (matrix.shape[1], 5, 5, 1, 5, 1, 2, 1, buckets, shortest, longest, 100)
    out = struct.pack("<ii", 793712314, 12) + struct.pack("<12id", *settings, 1e-4)
    out += struct.pack("<iiiqq", len(WORDS), len(WORDS), 0, 99, -1)
    for word in WORDS:
        out += word.encode() + b"\0" + struct.pack("<qb", 7, 0)
    out += struct.pack("<bqq", quantised, *matrix.shape) + matrix.astype("<f4").tobytes()
    return out + struct.pack("<bqq", 0, 0, matrix.shape[1])


@pytest.fixture(scope="session")
def fasttext_bytes() -> Callable[..., bytes]:
    """Makes a fastText model of three words."""
    return _fasttext_bytes
