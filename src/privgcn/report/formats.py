"""How numbers and names are written, the same in tables, figures and sentences."""

from __future__ import annotations

import math
from typing import Any

NOTHING = "–"  # noqa: RUF001


def is_number(value: Any) -> bool:
    """Whether a value is a finite number; booleans are none."""
    return (
        isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
    )


def score(value: Any) -> str:
    """A score with three decimals, or a dash where there is none.

    Examples:
        >>> score(0.5), score(None), score(float("nan"))
        ('0.500', '–', '–')
    """
    return f"{value:.3f}" if is_number(value) else NOTHING


def number(value: Any) -> str:
    """A number with up to four significant digits, without a needless exponent.

    Examples:
        >>> number(136.512), number(1e-05), number(2000), number(0.0121)
        ('136.5', '1e-5', '2000', '0.0121')
    """
    if not is_number(value):
        return NOTHING if value is None else str(value)
    if value == 0:
        return "0"
    if isinstance(value, int) or (float(value).is_integer() and abs(value) < 1e9):
        return str(int(value))
    if 1e-3 <= abs(value) < 1e9:
        decimals = max(0, 3 - math.floor(math.log10(abs(value))))
        text = f"{value:.{decimals}f}"
        return text.rstrip("0").rstrip(".") if "." in text else text
    mantissa, _, exponent = f"{value:.3g}".partition("e")
    return f"{mantissa}e{int(exponent)}" if exponent else mantissa


def setting(value: Any) -> str:
    """A setting's value as a reader expects it."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int | float):
        return number(value)
    if isinstance(value, list | tuple):
        return ", ".join(setting(item) for item in value) or "none"
    return str(value)


def share(value: float) -> str:
    """An upper bound on a share in per cent, rounded up.

    Examples:
        >>> share(0.7311), share(0.99996), share(1.0)
        ('73.2%', '100%', '100%')
    """
    thousandths = min(1000, math.ceil(1000 * value - 1e-6))
    return "100%" if thousandths == 1000 else f"{thousandths / 10:.1f}%"


def one_in(probability: float) -> str:
    """A small probability in words: ``1 in 100,000``."""
    return f"1 in {round(1 / probability):,}"
