"""Strict values: nothing is converted, and JSON means what everyone reads in it."""

import json
from dataclasses import FrozenInstanceError, replace
from typing import Annotated

import numpy as np
import pytest
from pydantic import Field

from privgcn.errors import ConfigError
from privgcn.privacy.values import (
    Count,
    Real,
    in_plain_values,
    read_json,
    read_strictly,
    strict,
)

pytestmark = pytest.mark.quick


@strict("a point")
class Point:
    x: Annotated[Real, Field(le=9.0, description="Move it back.")]
    count: Count = 1
    names: tuple[str, ...] = ()


def test_errors_name_rule_value_and_remedy() -> None:
    with pytest.raises(ConfigError, match=r"The 'x' of a point must be .* Move it back\."):
        Point(10.0)
    for bad in (True, "1", None, float("nan"), float("inf"), np.True_, [1.0]):
        with pytest.raises(ConfigError, match="'x' of a point"):
            Point(bad)  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="'y' of a point is unknown"):
        Point(x=1.0, y=2.0)  # type: ignore[call-arg]


def test_values_are_plain_frozen_and_checked_again() -> None:
    point = Point(np.float32(0.5), np.int64(3))
    assert [type(point.x), type(point.count)] == [float, int]
    with pytest.raises(FrozenInstanceError):
        point.x = 2.0  # type: ignore[misc]
    with pytest.raises(ConfigError):
        replace(point, count=0)


def test_they_read_back_in_full_or_not_at_all() -> None:
    point = Point(1.5, 2, ("a",))
    record = in_plain_values(point)
    assert record == {"x": 1.5, "count": 2, "names": ["a"]}
    assert read_strictly(Point, json.dumps(record), "a point") == point
    for bad in ({**record, "x": "1"}, {"x": 1.5}, {**record, "z": 1}, []):
        with pytest.raises(ConfigError):
            read_strictly(Point, json.dumps(bad), "a point")


@pytest.mark.parametrize("text", ["NaN", "[Infinity]", '{"a": 1, "a": 1}', "[" * 100_000, "{"])
def test_doubtful_json_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r".+"):
        read_json(text)
