"""The page of the evidence, from what was kept, and copies that work side by side."""

from __future__ import annotations

import sys
import time
from collections import deque
from pathlib import Path
from typing import Any

import evidence
import forked
import pytest

ORIGIN = {"date": "2026-01-02", "version": "9.9", "commit": "abc1234", "jobs": 4}


def defect(name: str, *, found: bool) -> dict[str, Any]:
    broken = ["noise is not Gaussian"] if found else []
    return {"name": name, "found": found, "claim": 1.0, "epsilon": 0.5, "broken": broken}


def keep(folder: Path, part: str, results: dict[str, Any], **origin: Any) -> None:
    kept = evidence.Kept(folder, {**ORIGIN, **origin})
    for name, result in results.items():
        words = ("scripts/planted_defects.py", "--only", name, "--json")
        code = None if result is None else 0
        kept.add(evidence.Task(part, name, words), code, result, 1.0)


def test_the_page_names_what_was_missed_and_what_took_too_long(tmp_path: Path) -> None:
    results = {
        "no clipping": {"defects": [defect("no clipping", found=True)], "sound": []},
        "noise in float32": {"defects": [defect("noise in float32", found=False)], "sound": []},
        "sound": {"defects": [], "sound": [defect("sound engine", found=False)] * 20},
        "noise half as large": None,
    }
    keep(tmp_path, "defects", results)
    lines = evidence.page([tmp_path]).splitlines()
    made = "| made | 2026-01-02, version 9.9, commit abc1234 | "
    assert made + "`python scripts/evidence.py --only defects --jobs 4` |" in lines
    assert "| defects planted and caught | 1 of 2 |  |" in lines
    (missed,) = [line for line in lines if "**missed**" in line]
    assert '`python scripts/planted_defects.py --only "noise in float32"`' in missed
    (sound,) = [line for line in lines if "sound engine that failed" in line]
    assert "0 of 20" in sound
    (late,) = [line for line in lines if "took too long" in line]
    assert late.startswith("| noise half as large |")
    assert "Not measured: `python scripts/evidence.py --only fuzz`." in lines


def test_of_each_part_the_last_folder_counts(tmp_path: Path) -> None:
    old, new = tmp_path / "old", tmp_path / "new"
    for folder, count in ((old, 3), (new, 1234)):
        total = {"inputs": count, "crashes": 0}
        targets = {"ledgers": {"inputs": count, "read": 1, "refused": 2, "crashes": 0}}
        keep(folder, "fuzz", {"fuzzing": {"total": total, "targets": targets}})
    assert "| inputs fuzzed | 1,234 |" in evidence.page([old, new])
    assert "| inputs fuzzed | 3 |" in evidence.page([new, old])


def test_every_defect_and_the_sound_engine_are_audited() -> None:
    tasks = list(evidence.tasks("defects", quick=False, minutes=5.0, jobs=4))
    names = [task.name for task in tasks]
    assert {each.name for each in evidence.DEFECTS} < set(names)
    assert sum(name.startswith("sound engine") for name in names) == 24
    dense = [task.words for task in tasks if "--dense" in task.words]
    assert len(dense) == 4
    # Twenty audits are asked for; there are four times as many.
    assert sum(task.words[2:4] == ("--sound", "4") for task in tasks) == 20
    for part in evidence.PARTS:
        assert list(evidence.tasks(part, quick=True, minutes=5.0, jobs=4))


@pytest.mark.skipif(sys.platform != "linux", reason="needs fork and /proc")
def test_copies_work_side_by_side_and_failures_are_told(tmp_path: Path) -> None:
    def fail() -> None:
        raise ValueError("no luck")

    def both() -> list[float]:
        begun = time.monotonic()
        time.sleep(0.5)
        return [begun, time.monotonic()]

    work = forked.Work
    works = deque([work("one", 1, both), work("two", 1, both), work("wide", 2, both)])
    answers, errors = {}, {}
    for found in forked.side_by_side(works, 2, tmp_path):
        answers[found.work.name] = found.value
        errors[found.work.name] = found.error
        if found.work.name == "wide":
            works.append(work("late", 1, fail))
    assert max(answers["one"][0], answers["two"][0]) < min(answers["one"][1], answers["two"][1])
    # Two slots are free only once both are done.
    assert answers["wide"][0] >= max(answers["one"][1], answers["two"][1])
    assert answers["late"] is None
    assert errors["late"].startswith("code 70")
    assert errors["one"] is None
