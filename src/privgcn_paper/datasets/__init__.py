"""The datasets of the paper, as cards for the entry point group ``privgcn.datasets``.

The descriptions and checksums are data: ``datasets.toml``. A reader is imported when a dataset
is loaded.
"""

from __future__ import annotations

import tomllib
from importlib import import_module
from importlib.resources import files
from pathlib import Path

from privgcn.data import Corpus
from privgcn_paper.datasets.raw import PublishedDataset, RawFile


def _card(name: str, module: str) -> PublishedDataset:
    def load(card: PublishedDataset, folder: Path, seed: int) -> Corpus:
        corpus: Corpus = import_module(f"{__name__}.{module}").load(card, folder, seed)
        return corpus

    described = dict(_DESCRIBED[name])
    raw = tuple(RawFile(**file) for file in described.pop("files", ()))
    return PublishedDataset(name=name, loader=load, files=raw, **described)


_DESCRIBED = tomllib.loads(files(__name__).joinpath("datasets.toml").read_text("utf-8"))

CORA = _card("cora", "planetoid")
CITESEER = _card("citeseer", "planetoid")
PUBMED = _card("pubmed", "planetoid")
CORA_TEXT = _card("cora-text", "text_graphs")
CITESEER_TEXT = _card("citeseer-text", "text_graphs")
POKEC = _card("pokec", "pokec")
POKEC_RELEASED = _card("pokec-released", "pokec")
REDDIT = _card("reddit", "reddit")
MNIST = _card("mnist", "mnist")
