"""What a finished private model costs end to end, beside scikit-learn on the same texts.

A folder of texts and edges is generated: ten classes with words of their own over a Zipf
background, 70/10/20 splits, some edges for each document, most of them within a class. Then
``privgcn train`` and, up to a million documents, scikit-learn's ``HashingVectorizer`` with
``LogisticRegression`` read and learn it, each in a process of its own, in turns. CPU seconds
and peak memory are those of the process; on a busy machine the ratios are what counts.

Run: python benchmarks/end_to_end.py [20000 100000] [--features hashing] [--edges 5]
     [--form parquet] [--rounds 3] [--folder DIR] [--json FILE]
"""

from __future__ import annotations

import argparse
import itertools
import json
import math
import statistics
import tempfile
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from measuring import in_own_process, line, write_json

CLASSES, WORDS, OWN_WORDS, OWN_SHARE = 10, 30_000, 400, 0.12
WITHIN, AT_ONCE, MOST_IN_MEMORY = 0.8, 1 << 17, 1_000_000


def generate(folder: Path, documents: int, edges_each: int, form: str) -> Path:
    """Writes the folder in blocks, the same texts each time; does nothing where it is there."""
    out = folder / f"{form}-{documents}-{edges_each}"
    if (out / f"edges.{form}").exists():
        return out
    out.mkdir(parents=True, exist_ok=True)
    rng = np.random.default_rng(documents)
    classes = rng.integers(0, CLASSES, documents, dtype=np.int8)
    topics = np.stack([rng.choice(WORDS, OWN_WORDS, replace=False) for _ in range(CLASSES)])
    _write(out / f"documents.{form}", (_texts(rng, o, topics) for o in _blocks(classes)))
    _write(out / f"edges.{form}", _edges(rng, classes, edges_each))
    return out


def _blocks(classes: Any) -> Iterator[tuple[int, Any]]:
    for begin in range(0, len(classes), AT_ONCE):
        yield begin, classes[begin : begin + AT_ONCE]


def _texts(rng: np.random.Generator, block: tuple[int, Any], topics: Any) -> pl.DataFrame:
    begin, classes = block
    zipf = np.cumsum(1.0 / np.arange(1, WORDS + 1))
    lengths = rng.integers(40, 61, len(classes))
    ends = np.cumsum(lengths)
    codes = np.minimum(np.searchsorted(zipf / zipf[-1], rng.random(ends[-1])), WORDS - 1)
    own = rng.random(ends[-1]) < OWN_SHARE
    chosen = np.searchsorted(zipf / zipf[OWN_WORDS - 1], rng.random(int(own.sum())))
    codes[own] = topics[np.repeat(classes, lengths)[own], chosen]
    words = np.array([_word(number) for number in range(WORDS)], dtype=object)[codes]
    columns = {
        "id": [f"d{row}" for row in range(begin, begin + len(classes))],
        "text": [" ".join(words[end - n : end]) for n, end in zip(lengths, ends, strict=True)],
        "label": [f"class {own}" for own in classes],
        "split": rng.choice(["train", "validation", "test"], len(classes), p=[0.7, 0.1, 0.2]),
    }
    return pl.DataFrame(columns)


def _edges(rng: np.random.Generator, classes: Any, edges_each: int) -> Iterator[pl.DataFrame]:
    """Most ends are of the class of their source."""
    order = np.argsort(classes, kind="stable").astype(np.int32)
    counts = np.bincount(classes, minlength=CLASSES)
    begins = np.cumsum(counts) - counts
    total = len(classes) * edges_each
    for begin in range(0, total, AT_ONCE):
        source, target = rng.integers(0, len(classes), (2, min(AT_ONCE, total - begin)))
        same = rng.random(len(source)) < WITHIN
        mine = classes[source[same]]
        target[same] = order[begins[mine] + (rng.random(len(mine)) * counts[mine]).astype(int)]
        ends = pl.DataFrame({"source": source, "target": target})
        yield ends.select(pl.format("d{}", own).alias(own) for own in ends.columns)


def _write(path: Path, frames: Iterable[pl.DataFrame]) -> None:
    """Frames in one file: lines of JSON, or a row group for each."""
    if path.suffix == ".jsonl":
        with path.open("wb") as file:
            for frame in frames:
                frame.write_ndjson(file)
        return
    with tempfile.TemporaryDirectory(dir=path.parent) as parts:
        for number, frame in enumerate(frames):
            frame.write_parquet(f"{parts}/{number:06}.parquet")
        pl.scan_parquet(f"{parts}/*.parquet").sink_parquet(path, row_group_size=AT_ONCE)


