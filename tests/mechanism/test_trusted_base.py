"""The trusted base is small, and nobody else reaches into it."""

import ast
import subprocess
import sys
from pathlib import Path

import privgcn

ROOT = Path(privgcn.__file__).parents[1]
INSIDE = ROOT / "privgcn" / "mechanism"
# What holds documents is used through the package alone; numbers, noise and ranks hold none.
SHUT = {f"privgcn.mechanism.{name}" for name in ("groups", "questions", "session")}
SHUT.add("privgcn.mechanism.module_gradient")
# Where private rows, labels and groups are, and what a session holds.
PRIVATE = {"private", "of_labelled", "of_all", "per_group", "clipped_sum", "_groups", "_whole"}


def outside():
    for path in ROOT.rglob("*.py"):
        if INSIDE not in path.parents:
            yield path, ast.parse(path.read_text())


def test_the_base_is_at_most_900_lines():
    lines = {path.name: len(path.read_text().splitlines()) for path in INSIDE.glob("*.py")}
    assert sum(lines.values()) <= 900, lines


def test_no_other_package_imports_what_holds_documents():
    for path, tree in outside():
        for node in ast.walk(tree):
            if not isinstance(node, ast.Import | ast.ImportFrom):
                continue
            names = [alias.name for alias in node.names]
            if isinstance(node, ast.ImportFrom):
                names = [str(node.module), *(f"{node.module}.{name}" for name in names)]
            assert not SHUT.intersection(names), (path, names)


def test_no_other_package_reads_private_rows():
    for path, tree in outside():
        for node in ast.walk(tree):
            if isinstance(node, ast.Attribute):
                assert node.attr not in PRIVATE, (path, node.lineno, node.attr)


def test_the_linear_path_needs_no_torch():
    code = (
        "import sys, privgcn.mechanism as m; m.Session, m.Ranks.of_environment();"
        "assert 'torch' not in sys.modules; m.ModuleGradient; assert 'torch' in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
