"""Puts each known defect into a copy of the source and shows which test notices it.

Usage: ``python scripts/mutations.py [--only WORDS] [--jobs N] [--markdown]``. Prints one line
for each defect and exits with 1 if any survives.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from mutation_list import MUTATIONS
from symbol_changes import Mutation, Package

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = Package(ROOT / "src" / "privgcn")


def run_tests(source: Path, tests: tuple[str, ...]) -> subprocess.CompletedProcess[str]:
    """Runs tests against the package in ``source``, up to the first failure."""
    environment = {**os.environ, "PYTHONPATH": str(source), "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-m", "pytest", "-x", "-q", "-rf", "-p", "no:cacheprovider"]
    return subprocess.run(
        [*command, *tests],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )


def verdict_on(mutation: Mutation) -> tuple[str, str]:
    """The verdict on one mutation and the test that failed."""
    with tempfile.TemporaryDirectory(prefix="mutation-") as folder:
        source = Path(folder) / "src"
        shutil.copytree(
            ROOT / "src", source, ignore=shutil.ignore_patterns("__pycache__", "*.egg-info")
        )
        for file, text in PACKAGE.changed(mutation.changes).items():
            (source / "privgcn" / file).write_text(text, encoding="utf-8")
        result = run_tests(source, mutation.tests)
    failed = re.search(r"^FAILED (.+?)(?: - .*)?$", result.stdout, re.MULTILINE)
    if result.returncode == 1 and failed:
        return "caught", failed.group(1).split("::", 1)[1]
    if result.returncode == 0:
        return "SURVIVED", "-"
    return "BROKEN", (result.stdout + result.stderr).strip().splitlines()[-1]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default="", help="mutations whose name holds these words")
    parser.add_argument("--jobs", type=int, default=min(4, os.cpu_count() or 1))
    parser.add_argument("--markdown", action="store_true", help="print a Markdown table")
    chosen = parser.parse_args()
    picked = [mutation for mutation in MUTATIONS if chosen.only in mutation.name]
    if not picked:
        parser.error(f"no mutation holds the words {chosen.only!r}")
    for mutation in picked:
        PACKAGE.changed(mutation.changes)
    named = tuple(sorted({test for mutation in picked for test in mutation.tests}))
    sound = run_tests(ROOT / "src", named)
    if sound.returncode != 0:
        print(f"The tests fail without any mutation:\n{sound.stdout}")
        return 1
    width = max(len(mutation.name) for mutation in picked)
    row = "| {} | {} | {} |" if chosen.markdown else f"{{:<{width}}}  {{:<8}}  {{}}"
    print(row.format("mutation", "verdict", "test that failed"))
    if chosen.markdown:
        print(row.format(":--", ":--", ":--"))
    survivors = 0
    with ThreadPoolExecutor(chosen.jobs) as pool:
        for mutation, found in zip(picked, pool.map(verdict_on, picked), strict=True):
            survivors += found[0] != "caught"
            print(row.format(mutation.name, *found), flush=True)
    print(f"\n{len(picked) - survivors} of {len(picked)} caught.")
    return 1 if survivors else 0


if __name__ == "__main__":
    sys.exit(main())
