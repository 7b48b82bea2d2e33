"""Figures as values: named series of points, also readable as a table."""

from __future__ import annotations

from typing import Literal, NamedTuple, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from privgcn.report.formats import number
from privgcn.report.tables import Deviation, MeanStd, Number, Table


class Point(NamedTuple):
    """One value of a series; stored as ``[x, y, std]``.

    Attributes:
        x: A number or a name; ``None`` for a level that holds everywhere.
        y: The value.
        std: Its sample standard deviation, where known.
    """

    x: Number | str | None
    y: Number
    std: Deviation | None = None

    @property
    def place(self) -> str:
        """Where the point lies, in words."""
        return "everywhere" if self.x is None else number(self.x)


class Series(BaseModel):
    """Points of one name; a ``reference`` is drawn in grey, as something to compare with."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str
    points: tuple[Point, ...] = Field(min_length=1)
    role: Literal["data", "reference"] = "data"


class Figure(BaseModel):
    """A line or bar chart; ``model_dump(mode="json")`` stores it, ``model_validate`` reads it.

    Attributes:
        title: What the figure shows.
        series: What is drawn.
        x_label: Name of the horizontal axis of a line chart, of the bars of a bar chart.
        y_label: Name of the values.
        kind: ``line`` or ``bar``.
        notes: Sentences below the figure.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    title: str
    series: tuple[Series, ...] = Field(min_length=1)
    x_label: str = ""
    y_label: str = ""
    kind: Literal["line", "bar"] = "line"
    notes: tuple[str, ...] = ()

    @model_validator(mode="after")
    def _one_kind_of_place(self) -> Self:
        """Numbers become names where an axis holds both (parts 1, 2, ... and ``each``)."""
        places = [point.x for one in self.series for point in one.points]
        if not any(isinstance(x, str) for x in places):
            return self
        named = tuple(
            one.model_copy(
                update={
                    "points": tuple(
                        point if point.x is None else point._replace(x=point.place)
                        for point in one.points
                    )
                }
            )
            for one in self.series
        )
        # A frozen model may still be completed while it is being made.
        object.__setattr__(self, "series", named)
        return self

    def values_table(self) -> Table:
        """The same values as a table, for readers who do not see the drawing."""
        rows = [
            (
                series.name,
                point.place,
                point.y if point.std is None else MeanStd(point.y, point.std),
            )
            for series in self.series
            for point in series.points
        ]
        columns = ("series", self.x_label or "x", self.y_label or "value")
        return Table(title=f"{self.title}: values", columns=columns, rows=tuple(rows))
