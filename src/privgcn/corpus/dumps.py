"""Reads large gzipped tables in blocks of whole lines, and names the line that is broken."""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from privgcn.errors import DataError

BLOCK_BYTES = 32 << 20


@dataclass(frozen=True)
class Block:
    """Some whole lines of a file.

    Attributes:
        data: The lines, each with its line feed.
        first: The number of the first line, counted from 1.
        lines: How many there are.
    """

    data: bytes
    first: int
    lines: int


def blocks(path: Path, fields: int, size: int = BLOCK_BYTES) -> Iterator[Block]:
    """The lines of a gzipped tab-separated file, in pieces that fit in memory.

    Args:
        path: The file.
        fields: How many fields each line must have.
        size: Bytes of a piece.

    Raises:
        DataError: The file is cut, not gzip, or a line has another number of fields.
    """
    rest, first = b"", 1
    try:
        with gzip.open(path, "rb") as stream:
            while True:
                piece = stream.read(size)
                data = rest + piece
                if piece:
                    end = data.rfind(b"\n") + 1
                    data, rest = data[:end], data[end:]
                elif data and not data.endswith(b"\n"):
                    data += b"\n"
                lines = data.count(b"\n")
                if lines:
                    # A count over the whole block is far quicker than one for each line.
                    if data.count(b"\t") != lines * (fields - 1):
                        _name_bad_line(path, data, first, fields)
                    yield Block(data, first, lines)
                first += lines
                if not piece:
                    return
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise DataError(
            f"The file {path} must be a complete gzip file. It is not ({error}), after line "
            f"{first - 1}. It was probably cut in the download: get it again."
        ) from error
    except OSError as error:
        raise DataError(f"The file {path} can not be read: {error.strerror}.") from error


def check_utf8(path: Path, block: Block) -> None:
    """Refuses a block that is not UTF-8.

    Raises:
        DataError: Names the line.
    """
    try:
        block.data.decode()
    except UnicodeDecodeError as error:
        line = block.first + block.data.count(b"\n", 0, error.start)
        raise DataError(
            f"The file {path} must be UTF-8. Line {line} has a byte that is not "
            f"(0x{block.data[error.start]:02x}). Get the published file again."
        ) from error


def bad_id(path: Path, block: Block, columns: int, highest: int | None) -> DataError:
    """The error for the first line of a block whose leading ids are no ids.

    Args:
        path: The file.
        block: Where it is.
        columns: How many leading fields are ids.
        highest: The largest id there is; None where it is not known yet.
    """
    rule = "whole numbers from 1" + ("" if highest is None else f" to {highest}")
    for number, line in enumerate(block.data.split(b"\n")[:-1], start=block.first):
        for field in line.split(b"\t", columns)[:columns]:
            if not field.isdigit() or int(field) < 1 or (highest and int(field) > highest):
                shown = field[:40].decode("utf-8", "replace")
                return DataError(
                    f"The ids in {path} must be {rule}. Got '{shown}' in line {number}. Get "
                    "the published file again."
                )
    return DataError(f"The ids in {path} must be {rule}. They can not be read.")


def _name_bad_line(path: Path, data: bytes, first: int, fields: int) -> None:
    for number, line in enumerate(data.split(b"\n")[:-1], start=first):
        found = line.count(b"\t") + 1
        if found != fields:
            raise DataError(
                f"The file {path} must have {fields} tab-separated fields in each line. Line "
                f"{number} has {found}. Get the published file again."
            )
