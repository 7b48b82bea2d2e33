"""The scripts that kill commands and mutate files, in a tiny size."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

SCRIPTS = Path(__file__).resolve().parents[2] / "scripts"

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="needs fork and /proc")


def ran(script: str, *arguments: str, out: Path) -> dict[str, Any]:
    command = [sys.executable, str(SCRIPTS / script), *arguments, "--json", str(out)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    record: dict[str, Any] = json.loads(out.read_text())
    return record


def test_kills_lose_nothing_and_charge_nothing_twice(tmp_path: Path) -> None:
    wishes = ["--times", "2", "--others", "0", "--verbs", "release"]
    record = ran("faults.py", *wishes, out=tmp_path / "faults.json")
    killed = record["faults"]["release"]["faults"]
    assert sum(count for how, count in killed.items() if how.startswith("killed")) == 2
    assert record["total"]["lost"] == record["total"]["charged twice"] == 0
    assert record["total"]["half-written"] == record["total"]["wrong answer"] == 0


def test_mutated_files_are_read_or_refused(tmp_path: Path) -> None:
    wishes = ["--inputs", "100", "--only", "documents"]
    record = ran("fuzz.py", *wishes, out=tmp_path / "fuzz.json")
    assert len(record["targets"]) == 4
    assert record["total"]["inputs"] == 400
    assert record["total"]["crashes"] == 0
    for found in record["targets"].values():
        # Some of the inputs are good, and most get far.
        assert found["read"] > 0
        assert found["refused"] > 0
        assert found["lines"] > 150


def test_the_fuzzer_finds_a_message_that_is_not_one_short_line(tmp_path: Path) -> None:
    code = f"""
import sys
from pathlib import Path
sys.path.insert(0, {str(SCRIPTS)!r})
import fuzz, fuzz_targets
import privgcn.errors
place = Path({str(tmp_path)!r})
guard, target = fuzz.Guard(place), fuzz_targets.SETTINGS
long = b'recipe = "' + b'a' * 3_000 + b'"'
target.attempt(place, target.seeds(place)[0])
print(fuzz.attempted(target, guard, place, long))
privgcn.errors.LONGEST_MESSAGE = 10**6
print(fuzz.attempted(target, guard, place, long))
"""
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    cut, whole = done.stdout.splitlines()
    assert cut == "('refused', '')"
    assert whole.startswith("('crash', 'a message of 3")
