"""Pokec and Reddit: prepared once from their dumps, or refused in one line."""

import gzip
import re
import zipfile

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
from privgcn_paper.datasets.reddit import class_preserving_sample


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache"


def check_refused(name, spoiled, word, tmp_path):
    """One error names the file, and nothing is left that was prepared."""
    with pytest.raises(DataError) as caught:
        load_corpus(name, data_dir=tmp_path)
    message = str(caught.value)
    assert caught.value.exit_code == 2
    assert spoiled.name in message
    assert word in message
    assert message.isprintable()
    assert list((tmp_path / "cache" / "privgcn" / "prepared").iterdir()) == []


def profile(user, pets, completion, **answers):
    values = dict.fromkeys(COLUMNS, "null")
    values |= {"user_id": str(user), "pets": pets, "completion_percentage": str(completion)}
    return "\t".join((values | answers)[name] for name in COLUMNS) + "\t\n"


def write(folder, lines, edges):
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


def test_the_released_columns_hold_the_answer(tmp_path):
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
        *(["macka"], ["hm", '"úvodzovky', "mam", "macku"], ["mam", "psika", "auto"])
    ]
    # The task of the paper is prepared apart from it.
    assert load_corpus("pokec", data_dir=tmp_path).texts[0] == "viac"


def test_the_task_is_the_paper_s(tmp_path):
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


def test_the_most_complete_profiles_are_kept(tmp_path):
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


def test_blocks_do_not_change_the_result(tmp_path, monkeypatch):
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


def test_it_is_prepared_once(tmp_path, cache):
    profiles, _ = write(tmp_path, LINES, EDGES)
    first = load_corpus("pokec", data_dir=tmp_path)
    (folder,) = (cache / "privgcn" / "prepared").iterdir()
    stamp = (folder / "documents.parquet").stat().st_mtime_ns
    assert load_corpus("pokec", data_dir=tmp_path).texts == first.texts
    assert (folder / "documents.parquet").stat().st_mtime_ns == stamp
    profiles.write_bytes(gzip.compress("".join(LINES[:7]).encode()))
    assert len(load_corpus("pokec", data_dir=tmp_path)) == 5


# Which file, what is replaced in it by what, and a word of the message.
BROKEN = {
    "cut profiles": (0, b"", b"", "end-of-stream"),
    "a field too few": (0, b"null\tnull", b"null", "60 fields"),
    "bad bytes": (0, b"hudba", b"hud\xffba", "utf-8"),
    "a user of 5000 digits": (0, b"\n7\t", b"\n" + b"7" * 5000 + b"\t", "conversion"),
    "an endless line": (1, b".*", bytes(70 << 20), "a line has more than"),
    "a user twice": (0, b"\n7\t", b"\n9\t", "twice"),
    "an edge from 0": (1, b"5\t1", b"0\t1", "1 to 9"),
    "three ends": (1, b"5\t1", b"5\t1\t1", "2 fields"),
    "no profiles": (0, b".*", b"", "cats or dogs"),
    "no edges": (1, b".*", b"", "friendships"),
}


@pytest.mark.parametrize("case", BROKEN)
def test_a_broken_dump_gives_one_error_and_leaves_nothing(tmp_path, case):
    which, old, new, word = BROKEN[case]
    path = write(tmp_path, LINES, EDGES)[which]
    data = gzip.decompress(path.read_bytes())
    spoiled = gzip.compress(re.sub(old, lambda _: new, data, count=1, flags=re.DOTALL), 1)
    path.write_bytes(spoiled[:-20] if case == "cut profiles" else spoiled)
    check_refused("pokec", path, word, tmp_path)


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
def test_html_is_removed(text, plain):
    assert without_html(text) == plain


# -- Reddit -----------------------------------------------------------------------------------

SIZES = (15_343, 2_383, 5_570)
N = sum(SIZES)


@pytest.fixture
def raw(tmp_path):
    folder = tmp_path / "reddit" / "raw"
    folder.mkdir(parents=True)
    data, graph = folder / "reddit_data.npz", folder / "reddit_graph.npz"
    draw = np.random.default_rng(0)
    ends = draw.integers(0, N, (2, 40_000), dtype=np.int32)
    np.savez(
        data,
        feature=draw.standard_normal((N, 5)),
        label=draw.choice(41, N, p=np.arange(9, 50) / 1189).astype(np.int32),
        node_types=draw.permutation(np.repeat([1, 2, 3], SIZES)).astype(np.int32),
    )
    np.savez(graph, row=np.concatenate(ends), col=np.concatenate(ends[::-1]))
    return data, graph


