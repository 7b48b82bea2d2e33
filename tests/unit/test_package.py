"""The package says truly what it is and what it needs."""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import privgcn

ROOT = Path(__file__).resolve().parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
# Where a distribution is not called as its module is.
MODULES = {"scikit-learn": "sklearn", "torch-geometric": "torch_geometric"}
# Of one system only, or said to be missing by those who need it.
ELSEWHERE = {"msvcrt", "fasttext", "opacus"}


def declared(requirements: list[str]) -> set[str]:
    names = [re.split(r"[<>=!~\[; ]", line, maxsplit=1)[0] for line in requirements]
    return {MODULES.get(name, name.replace("-", "_")) for name in names}


def imported() -> set[str]:
    found: set[str] = set()
    for path in (ROOT / "src").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Import):
                found |= {alias.name.partition(".")[0] for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
                found.add(node.module.partition(".")[0])
    return found - set(sys.stdlib_module_names) - {"privgcn"}


def test_everything_that_is_imported_is_declared() -> None:
    extras = PROJECT["optional-dependencies"]
    known = declared(PROJECT["dependencies"]).union(
        *(declared(extras[name]) for name in ("text", "cluster", "graph"))
    )
    assert imported() - known - ELSEWHERE == set()


def test_one_version_everywhere() -> None:
    citation = (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    assert PROJECT["version"] == privgcn.__version__
    assert f"\nversion: {privgcn.__version__}\n" in citation


def test_the_metadata_name_what_an_index_shows() -> None:
    assert PROJECT["authors"] == [{"name": "The privgcn authors"}]
    assert {"Repository", "Documentation", "Changelog", "Issues"} <= PROJECT["urls"].keys()
    versions = {line.rpartition(" ")[2] for line in PROJECT["classifiers"] if ":: 3.1" in line}
    assert versions == {"3.11", "3.12", "3.13"}
    assert PROJECT["requires-python"] == ">=3.11,<3.14"


def test_text_features_need_nothing_of_what_their_packages_require(tmp_path: Path) -> None:
    page = (ROOT / "docs" / "how-to" / "install.md").read_text(encoding="utf-8")
    (line,) = re.findall(r"^pip uninstall --yes (.*)$", page, flags=re.MULTILINE)
    named = {"pyyaml": "yaml"}
    modules = [named.get(name, name.replace("-", "_")) for name in line.split()]
    assert {"sentence_transformers", "transformers", "huggingface_hub"} < set(modules)
    encode = f"""
import sys
sys.modules.update(dict.fromkeys({modules}))
from privgcn.data import Corpus
from privgcn.features.registry import make_featurizer
corpus = Corpus.from_texts(["a letter", "a rash"])
for kind in ("minilm", "static"):
    rows = make_featurizer(kind, None, corpus).fit(corpus).transform(corpus)
    print(kind, len(rows))
"""
    done = subprocess.run(
        [sys.executable, "-c", encode],
        capture_output=True,
        text=True,
        env={**os.environ, "XDG_CACHE_HOME": str(tmp_path)},
    )
    assert done.stdout == "minilm 2\nstatic 2\n", done.stderr
