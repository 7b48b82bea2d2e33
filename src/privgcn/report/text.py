"""How numbers and names are written, the same in tables, charts and sentences.

>>> score(0.5), score(None), number(1e-05), setting([1, 2])
('0.500', '–', '1e-5', '1, 2')
"""

from __future__ import annotations

import math
import re
from typing import Any

from markupsafe import Markup, escape

NOTHING = "–"  # noqa: RUF001

# What neither HTML nor XML may hold: control characters but for tab and line breaks, and the
# two non-characters at the end of the basic plane.
_FORBIDDEN = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ufffe\uffff]")
_REPLACEMENT = "\ufffd"
_SPACE = re.compile("[^\\S\u00a0]+")
_MARKDOWN = re.compile(r"([\\`*_\[\]<>|~])")

Attribute = str | int | float | None


def is_number(value: Any) -> bool:
    """Whether a value is a finite number; booleans are none."""
    return (
        isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
    )


def score(value: Any) -> str:
    """A score with three decimals, or a dash where there is none."""
    return f"{value:.3f}" if is_number(value) else NOTHING


def between(ends: Any) -> str | None:
    """An interval in words; ``None`` where there is none.

    Examples:
        >>> between([0.25, 0.75])
        '0.250 to 0.750'
    """
    return None if ends is None else " to ".join(map(score, ends))


def number(value: Any) -> str:
    """A number with up to four significant digits, without a needless exponent.

    Examples:
        >>> number(136.512), number(2000), number(0.0121)
        ('136.5', '2000', '0.0121')
    """
    if not is_number(value):
        return NOTHING if value is None else str(value)
    if float(value).is_integer() and abs(value) < 1e9:
        return str(int(value))
    if 1e-3 <= abs(value) < 1e9:
        text = f"{value:.{max(0, 3 - math.floor(math.log10(abs(value))))}f}"
        return text.rstrip("0").rstrip(".") if "." in text else text
    mantissa, _, exponent = f"{value:.3g}".partition("e")
    return f"{mantissa}e{int(exponent)}" if exponent else mantissa


def setting(value: Any) -> str:
    """A setting's value as a reader expects it."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list | tuple):
        return ", ".join(map(setting, value)) or "none"
    return number(value)


def clean(text: object) -> str:
    """Text without characters that would make a page or an SVG file unreadable.

    Examples:
        >>> clean("a" + chr(0) + "b") == "a" + chr(0xFFFD) + "b"
        True
    """
    encodable = str(text).encode("utf-8", errors="replace").decode("utf-8")
    return _FORBIDDEN.sub(_REPLACEMENT, encodable)


def markdown_text(text: object) -> str:
    """Text that Markdown shows as it is, on one line; spaces that hold words together stay."""
    line = _SPACE.sub(" ", clean(text)).strip()
    return _MARKDOWN.sub(r"\\\1", line.replace("&", "&amp;"))


def element(name: str, *children: object, **attributes: Attribute) -> Markup:
    """One element with its children; text among them is cleaned and escaped.

    Attribute names are written with ``_`` for ``-``; a trailing ``_`` avoids keywords. An
    attribute that is ``None`` is left out.

    Examples:
        >>> str(element("text", "a < b", class_="tick", x=1.50))
        '<text class="tick" x="1.5">a &lt; b</text>'
    """
    written = ""
    for key, value in attributes.items():
        if value is not None:
            shown = coordinate(value) if isinstance(value, float) else clean(value)
            written += f' {key.rstrip("_").replace("_", "-")}="{escape(shown)}"'
    if not children:
        return Markup(f"<{name}{written}/>")
    return Markup(f"<{name}{written}>{joined(children)}</{name}>")


def joined(children: Any) -> Markup:
    """Several children one after the other, text among them escaped."""
    return Markup("").join(
        child if isinstance(child, Markup) else escape(clean(child)) for child in children
    )


def coordinate(value: float) -> str:
    """A number with at most two decimals, the same on every machine."""
    text = f"{value:.2f}".rstrip("0").rstrip(".")
    return "0" if text in ("-0", "") else text
