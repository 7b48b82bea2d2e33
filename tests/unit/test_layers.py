"""The house has rooms; a room imports only from rooms above it."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from import_graph import DRAWERS, PLACES, ROOMS, SOURCE, imported, modules, place_of

import privgcn

HEAVY = {"torch", "torch_geometric", "sklearn", "polars", "matplotlib", "transformers", "ray"}


def test_the_modules_are_those_under_test() -> None:
    assert Path(privgcn.__file__).parent == SOURCE


@pytest.mark.parametrize("name", modules())
def test_a_module_imports_only_from_rooms_above(name: str) -> None:
    """Of rooms with drawers, a drawer imports only from drawers above it."""
    place = place_of(name)
    used = {place_of(other) for other in imported(name)} - {None}
    if place is None:
        assert not used, f"a root module imports the rooms {used}"
        return
    allowed = set(PLACES[: PLACES.index(place) + 1])
    assert used <= allowed, f"{name} imports from below: {used - allowed}"


def test_every_place_has_modules() -> None:
    assert {place_of(name) for name in modules()} == {*PLACES, None}


def test_imports_by_name_lazily_and_in_texts_are_seen() -> None:
    # A lazy import inside a function, one for types only, and a module named in a text.
    assert "privgcn.runs.run" in imported("privgcn.cli.verify")
    assert "privgcn.runs.train" in imported("privgcn.cli.train")
    assert "privgcn.features.static" in imported("privgcn.features.registry")
    assert "privgcn.features.static" not in imported("privgcn.features.registry", by_text=False)


def test_no_two_modules_import_each_other() -> None:
    """Lazy imports and imports for types count: they tie two modules together all the same."""
    left = {
        name: imported(name, by_text=False)
        for name, path in modules().items()
        if path.name != "__init__.py"
    }
    while free := [name for name, used in left.items() if not used & set(left)]:
        for name in free:
            del left[name]
    while ends := [n for n in left if not any(n in used for m, used in left.items())]:
        for name in ends:
            del left[name]
    assert not left, f"these modules import each other, directly or by way of others: {left}"


def test_every_folder_is_a_room() -> None:
    folders = {path.name for path in SOURCE.iterdir() if (path / "__init__.py").exists()}
    assert folders == set(ROOMS)
    assert set(DRAWERS) <= set(ROOMS)


def test_the_command_line_starts_without_heavy_imports() -> None:
    import subprocess

    probe = "import sys, privgcn, privgcn.cli; print(*{m.split('.')[0] for m in sys.modules})"
    done = subprocess.run(
        [sys.executable, "-c", probe], capture_output=True, text=True, check=True
    )
    assert not HEAVY & set(done.stdout.split())
