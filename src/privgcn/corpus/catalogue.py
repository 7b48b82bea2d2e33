"""The datasets that are known by name: one file for each, one line here."""

from __future__ import annotations

from privgcn.corpus import (
    clinic,
    mnist,
    planetoid,
    pokec,
    reddit,
    stand_ins,
    text_graphs,
)
from privgcn.corpus.card import DatasetCard

DATASETS: dict[str, DatasetCard] = {
    card.name: card
    for card in (
        clinic.CARD,
        *planetoid.CARDS,
        *text_graphs.CARDS,
        pokec.CARD,
        reddit.CARD,
        *stand_ins.CARDS,
        mnist.CARD,
    )
}