def test_the_published_files_give_the_paper_s_sizes():
    random = np.random.default_rng(0)
    split = np.repeat([0, 1, 2], [153_431, 23_831, 55_703])
    labels = random.choice(41, len(split), p=np.arange(1, 42) / 861)
    rows = class_preserving_sample(labels, split, seed=0)
    assert np.bincount(split[rows]).tolist() == [15_252, 2_383, 5_643]
    assert len(np.unique(rows)) == len(rows)
    for code in range(3):
        parent = np.bincount(labels[split == code], minlength=41) / (split == code).sum()
        part = np.bincount(labels[rows][split[rows] == code], minlength=41)
        assert abs(part - parent * part.sum()).max() <= 1
    assert (rows == class_preserving_sample(labels, split, seed=0)).all()
    assert (rows != class_preserving_sample(labels, split, seed=1)).any()


def test_the_sample_is_the_induced_graph(raw, tmp_path):
    corpus = load_corpus("reddit", data_dir=tmp_path)
    # The seed of the user does not make another dataset.
    assert list(load_corpus("reddit", data_dir=tmp_path, seed=1).ids) == list(corpus.ids)
    assert np.bincount(corpus.split).tolist() == [1525, 238, 564]
    assert (corpus.num_classes, corpus.facts.split_origin) == (41, "stratified")
    assert corpus.facts.not_covered
    assert corpus.facts.public_vectors
    rows = np.asarray(corpus.ids).astype(np.int64)
    with np.load(raw[0]) as arrays:
        assert np.allclose(corpus.vectors, arrays["feature"][rows])
        assert (corpus.labels == arrays["label"][rows]).all()
        assert (corpus.split == arrays["node_types"][rows] - 1).all()
    place = {row: number for number, row in enumerate(rows.tolist())}
    with np.load(raw[1]) as arrays:
        pairs = zip(arrays["row"].tolist(), arrays["col"].tolist(), strict=True)
        ends = [(place[a], place[b]) for a, b in pairs if a in place and b in place]
    expected = {(a, b) for a, b in ends if a < b}
    assert {tuple(pair) for pair in corpus.edges.T} == expected


def cut(path):
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def rewritten(name, values=None):
    """Replaces or leaves out an array of the archive."""

    def spoil(path):
        with np.load(path) as old:
            arrays = {key: old[key] for key in old.files if key != name}
        np.savez(path, **arrays, **({} if values is None else {name: np.asarray(values)}))

    return spoil


def promise(path):
    """Gives the labels a header that promises terabytes."""
    words = f"{{'descr': '<i4', 'fortran_order': False, 'shape': ({10**14},), }}".encode()
    head = b"\x93NUMPY\x02\x00" + len(words).to_bytes(4, "little") + words
    rewritten("label")(path)
    with zipfile.ZipFile(path, "a") as archive:
        archive.writestr("label.npy", head + bytes(64))


BROKEN_ARCHIVES = {
    "cut data": (0, cut, "zip"),
    "cut graph": (1, cut, "zip"),
    "no labels": (0, rewritten("label"), "label"),
    "labels too few": (0, rewritten("label", np.zeros(5, int)), "each post"),
    "a wild label": (0, rewritten("label", np.full(N, 41)), "0 to 40"),
    "not finite": (0, rewritten("feature", np.full((N, 2), np.nan)), "finite"),
    "ids out of range": (1, rewritten("row", np.full(80_000, N)), "'row'"),
    "objects": (0, rewritten("label", [None] * N), "pickle"),
    "words": (0, rewritten("label", ["a"] * N), "'label' is <U1"),
    "a promise of terabytes": (0, promise, "get it again"),
}


@pytest.mark.parametrize("case", BROKEN_ARCHIVES)
def test_a_broken_archive_gives_one_error_and_leaves_nothing(raw, tmp_path, case):
    which, spoil, word = BROKEN_ARCHIVES[case]
    spoil(raw[which])
    check_refused("reddit", raw[which], word, tmp_path)
