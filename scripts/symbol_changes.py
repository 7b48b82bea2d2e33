"""Changes of a named symbol of the package, by which a mutation plants its defect.

A symbol is a qualified name, such as ``noisy_mean`` or ``RandomSource.secret``. Where two
modules define it, one of them is named: ``prediction.inference:MODES``. A change describes
syntax trees, never lines, so moving or reformatting code breaks none. A change that no longer
applies raises.
"""

from __future__ import annotations

import ast
import copy
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

_ANY = "any_"
_NOT_COMPARED = ("ctx", "kind", "type_comment")


@dataclass(frozen=True)
class Mutation:
    """A defect, and the tests of which at least one must fail with it."""

    name: str
    tests: tuple[str, ...]
    changes: tuple[Change, ...]


def mutation(name: str, tests: str | tuple[str, ...], *changes: Change) -> Mutation:
    """A mutation of one or more changes that one or more tests must notice."""
    return Mutation(name, (tests,) if isinstance(tests, str) else tests, changes)


@dataclass(frozen=True)
class Swap:
    """One expression, or some statements in a row, in place of others.

    Attributes:
        symbol: Where to look.
        old: What must be there exactly once. A name that begins with ``any_`` stands for
            any expression, and for the same one wherever it occurs.
        new: What takes its place.
    """

    symbol: str
    old: str
    new: str

    def applied(self, node: ast.stmt) -> list[ast.stmt]:
        """The changed definition."""
        old, new = _statements(self.old), _statements(self.new)
        one, other = _expression(old), _expression(new)
        whole = ast.Module([node], [])
        if one is not None and other is not None:
            finder = _ExpressionSwap(one, other)
            finder.visit(whole)
            found = finder.found
        else:
            found = _swap_statements(whole, old, new)
        if found != 1:
            raise ValueError(f"{self.symbol} must hold exactly once: {self.old}. Got {found}.")
        return whole.body


@dataclass(frozen=True)
class Behave:
    """Another definition of a function or method, which may call the original.

    Attributes:
        symbol: What is defined anew.
        new: The source of the new definition, with the same parameters (or ``*args``). What
            was there before is called ``original_NAME``, without leading underscores.
    """

    symbol: str
    new: str

    def applied(self, node: ast.stmt) -> list[ast.stmt]:
        """The old definition under another name, and the new one."""
        (new,) = _statements(self.new)
        if not isinstance(node, ast.FunctionDef) or not isinstance(new, ast.FunctionDef):
            raise ValueError(f"{self.symbol} must be a function, before and after.")
        if node.name != new.name or not _takes(new.args, node.args):
            raise ValueError(f"{self.symbol} must keep its name and parameters.")
        node.name = f"original_{node.name.strip('_')}"
        return [node, new]


Change = Swap | Behave


# As the lists of mutations call them.
swap, behave = Swap, Behave


def drop(symbol: str, old: str) -> Swap:
    """Takes statements out."""
    return Swap(symbol, old, "pass")


@dataclass(frozen=True)
class Package:
    """The source of a package, in which symbols are found by name."""

    folder: Path

    def changed(self, changes: tuple[Change, ...]) -> dict[str, str]:
        """The text of every file that some change touches, by its path in the folder.

        Raises:
            ValueError: A symbol is missing or not unique, or a change does not apply.
        """
        trees: dict[str, ast.Module] = {}
        for change in changes:
            file = self._file_of(change.symbol)
            tree = trees.setdefault(file, ast.parse(self._texts[file]))
            name = change.symbol.rpartition(":")[2]
            body, node = next(
                (b, n) for found, b, n in _definitions(tree.body) if found == name
            )
            place = body.index(node)
            body[place : place + 1] = change.applied(node)
        return {
            file: ast.unparse(ast.fix_missing_locations(tree)) for file, tree in trees.items()
        }

    def _file_of(self, symbol: str) -> str:
        module, _, name = symbol.rpartition(":")
        place = "/" + module.replace(".", "/") + ".py"
        found = [
            file
            for file in self._homes.get(name, [])
            if not module or f"/{file}".endswith(place)
        ]
        if len(found) != 1:
            raise ValueError(f"There must be exactly one {symbol}. Got it in {found}.")
        return found[0]

    @cached_property
    def _texts(self) -> dict[str, str]:
        paths = sorted(self.folder.rglob("*.py"))
        return {str(p.relative_to(self.folder)): p.read_text(encoding="utf-8") for p in paths}

    @cached_property
    def _homes(self) -> dict[str, list[str]]:
        """The files that define each qualified name."""
        homes: dict[str, list[str]] = {}
        for file, text in self._texts.items():
            for name, _, _ in _definitions(ast.parse(text).body):
                homes.setdefault(name, []).append(file)
        return homes


