"""Makes the evidence and writes ``docs/evidence.md`` from it.

    python scripts/evidence.py [--only faults,fuzz] [--jobs 4] [--minutes 10] [--quick]
    python scripts/evidence.py --from FOLDER

Parts: defects, audits, attacks, faults, fuzz. What a command found is kept below ``results``,
or in the folder ``--out``, as soon as it is there, so parts can be made one by one and on
other machines; the page shows what is there, and of which commit. ``--from`` writes the page
from such folders and runs nothing. A command that takes longer than ``--minutes`` is ended and
the page says so.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from datetime import date
from pathlib import Path
from typing import Any, NamedTuple

from planted_defects import DEFECTS

from privgcn import __version__
from privgcn.data.catalogue import DATASETS
from privgcn.data.location import data_folder
from privgcn.evidence.roc import FALSE_POSITIVES

ROOT = Path(__file__).resolve().parents[1]
KEPT = ROOT / "results" / "evidence"
PAGE = ROOT / "docs" / "evidence.md"
PARTS = ("defects", "audits", "attacks", "faults", "fuzz")
_OUT = "OUT"

Record = dict[str, Any]


class Task(NamedTuple):
    """A command of a part; ``OUT`` among its words is the file for the result."""

    part: str
    name: str
    words: tuple[str, ...]


def tasks(part: str, *, quick: bool, minutes: float, jobs: int) -> Iterator[Task]:
    """What a part runs."""
    limit = ("--minutes", f"{minutes:g}", "--jobs", str(jobs), "--json", _OUT)
    if part == "defects":
        for defect in DEFECTS:
            few = ("--runs", "400") if quick else ()
            words = ("scripts/planted_defects.py", "--only", defect.name, *few, "--json")
            yield Task(part, defect.name, words)
        runs = ("--runs", "200") if quick else ()
        for number in range(2 if quick else 24):
            # Every sixth with dense rows, whose centre is released first: that takes longer.
            kind = ("--sound", "1", "--dense") if number % 6 == 1 else ("--sound", "4")
            words = ("scripts/planted_defects.py", "--no-defects", *kind)
            yield Task(part, f"sound engine {number + 1}", (*words, *runs, "--json"))
    elif part == "audits":
        few = ("--repeats", "300", "--canaries", "200") if quick else ()
        for name, words in AUDITS.items():
            if "static" in words and importlib.util.find_spec("wordllama") is None:
                print("audits: no dense rows, wordllama is not installed", file=sys.stderr)
                continue
            more = (
                words[: words.index("--repeats")] if quick and "--repeats" in words else words
            )
            features = () if "--features" in words else ("--features", "hashing")
            claim = () if "--epsilon" in words else ("--epsilon", "1")
            audit = ("-m", "privgcn", "audit", "clinic", *claim, *features)
            yield Task(part, name, (*audit, *more, *few, "--json"))
    elif part == "attacks":
        for name, words in ATTACKS.items():
            if name in DATASETS and DATASETS[name].missing(data_folder()):
                continue
            shadows = "4" if quick else "32"
            attack = ("-m", "privgcn", "attack", name, *words, "--shadows", shadows)
            yield Task(part, name, (*attack, "--json"))
    elif part == "faults":
        times = ("--times", "2", "--others", "1") if quick else ("--times", "50")
        yield Task(part, "faults", ("scripts/faults.py", *times, *limit))
    else:
        inputs = "200" if quick else "100000"
        yield Task(part, "fuzzing", ("scripts/fuzz.py", "--inputs", inputs, *limit))


_SAMPLED = ("--sampling", "poisson", "--set", "privacy.sampling_probability=0.25")
_SPLIT = ("--recipe", "paper-split", "--set", "training.epochs=10")
AUDITS: dict[str, tuple[str, ...]] = {
    "paper-split, 10 epochs": (*_SPLIT, "--repeats", "2000"),
    "auto, Poisson sampling": (*_SAMPLED, "--set", "training.epochs=8"),
    "auto, dense rows": ("--features", "static"),
    "auto, document": ("--repeats", "20000"),
    "auto, person": ("--unit", "person", "--repeats", "20000"),
    "auto, replace": ("--relation", "replace", "--repeats", "20000"),
    "auto, epsilon 8": ("--epsilon", "8"),
}
ATTACKS: dict[str, tuple[str, ...]] = {
    "clinic": ("--features", "hashing", "--column", "practice"),
    "cora": ("--column", "label"),
    "citeseer": ("--column", "label"),
}


def ran(words: Sequence[str], seconds: float) -> tuple[int | None, Any]:
    """The exit code and the result of a command; ``None`` if it took too long."""
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "result.json"
        command = [sys.executable, *(str(out) if word == _OUT else word for word in words)]
        code: int | None = None
        text = b""
        # Many commands side by side: one thread each.
        alone = {**os.environ, "OMP_NUM_THREADS": "1", "POLARS_MAX_THREADS": "1"}
        try:
            done = subprocess.run(
                command, cwd=ROOT, env=alone, stdout=subprocess.PIPE, timeout=seconds
            )
            code, text = done.returncode, done.stdout
        except subprocess.TimeoutExpired:
            print(f"Ended after {seconds:.0f} s: {shown(words)}", file=sys.stderr)
        # Some write what they have as they go.
        text = out.read_bytes() if out.exists() else text
    try:
        return code, json.loads(text)
    except ValueError:
        return code, None


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
        ["privgcn", *command[2:]] if command[:2] == ("-m", "privgcn") else ["python", *command]
    )
    typed = [f'"{word}"' if " " in word else word for word in words]
    return " ".join(word for word in typed if word not in ("--json", _OUT))


class Kept:
    """What parts found, in a folder, each part in a file of its own."""

    def __init__(self, folder: Path, origin: Record) -> None:
        self.folder, self.origin = folder, origin
        self.runs: dict[str, list[Record]] = {}
        folder.mkdir(parents=True, exist_ok=True)

    def add(self, task: Task, code: int | None, result: Any, seconds: float) -> None:
        """Keeps what a command found."""
        runs = self.runs.setdefault(task.part, [])
        runs.append(
            {
                "name": task.name,
                "command": shown(task.words),
                "code": code,
                "result": result,
                "seconds": round(seconds),
            }
        )
        draft = self.folder / f"{task.part}.new"
        draft.write_text(json.dumps({**self.origin, "runs": runs}, indent=1) + "\n")
        os.replace(draft, self.folder / f"{task.part}.json")


def make(parts: Sequence[str], kept: Kept, *, quick: bool, minutes: float, jobs: int) -> None:
    """Runs parts: those of many commands side by side, then those that fill the machine."""
    # What takes longest comes first.
    narrow = [part for part in ("attacks", "audits", "defects") if part in parts]
    wide = [part for part in ("faults", "fuzz") if part in parts]
    begun = time.monotonic()

    def done(task: Task, slack: float) -> tuple[Task, int | None, Any, float]:
        start = time.monotonic()
        code, result = ran(task.words, 60.0 * minutes + slack)
        return task, code, result, time.monotonic() - start

    # Faults and fuzzing end by themselves, once what was begun is done.
    for names, together, slack in ((narrow, jobs, 0.0), *(([part], 1, 60.0) for part in wide)):
        todo = [
            task
            for part in names
            for task in tasks(part, quick=quick, minutes=minutes, jobs=jobs)
        ]
        with ThreadPoolExecutor(together) as pool:
            for each in as_completed([pool.submit(done, task, slack) for task in todo]):
                task, code, result, seconds = each.result()
                kept.add(task, code, result, seconds)
                at = time.monotonic() - begun
                print(
                    f"{at:5.0f} s  {task.part}: {task.name} ({seconds:.0f} s, code {code})",
                    file=sys.stderr,
                    flush=True,
                )


# The page.

Row = tuple[str, str, str]


def defects_rows(runs: Sequence[Record]) -> Iterator[Row]:
    found = [(run, each) for run in runs for each in run["result"]["defects"]]
    order = [defect.name for defect in DEFECTS]
    found.sort(key=lambda pair: order.index(pair[1]["name"]))
    caught = sum(each["found"] for _, each in found)
    yield "defects planted and caught", f"{caught} of {len(found)}", ""
    for run, each in found:
        verdict = "caught" if each["found"] else "**missed**"
        bound = f"epsilon at least {each['epsilon']:.3g}, claim {each['claim']:.3g}"
        # The first reason that is no bound says what is wrong.
        reasons = sorted(each["broken"], key=lambda reason: reason.startswith("epsilon is"))
        why = reasons[0] if reasons else "nothing found"
        yield f"- {each['name']}", f"{verdict}: {bound}; {why}", run["command"]
    for command in dict.fromkeys(run["command"] for run in runs if run["result"]["sound"]):
        same = [run["result"]["sound"] for run in runs if run["command"] == command]
        sound = [each for audits in same for each in audits]
        failed = sum(each["found"] for each in sound)
        above = sum(each["epsilon"] > each["claim"] for each in sound)
        times = len(sound)
        kind = ", dense rows" if "--dense" in command else ""
        failures = f"{failed} of {times}"
        yield f"audits of the sound engine that failed{kind}", failures, command
        yield (
            "- with a bound above the claim at 95 % (one of twenty may be)",
            f"{above} of {times}",
            "",
        )
        shares = sorted(each["epsilon"] / each["claim"] for each in sound)
        middle, least = shares[times // 2], shares[0]
        yield "- share of the claim reached", f"median {middle:.0%}, least {least:.0%}", ""


def audits_rows(runs: Sequence[Record]) -> Iterator[Row]:
    for run in sorted(runs, key=lambda run: run["name"]):
        found = run["result"]
        verdict = " **BROKEN**" if found["broken"] else ""
        bounds: dict[str, float] = {}
        for each in found["findings"]:
            kind = {"predictions": "black box"}.get(each["adversary"], "white box")
            if each["method"] == "one run":
                kind = f"one run, {each['adversary'].removeprefix('canaries in ')}"
            bounds[kind] = max(bounds.get(kind, 0.0), each["epsilon"])
        parts = ", ".join(f"{kind} {bound:.3f}" for kind, bound in bounds.items())
        yield (
            f"audit: {run['name']}",
            f"epsilon at least {found['epsilon']:.3f}, claim {found['claim']:.3f}: "
            f"{found['share']:.0%} of the claim{verdict} ({parts})",
            run["command"],
        )


def attacks_rows(runs: Sequence[Record]) -> Iterator[Row]:
    for run in sorted(runs, key=lambda run: run["name"]):
        found = run["result"]
        for row in found["rows"]:
            where = "" if row["inference"] is None else f", {row['inference']}"
            auc, low, high = row["auc"]
            rates = ", ".join(
                f"{100 * tpr[0]:.2g} % ({100 * tpr[1]:.2g} to {100 * tpr[2]:.2g}) "
                f"at {100 * rate:g} % false positives"
                for rate, tpr in zip(FALSE_POSITIVES, row["tpr"], strict=True)
            )
            others = f"; others {row['others'][0]:.3f}" if row["others"] else ""
            what = f"column {found['column']}" if row["attack"] == "column" else row["attack"]
            yield (
                f"attack on {found['source']}: {what}, {row['model']}{where}",
                f"AUC {auc:.3f} ({low:.3f} to {high:.3f}){others}; {rates}",
                run["command"],
            )


def faults_rows(runs: Sequence[Record]) -> Iterator[Row]:
    for run in runs:
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
            counts = Counter(each["faults"]).items()
            yield f"- {name}", ", ".join(f"{count} {how}" for how, count in counts), ""
        if not total["disks"]:
            yield "- full disk, read-only folder", "not possible on this system", ""


def fuzz_rows(runs: Sequence[Record]) -> Iterator[Row]:
    for run in runs:
        total = run["result"]["total"]
        yield "inputs fuzzed", f"{total['inputs']:,}", run["command"]
        yield "crashes", str(total["crashes"]), ""
        for name, each in run["result"]["targets"].items():
            read, refused = each.get("read", 0), each.get("refused", 0)
            counts = f"{each['inputs']:,}: {read:,} read, {refused:,} refused"
            yield f"- {name}", f"{counts}, {each['crashes']} crashes", ""


ROWS = {
    "defects": defects_rows,
    "audits": audits_rows,
    "attacks": attacks_rows,
    "faults": faults_rows,
    "fuzz": fuzz_rows,
}


def page(folders: Sequence[Path]) -> str:
    """The page, from what is kept; of each part what the last folder that has it holds."""
    lines = [
        "# Evidence",
        "",
        "Written by `make evidence` (`python scripts/evidence.py`), part by part; rows name",
        "their command. [How the evidence is made](concepts/evidence.md) says what the numbers",
        "mean and what they cannot show.",
        "",
    ]
    for part in PARTS:
        paths = [path for folder in folders if (path := folder / f"{part}.json").exists()]
        lines += [f"## {part.capitalize()}", ""]
        if not paths:
            lines += [f"Not measured: `python scripts/evidence.py --only {part}`.", ""]
            continue
        kept = json.loads(paths[-1].read_text())
        made = f"{kept['date']}, version {kept['version']}, commit {kept['commit']}"
        command = f"python scripts/evidence.py --only {part} --jobs {kept['jobs']}"
        lines += ["| what | found | command |", "| --- | --- | --- |"]
        lines.append(f"| made | {made} | `{command}` |")
        before = ""
        for what, found, words in ROWS[part]([r for r in kept["runs"] if r["result"]]):
            told = f"`{words}`" if words and words != before else ""
            before = words or before
            lines.append(f"| {what} | {found} | {told} |")
        for run in kept["runs"]:
            if not run["result"]:
                why = "took too long" if run["code"] is None else f"exit code {run['code']}"
                lines.append(
                    f"| {run['name']} | **not measured: {why}** | `{run['command']}` |"
                )
        lines.append("")
    return "\n".join(lines).rstrip() + "\n"


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--only", default=",".join(PARTS), help="parts, comma-separated")
    parser.add_argument("--jobs", type=int, default=1, help="processors to keep busy")
    parser.add_argument("--minutes", type=float, default=30.0, help="at most, for each command")
    parser.add_argument("--quick", action="store_true", help="small counts, to try it out")
    parser.add_argument("--out", type=Path, default=KEPT, help="keep what is found here")
    parser.add_argument("--commit", help="where there is no checkout to ask")
    parser.add_argument(
        "--from",
        dest="sources",
        type=Path,
        action="append",
        help="run nothing; write the page from what is kept here (again: a later one wins)",
    )
    chosen = parser.parse_args(arguments)
    if chosen.sources is None:
        parts = chosen.only.split(",")
        unknown = [part for part in parts if part not in PARTS]
        if unknown:
            parser.error(f"no such part: {', '.join(unknown)}")
        origin = {
            "date": date.today().isoformat(),
            "version": __version__,
            "commit": chosen.commit or commit(),
            "jobs": chosen.jobs,
        }
        kept = Kept(chosen.out, origin)
        make(parts, kept, quick=chosen.quick, minutes=chosen.minutes, jobs=chosen.jobs)
    PAGE.write_text(page(chosen.sources or [chosen.out]))
    print(f"Wrote {PAGE.relative_to(ROOT)}.")
    return 0


if __name__ == "__main__":
    sys.exit(main())
