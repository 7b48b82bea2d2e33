"""What a call of ``reproduce`` came to beyond its tables: take-aways, reasons and failures.

It is stored beside the tables, so that every later page says it too.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from privgcn.errors import DataError
from privgcn.report.records import read_record
from privgcn.report.tables import Table
from privgcn.report.writing import write_text

SUMMARY_FILE = "summary.json"
_NOT_MEASURED = "not measured"
_TONES = {"survives": "yes", "does not survive": "no"}


@dataclass(frozen=True)
class Outcome:
    """The outcome of a call.

    Attributes:
        title: Of the experiment, or of all of them together.
        experiments: Sub-folders of the experiments; empty where there is only one.
        takeaways: Claims with verdict, evidence and rule; empty where none was measured.
        disagreements: Published numbers beside ours, with reasons.
        failures: Failed runs with their reasons.
    """

    title: str
    experiments: tuple[str, ...] = ()
    takeaways: tuple[dict[str, Any], ...] = ()
    disagreements: Table | None = None
    failures: Table | None = None

    @classmethod
    def from_dict(cls, record: Any, owner: str) -> Outcome:
        """Reads what :func:`write_outcome` stored.

        Raises:
            DataError: Naming the field and its rule.
        """
        if not isinstance(record, Mapping) or not isinstance(record.get("title"), str):
            raise DataError(
                f"The summary of {owner} must be an object with a 'title'. "
                f"Got {str(record)[:60]!r}. Run 'privgcn reproduce' again with --resume."
            )
        names = _texts(record.get("experiments") or (), "experiments", owner)
        if any(name in ("", ".", "..") or "/" in name or "\\" in name for name in names):
            raise DataError(
                f"The 'experiments' of the summary of {owner} must be names of its own "
                f"sub-folders. Got {list(names)}."
            )
        claims = [_takeaway(one, owner) for one in _list(record, "takeaways", owner)]
        measured = any(claim["verdict"] != _NOT_MEASURED for claim in claims)
        told = record.get("disagreements")
        return cls(
            record["title"],
            names,
            tuple(claims) if measured else (),
            None if told is None else read_record(Table, told, f"the disagreements of {owner}"),
            _failure_table(_list(record, "failures", owner), owner),
        )


def write_outcome(
    folder: Path,
    title: str,
    *,
    failures: Sequence[Mapping[str, Any]],
    experiments: Sequence[str] = (),
    takeaways: Sequence[Mapping[str, Any]] = (),
    disagreements: Mapping[str, Any] | None = None,
) -> Outcome:
    """Stores an outcome in a results folder, whole or not at all.

    Args:
        folder: The results folder.
        title: Of the experiment, or of all of them together.
        failures: Failed tasks, as the store of records has them.
        experiments: Names of the sub-folders, where there are several experiments.
        takeaways: ``{"claim", "verdict", "evidence", "rule"}``.
        disagreements: A table.
    """
    record = {
        "title": title,
        "experiments": list(experiments),
        "takeaways": [dict(one) for one in takeaways],
        "disagreements": disagreements,
        "failures": [
            {"run": _run_name(one), "seeds": list(one["seeds"]), "reason": str(one["reason"])}
            for one in failures
        ],
    }
    text = json.dumps(record, indent=1, allow_nan=False) + "\n"
    write_text(folder / SUMMARY_FILE, text)
    return Outcome.from_dict(json.loads(text), str(folder))


def _run_name(failure: Mapping[str, Any]) -> str:
    settings = failure.get("settings") or {}
    words = [
        f"{key} {value}" for key, value in settings.items() if isinstance(value, str | int)
    ]
    return str(failure.get("label") or ", ".join(words) or failure.get("kind") or "a run")


def _failure_table(failures: Sequence[Any], owner: str) -> Table | None:
    rows: list[tuple[Any, ...]] = []
    for one in failures:
        if not isinstance(one, Mapping) or not {"run", "seeds", "reason"} <= set(one):
            raise DataError(
                f"Each of the 'failures' of the summary of {owner} must be an object with "
                f"'run', 'seeds' and 'reason'. Got {str(one)[:60]!r}."
            )
        seeds = ", ".join(str(seed) for seed in one["seeds"])
        rows.append((str(one["run"]), str(one["reason"]), seeds))
    if not rows:
        return None
    return Table(title="Runs that failed", columns=("run", "reason", "seeds"), rows=tuple(rows))


def _takeaway(record: Any, owner: str) -> dict[str, Any]:
    keys = ("claim", "verdict", "rule")
    if not isinstance(record, Mapping) or not all(isinstance(record.get(k), str) for k in keys):
        raise DataError(
            f"Each of the 'takeaways' of the summary of {owner} must be an object with "
            f"{', '.join(keys)} and evidence. Got {str(record)[:60]!r}."
        )
    verdict = record["verdict"]
    return {
        **{key: record[key] for key in keys},
        "evidence": _texts(record.get("evidence") or (), "evidence", owner),
        "tone": _TONES.get(verdict, "some"),
    }


def _list(record: Mapping[str, Any], name: str, owner: str) -> list[Any]:
    value = record.get(name) or []
    if not isinstance(value, list):
        raise DataError(
            f"The '{name}' of the summary of {owner} must be a list. Got {str(value)[:60]!r}."
        )
    return value


def _texts(value: Any, name: str, owner: str) -> tuple[str, ...]:
    if not isinstance(value, list | tuple) or not all(isinstance(text, str) for text in value):
        raise DataError(
            f"The '{name}' of the summary of {owner} must be a list of texts. "
            f"Got {str(value)[:60]!r}."
        )
    return tuple(value)
