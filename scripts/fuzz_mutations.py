"""How ``fuzz.py`` changes a valid input: bytes, lines, numbers, JSON, and what is packed."""

from __future__ import annotations

import gzip
import io
import json
import random
import re
import zipfile
import zlib
from collections.abc import Callable, Mapping
from typing import Any

Mutator = Callable[[random.Random, bytes], bytes]

_TOKENS = (
    *(b"", b"\0", b"\xff", b"\xef\xbb\xbf", b"\n", b"\r\n", b"\t", b'"', b"'", b",", b";"),
    *(b"[", b"]", b"{", b"}", b"[" * 20_000, b'{"a":' * 5_000, b"null", b"true", b"NaN"),
    *(b"inf", b"1e999", b"-1", b"0", b"9" * 30, b"9" * 5_000, b"\\ud800", b"\xed\xa0\x80"),
    *(b"../../../etc/passwd", b"/dev/zero", b"\x1b[2J", b"=cmd|' /C calc'!A0", b"a" * 70_000),
)
_ODD: tuple[Any, ...] = (
    *(None, True, -1, 0, 1, 2, 1e308, -1e308, 5e-324, float("nan"), float("inf")),
    *(2**31, 2**53 + 1, 2**63, 10**30, -(10**30), 0.5, "", "a", "\ud800", "\0", "\x1b[2J"),
    *("../../etc/passwd", "/dev/zero", "a" * 5_000, "1", "nan", [], {}, [[]], [None], {"": 0}),
    *([0] * 5_000, {"a": {"a": {"a": []}}}, ["a", 1, None]),
)
_NUMBER = re.compile(rb"-?\d+(\.\d+)?(e-?\d+)?")


def mutated_bytes(draw: random.Random, data: bytes) -> bytes:
    """Changes, removes, doubles or inserts some bytes anywhere."""
    place = draw.randrange(len(data) + 1)
    length = draw.choice((1, 1, 2, 4, 16, 256, len(data)))
    piece = data[place : place + length]
    kind = draw.randrange(6)
    if kind == 0 and place < len(data):
        changed = bytes([data[place] ^ (1 << draw.randrange(8))])
        return data[:place] + changed + data[place + 1 :]
    if kind == 1:
        return data[:place] + data[place + length :]
    if kind == 2:
        return data[:place] + piece * draw.choice((2, 3, 100)) + data[place + length :]
    if kind == 3:
        return data[:place]
    if kind == 4:
        return data[:place] + draw.randbytes(length % 64) + data[place + length :]
    return data[:place] + draw.choice(_TOKENS) + data[place + draw.choice((0, length)) :]


def mutated_number(draw: random.Random, data: bytes) -> bytes:
    """Puts an odd value in place of a number that is written out."""
    found = list(_NUMBER.finditer(data[: 1 << 16]))
    if not found:
        return mutated_bytes(draw, data)
    chosen = draw.choice(found)
    value = str(draw.choice(_ODD)).encode("utf-8", "replace")
    return data[: chosen.start()] + value + data[chosen.end() :]


def mutated_lines(draw: random.Random, data: bytes) -> bytes:
    """Removes, doubles or swaps lines."""
    lines = data.splitlines(keepends=True) or [b""]
    first, second = draw.randrange(len(lines)), draw.randrange(len(lines))
    kind = draw.randrange(3)
    if kind == 0:
        del lines[first]
    elif kind == 1:
        lines.insert(second, lines[first])
    else:
        lines[first], lines[second] = lines[second], lines[first]
    return b"".join(lines)


def mutated_json(draw: random.Random, data: bytes) -> bytes:
    """Changes one value or name somewhere in a JSON text, or in one of its lines."""
    lines = data.splitlines() if data.count(b"\n{") else [data]
    chosen = draw.randrange(len(lines) or 1)
    try:
        tree = [json.loads(lines[chosen])]
        _change(draw, tree)
        lines[chosen] = json.dumps(tree[0]).encode("utf-8", "surrogatepass")
    except (ValueError, RecursionError, IndexError):
        return mutated_bytes(draw, data)
    return b"\n".join(lines) + b"\n"


def _change(draw: random.Random, tree: Any) -> None:
    while True:
        keys = list(tree) if isinstance(tree, dict) else list(range(len(tree)))
        if not keys:
            return
        key = draw.choice(keys)
        if isinstance(tree[key], dict | list) and tree[key] and draw.random() < 0.8:
            tree = tree[key]
            continue
        kind = draw.randrange(5)
        if kind == 0:
            del tree[key]
        elif kind == 1 and isinstance(tree, dict):
            tree[draw.choice(("", "a", "format", "kind", key + "s"))] = tree.pop(key)
        elif kind == 2 and isinstance(tree, list):
            tree.insert(draw.randrange(len(tree)), tree[draw.randrange(len(tree))])
        else:
            tree[key] = draw.choice(_ODD)
        return


def in_gzip(inner: Mutator) -> Mutator:
    """Mutates what is compressed, not how."""

    def mutated(draw: random.Random, data: bytes) -> bytes:
        try:
            plain = gzip.decompress(data)
        except (OSError, EOFError, zlib.error):
            return mutated_bytes(draw, data)
        return gzip.compress(inner(draw, plain), compresslevel=1, mtime=0)

    return mutated


def in_zip(*inner: Mutator) -> Mutator:
    """Mutates one member of an archive, or its name."""

    def mutated(draw: random.Random, data: bytes) -> bytes:
        try:
            members = unpacked(data)
            name = draw.choice(list(members))
        except (zipfile.BadZipFile, OSError, ValueError, IndexError, zlib.error, RuntimeError):
            return mutated_bytes(draw, data)
        kind = draw.randrange(10)
        if kind == 0:
            del members[name]
        elif kind == 1:
            members[draw.choice(("../escape", "/tmp/escape", "a" * 200, name + "x"))] = b"x"
        else:
            members[name] = draw.choice(inner)(draw, members[name])
        return packed(members)

    return mutated


def packed(members: Mapping[str, bytes]) -> bytes:
    """An archive of some files."""
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w") as archive:
        for name, data in members.items():
            archive.writestr(name, data)
    return content.getvalue()


def unpacked(data: bytes) -> dict[str, bytes]:
    """The files of an archive that ``packed`` made."""
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


TEXT = (mutated_bytes, mutated_lines, mutated_number)
JSON = (mutated_json, mutated_bytes, mutated_number)
