"""What a finished private model costs end to end, beside scikit-learn on the same texts.

A folder of texts and edges is generated: ten classes with words of their own over a Zipf
background, 70/10/20 splits, five edges for each document, most of them within a class. Then
``privgcn train`` and scikit-learn's ``HashingVectorizer`` with ``LogisticRegression`` read
and learn it, each in a process of its own, in turns. CPU seconds and peak memory are those of
the process; on a busy machine the ratios are what counts.

Run: python benchmarks/end_to_end.py [20000 100000] [--features hashing] [--rounds 3]
     [--folder DIR] [--json FILE]
"""

from __future__ import annotations

import argparse
import itertools
import json
import math
import statistics
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from measuring import in_own_process, line, write_json

CLASSES, WORDS, OWN_WORDS, OWN_SHARE = 10, 30_000, 400, 0.12
EDGES_EACH, WITHIN = 5, 0.8


def generate(folder: Path, documents: int) -> Path:
    """Writes the folder, the same bytes each time; does nothing where it is there."""
    out = folder / f"texts-{documents}"
    if (out / "edges.csv").exists():
        return out
    out.mkdir(parents=True, exist_ok=True)
    rng = np.random.default_rng(documents)
    names = np.array([_word(number) for number in range(WORDS)], dtype=object)
    zipf = 1.0 / np.arange(1, WORDS + 1)
    background = np.cumsum(zipf / zipf.sum())
    classes = rng.integers(0, CLASSES, documents)
    lengths = rng.integers(40, 61, documents)
    ends = np.cumsum(lengths)
    codes = np.minimum(np.searchsorted(background, rng.random(ends[-1])), WORDS - 1)
    own = rng.random(ends[-1]) < OWN_SHARE
    topics = np.stack([rng.choice(WORDS, OWN_WORDS, replace=False) for _ in range(CLASSES)])
    of_word = np.repeat(classes, lengths)
    chosen = np.searchsorted(background / background[OWN_WORDS - 1], rng.random(int(own.sum())))
    codes[own] = topics[of_word[own], chosen]
    split = rng.choice(["train", "validation", "test"], documents, p=[0.7, 0.1, 0.2])
    with (out / "documents.jsonl").open("w") as file:
        for row, (begin, end) in enumerate(zip(ends - lengths, ends, strict=True)):
            record = {
                "id": f"d{row}",
                "text": " ".join(names[codes[begin:end]]),
                "label": f"class {classes[row]}",
                "split": str(split[row]),
            }
            file.write(json.dumps(record) + "\n")
    source = rng.integers(0, documents, EDGES_EACH * documents)
    target = rng.integers(0, documents, EDGES_EACH * documents)
    order = np.argsort(classes, kind="stable")
    counts = np.bincount(classes, minlength=CLASSES)
    begins = np.cumsum(counts) - counts
    same = rng.random(len(source)) < WITHIN
    mine = classes[source[same]]
    chosen = (rng.random(len(mine)) * counts[mine]).astype(int)
    target[same] = order[begins[mine] + chosen]
    prefix = np.array([f"d{row}" for row in range(documents)], dtype=object)
    pl.DataFrame({"source": prefix[source], "target": prefix[target]}).write_csv(
        out / "edges.csv"
    )
    return out


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
        delta = delta_for(int(folder.name.partition("-")[2]))
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

    table = pl.read_ndjson(folder / "documents.jsonl")
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
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--folder", type=Path, default=Path(tempfile.gettempdir()) / "privgcn")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--baseline", type=Path, help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.baseline is not None:
        return baseline(asked.baseline)
    results: list[dict[str, Any]] = []
    for documents in asked.documents:
        folder = generate(asked.folder, documents)
        contestants: dict[str, Callable[[Path, str], dict[str, float]]] = {
            "scikit-learn": theirs,
            "privgcn": ours,
        }
        rounds = [
            {name: run(folder, asked.features) for name, run in contestants.items()}
            for _ in range(asked.rounds)
        ]
        ratios = [one["privgcn"]["cpu"] / one["scikit-learn"]["cpu"] for one in rounds]
        for name in contestants:
            median = {
                key: statistics.median(one[name][key] for one in rounds)
                for key in rounds[0][name]
            }
            results.append({"documents": documents, "name": name, **median})
            print(line(results[-1]), flush=True)
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
