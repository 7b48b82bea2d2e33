"""Makes the evidence and writes ``docs/evidence.md`` from it.

    python scripts/evidence.py [--only faults,fuzz] [--minutes 10] [--quick] [--page-only]

Parts: defects, audits, attacks, faults, fuzz. What a command found is kept below ``results``
as soon as it is there, so parts can be made one by one; the page shows what is there, and of
which commit. A command that takes longer than ``--minutes`` is ended and the page says so.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from datetime import date
from pathlib import Path
from typing import Any

from privgcn import __version__
from privgcn.corpus.catalogue import DATASETS
from privgcn.corpus.location import data_folder
from privgcn.evidence.roc import FALSE_POSITIVES

ROOT = Path(__file__).resolve().parents[1]
KEPT = ROOT / "results" / "evidence"
PAGE = ROOT / "docs" / "evidence.md"
PARTS = ("defects", "audits", "attacks", "faults", "fuzz")
_OUT = "OUT"

Record = dict[str, Any]


def commands(part: str, *, quick: bool, minutes: float) -> Iterator[tuple[str, list[str]]]:
    """What a part runs, each with a name; ``OUT`` is the file for the result."""
    program = ["-m", "privgcn"]
    if part == "defects":
        sound = ["--sound", "3" if quick else "20"]
        yield "planted defects", ["scripts/planted_defects.py", *sound, "--json"]
    elif part == "audits":
        few = ["--repeats", "500", "--canaries", "200"] if quick else []
        split = ["--recipe", "paper-split", "--set", "training.epochs=10"]
        for name, more in {
            "auto, document": [],
            "auto, person": ["--unit", "person"],
            "auto, dense rows": ["--features", "static"],
            "auto, Poisson sampling": [
                *("--sampling", "poisson", "--set", "privacy.sampling_probability=0.25"),
                *("--set", "training.epochs=8"),
            ],
            "paper-split, 10 epochs": split,
        }.items():
            features = [] if "--features" in more else ["--features", "hashing"]
            words = ["audit", "clinic", "--epsilon", "1", *features, *more, *few, "--json"]
            yield name, [*program, *words]
    elif part == "attacks":
        shadows = ["--shadows", "4"] if quick else []
        names = ["clinic"]
        names += ["cora"] if not DATASETS["cora"].missing(data_folder()) else []
        for name in names:
            features = ["--features", "hashing"] if name == "clinic" else []
            yield name, [*program, "attack", name, *features, *shadows, "--json"]
    elif part == "faults":
        times = ["--times", "2", "--others", "1"] if quick else ["--times", "50"]
        limit = ["--minutes", f"{minutes:g}"]
        yield "faults", ["scripts/faults.py", *times, *limit, "--json", _OUT]
    else:
        inputs = "200" if quick else "20000"
        limit = ["--minutes", f"{minutes:g}"]
        yield "fuzzing", ["scripts/fuzz.py", "--inputs", inputs, *limit, "--json", _OUT]


def ran(command: Sequence[str], seconds: float) -> tuple[int | None, Any]:
    """The exit code and the result of a command; ``None`` if it took too long."""
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "result.json"
        words = [str(out) if word == _OUT else word for word in command]
        try:
            done = subprocess.run(
                [sys.executable, *words], cwd=ROOT, stdout=subprocess.PIPE, timeout=seconds
            )
        except subprocess.TimeoutExpired:
            return None, None
        text = out.read_bytes() if out.exists() else done.stdout
    try:
        return done.returncode, json.loads(text)
    except ValueError:
        return done.returncode, None


def commit() -> str:
    """The commit of the checkout, and whether something was changed since."""

    def git(*words: str) -> str:
        return subprocess.run(
            ["git", "--no-optional-locks", *words], cwd=ROOT, capture_output=True, text=True
        ).stdout.strip()

    changed = git("status", "--porcelain", "--", "src", "scripts")
    return git("rev-parse", "--short", "HEAD") + (" (changed)" if changed else "")


def shown(command: Sequence[str]) -> str:
    """A command as one would type it."""
    words = (
        ["privgcn", *command[2:]] if command[:2] == ["-m", "privgcn"] else ["python", *command]
    )
    return " ".join(word for word in words if word not in ("--json", _OUT))


def make(part: str, *, quick: bool, minutes: float) -> None:
    """Runs a part and keeps what it found."""
    KEPT.mkdir(parents=True, exist_ok=True)
    runs: list[Record] = []
    for name, command in commands(part, quick=quick, minutes=minutes):
        print(f"{part}: {shown(command)}", file=sys.stderr, flush=True)
        begun = time.monotonic()
        # Faults and fuzzing end by themselves.
        slack = 2.0 if part in ("faults", "fuzz") else 1.0
        code, result = ran(command, 60.0 * minutes * slack)
        runs.append(
            {
                "name": name,
                "command": shown(command),
                "code": code,
                "result": result,
                "seconds": round(time.monotonic() - begun),
            }
        )
        record = {"date": date.today().isoformat(), "version": __version__, "commit": commit()}
        draft = KEPT / f"{part}.new"
        draft.write_text(json.dumps({**record, "runs": runs}, indent=1) + "\n")
        os.replace(draft, KEPT / f"{part}.json")


# The page.

Row = tuple[str, str, str]


def defects_rows(run: Record) -> Iterator[Row]:
    found, sound = run["result"]["defects"], run["result"]["sound"]
    caught = [each for each in found if each["found"]]
    yield "defects planted and caught", f"{len(caught)} of {len(found)}", run["command"]
    for each in found:
        verdict = "caught" if each["found"] else "**missed**"
        bound = f"epsilon at least {each['epsilon']:.3g}, claim {each['claim']:.3g}"
        yield f"- {each['name']}", f"{verdict} ({bound})", ""
    failed = sum(each["found"] for each in sound)
    yield "audits of the sound engine that failed", f"{failed} of {len(sound)}", run["command"]


def audits_rows(run: Record) -> Iterator[Row]:
    found = run["result"]
    verdict = " **BROKEN**" if found["broken"] else ""
    yield (
        f"audit: {run['name']}",
        f"epsilon at least {found['epsilon']:.3f}, claim {found['claim']:.3f}: "
        f"{found['share']:.0%} of the claim{verdict}",
        run["command"],
    )


def attacks_rows(run: Record) -> Iterator[Row]:
    found = run["result"]
    for row in found["rows"]:
        where = "" if row["inference"] is None else f", {row['inference']}"
        auc, low, high = row["auc"]
        rates = ", ".join(
            f"{tpr[0]:.1%} at {rate:.1%} false positives"
            for rate, tpr in zip(FALSE_POSITIVES, row["tpr"], strict=True)
        )
        yield (
            f"attack on {found['source']}: {row['attack']}, {row['model']}{where}",
            f"AUC {auc:.3f} ({low:.3f} to {high:.3f}); {rates}",
            run["command"],
        )


def faults_rows(run: Record) -> Iterator[Row]:
    total = run["result"]["total"]
    yield "faults injected", f"{total['faults']:,}", run["command"]
    for kind, words in (
        ("lost", "runs, records or releases lost"),
        ("charged twice", "releases charged twice, or with another epsilon"),
        ("half-written", "folders or records half-written"),
        ("wrong answer", "faults answered otherwise than by one line"),
    ):
        yield words, str(total[kind]), ""
    for name, each in run["result"]["faults"].items():
        what = ", ".join(f"{count} {how}" for how, count in each["faults"].items())
        yield f"- {name}", what, ""


def fuzz_rows(run: Record) -> Iterator[Row]:
    total = run["result"]["total"]
    yield "inputs fuzzed", f"{total['inputs']:,}", run["command"]
    yield "crashes", str(total["crashes"]), ""
    for name, each in run["result"]["targets"].items():
        counts = f"{each['inputs']:,}: {each.get('read', 0):,} read, {each.get('refused', 0):,}"
        yield f"- {name}", f"{counts} refused, {each['crashes']} crashes", ""


ROWS = {
    "defects": defects_rows,
    "audits": audits_rows,
    "attacks": attacks_rows,
    "faults": faults_rows,
    "fuzz": fuzz_rows,
}


def page() -> str:
    """The page, from what is kept."""
    lines = [
        "# Evidence",
        "",
        "Written by `make evidence` (`python scripts/evidence.py`), part by part; rows name",
        "their command. [How the evidence is made](concepts/evidence.md) says what the numbers",
        "mean and what they cannot show.",
        "",
    ]
    for part in PARTS:
        path = KEPT / f"{part}.json"
        lines += [f"## {part.capitalize()}", ""]
        if not path.exists():
            lines += [f"Not measured: `python scripts/evidence.py --only {part}`.", ""]
            continue
        kept = json.loads(path.read_text())
        origin = (
            f"Measured on {kept['date']}, version {kept['version']}, commit {kept['commit']}."
        )
        lines += [origin, "", "| what | found | command |", "| --- | --- | --- |"]
        for run in kept["runs"]:
            if run["result"] is None:
                why = "took too long" if run["code"] is None else f"exit code {run['code']}"
                lines.append(f"| {run['name']} | not measured: {why} | `{run['command']}` |")
                continue
            before = ""
            for what, found, command in ROWS[part](run):
                told = f"`{command}`" if command and command != before else ""
                before = command or before
                lines.append(f"| {what} | {found} | {told} |")
        lines.append("")
    return "\n".join(lines).rstrip() + "\n"


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--only", default=",".join(PARTS), help="parts, comma-separated")
    parser.add_argument("--minutes", type=float, default=30.0, help="at most, for each command")
    parser.add_argument("--quick", action="store_true", help="small counts, to try it out")
    parser.add_argument("--page-only", action="store_true", help="run nothing, write the page")
    chosen = parser.parse_args(arguments)
    for part in [] if chosen.page_only else chosen.only.split(","):
        make(part, quick=chosen.quick, minutes=chosen.minutes)
    PAGE.write_text(page())
    print(f"Wrote {PAGE.relative_to(ROOT)}.")
    return 0


if __name__ == "__main__":
    sys.exit(main())
