"""How numbers and names are written, the same in tables, charts and pages.

>>> score(0.5), score(None), number(1e-05), setting([1, 2])
('0.500', '–', '1e-5', '1, 2')
"""

from __future__ import annotations

import json
import math
import re
from functools import cache
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from jinja2 import Environment

NOTHING = "–"  # noqa: RUF001

# What neither HTML nor XML may hold: control characters but for tab and line breaks, and the
# two non-characters at the end of the basic plane.
_FORBIDDEN = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ufffe\uffff]")
_REPLACEMENT = "\ufffd"
_SPACE = re.compile("[^\\S\u00a0]+")
_MARKDOWN = re.compile(r"([\\`*_\[\]<>|~])")


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


def yaml_scalar(value: str | float) -> str:
    """A text or a number as YAML has it; every text is quoted.

    Examples:
        >>> print(yaml_scalar("a: b"), yaml_scalar(1e-05))
        "a: b" 1.0e-05
    """
    if isinstance(value, str):
        # JSON's escapes are YAML's; what cannot be printed is in neither.
        valid = value.encode("utf-8", "replace").decode("utf-8")
        text = "\n".join(clean(line) for line in valid.splitlines())
        return json.dumps(text, ensure_ascii=False)
    mantissa, separator, exponent = repr(value).partition("e")
    # YAML takes 1e-05 for a text, and 1.0e-05 for a number.
    return f"{mantissa}{'' if '.' in mantissa else '.0'}e{exponent}" if separator else mantissa


def shortened(text: object, characters: int = 40) -> str:
    """The text on one line, cut with an ellipsis where it would be longer."""
    line = " ".join(clean(text).split())
    return line if len(line) <= characters else line[: characters - 1].rstrip() + "…"


def rendered(template: str, **values: Any) -> str:
    """A template of this package, in which all but markup of our own is escaped."""
    return str(_environment().get_template(template).render(**values))


@cache
def _environment() -> Environment:
    # Numbers are also written where no page is made.
    from jinja2 import Environment, PackageLoader, StrictUndefined
    from markupsafe import Markup

    made = Environment(
        loader=PackageLoader("privgcn.report"),
        autoescape=lambda name: not str(name).endswith((".md", ".yaml")),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        finalize=lambda value: value if isinstance(value, Markup) else clean(value),
    )
    made.filters |= {
        "md": markdown_text,
        "number": number,
        "score": score,
        "shortened": shortened,
        "yaml": yaml_scalar,
    }
    return made
