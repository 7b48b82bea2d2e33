"""The rooms of the package, their order, and a picture of the imports between them.

    python scripts/import_graph.py          # writes docs/figures/rooms.svg

The order is stated here and nowhere else in code: ``tests/unit/test_layers.py`` checks the
imports against it, and ``tests/unit/test_architecture.py`` that picture and pages are current.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
SOURCE = ROOT / "src" / "privgcn"
PICTURE = ROOT / "docs" / "figures" / "rooms.svg"

ROOMS = (
    "data",
    "features",
    "graph",
    "models",
    "privacy",
    "training",
    "prediction",
    "evaluation",
    "runs",
    "evidence",
    "report",
    "experiments",
    "cli",
)
"""A room imports only from itself and from rooms before it."""

DRAWERS = {
    "privacy": ("checks", "accounting", "claim", "mechanism"),
    "experiments": ("engine", "paper"),
}
"""Drawers of a room, in the same order. Most are named after a folder or a module."""

_REST = {"privacy": "claim", "experiments": "engine"}
"""The drawer of the modules that lie in the room itself."""

PLACES = tuple(
    f"{room}/{drawer}" if drawer else room
    for room in ROOMS
    for drawer in DRAWERS.get(room, ("",))
)
"""Rooms and drawers in one order."""


def module_name(path: Path) -> str:
    """The dotted name of a file below ``src``."""
    parts = path.relative_to(SOURCE.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


@cache
def modules() -> Mapping[str, Path]:
    """Every module of the package and its file."""
    return {module_name(path): path for path in sorted(SOURCE.rglob("*.py"))}


def root_modules() -> list[str]:
    """Modules that lie in no room and import none; every room may import them."""
    return [path.stem for path in sorted(SOURCE.glob("*.py")) if not path.stem.startswith("_")]


def place_of(name: str) -> str | None:
    """Room and drawer of a module; ``None`` for root modules.

    Examples:
        >>> place_of("privgcn.privacy.accounting.renyi"), place_of("privgcn.runs.train")
        ('privacy/accounting', 'runs')
    """
    _, room, inner = [*name.split("."), "", ""][:3]
    if room == "__main__":
        # ``python -m privgcn`` is another way to the command line.
        return "cli"
    if room not in ROOMS:
        return None
    if room not in DRAWERS:
        return room
    return f"{room}/{inner if inner in DRAWERS[room] else _REST[room]}"


def imported(name: str, *, by_text: bool = True) -> set[str]:
    """Modules of the package that a module imports: lazily, for types or openly.

    Args:
        name: The module.
        by_text: Whether a text that is a module's name counts, as registries have them. The
            package itself names its public objects so, and imports no room.
    """
    known, found = modules(), set()
    for node in ast.walk(ast.parse(known[name].read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            if node.level:
                raise ValueError(f"{name} has a relative import")
            inner = {f"{node.module}.{alias.name}" for alias in node.names}
            found |= inner & known.keys()
            if inner - known.keys():
                found.add(str(node.module))
        elif by_text and isinstance(node, ast.Constant) and isinstance(node.value, str):
            found |= {node.value} - {"privgcn"} if name != "privgcn" else set()
    return (found & known.keys()) - {name}


def links() -> set[tuple[str, str]]:
    """Pairs of places of which the first imports the second."""
    pairs = {
        (place_of(name), place_of(other)) for name in modules() for other in imported(name)
    }
    return {(one, other) for one, other in pairs if one and other and one != other}


_STEP_X, _STEP_Y, _WIDE, _HIGH, _TOP, _EDGE = 52, 44, 112, 28, 96, 24
_STYLE = """
  text { font: 13px system-ui, sans-serif; fill: #1c2128; }
  .note { font-size: 12px; fill: #565d67; }
  .box { fill: #fff; stroke: #00578a; stroke-width: 1.2; }
  .room { fill: #e9f2f8; stroke: none; }
  .rail { stroke: #9aa5b1; stroke-width: 1; fill: none; }
  .dot, .head { fill: #00578a; }
  @media (prefers-color-scheme: dark) {
    text { fill: #e8eaed; } .note { fill: #a9b1bb; }
    .box { fill: #1b1f25; stroke: #7cc0ee; } .room { fill: #162531; }
    .rail { stroke: #6b7582; } .dot, .head { fill: #7cc0ee; }
  }
"""


def picture() -> str:
    """The imports between rooms as SVG: boxes down a diagonal, every arrow upwards."""
    found = links()
    against = [pair for pair in found if PLACES.index(pair[0]) < PLACES.index(pair[1])]
    if against:
        raise ValueError(f"these imports go against the order of the rooms: {sorted(against)}")
    spots = {
        place: (_EDGE + _STEP_X * number, _TOP + _STEP_Y * number)
        for number, place in enumerate(PLACES)
    }
    last_x, last_y = spots[PLACES[-1]]
    wide, high = last_x + _WIDE + 2 * _EDGE, last_y + _HIGH + _EDGE
    shapes = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {wide} {high}" role="img"'
        ' aria-labelledby="title">',
        '<title id="title">The rooms of privgcn and the imports between them</title>',
        f"<style>{_STYLE}</style>",
    ]
    for room, drawers in DRAWERS.items():
        left, top = spots[f"{room}/{drawers[0]}"]
        right, bottom = spots[f"{room}/{drawers[-1]}"]
        size = f'width="{right - left + _WIDE + 16}" height="{bottom - top + _HIGH + 16}"'
        shapes.append(
            f'<rect class="room" x="{left - 8}" y="{top - 8}" {size} rx="8"/>'
            f'<text class="note" x="{right + _WIDE + 14}" y="{top + 6}">{room}</text>'
        )
    for place, (x, y) in spots.items():
        rail, middle = x + _STEP_X // 2, y + _HIGH // 2
        users = [one for one, other in found if other == place]
        used = [other for one, other in found if one == place]
        if users:
            end = max(spots[user][1] for user in users) + _HIGH // 2
            below = y + _HIGH
            shapes.append(
                f'<path class="rail" d="M{rail} {end}V{below + 7}"/><path class="head" '
                f'd="M{rail - 4} {below + 8}h8l-4 -8z"/>'
            )
        if used:
            start = min(spots[other][0] for other in used) + _STEP_X // 2
            shapes.append(f'<path class="rail" d="M{x} {middle}H{start}"/>')
    for one, other in sorted(found, key=lambda pair: [PLACES.index(place) for place in pair]):
        x, y = spots[other][0] + _STEP_X // 2, spots[one][1] + _HIGH // 2
        shapes.append(
            f'<circle class="dot" cx="{x}" cy="{y}" r="4"><title>{one} imports {other}'
            "</title></circle>"
        )
    for place, (x, y) in spots.items():
        shapes.append(
            f'<rect class="box" x="{x}" y="{y}" width="{_WIDE}" height="{_HIGH}" rx="4"/>'
            f'<text x="{x + _WIDE // 2}" y="{y + 19}" text-anchor="middle">'
            f"{place.split('/')[-1]}</text>"
        )
    shapes.append(
        f'<text x="{_EDGE}" y="34">A dot: the room to its right imports the room above it.'
        f'</text><text class="note" x="{_EDGE}" y="56">Every room may import the root modules '
        f"{', '.join(root_modules())}; these import no room.</text></svg>"
    )
    return "\n".join(shapes) + "\n"


if __name__ == "__main__":
    PICTURE.parent.mkdir(exist_ok=True)
    PICTURE.write_text(picture(), encoding="utf-8")
