"""Puts each known defect into a copy of the source and shows which test notices it.

Usage: ``python scripts/mutations.py [--only WORDS] [--jobs N]``. Prints one line for each
defect and exits with 1 if any survives.
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

sys.path.insert(0, str(Path(__file__).parent))

from mutation_list import MUTATIONS, Mutation

ROOT = Path(__file__).resolve().parent.parent


def mutated(texts: dict[str, str], mutation: Mutation) -> dict[str, str]:
    """The files of a mutation with its edits; raises where an edit does not fit exactly."""
    changed: dict[str, str] = {}
    for edit in mutation.edits:
        text = changed.get(edit.file, texts[edit.file])
        if text.count(edit.old) != 1:
            raise ValueError(
                f"The mutation '{mutation.name}' must match {edit.file} exactly once. Got "
                f"{text.count(edit.old)} matches of {edit.old!r}. Adapt it to the source."
            )
        changed[edit.file] = text.replace(edit.old, edit.new)
    return changed


def sources() -> dict[str, str]:
    """The text of every file that some mutation edits."""
    package = ROOT / "src" / "privgcn"
    files = {edit.file for mutation in MUTATIONS for edit in mutation.edits}
    return {file: (package / file).read_text(encoding="utf-8") for file in files}


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


def verdict_on(mutation: Mutation, texts: dict[str, str]) -> tuple[str, str]:
    """The verdict on one mutation and the test that failed."""
    with tempfile.TemporaryDirectory(prefix="mutation-") as folder:
        source = Path(folder) / "src"
        shutil.copytree(
            ROOT / "src", source, ignore=shutil.ignore_patterns("__pycache__", "*.egg-info")
        )
        for file, text in mutated(texts, mutation).items():
            (source / "privgcn" / file).write_text(text, encoding="utf-8")
        result = run_tests(source, mutation.tests)
    failed = re.search(r"^FAILED (\S+)", result.stdout, re.MULTILINE)
    if result.returncode == 1 and failed:
        return "caught", failed.group(1).split("::", 1)[1]
    if result.returncode == 0:
        return "SURVIVED", "-"
    return "BROKEN", (result.stdout + result.stderr).strip().splitlines()[-1]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default="", help="mutations whose name holds these words")
    parser.add_argument("--jobs", type=int, default=min(4, os.cpu_count() or 1))
    chosen = parser.parse_args()
    picked = [mutation for mutation in MUTATIONS if chosen.only in mutation.name]
    texts = sources()
    for mutation in picked:
        mutated(texts, mutation)
    named = tuple(sorted({test for mutation in picked for test in mutation.tests}))
    sound = run_tests(ROOT / "src", named)
    if sound.returncode != 0:
        print(f"The tests fail without any mutation:\n{sound.stdout}")
        return 1
    width = max(len(mutation.name) for mutation in picked)
    print(f"{'mutation'.ljust(width)}  verdict   test that failed")
    survivors = 0
    with ThreadPoolExecutor(chosen.jobs) as pool:
        found = pool.map(lambda mutation: verdict_on(mutation, texts), picked)
        for mutation, (verdict, test) in zip(picked, found, strict=True):
            survivors += verdict != "caught"
            print(f"{mutation.name.ljust(width)}  {verdict.ljust(8)}  {test}", flush=True)
    print(f"{len(picked) - survivors} of {len(picked)} caught.")
    return 1 if survivors else 0


if __name__ == "__main__":
    sys.exit(main())
