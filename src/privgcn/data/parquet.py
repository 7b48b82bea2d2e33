"""How much memory a Parquet file asks for, by its page headers and before it is read.

A page of a few bytes may promise gigabytes. Every reader believes it, so the promises are
summed here first. Only the headers are parsed (Thrift, compact protocol); no page is opened.
"""

from __future__ import annotations

import struct
from mmap import mmap
from typing import Any, TypeAlias

Bytes: TypeAlias = "bytes | mmap"

_MAGIC = b"PAR1"
_MOST_FOOTER = 32 << 20
_DEEPEST = 40
_VIEW_BYTES = 16
# Values made of pieces of others: their size stands nowhere.
_DELTA_BYTE_ARRAY = 7

# Fields of FileMetaData, RowGroup, ColumnChunk, ColumnMetaData and PageHeader.
_ROW_GROUPS, _COLUMNS, _ROWS, _META = 4, 1, 3, 3
_ENCODINGS, _PACKED, _DATA_PAGE, _DICTIONARY_PAGE = 2, 7, 9, 11
_PAGE_SIZE, _PAGE_PACKED, _PAGE_BODIES = 2, 3, (5, 7, 8)


class _Thrift:
    """Reads structs of the compact protocol as dictionaries from field number to value."""

    def __init__(self, data: Bytes, begin: int, end: int) -> None:
        self.data, self.at, self.end = data, begin, end

    def take(self, size: int) -> bytes:
        begin = self.at
        self.skip(size)
        return self.data[begin : self.at]

    def skip(self, size: int) -> None:
        if not 0 <= size <= self.end - self.at:
            raise ValueError("a header is cut")
        self.at += size

    def varint(self) -> int:
        value = 0
        for shift in range(0, 70, 7):
            byte = self.take(1)[0]
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return value
        raise ValueError("a number in a header is too long")

    def value(self, kind: int = 12, depth: int = 0) -> Any:
        """A value of a kind of the protocol; 12 is a struct."""
        if depth > _DEEPEST:
            raise ValueError("a header is nested too deeply")
        if kind in (1, 2):
            return kind == 1
        if kind in (4, 5, 6):
            number = self.varint()
            return (number >> 1) ^ -(number & 1)
        if kind in (3, 7, 8):
            return self.take({3: 1, 7: 8}.get(kind) or self.varint())
        if kind in (9, 10):
            head = self.take(1)[0]
            size, inner = head >> 4, head & 0x0F
            size = self.varint() if size == 15 else size
            if inner in (1, 2):
                return self.take(size)
            return [self.value(inner, depth + 1) for _ in range(size)]
        if kind != 12:
            raise ValueError(f"a header has a field of unknown kind {kind}")
        fields: dict[int, Any] = {}
        name = 0
        while (head := self.take(1)[0]) & 0x0F:
            name = name + (head >> 4) if head >> 4 else self.value(6)
            fields[name] = self.value(head & 0x0F, depth + 1)
        return fields


def row_groups(data: Bytes) -> list[tuple[int, int]]:
    """The rows of each row group, and at least so many bytes stay in memory once it is read.

    Raises:
        ValueError: It is not a Parquet file, or is cut, or has values of unknown size.
    """
    if data[:4] != _MAGIC or data[-4:] != _MAGIC or len(data) < 12:
        raise ValueError("it does not begin and end as one")
    (size,) = struct.unpack("<I", data[-8:-4])
    if size > min(_MOST_FOOTER, len(data) - 12):
        raise ValueError("its footer is larger than it may be")
    footer = _Thrift(data, len(data) - 8 - size, len(data) - 8).value()
    try:
        return [
            (
                max(0, int(group[_ROWS])),
                sum(_column_memory(data, own[_META]) for own in group.get(_COLUMNS, ())),
            )
            for group in footer.get(_ROW_GROUPS, ())
        ]
    except (LookupError, TypeError, AttributeError) as error:
        raise ValueError("its footer is broken") from error


def _column_memory(data: Bytes, column: dict[int, Any]) -> int:
    if _DELTA_BYTE_ARRAY in column.get(_ENCODINGS, ()):
        raise ValueError("its encoding DELTA_BYTE_ARRAY is not read; write it with another")
    begin = column[_DATA_PAGE]
    begin = min(begin, column.get(_DICTIONARY_PAGE) or begin)
    headers = _Thrift(data, begin, begin + column[_PACKED])
    if not 0 <= begin <= headers.end <= len(data):
        raise ValueError("a column lies outside the file")
    needed = 0
    while headers.at < headers.end:
        page = headers.value()
        headers.skip(page[_PAGE_PACKED])
        values = max(page[body].get(1, 0) for body in _PAGE_BODIES if body in page)
        if page[_PAGE_SIZE] < 0 or values < 0:
            raise ValueError("a page has a negative size")
        needed += page[_PAGE_SIZE] + _VIEW_BYTES * values
    return needed
