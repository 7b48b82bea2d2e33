from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from privgcn.data import load_corpus, resolved_source
from privgcn.data.catalogue import dataset
from privgcn.errors import DataError, DataNotAvailableError


def test_an_unknown_source_names_what_is_known() -> None:
    with pytest.raises(DataError, match=r"Did you mean 'cora'\?.*pubmed") as caught:
        load_corpus("corra")
    with pytest.raises(DataError, match=r"Did you mean 'cora'"):
        load_corpus(resolved_source("corra"))
    assert caught.value.exit_code == 2
    with pytest.raises(DataError, match=r"one of clinic.*Did you mean 'cora'\?"):
        dataset("corra")


@pytest.mark.parametrize("name", ["a" * 5_000, "~nobody-at-all/letters", "\0", ""])
def test_a_name_that_no_file_could_have(name: str) -> None:
    with pytest.raises(DataError, match="Got neither"):
        load_corpus(name)


def test_a_file_in_place_of_its_folder_with_columns_as_they_are_named(tmp_path: Path) -> None:
    path = tmp_path / "documents.csv"
    path.write_text("id,text,label\nan a,1,x\na b,2,y\n")
    (tmp_path / "edges.csv").write_text("source,target\n1,1\n")
    corpus = load_corpus(path, id="text", text="id", owner="text")
    assert (corpus.texts, list(corpus.ids)) == (("an a", "a b"), ["1", "2"])
    assert (corpus.owner_names, corpus.remarks) == (("1", "2"), ())


def test_a_known_dataset_that_is_not_here_names_the_command(tmp_path: Path) -> None:
    with pytest.raises(DataNotAvailableError, match="privgcn fetch cora") as caught:
        load_corpus("cora", data_dir=tmp_path)
    assert caught.value.exit_code == 3


def test_a_name_wins_over_a_folder_unless_it_is_a_path(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "cora"
    folder.mkdir()
    (folder / "documents.csv").write_text("id,text\n1,a\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PRIVGCN_DATA", str(tmp_path / "nothing"))
    with pytest.raises(DataNotAvailableError):
        load_corpus("cora")
    assert len(load_corpus("./cora")) == 1
    assert len(load_corpus(folder)) == 1
    assert resolved_source("cora") == "cora"
    assert resolved_source("./cora") == str(folder)


@pytest.mark.parametrize("option", [{"classes": ["a", "b"]}, {"label": "x"}, {"edges": "x"}])
def test_options_of_ones_own_documents_are_none_of_a_dataset(option: Any) -> None:
    with pytest.raises(DataError, match=f"'{next(iter(option))}' is for documents of your own"):
        load_corpus("clinic", **option)


def test_importing_the_package_and_loading_letters_is_cheap() -> None:
    code = (
        "import sys, privgcn.data\n"
        "privgcn.data.load_corpus('clinic').train\n"
        "heavy = {'torch', 'polars', 'sklearn', 'scipy', 'pooch'} & set(sys.modules)\n"
        "sys.exit(', '.join(sorted(heavy)) or 0)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
