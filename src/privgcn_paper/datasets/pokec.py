"""Pokec: do the users of a Slovak social network prefer cats or dogs?

From SNAP's two dumps to the paper's task (its appendix on pre-processing): users whose
answer about pets is cats or dogs and nothing else, the 10 000 most complete profiles of
each, their answers in 49 columns without HTML, and the friendships among them.

The 49 columns are all those that hold words, without the answer about pets itself, which
is the label. The 10 that are left out: user_id, public, completion_percentage, gender,
region, last_login, registration, AGE, body, pets.

The released code has 49 columns as well, and ``pets`` is one of them: it takes what lies
between ``body`` and ``more``. It keeps the users with the fewest empty columns, and averages
over empty answers as well. The dataset ``pokec-released`` has those, to show what knowing the
answer is worth; its scores say nothing about the task.
"""

from __future__ import annotations

import gzip
import io
from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import partial
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from privgcn.data.catalogue import load_corpus
from privgcn.data.corpus import Corpus
from privgcn.data.edges import canonical_edges
from privgcn_paper.datasets.prepared import prepared_folder, reading
from privgcn_paper.datasets.raw import PublishedDataset

_NAMES = """
    user_id public completion_percentage gender region last_login registration AGE body
    I_am_working_in_field spoken_languages hobbies I_most_enjoy_good_food pets body_type
    my_eyesight eye_color hair_color hair_type completed_level_of_education favourite_color
    relation_to_smoking relation_to_alcohol sign_in_zodiac on_pokec_i_am_looking_for
    love_is_for_me relation_to_casual_sex my_partner_should_be marital_status children
    relation_to_children I_like_movies I_like_watching_movie I_like_music
    I_mostly_like_listening_to_music the_idea_of_good_evening
    I_like_specialties_from_kitchen fun I_am_going_to_concerts my_active_sports
    my_passive_sports profession I_like_books life_style music cars politics relationships
    art_culture hobbies_interests science_technologies computers_internet education sport
    movies travelling health companies_brands more
"""
COLUMNS = tuple(_NAMES.split())
"""The dump's columns; each line ends with a tab, so that there is a 60th, empty one."""

TEXT_COLUMNS = tuple(
    name for name in COLUMNS[COLUMNS.index("I_am_working_in_field") :] if name != "pets"
)
RELEASED_COLUMNS = COLUMNS[COLUMNS.index("I_am_working_in_field") : COLUMNS.index("more")]
CATS = ("macka", "mam macku", "kocur")
DOGS = ("pes", "mam psa", "mam psika", "mam psov")
CLASSES = ("cats", "dogs")
USERS_OF_A_CLASS = 10_000

_BLOCK_BYTES = 32 << 20
_LARGEST_ID = 100_000_000


def prepare(
    profiles: Path,
    relations: Path,
    out: Path,
    users_of_a_class: int = USERS_OF_A_CLASS,
    released: bool = False,
) -> None:
    """Writes ``documents.parquet`` and ``edges.parquet`` of the task into a folder.

    Both dumps are read in blocks, so memory does not grow with them.
    """
    users, highest = _select_users(profiles, users_of_a_class, released)
    position = np.full(highest + 1, -1, dtype=np.int64)
    position[users["user_id"].to_numpy()] = np.arange(len(users))
    edges = _friendships(relations, position)
    ids = users["user_id"].cast(pl.String)
    columns = RELEASED_COLUMNS if released else TEXT_COLUMNS
    texts = [_text(row, released) for row in users.select(columns).iter_rows()]
    pl.DataFrame({"id": ids, "text": texts, "label": users["label"]}).write_parquet(
        out / "documents.parquet"
    )
    pl.DataFrame(
        {"source": ids.gather(edges[0]), "target": ids.gather(edges[1])}
    ).write_parquet(out / "edges.parquet")


def _select_users(profiles: Path, count: int, released: bool) -> tuple[pl.DataFrame, int]:
    """The most complete profiles of both classes in the order of their ids, and the last id."""
    best: list[pl.DataFrame] = []
    highest = 0
    schema = dict.fromkeys((*COLUMNS, "nothing"), pl.String)
    with reading(profiles):
        for block in _blocks(profiles, schema):
            frame = block.drop("nothing").with_columns(
                pl.col("user_id").cast(pl.Int64),
                pl.col("completion_percentage").cast(pl.Int64, strict=False),
            )
            # Ids are indices of an array below: a wild one must not ask for wild amounts.
            if not frame["user_id"].is_between(1, _LARGEST_ID).fill_null(False).all():
                raise ValueError(f"ids are not from 1 to {_LARGEST_ID}")
            highest = max(highest, int(frame["user_id"].to_numpy().max()))
            known = pl.concat([*best, _with_label(frame)])
            best = [_most_complete(known, count, released)]
        if not best or best[0]["label"].n_unique() != len(CLASSES):
            raise ValueError(f"it has no users who prefer {' or '.join(CLASSES)}")
        users = best[0].sort("user_id")
        if users["user_id"].is_duplicated().any():
            raise ValueError("it has a user twice")
    return users, highest


