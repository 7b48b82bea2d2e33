"""Pages of the documentation site that are made when it is built; a hook of MkDocs.

The changelog and the guide for contributors lie in the root of the repository, where people
look for them, and the list of decisions follows from their files. Every tutorial is also there
as a notebook. ``mkdocs.yml`` names this module.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files

ROOT = Path(__file__).resolve().parents[1]
DECISIONS = ROOT / "docs" / "decisions"
TUTORIALS = ROOT / "docs" / "tutorials"


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


def notebook(text: str) -> str:
    """A tutorial as a notebook: what its test executes are cells of code."""
    cells = []
    for part in re.split(
        r"(^```(?:python|sh)\n.*?^```\n?)", text, flags=re.MULTILINE | re.DOTALL
    ):
        block = re.fullmatch(r"```(python|sh)\n(.*?)\n```\n?", part, flags=re.DOTALL)
        if block is None:
            if part.strip():
                cells.append({"cell_type": "markdown", "metadata": {}, "source": part.strip()})
            continue
        kind, source = block.groups()
        if kind == "sh":
            source = re.sub("^", "!", source, flags=re.MULTILINE)
        code = {"execution_count": None, "outputs": [], "source": source}
        cells.append({"cell_type": "code", "metadata": {}, **code})
    for number, cell in enumerate(cells):
        cell["id"] = f"cell-{number}"
    kernel = {"display_name": "Python 3", "language": "python", "name": "python3"}
    book = {"cells": cells, "metadata": {"kernelspec": kernel}, "nbformat": 4}
    return json.dumps({**book, "nbformat_minor": 5}, indent=1, ensure_ascii=False) + "\n"


def on_files(files: Files, *, config: Any) -> Files:
    """Adds the pages before links are looked at."""
    for place, content in (
        ("changelog.md", from_root("CHANGELOG.md")),
        ("contributing.md", from_root("CONTRIBUTING.md")),
        ("decisions/index.md", decisions()),
        *(
            (f"tutorials/{path.stem}.ipynb", notebook(path.read_text(encoding="utf-8")))
            for path in sorted(TUTORIALS.glob("*.md"))
        ),
    ):
        files.append(File.generated(config, place, content=content))
    return files


def on_page_markdown(markdown: str, *, page: Any, **_: Any) -> str:
    """Adds the notebook of a tutorial, and leads links to where their pages are.

    A folder is replaced by the page that lists it. Source and tests are not part of the site:
    their names stay, without a link.
    """
    source = Path(page.file.src_uri)
    if source.parts[0] == "tutorials":
        link = f"[Download this page as a notebook]({source.stem}.ipynb)."
        markdown += f"\n\n---\n\n{link} Tests execute its code from top to bottom.\n"
    markdown = re.sub(r"\[([^][]*)\]\(\.\./(?:src|tests)/[^)]*\)", r"\1", markdown)
    return markdown.replace("](decisions)", "](decisions/index.md)")
