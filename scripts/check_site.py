"""Checks every link of a built documentation site, and that it loads nothing from elsewhere.

It sends no request.

    python scripts/check_site.py site
"""

from __future__ import annotations

import re
import sys
from collections import deque
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

_ASSETS = {"script": "src", "img": "src", "source": "src", "iframe": "src", "link": "href"}


class Page(HTMLParser):
    """The anchors of a page, its links, and the files that a browser would load."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.anchors: set[str] = set()
        self.links: list[str] = []
        self.assets: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Takes what matters of a tag."""
        values = {name: value for name, value in attrs if value is not None}
        self.anchors |= {values[name] for name in ("id", "name") if name in values}
        if tag == "a" and "href" in values:
            self.links.append(values["href"])
        wanted = _ASSETS.get(tag)
        if wanted in values and values.get("rel") != "canonical":
            self.assets.append(values[wanted])


def complaints(site: Path) -> list[str]:
    """Everything that is wrong with a site, one line each."""
    paths = sorted(site.rglob("*.html"))
    pages = {path.resolve(): Page(path.read_text(encoding="utf-8")) for path in paths}
    found = []
    if not paths:
        found.append(f"{site} has no pages")
    reached: dict[Path, set[Path]] = {}
    for path, page in pages.items():
        name = path.relative_to(site.resolve())
        if name.name == "404.html":
            # It is served for any address, so its links are absolute.
            continue
        reached[path] = set()
        for link in page.links + page.assets:
            parts = urlsplit(link)
            if parts.scheme or parts.netloc:
                if link in page.assets and parts.scheme != "data":
                    found.append(f"{name} loads {link}")
                continue
            target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            if target.is_dir():
                target /= "index.html"
            if not target.exists():
                found.append(f"{name}: there is no {link}")
                continue
            reached[path].add(target)
            anchor = unquote(parts.fragment)
            if anchor and target in pages and anchor not in pages[target].anchors:
                found.append(f"{name}: there is no place #{anchor} in {parts.path or name}")
    for path in site.rglob("*.css"):
        for link in re.findall(r"url\([\"']?(https?:[^)\"']+)", path.read_text("utf-8")):
            found.append(f"{path.relative_to(site)} loads {link}")
    return found + _out_of_reach(site.resolve(), reached)


def _out_of_reach(site: Path, reached: dict[Path, set[Path]]) -> list[str]:
    """Pages that no way of links leads to from the first page."""
    seen, queue = {site / "index.html"}, deque([site / "index.html"])
    while queue:
        for target in reached.get(queue.popleft(), set()) - seen:
            seen.add(target)
            queue.append(target)
    return [
        f"no page leads to {path.relative_to(site)}; name it in mkdocs.yml"
        for path in sorted(reached)
        if path not in seen
    ]


def main() -> None:
    site = Path(sys.argv[1])
    found = complaints(site)
    for line in found:
        print(line, file=sys.stderr)
    if found:
        sys.exit(1)
    print(f"{site}: {len(list(site.rglob('*.html')))} pages, every link leads somewhere.")


if __name__ == "__main__":
    main()
