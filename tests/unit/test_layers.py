"""The house has rooms; a room imports only from rooms above it."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

import privgcn

ROOMS = (
    "corpus",
    "features",
    "graph",
    "models",
    "privacy",
    "training",
    "prediction",
    "evaluation",
    "runs",
    "report",
    "experiments",
    "cli",
)
#: Of the privacy room; ``claim`` are the modules that lie in the room itself.
DRAWERS = ("accounting", "claim", "mechanism")
SOURCE = Path(privgcn.__file__).parent
MODULES = sorted(SOURCE.rglob("*.py"))
HEAVY = {"torch", "torch_geometric", "sklearn", "polars", "matplotlib", "transformers", "ray"}


def imported_names(path: Path) -> set[str]:
    names: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import"
            names |= {str(node.module)}
            names |= {f"{node.module}.{alias.name}" for alias in node.names}
    return names


def room_of(path: Path) -> str | None:
    first = path.relative_to(SOURCE).parts[0]
    if first == "__main__.py":
        # ``python -m privgcn`` is a door to the command line.
        return "cli"
    return first if first in ROOMS else None


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(SOURCE)))
def test_a_module_imports_only_from_rooms_above(path: Path) -> None:
    room = room_of(path)
    used = {
        name.split(".")[1]
        for name in imported_names(path)
        if name.startswith("privgcn.") and name.split(".")[1] in ROOMS
    }
    if room is None:
        assert not used, f"a root module imports the rooms {used}"
        return
    allowed = set(ROOMS[: ROOMS.index(room) + 1])
    assert used <= allowed, f"{room} imports from rooms below it: {used - allowed}"


def drawer_of(name: str) -> str | None:
    """The drawer of the privacy room that a module lies in; range checks are shared by all."""
    if not name.startswith("privgcn.privacy.") or name.startswith("privgcn.privacy.checks"):
        return None
    second = name.split(".")[2]
    return second if second in DRAWERS else "claim"


def test_the_drawers_of_the_privacy_room_are_in_one_direction() -> None:
    seen = set()
    for path in (SOURCE / "privacy").rglob("*.py"):
        drawer = drawer_of(module_name(path))
        if drawer is None:
            assert path.parent.name == "privacy"
            continue
        seen.add(drawer)
        used = {drawer_of(name) for name in imported_names(path)} - {None}
        allowed = set(DRAWERS[: DRAWERS.index(drawer) + 1])
        assert used <= allowed, f"{path.name} of {drawer} imports from {used - allowed}"
    assert seen == set(DRAWERS)


def module_name(path: Path) -> str:
    parts = path.relative_to(SOURCE.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def test_no_two_modules_import_each_other() -> None:
    """Lazy imports and imports for types count: they tie two modules together all the same."""
    names = {module_name(path) for path in MODULES}
    imports = {
        module_name(path): (imported_names(path) & names) - {module_name(path)}
        for path in MODULES
        if path.name != "__init__.py"
    }
    left = dict(imports)
    while free := [name for name, used in left.items() if not used & set(left)]:
        for name in free:
            del left[name]
    while ends := [n for n in left if not any(n in used for m, used in left.items())]:
        for name in ends:
            del left[name]
    assert not left, f"these modules import each other, directly or by way of others: {left}"


def test_every_folder_is_a_room() -> None:
    folders = {path.name for path in SOURCE.iterdir() if (path / "__init__.py").exists()}
    assert folders <= set(ROOMS)


def test_the_command_line_starts_without_heavy_imports() -> None:
    import subprocess
    import sys

    probe = "import sys, privgcn, privgcn.cli; print(*{m.split('.')[0] for m in sys.modules})"
    done = subprocess.run(
        [sys.executable, "-c", probe], capture_output=True, text=True, check=True
    )
    assert not HEAVY & set(done.stdout.split())
