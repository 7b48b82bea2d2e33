"""How numbers and names are written, the same in tables, charts and pages."""

from __future__ import annotations

import json
import math
import re
from functools import cache
from typing import TYPE_CHECKING, Any

from privgcn import __version__

if TYPE_CHECKING:
    from jinja2 import Environment

NOTHING = "–"  # noqa: RUF001

# What neither HTML nor XML may hold: control characters but for tab and line breaks, and the
# two non-characters at the end of the basic plane.
_FORBIDDEN = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ufffe\uffff]")
_SPACE = re.compile("[^\\S\u00a0]+")
_MARKDOWN = re.compile(r"([\\`*_\[\]<>|~])")


def score(value: float | None) -> str:
    """A score with three decimals, or a dash where there is none."""
    return NOTHING if value is None or not math.isfinite(value) else f"{value:.3f}"


def between(ends: Any) -> str | None:
    """An interval in words; ``None`` where there is none."""
    return None if ends is None else " to ".join(map(score, ends))


def number(value: Any) -> str:
    """A number with up to four significant digits and no needless exponent; else the text."""
    if not isinstance(value, float):
        return NOTHING if value is None else str(value)
    if value.is_integer() and abs(value) < 1e9:
        return str(int(value))
    return re.sub(r"e\+?(-?)0*", r"e\1", f"{value:.4g}")


def clean(text: object) -> str:
    """Text without characters that would make a page or an SVG file unreadable."""
    return _FORBIDDEN.sub("\ufffd", str(text).encode("utf-8", "replace").decode("utf-8"))


def markdown_text(text: object) -> str:
    """Text that Markdown shows as it is, on one line; spaces that hold words together stay."""
    line = _SPACE.sub(" ", clean(text)).strip()
    return _MARKDOWN.sub(r"\\\1", line.replace("&", "&amp;"))


def shortened(text: object, characters: int = 40) -> str:
    """The text on one line, cut with an ellipsis where it would be longer."""
    line = " ".join(clean(text).split())
    return line if len(line) <= characters else line[: characters - 1].rstrip() + "…"


def rendered(template: str, **values: Any) -> str:
    """A template of this package, in which all but markup of our own is escaped."""
    return _environment().get_template(template).render(**values)


@cache
def _environment() -> Environment:
    # Numbers are also written where no page is made.
    from jinja2 import Environment, PackageLoader, StrictUndefined
    from markupsafe import Markup

    from privgcn.privacy.wording import round_up

    made = Environment(
        loader=PackageLoader("privgcn.report"),
        autoescape=lambda name: not str(name).endswith((".md", ".yaml")),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        finalize=lambda value: value if isinstance(value, Markup) else clean(value),
    )
    made.globals["version"] = __version__
    made.filters |= {
        "md": markdown_text,
        "number": number,
        "round_up": round_up,
        "score": score,
        "shortened": shortened,
        # JSON's escapes are YAML's.
        "yaml": lambda text: json.dumps(clean(text), ensure_ascii=False),
    }
    return made
