"""Synthetic stand-ins for Pokec and Reddit at the paper's sizes.

The real dumps cannot be had everywhere. A stand-in has their number of documents, classes
and links and their kind of features, so that an experiment runs end to end; its scores say
nothing about the real data, and every report keeps them apart.
"""

from __future__ import annotations

from functools import cache

import numpy as np
import numpy.typing as npt

from privgcn.data.card import card
from privgcn.data.corpus import TEST, TRAIN, VALIDATION, Corpus, CorpusFacts, canonical_edges
from privgcn.data.splits import random_split

_SEED = 4_117
_SYLLABLES = (
    "ba be bi bo bu ca ce da de do du fa fe ha ho hra ja je ka ke ko kra ku la le li lo lu ma "
    "me mi mo mra na ne ni no nu pa pe po pra ra re ri ro ru sa se si so sta sto su ta te ti "
    "to tra tu va ve vi vo za ze zi zo čo ďa ľu ňa ša ší ťa že žu ý á é í ó ú"
)

POKEC_USERS = 20_000
POKEC_LINKS = 32_782
REDDIT_SIZES = {TRAIN: 15_252, VALIDATION: 2_383, TEST: 5_643}
REDDIT_CLASSES = 41
# A tenth of the posts keeps about a hundredth of the 57 million undirected links.
REDDIT_LINKS = 573_000


@cache
def make_pokec_like() -> Corpus:
    """Users with short Slovak-looking answers and encoder-like vectors; cats or dogs."""
    random = np.random.default_rng([_SEED, 1])
    labels = random.permutation(np.arange(POKEC_USERS) % 2).astype(np.int64)
    return Corpus(
        name="pokec-like",
        ids=(np.arange(POKEC_USERS) + 1).astype(str).astype(object),
        texts=_answers(random, labels),
        vectors=_encoded(random, labels, dimension=768, apart=1.35, spread=48),
        labels=labels,
        classes=("cats", "dogs"),
        edges=_linked(random, labels, POKEC_LINKS, within=0.3),
        split=random_split(POKEC_USERS, _SEED),
        owners=np.arange(POKEC_USERS, dtype=np.int64),
        owner_names=tuple(f"user-{row}" for row in range(1, POKEC_USERS + 1)),
        facts=_facts("pokec-like", "synthetic numbers in the manner of BERT averages"),
    )


@cache
def make_reddit_like() -> Corpus:
    """Posts with vectors in the manner of GloVe averages, in 41 communities."""
    random = np.random.default_rng([_SEED, 2])
    count = sum(REDDIT_SIZES.values())
    weight = 1.0 / (np.arange(REDDIT_CLASSES) + 6)
    labels = random.choice(REDDIT_CLASSES, count, p=weight / weight.sum()).astype(np.int64)
    split = np.repeat(
        np.array(list(REDDIT_SIZES), dtype=np.int8), np.array(list(REDDIT_SIZES.values()))
    )
    return Corpus(
        name="reddit-like",
        ids=np.arange(count).astype(str).astype(object),
        vectors=_encoded(random, labels, dimension=602, apart=2.9, spread=64),
        labels=labels,
        classes=tuple(f"community-{code:02d}" for code in range(REDDIT_CLASSES)),
        edges=_linked(random, labels, REDDIT_LINKS, within=0.25),
        split=random.permutation(split),
        facts=_facts("reddit-like", "synthetic numbers in the manner of GloVe averages"),
    )


def _facts(name: str, vectors: str) -> CorpusFacts:
    return CorpusFacts(
        source=name,
        classes_declared=True,
        split_origin="benchmark",
        synthetic=True,
        public_vectors=vectors,
    )


def _encoded(
    random: np.random.Generator,
    labels: npt.NDArray[np.int64],
    *,
    dimension: int,
    apart: float,
    spread: int,
) -> npt.NDArray[np.float32]:
    """Vectors as averaging encoders give them: one common direction, topics, little noise.

    Args:
        random: Where numbers come from.
        labels: One for each row.
        dimension: Length of a row.
        apart: How far a class lies from the common centre, in topic deviations.
        spread: How many directions the topics of all classes share.
    """
    centre = random.standard_normal(dimension)
    centre *= 6 / np.linalg.norm(centre)
    # Classes lie among the topics: seen from a fresh direction they would fall apart.
    classes = random.standard_normal((int(labels.max()) + 1, spread))
    classes *= apart / np.linalg.norm(classes, axis=1, keepdims=True)
    topics = random.standard_normal((spread, dimension)) / np.sqrt(dimension)
    about = random.standard_normal((len(labels), spread))
    # Documents differ in how typical of their class they are.
    about += classes[labels] * random.gamma(4.0, 0.25, (len(labels), 1))
    rows = about @ topics
    rows += centre + 0.05 * random.standard_normal((len(labels), dimension))
    return np.asarray(rows, dtype=np.float32)


def _linked(
    random: np.random.Generator, labels: npt.NDArray[np.int64], links: int, *, within: float
) -> npt.NDArray[np.int64]:
    """Exactly ``links`` links, a share of them drawn within a class; few have many."""
    count = len(labels)
    activity = random.pareto(2.5, count) + 0.2
    members = [np.flatnonzero(labels == code) for code in range(int(labels.max()) + 1)]
    edges = np.zeros((2, 0), dtype=np.int64)
    while edges.shape[1] < links:
        need = int(1.2 * (links - edges.shape[1])) + 16
        source = random.choice(count, need, p=activity / activity.sum())
        target = random.choice(count, need, p=activity / activity.sum())
        inside = random.random(need) < within
        for code, rows in enumerate(members):
            here = inside & (labels[source] == code)
            share = activity[rows] / activity[rows].sum()
            target[here] = random.choice(rows, int(here.sum()), p=share)
        both = np.concatenate([edges, np.stack([source, target])], axis=1)
        edges = canonical_edges(both[0], both[1], count)
    keep = np.sort(random.permutation(edges.shape[1])[:links])
    return edges[:, keep]


def slovak_looking_words(count: int, seed: int) -> list[str]:
    """Words that look Slovak and mean nothing."""
    random = np.random.default_rng(seed)
    syllables = np.array(_SYLLABLES.split(), dtype=object)
    words: dict[str, None] = {}
    while len(words) < count:
        words["".join(random.choice(syllables, random.integers(2, 5)))] = None
    return list(words)


def _answers(random: np.random.Generator, labels: npt.NDArray[np.int64]) -> tuple[str, ...]:
    """A few lines of words that look Slovak; some words are a little dearer to one class."""
    words = np.array(slovak_looking_words(9_500, 2), dtype=object)
    common = 1.0 / (np.arange(len(words)) + 10)
    tilt = random.normal(0, 0.22, len(words))
    texts = np.empty(len(labels), dtype=object)
    for code in (0, 1):
        rows = np.flatnonzero(labels == code)
        chance = common * np.exp(tilt if code else -tilt)
        drawn = words[random.choice(len(words), (len(rows), 40), p=chance / chance.sum())]
        for row, line in zip(rows, drawn, strict=True):
            texts[row] = "\n".join(
                " ".join(line[start : start + 8]) for start in range(0, 40, 8)
            )
    return tuple(texts)


# A stand-in is fixed, so neither the folder nor the seed matters.
CARDS = (
    card("pokec-like", lambda card, folder, seed: make_pokec_like()),
    card("reddit-like", lambda card, folder, seed: make_reddit_like()),
)