def _word(number: int) -> str:
    """A word of syllables, different for each number, also in its first six letters."""
    letters = "bdfgklmnprstvz"
    out = ""
    for vowel in "aeo":
        number, letter = divmod(number, len(letters) * 2)
        out += letters[letter % len(letters)] + (vowel if letter < len(letters) else "i")
    return out + "mo" * (number % 3)


def delta_for(documents: int) -> float:
    """The usual delta, or what very many documents ask for."""
    return min(1e-5, 0.5 / documents)


def ours(folder: Path, features: str) -> dict[str, float]:
    """The command a user types."""
    with tempfile.TemporaryDirectory() as out:
        delta = delta_for(int(folder.name.split("-")[1]))
        command = f"train {folder} --epsilon 1 --delta {delta} --features {features} --json"
        took, text = in_own_process(["-m", "privgcn", *command.split(), "--out", f"{out}/run"])
        result = json.loads(text)
    scores = {mode: table["accuracy"] for mode, table in result["scores"].items()}
    return took | scores


def theirs(folder: Path, _: str) -> dict[str, float]:
    """The same texts in scikit-learn, without edges and privacy."""
    # Its small products lose by a second thread: it is measured at its best.
    one = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    took, text = in_own_process([__file__, "--baseline", str(folder)], one)
    return took | json.loads(text)


def baseline(folder: Path) -> None:
    """Reads, hashes, learns and predicts; called in a process of its own."""
    from sklearn.feature_extraction.text import HashingVectorizer
    from sklearn.linear_model import LogisticRegression

    (path,) = folder.glob("documents.*")
    table = pl.read_ndjson(path) if path.suffix == ".jsonl" else pl.read_parquet(path)
    train = table.filter(pl.col("split") == "train")
    test = table.filter(pl.col("split") == "test")
    hasher = HashingVectorizer(n_features=4096)
    model = LogisticRegression().fit(hasher.transform(train["text"]), train["label"])
    rows = model.predict(hasher.transform(test["text"]))
    print(json.dumps({"accuracy": float((rows == test["label"].to_numpy()).mean())}))


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("documents", nargs="*", type=int, default=[20_000, 100_000])
    parser.add_argument("--features", default="hashing")
    parser.add_argument("--edges", type=int, default=5, help="for each document")
    parser.add_argument("--form", choices=["parquet", "jsonl"], default="parquet")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--folder", type=Path, default=Path(tempfile.gettempdir()) / "privgcn")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--baseline", type=Path, help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.baseline is not None:
        return baseline(asked.baseline)
    results: list[dict[str, Any]] = []
    for documents in asked.documents:
        folder = generate(asked.folder, documents, asked.edges, asked.form)
        contestants: dict[str, Callable[[Path, str], dict[str, float]]] = {"privgcn": ours}
        if documents <= MOST_IN_MEMORY:
            contestants["scikit-learn"] = theirs
        rounds = [
            {name: run(folder, asked.features) for name, run in contestants.items()}
            for _ in range(asked.rounds)
        ]
        for name in contestants:
            median = {
                key: statistics.median(one[name][key] for one in rounds)
                for key in rounds[0][name]
            }
            results.append({"documents": documents, "name": name, **median})
            print(line(results[-1]), flush=True)
        ratios = [
            o["privgcn"]["cpu"] / o[n]["cpu"] for o in rounds for n in o if n != "privgcn"
        ]
        if ratios:
            print(
                f"documents {documents} ratio of CPU seconds {statistics.median(ratios):.2f} "
                f"({min(ratios):.2f} to {max(ratios):.2f})",
                flush=True,
            )
    by_size = [row for row in results if row.get("name") == "privgcn"]
    for small, large in itertools.pairwise(by_size):
        growth = math.log(large["documents"] / small["documents"])
        exponent = math.log(large["cpu"] / small["cpu"]) / growth
        print(f"{small['documents']} to {large['documents']}: CPU exponent {exponent:.2f}")
    write_json(asked.json, results)
    return None


if __name__ == "__main__":
    main()
