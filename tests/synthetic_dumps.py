"""Writes synthetic dumps in the exact raw formats of Pokec and Reddit.

They stand in for the real dumps where those cannot be had: in tests, and at full size in
the benchmark of the preparations. Nobody's real words are in them.
"""

from __future__ import annotations

import gzip
import io
import zipfile
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from privgcn_paper.datasets.pokec import CATS, COLUMNS, DOGS

_ROWS = 20_000
_POOL = 2_000


def write_pokec(
    folder: Path, users: int, friendships: int, seed: int = 0, answer_words: int = 5
) -> tuple[Path, Path]:
    """Writes both Pokec dumps: 60 tab-separated fields, ``null`` for no answer, some HTML.

    Args:
        folder: Where to write.
        users: Ids run from 1 to this.
        friendships: Directed pairs.
        seed: Of everything.
        answer_words: Words of a written answer.

    Returns:
        The files of profiles and of relationships.
    """
    random = np.random.default_rng(seed)
    pools = _answer_pools(random, answer_words)
    profiles = folder / "soc-pokec-profiles.txt.gz"
    order = random.permutation(users) + 1
    with gzip.open(profiles, "wb", compresslevel=1) as stream:
        for start in range(0, users, _ROWS):
            stream.write(_profiles(random, order[start : start + _ROWS], pools))
    relations = folder / "soc-pokec-relationships.txt.gz"
    with gzip.open(relations, "wb", compresslevel=1) as stream:
        for start in range(0, friendships, 10 * _ROWS):
            size = min(10 * _ROWS, friendships - start)
            pairs = random.integers(1, users + 1, (size, 2))
            stream.write("".join(f"{a}\t{b}\n" for a, b in pairs.tolist()).encode())
    return profiles, relations


def _answer_pools(random: np.random.Generator, words: int) -> dict[str, list[str]]:
    """Ready answers for each column that holds words."""
    known = [f"slovo{number}" for number in range(3_000)]
    pools = {}
    first = COLUMNS.index("body")
    for number, name in enumerate(COLUMNS[first:]):
        chosen = random.integers(0, len(known), (_POOL, words))
        answers = [" ".join(known[code] for code in row) for row in chosen]
        if number > len(COLUMNS[first:]) - 18:
            answers = [
                f'<div class="x">{text}<br />&nbsp;&amp; {text}</div>' for text in answers
            ]
        pools[name] = answers
    other = [f"{CATS[1]}, {DOGS[1]}", "mam rybicky", "nemam"]
    pools["pets"] = [*CATS, *DOGS, *DOGS, *other]
    return pools


def _profiles(
    random: np.random.Generator, ids: NDArray[np.int64], pools: dict[str, list[str]]
) -> bytes:
    count = len(ids)
    completion = random.integers(0, 101, count)
    fixed = {
        "user_id": ids.astype(str).tolist(),
        "public": random.integers(0, 2, count).astype(str).tolist(),
        "completion_percentage": completion.astype(str).tolist(),
        "gender": random.integers(0, 2, count).astype(str).tolist(),
        "region": ["kraj mesto, okres"] * count,
        "last_login": ["2012-05-25 11:20:00.0"] * count,
        "registration": ["2005-04-03 00:00:00.0"] * count,
        "AGE": random.integers(0, 90, count).astype(str).tolist(),
    }
    columns = []
    for name in COLUMNS:
        if name in fixed:
            columns.append(fixed[name])
            continue
        pool = [*pools[name], "null"]
        codes = random.integers(0, len(pool) - 1, count)
        codes[random.random(count) * 100 > completion] = len(pool) - 1
        columns.append([pool[code] for code in codes.tolist()])
    return "".join("\t".join(row) + "\t\n" for row in zip(*columns, strict=True)).encode()


def write_reddit(
    folder: Path,
    sizes: Sequence[int],
    edges: int,
    *,
    classes: int = 41,
    dimension: int = 602,
    seed: int = 0,
) -> tuple[Path, Path]:
    """Writes ``reddit_data.npz`` and ``reddit_graph.npz`` as PyTorch Geometric reads them.

    Args:
        folder: Where to write.
        sizes: Training, validation and test posts.
        edges: Undirected; each is stored in both directions.
        classes: How many communities.
        dimension: Length of a vector.
        seed: Of everything.
    """
    random = np.random.default_rng(seed)
    count = sum(sizes)
    data, graph = folder / "reddit_data.npz", folder / "reddit_graph.npz"
    kinds = random.permutation(np.repeat([1, 2, 3], sizes))
    labels = random.choice(classes, count, p=_shares(classes))
    with zipfile.ZipFile(data, "w", zipfile.ZIP_STORED, allowZip64=True) as archive:
        with archive.open("feature.npy", "w", force_zip64=True) as stream:
            stream.write(_npy_header((count, dimension), "<f8"))
            for start in range(0, count, _ROWS):
                rows = labels[start : start + _ROWS]
                vectors = random.standard_normal((len(rows), dimension))
                vectors[np.arange(len(rows)), rows % dimension] += 3
                stream.write(vectors.tobytes())
        for name, array in (
            ("label", labels.astype("<i4")),
            ("node_types", kinds.astype("<i4")),
            ("node_ids", np.arange(count, dtype="<i4")),
        ):
            archive.writestr(
                f"{name}.npy", _npy_header(array.shape, array.dtype.str) + array.tobytes()
            )
    with zipfile.ZipFile(graph, "w", zipfile.ZIP_STORED, allowZip64=True) as archive:
        for name, order in (("row", (0, 1)), ("col", (1, 0))):
            ends = np.random.default_rng([seed, 1])
            with archive.open(f"{name}.npy", "w", force_zip64=True) as stream:
                stream.write(_npy_header((2 * edges,), "<i4"))
                for start in range(0, edges, 100 * _ROWS):
                    size = min(100 * _ROWS, edges - start)
                    pairs = ends.integers(0, count, (2, size), dtype=np.int32)
                    stream.write(np.concatenate([pairs[order[0]], pairs[order[1]]]).tobytes())
        for name, array in (
            ("format", np.array(b"coo")),
            ("shape", np.array([count, count], dtype="<i8")),
        ):
            archive.writestr(
                f"{name}.npy", _npy_header(array.shape, array.dtype.str) + array.tobytes()
            )
    return data, graph


def _shares(classes: int) -> NDArray[np.float64]:
    """A few large and many small communities."""
    weight = 1.0 / (np.arange(classes, dtype=np.float64) + 4)
    return np.asarray(weight / weight.sum())


def _npy_header(shape: Sequence[int], kind: str) -> bytes:
    buffer = io.BytesIO()
    header = {"descr": kind, "fortran_order": False, "shape": tuple(shape)}
    np.lib.format.write_array_header_1_0(buffer, header)
    return buffer.getvalue()
