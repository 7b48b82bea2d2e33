from __future__ import annotations

import gzip
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from privgcn.data import load_corpus
from privgcn.errors import DataError
from privgcn_paper.datasets import POKEC_RELEASED
from privgcn_paper.datasets.pokec import (
    CATS,
    COLUMNS,
    DOGS,
    RELEASED_COLUMNS,
    TEXT_COLUMNS,
    prepare,
    without_html,
)

Raw = tuple[Path, Path]


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache"


def profile(user: int, pets: str, completion: int, **answers: str) -> str:
    values = dict.fromkeys(COLUMNS, "null")
    values |= {"user_id": str(user), "pets": pets, "completion_percentage": str(completion)}
    return "\t".join((values | answers)[name] for name in COLUMNS) + "\t\n"


def write(folder: Path, lines: list[str], edges: list[tuple[int, int]]) -> Raw:
    raw = folder / "pokec" / "raw"
    raw.mkdir(parents=True, exist_ok=True)
    profiles = raw / "soc-pokec-profiles.txt.gz"
    relations = raw / "soc-pokec-relationships.txt.gz"
    profiles.write_bytes(gzip.compress("".join(lines).encode()))
    relations.write_bytes(gzip.compress("".join(f"{a}\t{b}\n" for a, b in edges).encode()))
    return profiles, relations


LINES = [
    profile(9, "pes", 50, hobbies="rád mám hory", fun="<p>čítam&nbsp;<b>veľa</b></p>"),
    profile(2, "mam macku", 70, hobbies='hm "úvodzovky', body="vysoký", region="kraj"),
    profile(5, "mam psa, mam macku", 99, hobbies="obe"),
    profile(4, "kocur", 20),
    profile(7, "mam psov", 50, hobbies="hudba", music="rock"),
    profile(8, "null", 100, hobbies="nič"),
    profile(1, "macka", 90, more="viac"),
    profile(3, " mam psika", 10, cars="auto"),
]
EDGES = [(9, 2), (2, 9), (1, 7), (5, 1), (7, 7), (3, 1), (8, 2)]


def test_the_released_columns_hold_the_answer(tmp_path: Path) -> None:
    assert (len(COLUMNS), len(TEXT_COLUMNS), len(RELEASED_COLUMNS)) == (59, 49, 49)
    assert "pets" not in TEXT_COLUMNS
    assert not set(CATS) & set(DOGS)
    assert set(RELEASED_COLUMNS) ^ set(TEXT_COLUMNS) == {"pets", "more"}
    write(tmp_path, LINES, EDGES)
    corpus = POKEC_RELEASED.load(tmp_path, 0)
    assert corpus.name == corpus.facts.source == "pokec-released"
    assert corpus.texts is not None
    assert all(len(text.split("\n")) == 49 for text in corpus.texts), "empty answers count"
    assert [text.split() for text in corpus.texts[:3]] == [
        *(["macka"], ["hm", '"úvodzovky', "mam", "macku"], ["mam", "psika", "auto"]),
    ]
    # The task of the paper is prepared apart from it.
    assert load_corpus("pokec", data_dir=tmp_path).texts[0] == "viac"  # type: ignore[index]


def test_the_task_is_the_paper_s(tmp_path: Path) -> None:
    write(tmp_path, LINES, EDGES)
    corpus = load_corpus("pokec", data_dir=tmp_path)
    assert list(corpus.ids) == ["1", "2", "3", "4", "7", "9"]
    assert [corpus.classes[code] for code in corpus.labels] == [
        "cats", "cats", "dogs", "cats", "dogs", "dogs",
    ]  # fmt: skip
    assert corpus.texts == (
        "viac",
        'hm "úvodzovky',
        "auto",
        "-",
        "hudba\nrock",
        "rád mám hory\nčítam veľa",
    )
    assert corpus.edges.tolist() == [[0, 0, 1], [2, 4, 5]]
    assert corpus.facts.split_origin == "random"
    assert not corpus.facts.synthetic
    assert corpus.facts.not_covered
    assert corpus.owners is not None


def test_the_most_complete_profiles_are_kept(tmp_path: Path) -> None:
    profiles, relations = write(tmp_path, LINES, EDGES)
    out = tmp_path / "out"
    out.mkdir()
    prepare(profiles, relations, out, users_of_a_class=2)
    corpus = load_corpus(out)
    # Users 7 and 9 have the same percentage as none else; 3 is the least complete dog.
    assert list(corpus.ids) == ["1", "2", "7", "9"]
    prepare(profiles, relations, out, users_of_a_class=1)
    # Of two with one percentage and as many answers the earlier user is kept.
    assert list(load_corpus(out).ids) == ["1", "7"]
    # The released code counts answers alone.
    prepare(profiles, relations, out, users_of_a_class=1, released=True)
    assert list(load_corpus(out).ids) == ["2", "7"]


