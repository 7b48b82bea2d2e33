"""Pages of the documentation site that are made when it is built; a hook of MkDocs.

The changelog and the guide for contributors lie in the root of the repository, where people
look for them, and the list of decisions follows from their files. ``mkdocs.yml`` names this
module.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files

ROOT = Path(__file__).resolve().parents[1]
DECISIONS = ROOT / "docs" / "decisions"


def decisions() -> str:
    """All decision records by title."""
    lines = ["# Decisions", "", "What was decided, why, and what it costs; one page each.", ""]
    for path in sorted(DECISIONS.glob("0*.md")):
        title = path.read_text(encoding="utf-8").splitlines()[0].removeprefix("# ")
        lines.append(f"- [{title}]({path.name})")
    return "\n".join(lines) + "\n"


def from_root(name: str) -> str:
    """A page of the root folder; its links lead into the site."""
    return (ROOT / name).read_text(encoding="utf-8").replace("](docs/", "](")


def on_files(files: Files, *, config: Any) -> Files:
    """Adds the pages before links are looked at."""
    for place, content in (
        ("changelog.md", from_root("CHANGELOG.md")),
        ("contributing.md", from_root("CONTRIBUTING.md")),
        ("decisions/index.md", decisions()),
    ):
        files.append(File.generated(config, place, content=content))
    return files


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Leads links to where their pages are.

    A folder is replaced by the page that lists it. Source and tests are not part of the site:
    their names stay, without a link.
    """
    markdown = re.sub(r"\[([^][]*)\]\(\.\./(?:src|tests)/[^)]*\)", r"\1", markdown)
    return markdown.replace("](decisions)", "](decisions/index.md)")
