"""Kills commands at random moments, takes the disk away, and looks at what is left.

    python scripts/faults.py [--times 50] [--minutes 60] [--commands train tune ...] [--seed 0]

Every command is killed as often as the others, until the times or the minutes are over; of
four ranks, all at once or one of them. Processes are forked from one that has imported
everything: kills meet work, not imports. After each kill the target is absent or whole, an
earlier run is as it was, a release lies there only if the ledger has it, and the same command
run again ends well with one line in the ledger. On a full or read-only disk a command ends well
or in one line and leaves nothing, and two processes at once do not harm each other. Needs
Linux, and root or user namespaces. Exits with 1 if anything else happens.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from privgcn.errors import PrivGCNError
from privgcn.runs.run import verify

FORKS = get_context("forkserver")
FORKS.set_forkserver_preload(["privgcn.cli.app", "privgcn.runs.tune", "torch", "joblib"])

PRIVGCN = [sys.executable, "-m", "privgcn"]
RANKS = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "4"]
COMMON = ["--delta", "1e-3", "--features", "hashing", "--quiet", "--out", "made/run"]
TRAIN = ["train", "letters", "--epsilon", "4", *COMMON]
TUNE = ["tune", "letters", "--epsilon", "8", "--expected-runs", "2", *COMMON]
RELEASE = ["release", "done", "made/release", "--ledger", "made/ledger.jsonl", "--quiet"]
COMMANDS: dict[str, list[str]] = {
    "train": [*PRIVGCN, *TRAIN],
    "train --overwrite": [*PRIVGCN, *TRAIN[:-1], "done", "--overwrite"],
    "four ranks": [*RANKS, "-m", "privgcn", *TRAIN],
    "tune": [*PRIVGCN, *TUNE, "--try", "training.epochs=5,10"],
    "release": [*PRIVGCN, *RELEASE],
    "reproduce": [
        *(*PRIVGCN, "reproduce", "experiment-a", "--quick", "--datasets", "letters"),
        *("--workers", "2", "--quiet", "--out", "made/run"),
    ],
}


def prepare(folder: Path) -> None:
    """Documents, a finished run, and a place for what is made."""
    rows = [
        {"id": f"d{n}", "text": f"{['invoice', 'parcel'][n % 2]} word{n % 7} number {n}",
         "label": ["billing", "delivery"][n % 2]}
        for n in range(120)
    ]  # fmt: skip
    (folder / "letters").mkdir(parents=True)
    (folder / "letters" / "documents.jsonl").write_text("\n".join(map(json.dumps, rows)))
    (folder / "made").mkdir()
    done = [*COMMANDS["train"][:-1], "done"]
    assert run(done, folder)[0] == 0


def run(
    command: list[str],
    folder: Path,
    kill_after: float | None = None,
    *,
    one: bool = False,
) -> tuple[int, str]:
    """Runs a command, or kills it and all (or ``one``) that it started; exit code, errors."""
    errors = Path(tempfile.mkstemp(dir=folder)[1])
    process: Any
    if command[:3] == PRIVGCN:
        process = FORKS.Process(target=typed, args=(command[3:], folder, errors))
        process.start()
        process.join(kill_after or 900)
    else:
        with errors.open("w") as file:
            process = Started(command, cwd=folder, stdout=subprocess.DEVNULL, stderr=file)
        with suppress(subprocess.TimeoutExpired):
            process.wait(kill_after or 900)
    if process.exitcode is None:
        started = with_descendants(process.pid)
        for each in started[-1:] if one else started:
            with suppress(ProcessLookupError):
                os.kill(each, signal.SIGKILL)
    process.join()
    said = errors.read_text().strip()
    errors.unlink()
    return process.exitcode, said


class Started(subprocess.Popen[bytes]):
    """A program, by the names that a process of Python has."""

    exitcode = property(subprocess.Popen.poll)
    join = subprocess.Popen.wait


def typed(words: list[str], folder: Path, errors: Path) -> None:
    """What a process does that was forked where everything is imported already."""
    os.chdir(folder)
    for number, path in ((1, os.devnull), (2, str(errors))):
        os.dup2(os.open(path, os.O_WRONLY), number)
    sys.argv[1:] = words
    from privgcn.cli import main

    main()


def with_descendants(process: int) -> list[int]:
    """A process and all that it started: torchrun gives each rank a session of its own."""
    parents, found = {}, [process]
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            parents[int(stat.parent.name)] = int(stat.read_text().rpartition(")")[2].split()[1])
    for each in found:
        found += [child for child, parent in parents.items() if parent == each]
    return found


def charged(folder: Path) -> int:
    """How many releases the ledger has."""
    ledger = folder / "made" / "ledger.jsonl"
    return len(ledger.read_text().splitlines()) if ledger.exists() else 0


def wrong(folder: Path, *, overwritten: bool = False) -> Iterator[str]:
    """What is not as it must be, whatever happened before."""
    if not overwritten and not (folder / "done" / "manifest.json").exists():
        yield "the earlier run is lost"
    if overwritten and not list(folder.glob("**/done/manifest.json")):
        yield "both the earlier run and the new one are lost"
    for manifest in folder.glob("**/manifest.json"):
        # Whatever says that it is whole, drafts included.
        try:
            verify(manifest.parent)
        except PrivGCNError as error:
            yield f"{manifest.parent.relative_to(folder)} is not whole: {error}"
    for record in folder.glob("made/run/*.json"):
        json.loads(record.read_text())
    lines = charged(folder)
    if lines > 1 or ((folder / "made" / "release").exists() and lines == 0):
        yield f"a release was charged {lines} times"


def killed(name: str, folder: Path, moment: float, *, one: bool) -> tuple[str, list[str]]:
    """Kills a command at a moment, looks, runs it again and looks again."""
    command, overwritten = COMMANDS[name], "--overwrite" in COMMANDS[name]
    code, _ = run(command, folder, kill_after=moment, one=one)
    problems = list(wrong(folder, overwritten=overwritten))
    again = [] if overwritten or name == "reproduce" else ["--overwrite"]
    if overwritten and not (folder / "done").exists():
        again = []
    last, errors = run([*command, *again], folder)
    if last != 0:
        problems.append(f"run again, it ended with {last}: {errors[-300:]}")
    problems += wrong(folder, overwritten=overwritten)
    if name == "release" and charged(folder) != 1:
        problems.append(f"run again, it was charged {charged(folder)} times")
    shutil.rmtree(folder)
    where = f"{name}, killed after {moment:.2f} s"
    return f"{name}, {'killed' if code < 0 else 'over before'}", [
        f"{where}: {each}" for each in problems
    ]


def on_disk(name: str, folder: Path, options: str) -> tuple[str, list[str]]:
    """Runs a command where what is made lies on a disk of its own, seen by nobody else."""
    script = f"""mount -t tmpfs -o {options} none made || exit 99
    "$@"; code=$?; ls -A made; [ -z "$(ls -A made)" ] || tar cf kept.tar made; exit $code"""
    space = ["unshare", "-m"] if os.geteuid() == 0 else ["unshare", "-rm"]
    code, errors = run([*space, "sh", "-c", script, "sh", *COMMANDS[name]], folder)
    if (folder / "kept.tar").exists():
        subprocess.run(["tar", "xf", "kept.tar"], cwd=folder, check=True)
    problems = list(wrong(folder))
    fine = code == 0 or (code == 2 and errors.startswith("Error: ") and "\n" not in errors)
    left = [path.name for path in (folder / "made").iterdir() if name != "reproduce"]
    if not fine or (code != 0 and not all(each.startswith("ledger") for each in left)):
        problems.append(f"exit code {code}, left {left}: {errors[-300:]}")
    outcome = "finished" if code == 0 else "one line"
    return f"{name}, disk {options.partition('=')[0]}: {outcome}", [
        f"{name}, disk {options}: {each}" for each in problems
    ]


def twice_at_once(name: str, folder: Path) -> tuple[str, list[str]]:
    """Two processes with the same target: one at least ends well, the other in one line."""
    with ThreadPoolExecutor(2) as both:
        ends = list(both.map(lambda _: run(COMMANDS[name], folder), range(2)))
    problems = list(wrong(folder))
    refused = [errors for code, errors in ends if code != 0]
    if len(refused) == 2 or any("\n" in each or "Error: " not in each for each in refused):
        problems.append(f"ended with {ends}")
    return f"{name}, twice at once", [f"{name}, twice at once: {each}" for each in problems]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--times", type=int, default=50)
    parser.add_argument("--minutes", type=float, default=600.0)
    parser.add_argument("--commands", nargs="*", default=list(COMMANDS), choices=COMMANDS)
    parser.add_argument("--only-kills", action="store_true")
    parser.add_argument("--seed", type=int, default=0)
    asked = parser.parse_args()
    os.environ["OMP_NUM_THREADS"] = "1"
    generator, found = random.Random(asked.seed), []
    end = time.monotonic() + 60 * asked.minutes
    with tempfile.TemporaryDirectory() as place:
        base = Path(place) / "base"
        prepare(base)

        def fresh() -> Path:
            return Path(shutil.copytree(base, Path(tempfile.mkdtemp(dir=place)) / "copy"))

        def lasts(name: str) -> float:
            begun = time.monotonic()
            run(COMMANDS[name], fresh())
            return time.monotonic() - begun

        seconds = {name: lasts(name) for name in asked.commands}
        for number in range(asked.times):
            for name in asked.commands if time.monotonic() < end else ():
                moment = generator.uniform(0.02, 1.1) * seconds[name]
                one = name == "four ranks" and number % 2 == 1
                found.append(killed(name, fresh(), moment, one=one))
        for name in ("train", "release", "tune", "reproduce") if not asked.only_kills else ():
            for options in ("ro", *(f"size={size}k" for size in (4, 16, 64, 256, 1024, 4096))):
                found.append(on_disk(name, fresh(), options))
        if not asked.only_kills:
            found += [twice_at_once(n, fresh()) for n in ("train", "release", "reproduce")]
    for what, count in sorted(Counter(what for what, _ in found).items()):
        print(f"{what}: {count}")
    problems = [problem for _, some in found for problem in some]
    print("\n".join(problems), file=sys.stderr)
    print(f"{len(problems)} problems in {len(found)} faults, seed {asked.seed}")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
