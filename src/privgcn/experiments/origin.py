"""Which code made a result: its version, a fingerprint, and the commit where there is one.

Runs are compared with each other only if the same code made them. The fingerprint covers what
decides a result. It reads the syntax of modules, so that comments, docstrings and layout do
not count, and it leaves out what only shows results.
"""

from __future__ import annotations

import ast
import hashlib
import subprocess
from functools import lru_cache
from pathlib import Path

import privgcn

_PACKAGE = Path(privgcn.__file__).parent
# Shown, named or foretold, not decided, by these; of the paper's experiments, all but the
# emulations.
_SHOWN = (
    "cli/",
    "report/",
    "experiments/paper/",
    "experiments/origin.py",
    "training/outlook.py",
    "training/outlook.toml",
)
_DECIDES = {"emulation.py", "released_mnist.py", "published.py", "published.toml"}
_DIGITS = 12


@lru_cache
def code_identity() -> str:
    """The version and the fingerprint of the code that decides results."""
    return f"{privgcn.__version__}+{fingerprint(_PACKAGE)}"


def fingerprint(package: Path) -> str:
    """A hash of the modules and tables in a package that decide what a run gives."""
    whole = hashlib.sha256()
    for path in sorted([*package.rglob("*.py"), *package.rglob("*.toml")]):
        name = path.relative_to(package).as_posix()
        if name.startswith(_SHOWN) and path.name not in _DECIDES:
            continue
        whole.update(f"{name}\n{_content(path)}\n".encode())
    return whole.hexdigest()[:_DIGITS]


def _content(path: Path) -> str:
    text = path.read_text(encoding="utf-8")
    if path.suffix != ".py":
        return text
    tree = ast.parse(text)
    for node in ast.walk(tree):
        body = getattr(node, "body", None)
        if not isinstance(body, list) or isinstance(node, ast.If | ast.For | ast.While):
            continue
        node.body = [  # type: ignore[attr-defined]
            one
            for one in body
            if not (isinstance(one, ast.Expr) and isinstance(one.value, ast.Constant))
        ]
    return _written(tree)


def _written(node: object) -> str:
    """A syntax tree in one line, the same for every version of Python.

    Newer versions know more fields, which are empty in code that older ones read too.
    """
    if isinstance(node, list):
        return f"[{','.join(map(_written, node))}]"
    if not isinstance(node, ast.AST):
        return repr(node)
    fields = ((name, value) for name, value in ast.iter_fields(node) if value not in (None, []))
    inside = ",".join(f"{name}={_written(value)}" for name, value in fields)
    return f"{type(node).__name__}({inside})"


@lru_cache
def commit() -> str | None:
    """The commit of the checkout that runs, marked where files changed; else ``None``."""
    root = _PACKAGE.parents[1]
    if not (root / ".git").exists():
        return None
    # Without the option git writes its index, and a kill would leave that locked.
    git = ["git", "--no-optional-locks", "-C", str(root)]
    command = [*git, "describe", "--always", "--dirty", "--exclude=*"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=10, check=True)
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout.strip() or None