def _blocks(path: Path, schema: Mapping[str, Any]) -> Iterator[pl.DataFrame]:
    """The whole lines of a gzipped table, some million bytes at a time."""
    rest = b""
    with gzip.open(path, "rb") as stream:
        while True:
            piece = stream.read(_BLOCK_BYTES)
            # The last line may lack its line feed.
            data = rest + (piece or b"\n" * bool(rest))
            end = data.rfind(b"\n") + 1
            rest = data[end:]
            if len(rest) > _BLOCK_BYTES:
                raise ValueError(f"a line has more than {_BLOCK_BYTES} bytes")
            lines = data[:end].count(b"\n")
            if data.count(b"\t", 0, end) != lines * (len(schema) - 1):
                raise ValueError(f"a line has not {len(schema)} fields with tabs between them")
            if end:
                yield pl.read_csv(
                    io.BytesIO(data[:end]),
                    has_header=False,
                    separator="\t",
                    quote_char=None,
                    null_values="null",
                    schema=schema,
                )
            if not piece:
                return


def _with_label(frame: pl.DataFrame) -> pl.DataFrame:
    pets = pl.col("pets").str.strip_chars()
    label = (
        pl.when(pets.is_in(CATS))
        .then(pl.lit(CLASSES[0]))
        .when(pets.is_in(DOGS))
        .then(pl.lit(CLASSES[1]))
        .alias("label")
    )
    filled = pl.sum_horizontal(pl.all().is_not_null()).alias("filled")
    return frame.with_columns(filled, label).filter(pl.col("label").is_not_null())


def _most_complete(users: pl.DataFrame, count: int, released: bool) -> pl.DataFrame:
    """By the percentage of completion, then by filled columns, then the earlier user.

    The released code goes by filled columns alone.
    """
    order = [pl.col("completion_percentage").fill_null(0), pl.col("filled"), -pl.col("user_id")]
    ordered = users.sort(order[released:], descending=True)
    return ordered.filter(pl.int_range(pl.len()).over("label") < count)


def _friendships(path: Path, position: NDArray[np.int64]) -> NDArray[np.int64]:
    ends = [np.empty((2, 0), dtype=np.int64)]
    with reading(path):
        for frame in _blocks(path, {"source": pl.Int64, "target": pl.Int64}):
            pair = frame.to_numpy().T
            if not (pair.min() >= 1 and pair.max() < len(position)):
                raise ValueError(f"ids are not from 1 to {len(position) - 1}")
            moved = position[pair.astype(np.int64)]
            ends.append(moved[:, (moved >= 0).all(axis=0)])
        if len(ends) == 1:
            raise ValueError("it has no friendships")
    source, target = np.concatenate(ends, axis=1)
    return canonical_edges(source, target, int(position.max()) + 1)


class _Words(HTMLParser):
    """Collects what is between tags; a tag separates words."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.pieces: list[str] = []

    def handle_data(self, data: str) -> None:
        self.pieces.append(data)


def without_html(text: str) -> str:
    """A text without tags and character references, on one line."""
    if "<" in text or "&" in text:
        parser = _Words()
        parser.feed(text)
        parser.close()
        text = " ".join(parser.pieces)
    return " ".join(text.split())


def _text(answers: tuple[Any, ...], released: bool) -> str:
    """One line for each answered column; as released, one for each column."""
    lines = [without_html(answer or "") for answer in answers]
    return "\n".join(line for line in lines if line or released) or "-"


def load(card: PublishedDataset, folder: Path, seed: int) -> Corpus:
    """Reads the prepared task; ``seed`` is that of its random split."""
    raw = [folder / file.path for file in card.files]
    build = partial(prepare, raw[0], raw[1], released=card.name == "pokec-released")
    made = prepared_folder(card.name, raw, "cats or dogs", build)
    corpus = load_corpus(made, classes=CLASSES, seed=seed)
    facts = replace(
        corpus.facts,
        source=card.name,
        not_covered=(
            "which users are in the corpus: they were chosen by their answers and by how "
            "complete their profiles are",
        ),
    )
    # Every document is one person, so the unit 'person' can be asked for as well.
    return replace(
        corpus,
        name=card.name,
        facts=facts,
        owners=np.arange(len(corpus), dtype=np.int64),
        owner_names=tuple(corpus.ids),
    )
