"""Texts a second of MiniLM, beside sentence-transformers on the same texts, weights and cores.

All contestants take turns in one process. On a processor CPU time counts, so that other work on
the machine slows none of them; on a GPU the clock does. Needs sentence-transformers.

    python benchmarks/encoding.py [--threads 2] [--device cuda] [--rounds 5] [--json FILE]
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

import numpy as np
import torch
from measuring import Step, machine_sentence, markdown, spread, write_json
from sentence_transformers import SentenceTransformer

from privgcn.features import bert
from privgcn.features.encoders import MiniLM, StaticVectors

NUMBERS = ("float32", "bfloat16")
# Words of a text, and how many texts.
SIZES = ((10, 1024), (40, 256), (180, 64))
COLUMNS = ("words", "contestant", "texts a second", "times sentence-transformers, float32")
VOCABULARY = (
    *("the patient of heart letter graph and was", "sonata network with treated kernel"),
    *("government results a show learning river", "described method in history"),
)


def ours(texts: list[str], device: str, number: str) -> Step:
    bert.kernel = lambda: (device, number)
    encode = MiniLM()._load()

    def step() -> None:
        bert.kernel = lambda: (device, number)
        encode(texts)

    return step


def theirs(texts: list[str], device: str, number: str) -> Step:
    folder = str(MiniLM.weights.checked()[0].parent)
    options = {"dtype": getattr(torch, number)}
    model = SentenceTransformer(folder, device=device, model_kwargs=options)
    model.max_seq_length = 256
    return lambda: model.encode(texts, show_progress_bar=False)


def generated(words: int, count: int) -> list[str]:
    """Texts of around so many words; their lengths vary by a third."""
    random = np.random.default_rng(words)
    known = " ".join(VOCABULARY).split()
    sizes = np.maximum(1, random.lognormal(np.log(words), 1 / 3, count)).astype(int)
    return [" ".join(random.choice(known, size)) for size in sizes]


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--times", type=int, default=1, help="so many times the texts")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    clock = time.process_time if options.device == "cpu" else time.perf_counter
    print(machine_sentence(), f"Threads: {options.threads}.")
    rows, record = [], {}
    for words, count in SIZES:
        texts, static = generated(words, count * options.times), StaticVectors()
        steps: dict[str, Step] = {}
        for number in NUMBERS:
            steps[f"sentence-transformers, {number}"] = theirs(texts, options.device, number)
            steps[f"privgcn, {number}"] = ours(texts, options.device, number)
        steps["privgcn, static"] = lambda own=texts, by=static: by._encode(own)
        times: dict[str, list[float]] = {name: [] for name in steps}
        for each in range(options.rounds + 1):
            for name, step in steps.items():
                begun = clock()
                step()
                if each:  # the first round warms up
                    times[name].append(clock() - begun)
        first = np.array(times["sentence-transformers, float32"])
        for name, own in times.items():
            ratio = spread(list(first / np.array(own)))
            shown = "{median:.2f} ({low:.2f} to {high:.2f})".format(**ratio)
            rows.append((str(words), name, f"{len(texts) / np.median(own):.0f}", shown))
            print(*rows[-1], sep="  ", flush=True)
        record[str(words)] = times
    print(markdown(COLUMNS, rows))
    write_json(options.json, record)


if __name__ == "__main__":
    main()