def _definitions(
    body: list[ast.stmt], within: str = ""
) -> Iterator[tuple[str, list[ast.stmt], ast.stmt]]:
    """Every name that a module or its classes define, and where; signatures define none."""
    for node in body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef) and not _is_signature(node):
            yield within + node.name, body, node
        if isinstance(node, ast.ClassDef):
            yield from _definitions(node.body, f"{within}{node.name}.")
        targets = node.targets if isinstance(node, ast.Assign) else []
        targets = [node.target] if isinstance(node, ast.AnnAssign) else targets
        for target in targets:
            if isinstance(target, ast.Name):
                yield within + target.id, body, node


def _is_signature(node: ast.FunctionDef | ast.ClassDef) -> bool:
    return any(ast.unparse(decorator) == "overload" for decorator in node.decorator_list)


def _statements(text: str) -> list[ast.stmt]:
    return ast.parse(textwrap.dedent(text).strip()).body


def _expression(statements: list[ast.stmt]) -> ast.expr | None:
    only = statements[0]
    return only.value if len(statements) == 1 and isinstance(only, ast.Expr) else None


def _takes(new: ast.arguments, old: ast.arguments) -> bool:
    def names(given: ast.arguments) -> list[str]:
        return [one.arg for one in (*given.posonlyargs, *given.args, *given.kwonlyargs)]

    return new.vararg is not None or names(new) == names(old)


class _ExpressionSwap(ast.NodeTransformer):
    """Replaces every expression that looks like ``old``, and counts."""

    def __init__(self, old: ast.expr, new: ast.expr) -> None:
        self.old, self.new, self.found = old, new, 0

    def visit(self, node: ast.AST) -> ast.AST:
        meant: dict[str, ast.AST] = {}
        if isinstance(node, ast.expr) and _alike(self.old, node, meant):
            self.found += 1
            return _filled(self.new, meant)
        return self.generic_visit(node)


def _swap_statements(root: ast.AST, old: list[ast.stmt], new: list[ast.stmt]) -> int:
    """Replaces a run of statements that looks like ``old``, and counts such runs."""
    found = []
    bodies = [body for node in ast.walk(root) for _, body in ast.iter_fields(node)]
    for body in bodies:
        for place in range(len(body) - len(old) + 1 if isinstance(body, list) else 0):
            meant: dict[str, ast.AST] = {}
            if _alike(old, body[place : place + len(old)], meant):
                found.append((body, place, meant))
    for body, place, meant in found[:1]:
        body[place : place + len(old)] = [_filled(line, meant) for line in new]
    return len(found)


def _alike(pattern: object, found: object, meant: dict[str, ast.AST]) -> bool:
    """Whether a tree looks like a pattern; notes what stands for ``any_`` names."""
    if isinstance(pattern, ast.Name) and pattern.id.startswith(_ANY):
        if not isinstance(found, ast.expr):
            return False
        known = meant.setdefault(pattern.id, found)
        return ast.dump(known) == ast.dump(found)
    if isinstance(pattern, list):
        return (
            isinstance(found, list)
            and len(pattern) == len(found)
            and all(_alike(*pair, meant) for pair in zip(pattern, found, strict=True))
        )
    if isinstance(pattern, ast.AST):
        return type(pattern) is type(found) and all(
            _alike(getattr(pattern, name, None), getattr(found, name, None), meant)
            for name in pattern._fields
            if name not in _NOT_COMPARED
        )
    return type(pattern) is type(found) and pattern == found


class _Filling(ast.NodeTransformer):
    def __init__(self, meant: dict[str, ast.AST]) -> None:
        self.meant = meant

    def visit_Name(self, node: ast.Name) -> ast.AST:
        return copy.deepcopy(self.meant.get(node.id, node))


def _filled(pattern: ast.AST, meant: dict[str, ast.AST]) -> ast.AST:
    """The pattern with every ``any_`` name replaced by what it stands for."""
    filled: ast.AST = _Filling(meant).visit(copy.deepcopy(pattern))
    return filled
