"""The bundled corpus ``clinic``: synthetic letters about people who do not exist.

Each letter belongs to a patient (its owner) and to a department (its label). Edges join the
letters of a patient, and referrals mostly within a department. ``scripts/make_clinic.py``
wrote it.
"""

from __future__ import annotations

import bz2
import json
from functools import cache
from importlib.resources import files

import numpy as np

from privgcn.data.catalogue import DatasetCard
from privgcn.data.corpus import Corpus, CorpusFacts


@cache
def _clinic() -> Corpus:
    packed = files(__package__).joinpath("clinic.json.bz2").read_bytes()
    columns = json.loads(bz2.decompress(packed))
    owners = np.array(columns["owners"], dtype=np.int64)
    practices = [f"practice-{practice:02d}" for practice in columns["practices"]]
    return Corpus(
        name="clinic",
        ids=np.array([f"letter-{row:04d}" for row in range(len(owners))], dtype=object),
        texts=tuple(columns["texts"]),
        labels=np.array(columns["labels"], dtype=np.int64),
        classes=tuple(columns["classes"]),
        edges=np.array(columns["edges"], dtype=np.int64),
        split=np.array(columns["split"], dtype=np.int8),
        owners=owners,
        owner_names=tuple(f"patient-{row:04d}" for row in range(int(owners.max()) + 1)),
        columns={"practice": np.array(practices, dtype=object)},
        facts=CorpusFacts(
            source="clinic", classes_declared=True, split_origin="benchmark", synthetic=True
        ),
    )


CARD = DatasetCard(
    name="clinic",
    # The corpus is fixed, so neither the folder nor the seed matters.
    loader=lambda card, folder, seed: _clinic(),
    title="Synthetic clinical letters, joined by patient and referral",
    language="English",
    licence="Apache-2.0 (part of this package)",
    documents=3_600,
    edges=7_990,
    classes=6,
    features="raw text",
)
