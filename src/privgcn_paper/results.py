"""Records of runs, one table of them, and what is read from it.

A record is one JSON file, named by the hash of its run and seed, written when the run ends.
All records together are one table, a row for each run and seed: ``docs/reproduction.csv`` is
such a table, and pages are made from it alone.
"""

from __future__ import annotations

import csv
import hashlib
import io
import json
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

from privgcn.config import MODES, Mode
from privgcn.errors import DataError
from privgcn.files import write_atomically
from privgcn.report.tables import MeanStd
from privgcn_paper.experiments import AXES

PAPER_MODE: Mode = "full-graph"
SIZES = ("classes", "train", "test")
FACTS = ("noise_multiplier", "steps", "majority", *SIZES, "seconds", "device", "code")
COLUMNS = (
    *AXES,
    "seed",
    *(f"{score} {mode}" for score in ("micro", "macro") for mode in MODES),
    "hard",
    *FACTS,
)
"""Of the table: axes of the run, scores by mode, the hard cases that stay errors."""

_ROUNDED = 5
_WORDS = ("dataset", "recipe", "features", "optimizer", "device", "code")
_NEEDED = {"scores", "errors"}


def key_of(point: Mapping[str, Any], seed: int) -> str:
    """The name of a record."""
    text = json.dumps({"point": point, "seed": seed}, sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:32]


def write_record(folder: Path, record: Mapping[str, Any]) -> None:
    """Writes the record of a run that ended: whole, or not at all."""
    name = key_of(record["point"], record["seed"])
    write_atomically(folder / f"{name}.json", json.dumps(record) + "\n")


def read_records(folder: Path) -> dict[str, dict[str, Any]]:
    """The records of a folder by name; a file that cannot be read counts as missing."""
    records = {}
    for path in sorted(folder.glob("*.json")):
        try:
            record = json.loads(path.read_text("utf-8"))
            known = key_of(record["point"], record["seed"]) == path.stem
            known = known and record.keys() >= _NEEDED
        except (ValueError, KeyError, TypeError):
            known = False
        if known:
            records[path.stem] = record
    return records


@dataclass(frozen=True)
class Runs:
    """Rows of the table, as mappings of its columns; what is not known is left out.

    Rows that were read have their ``line`` in the file.
    """

    rows: tuple[Mapping[str, Any], ...]

    @classmethod
    def of_records(cls, records: Iterable[Mapping[str, Any]]) -> Runs:
        """The table of some records, with the fraction of the hard cases that each got wrong.

        Hard cases are the test documents that SGD without privacy and with all training
        documents gets wrong, seed by seed; for the released code, those of its own such run.
        """
        hard, known = {}, []
        for record in records:
            point = record["point"]
            base = point["dataset"], point["recipe"] == "as-released", record["seed"]
            known.append((record, base))
            bare = point.keys() == {"dataset", "recipe", "optimizer"}
            usual = point["recipe"] in ("plain", "as-released")
            if bare and usual and point["optimizer"] == "sgd":
                hard[base] = {*record["errors"]}
        rows = []
        for record, base in known:
            row = {**record["point"], "seed": record["seed"]}
            for mode, scores in record["scores"].items():
                row |= {f"{name} {mode}": value for name, value in scores.items()}
            row |= {name: record[name] for name in FACTS if record.get(name) is not None}
            if hard.get(base):
                row["hard"] = len(hard[base].intersection(record["errors"])) / len(hard[base])
            rows.append(row)
        return cls(tuple(sorted(rows, key=_order)))

    @classmethod
    def read(cls, path: Path) -> Runs:
        """The table in a CSV file."""
        with path.open(newline="", encoding="utf-8") as file:
            reader = csv.DictReader(file)
            if tuple(reader.fieldnames or ()) != COLUMNS:
                raise DataError(f"The file {path} is no table of runs: its columns differ.")
            rows = ({n: _value(n, v) for n, v in row.items() if v} for row in reader)
            return cls(tuple({**row, "line": line} for line, row in enumerate(rows, start=2)))

    def write(self, path: Path) -> None:
        """Writes the table; a table that was read is written as the same bytes."""
        lines = io.StringIO()
        writer = csv.writer(lines, lineterminator="\n")
        writer.writerow(COLUMNS)
        writer.writerows([_text(row.get(name)) for name in COLUMNS] for row in self.rows)
        write_atomically(path, lines.getvalue(), mode=0o666)

    def of(self, **point: Any) -> list[Mapping[str, Any]]:
        """The rows of a run, one for each seed; of an axis not named the usual value."""
        wanted = {name: value for name, value in point.items() if value is not None}
        return self._index.get(_frozen(wanted), [])

    def score(self, measure: str = f"micro {PAPER_MODE}", **point: Any) -> MeanStd | None:
        """Mean and deviation over the seeds of a run; ``None`` where it was not run."""
        values = [row[measure] for row in self.of(**point) if measure in row]
        if not values:
            return None
        return MeanStd(fmean(values), stdev(values) if len(values) > 1 else None)

    def fact(self, dataset: str, name: str) -> float | None:
        """What is true of a whole dataset: ``majority``, or one of ``SIZES``."""
        for row in self.rows:
            if row["dataset"] == dataset and "fraction" not in row and name in row:
                return float(row[name])
        return None

    @cached_property
    def _index(self) -> dict[str, list[Mapping[str, Any]]]:
        index: dict[str, list[Mapping[str, Any]]] = {}
        for row in self.rows:
            point = {name: row[name] for name in AXES if name in row}
            index.setdefault(_frozen(point), []).append(row)
        return index


def runs_in(out: Path) -> Runs:
    """The runs of a folder of records, or of a table."""
    if out.is_file():
        return Runs.read(out)
    records = read_records(out)
    if not records:
        raise DataError(
            f"What --only-show shows must be a folder of records or a table of runs. {out} has "
            "none. Run the experiment without --only-show first."
        )
    return Runs.of_records(records.values())


def _frozen(point: Mapping[str, Any]) -> str:
    return json.dumps(
        {n: float(v) if isinstance(v, int) else v for n, v in point.items()}, sort_keys=True
    )


def _order(row: Mapping[str, Any]) -> list[str]:
    return [_text(row.get(name)) for name in (*AXES, "seed")]


def _text(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, float):
        return repr(round(value, _ROUNDED)) if math.isfinite(value) else ""
    return json.dumps(value) if isinstance(value, dict | list | bool) else str(value)


def _value(name: str, text: str) -> Any:
    if name in _WORDS:
        return text
    try:
        return json.loads(text)
    except ValueError:
        return text
