"""Writes markup that user text cannot break: all of it is cleaned and escaped on the way."""

from __future__ import annotations

import re

from markupsafe import Markup, escape

# What neither HTML nor XML may hold: control characters but for tab and line breaks, and
# the two non-characters at the end of the basic plane.
_FORBIDDEN = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ufffe\uffff]")
_REPLACEMENT = "\ufffd"

Attribute = str | int | float | bool | None


def clean(text: object) -> str:
    """Text without characters that would make a page or an SVG file unreadable.

    Examples:
        >>> clean("a" + chr(0) + "b") == "a" + chr(0xFFFD) + "b"
        True
    """
    whole = str(text).encode("utf-8", errors="replace").decode("utf-8")
    return _FORBIDDEN.sub(_REPLACEMENT, whole)


def finalize(value: object) -> object:
    """Cleans what a template prints; markup made by this package passes unchanged."""
    if isinstance(value, Markup) or not isinstance(value, str):
        return value
    return clean(value)


def element(name: str, *children: object, **attributes: Attribute) -> Markup:
    """One element with its children; text among them is escaped.

    Attribute names are written with ``_`` for ``-``; a trailing ``_`` avoids keywords. An
    attribute that is ``None`` or ``False`` is left out.

    Examples:
        >>> str(element("text", "a < b", class_="tick", x=1.50))
        '<text class="tick" x="1.5">a &lt; b</text>'
    """
    written = "".join(
        f' {_attribute_name(key)}="{escape(_attribute_value(value))}"'
        for key, value in attributes.items()
        if value is not None and value is not False
    )
    if not children:
        return Markup(f"<{name}{written}/>")
    return Markup(f"<{name}{written}>{_joined(children)}</{name}>")


def joined(children: object) -> Markup:
    """Several children one after the other, text among them escaped."""
    return _joined(tuple(children) if isinstance(children, list | tuple) else (children,))


def _joined(children: tuple[object, ...]) -> Markup:
    return Markup("").join(
        child if isinstance(child, Markup) else escape(clean(child)) for child in children
    )


def _attribute_name(key: str) -> str:
    # SVG spells a few attributes in camel case; those pass as they are.
    return key.rstrip("_").replace("_", "-")


def _attribute_value(value: Attribute) -> str:
    if value is True:
        return "true"
    if isinstance(value, float):
        return coordinate(value)
    return clean(value)


def coordinate(value: float) -> str:
    """A number with at most two decimals, the same on every machine."""
    text = f"{value:.2f}".rstrip("0").rstrip(".")
    return "0" if text in ("-0", "") else text
