"""From values to places on an axis, with ticks at round values."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from privgcn.report.formats import number

Value = float | str
# From here on equal distances would crowd the small values of an axis.
_WIDE_RANGE = 12.0
_MOST_OWN_TICKS = 12


@dataclass(frozen=True)
class Scale:
    """One axis: where values lie between ``start`` and ``end``, and what the ticks say.

    Attributes:
        kind: ``linear``, ``log`` or ``names`` (one place for each of ``names``).
    """

    kind: str
    low: float
    high: float
    start: float
    end: float
    ticks: tuple[tuple[Value, str], ...]
    names: tuple[str, ...] = ()

    def place(self, value: Value) -> float:
        """The coordinate of a value."""
        if self.kind == "names":
            step = (self.end - self.start) / len(self.names)
            return self.start + step * (self.names.index(str(value)) + 0.5)
        here = _measure(float(value), self.kind)
        low, high = _measure(self.low, self.kind), _measure(self.high, self.kind)
        return self.start + (here - low) / (high - low) * (self.end - self.start)


# Values nearer than this are one place on an axis.
_SMALLEST = 1e-300


def value_scale(values: Sequence[float], start: float, end: float) -> Scale:
    """A linear axis with round ticks that holds all values and zero.

    Zero is on every axis of values, so that lengths and heights compare between charts.
    """
    low, high = min(0.0, *values), max(0.0, *values)
    if high - low <= _SMALLEST:
        low, high = 0.0, 1.0
    step = _round_step((high - low) / 5)
    first, last = math.floor(low / step + 1e-9), math.ceil(high / step - 1e-9)
    decimals = max(0, -math.floor(math.log10(step) + 1e-9))
    ticks = tuple((i * step, f"{i * step:.{decimals}f}") for i in range(first, last + 1))
    return Scale("linear", first * step, last * step, start, end, ticks)


def position_scale(values: Sequence[Value], start: float, end: float) -> Scale:
    """The axis along which points follow each other: numbers, or names in given order."""
    if any(isinstance(value, str) for value in values):
        names = tuple(dict.fromkeys(str(value) for value in values))
        return Scale("names", 0, 1, start, end, tuple((n, n) for n in names), names)
    numbers = sorted({float(value) for value in values})
    low, high = numbers[0], numbers[-1]
    kind = "log" if low > 0 and high / low >= _WIDE_RANGE else "linear"
    own = len(numbers) <= _MOST_OWN_TICKS
    ticks: tuple[tuple[Value, str], ...]
    if kind == "log":
        ticks = tuple((v, number(v)) for v in (numbers if own else _decades(low, high)))
        return Scale(kind, low / 1.15, high * 1.15, start, end, ticks)
    if low == high:
        return Scale(kind, low - 1, high + 1, start, end, ((low, number(low)),))
    pad = 0.04 * (high - low)
    if own:
        ticks = tuple((v, number(v)) for v in numbers)
    else:
        step = _round_step((high - low) / 5)
        marks = range(math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9) + 1)
        ticks = tuple((mark * step, number(mark * step)) for mark in marks)
    return Scale(kind, low - pad, high + pad, start, end, ticks)


def _measure(value: float, kind: str) -> float:
    return math.log(value) if kind == "log" else value


def _round_step(rough: float) -> float:
    power = 10.0 ** math.floor(math.log10(rough))
    return next(power * m for m in (1, 2, 5, 10) if power * m >= rough * (1 - 1e-9))


def _decades(low: float, high: float) -> list[float]:
    first, last = math.floor(math.log10(low)), math.ceil(math.log10(high))
    marks = [m * 10.0**power for power in range(first, last + 1) for m in (1, 2, 5)]
    return [mark for mark in marks if low / 1.15 <= mark <= high * 1.15]