def test_blocks_do_not_change_the_result(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    draw = np.random.default_rng(0)
    lines = [
        profile(user, ["pes", "macka", "null"][user % 3], user * 7 % 101, fun=f"<b>w{user}</b>")
        for user in draw.permutation(np.arange(1, 901)).tolist()
    ]
    raw = write(tmp_path, lines, draw.integers(1, 901, (9_000, 2)).tolist())
    outs = []
    for size in (1 << 25, 20_000):
        monkeypatch.setattr("privgcn_paper.datasets.pokec._BLOCK_BYTES", size)
        out = tmp_path / str(size)
        out.mkdir()
        prepare(*raw, out, users_of_a_class=100)
        outs.append(load_corpus(out))
    one, other = outs
    assert list(one.ids) == list(other.ids)
    assert one.texts == other.texts
    assert (one.edges == other.edges).all()
    assert np.bincount(one.labels).tolist() == [100, 100]


def test_it_is_prepared_once(tmp_path: Path, cache: Path) -> None:
    profiles, _ = write(tmp_path, LINES, EDGES)
    first = load_corpus("pokec", data_dir=tmp_path)
    (folder,) = (cache / "privgcn" / "prepared").iterdir()
    stamp = (folder / "documents.parquet").stat().st_mtime_ns
    assert load_corpus("pokec", data_dir=tmp_path).texts == first.texts
    assert (folder / "documents.parquet").stat().st_mtime_ns == stamp
    profiles.write_bytes(gzip.compress("".join(LINES[:7]).encode()))
    assert len(load_corpus("pokec", data_dir=tmp_path)) == 5


def _truncate(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-20])


def _replace(old: bytes, new: bytes) -> Callable[[Path], None]:
    def spoil(path: Path) -> None:
        data = gzip.decompress(path.read_bytes())
        if old not in data:
            raise AssertionError(old)
        path.write_bytes(gzip.compress(data.replace(old, new, 1)))

    return spoil


def _gzipped(content: bytes) -> Callable[[Path], None]:
    return lambda path: path.write_bytes(gzip.compress(content, 1)) and None


BROKEN: dict[str, tuple[int, Callable[[Path], None], str]] = {
    "cut profiles": (0, _truncate, "end-of-stream"),
    "a field too few": (0, _replace(b"null\tnull", b"null"), "60 fields"),
    "bad bytes": (0, _replace(b"hudba", b"hud\xffba"), "utf-8"),
    "a user of 5000 digits": (0, _replace(b"\n7\t", b"\n" + b"7" * 5000 + b"\t"), "conversion"),
    "an endless line": (1, _gzipped(bytes(70 << 20)), "a line has more than"),
    "a user twice": (0, _replace(b"\n7\t", b"\n9\t"), "twice"),
    "an edge from 0": (1, _replace(b"5\t1", b"0\t1"), "1 to 9"),
    "three ends": (1, _replace(b"5\t1", b"5\t1\t1"), "2 fields"),
    "no profiles": (0, _gzipped(b""), "cats or dogs"),
    "no edges": (1, _gzipped(b""), "friendships"),
}


@pytest.mark.parametrize("case", BROKEN)
def test_a_broken_dump_gives_one_error_and_leaves_nothing(
    tmp_path: Path, cache: Path, case: str
) -> None:
    which, spoil, word = BROKEN[case]
    raw = write(tmp_path, LINES, EDGES)
    spoil(raw[which])
    with pytest.raises(DataError) as caught:
        load_corpus("pokec", data_dir=tmp_path)
    message = str(caught.value)
    assert caught.value.exit_code == 2
    assert raw[which].name in message
    assert word in message
    assert message.isprintable()
    assert list((cache / "privgcn" / "prepared").iterdir()) == []


@pytest.mark.parametrize(
    ("text", "plain"),
    [
        ("a<br />b", "a b"),
        ("<div title='x > y'>a &amp; b</div>", "a & b"),
        ("a < b", "a < b"),
        ("  a \xa0 b ", "a b"),
        ("mám 2&nbsp;psy", "mám 2 psy"),
    ],
)
def test_html_is_removed(text: str, plain: str) -> None:
    assert without_html(text) == plain
