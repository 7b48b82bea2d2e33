"""Writes the bundled corpus ``clinic`` from the phrases in ``clinic.toml``.

    python scripts/make_clinic.py [FILE]

The same corpus every time; default is the file that the package carries.
"""

from __future__ import annotations

import bz2
import json
import sys
import tomllib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from privgcn.data.corpus import random_split
from privgcn.data.edges import canonical_edges

PATIENTS = 1_000
LETTERS = 3_600
_SEED = 20_230_519
_PRACTICES = 12

# Chances, chosen so that a letter alone is clearly harder to place than one with its edges.
_HOME_DEPARTMENT = 0.92
_VAGUE_LETTER = 0.3
_OWN_PHRASE = 0.6
_OTHER_PHRASE = 0.2
_OWN_HISTORY = 0.2
_REFERRALS = 2_000
_REFERRAL_WITHIN = 0.85

_HERE = Path(__file__).parent
_FILE = _HERE.parent / "src" / "privgcn" / "data" / "clinic.json.bz2"
_WORDS: dict[str, Any] = tomllib.loads((_HERE / "clinic.toml").read_text("utf-8"))
_CLASSES = tuple(_WORDS["departments"])


def make_clinic() -> dict[str, Any]:
    """The corpus as the file has it, column by column."""
    random = np.random.default_rng(_SEED)
    # At least one letter for each patient; a patient's letters are spread over the corpus.
    rest = random.integers(0, PATIENTS, LETTERS - PATIENTS)
    owners = random.permutation(np.concatenate([np.arange(PATIENTS), rest]))
    home = random.integers(0, len(_CLASSES), PATIENTS)
    stays = random.random(LETTERS) < _HOME_DEPARTMENT
    labels = np.where(stays, home[owners], random.integers(0, len(_CLASSES), LETTERS))
    ages = random.integers(18, 93, PATIENTS)
    texts = tuple(
        _letter(random, int(label), int(ages[owner]))
        for label, owner in zip(labels, owners, strict=True)
    )
    practice = random.integers(1, _PRACTICES + 1, PATIENTS)
    edges = _edges(random, owners, labels)
    return {
        "classes": list(_CLASSES),
        "texts": list(texts),
        "labels": labels.tolist(),
        "owners": owners.tolist(),
        "practices": practice[owners].tolist(),
        "split": random_split(LETTERS, _SEED, owners).tolist(),
        "edges": edges.tolist(),
    }


def _edges(
    random: np.random.Generator, owners: NDArray[np.int64], labels: NDArray[np.int64]
) -> NDArray[np.int64]:
    """All pairs of a patient's letters, and referrals between letters of two patients."""
    order = np.argsort(owners, kind="stable")
    firsts, seconds = [], []
    for step in range(1, int(np.bincount(owners).max())):
        same = owners[order[:-step]] == owners[order[step:]]
        firsts.append(order[:-step][same])
        seconds.append(order[step:][same])
    source = random.integers(0, LETTERS, _REFERRALS)
    target = random.integers(0, LETTERS, _REFERRALS)
    within = random.random(_REFERRALS) < _REFERRAL_WITHIN
    for department in range(int(labels.max()) + 1):
        here = within & (labels[source] == department)
        target[here] = random.choice(np.flatnonzero(labels == department), int(here.sum()))
    other = owners[source] != owners[target]
    return canonical_edges(
        np.concatenate([*firsts, source[other]]),
        np.concatenate([*seconds, target[other]]),
        LETTERS,
    )


def _letter(random: np.random.Generator, department: int, age: int) -> str:
    def phrases(own: float) -> Any:
        draw = random.random()
        if draw < own:
            return _WORDS["departments"][_CLASSES[department]]
        if draw < own + _OTHER_PHRASE:
            return _WORDS["departments"][_pick(random, _CLASSES)]
        return _WORDS["anywhere"]

    own = 0.0 if random.random() < _VAGUE_LETTER else _OWN_PHRASE
    finding = phrases(own)
    values = {
        "age": str(age),
        "complaint": _pick(random, phrases(own)["complaints"]),
        "examination": _pick(random, finding["examinations"]),
        "finding": _pick(random, finding["findings"]),
        "diagnosis": _pick(random, phrases(_OWN_HISTORY)["diagnoses"]),
        "treatment": _pick(random, phrases(own)["treatments"]),
        "duration": _pick(random, _WORDS["durations"]),
    }
    values["Examination"] = values["examination"][:1].upper() + values["examination"][1:]
    return " ".join(
        _pick(random, frames).format(**values) for frames in _WORDS["sentences"].values()
    )


def _pick(random: np.random.Generator, choices: Sequence[str]) -> str:
    return choices[int(random.integers(len(choices)))]


if __name__ == "__main__":
    target = Path(sys.argv[1]) if sys.argv[1:] else _FILE
    target.write_bytes(bz2.compress(json.dumps(make_clinic()).encode()))
