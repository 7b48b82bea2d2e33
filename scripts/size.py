"""How large the project is, by package: modules, lines, lines of code and functions.

    python scripts/size.py

The trusted base, ``privgcn/mechanism``, is held to its limit: more lines than that fail.
"""

from __future__ import annotations

import ast
import io
import sys
import tokenize
from collections import defaultdict
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parent.parent
TRUSTED, LIMIT = "src/privgcn/mechanism", 900
_NO_CODE = {tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT}


class Size(NamedTuple):
    """Of a module, or of many."""

    modules: int
    lines: int
    code: int
    functions: int


def size_of(path: Path) -> Size:
    """The size of one module; code is what is no docstring, comment or blank line."""
    text = path.read_text(encoding="utf-8")
    tree = ast.parse(text)
    kinds = (ast.FunctionDef, ast.AsyncFunctionDef)
    functions = sum(isinstance(node, kinds) for node in ast.walk(tree))
    code: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type not in _NO_CODE:
            code.update(range(token.start[0], token.end[0] + 1))
    for node in ast.walk(tree):
        value = node.value if isinstance(node, ast.Expr) else None
        if isinstance(value, ast.Constant) and isinstance(value.value, str):
            code -= set(range(value.lineno, (value.end_lineno or value.lineno) + 1))
    lines = text.count("\n")
    return Size(1, lines, len([line for line in code if line <= lines]), functions)


def main() -> int:
    sizes: dict[str, list[Size]] = defaultdict(list)
    for folder in ("src", "tests", "scripts", "benchmarks"):
        for path in sorted((ROOT / folder).rglob("*.py")):
            parts = path.relative_to(ROOT).parts
            package = "/".join(parts[: min(3, len(parts) - 1)]) if folder == "src" else folder
            sizes[package].append(size_of(path))
    rows = {name: Size(*map(sum, zip(*found, strict=True))) for name, found in sizes.items()}
    for name in ("src/privgcn", "src/privgcn_paper", "src"):
        inner = [
            size for key in sizes for size in sizes[key] if f"{key}/".startswith(f"{name}/")
        ]
        if inner:
            rows[f"{name} in all"] = Size(*map(sum, zip(*inner, strict=True)))
    print(f"{'package':34}{'modules':>8}{'lines':>8}{'code':>8}{'functions':>11}")
    for name, row in rows.items():
        print(f"{name:34}{row.modules:8}{row.lines:8}{row.code:8}{row.functions:11}")
    words = sum(len(page.read_text("utf-8").split()) for page in ROOT.glob("docs/**/*.md"))
    print(f"docs: {words:,} words")
    trusted = rows.get(TRUSTED, Size(0, 0, 0, 0)).lines
    if trusted > LIMIT:
        print(f"{TRUSTED} must have at most {LIMIT} lines. It has {trusted}.", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
