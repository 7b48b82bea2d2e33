"""Kills commands at random moments and looks at what they left.

    python scripts/faults.py [--times 50] [--verbs train tune ...] [--seed 0]

After each kill the target must be absent or whole, the same command run again must end well,
and a ledger must hold a release once or not at all. A file in the way and two processes at once
must end in one line. Exits with 1 if anything was lost, charged twice, left half-written, or
answered otherwise.
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
from collections.abc import Callable
from pathlib import Path

RUN = [sys.executable, "-m", "privgcn"]
TRAIN = [
    "train",
    "letters",
    "--epsilon",
    "4",
    "--delta",
    "1e-3",
    "--features",
    "hashing",
    "--quiet",
    "--out",
    "runs/a",
]
COMMANDS: dict[str, list[str]] = {
    "train": [*RUN, *TRAIN],
    "ranks": [
        *(sys.executable, "-m", "torch.distributed.run", "--standalone"),
        *("--nproc-per-node", "2", "-m", "privgcn", *TRAIN),
    ],
    "tune": [
        *RUN,
        *[
            "tune",
            "letters",
            "--epsilon",
            "8",
            "--delta",
            "1e-3",
            "--features",
            "hashing",
            "--expected-runs",
            "2",
        ],
        *["--try", "training.epochs=5,10", "--quiet", "--out", "runs/a"],
    ],
    "release": [
        *RUN,
        *["release", "runs/done", "released", "--ledger", "ledger.jsonl", "--quiet"],
    ],
    "reproduce": [
        *RUN,
        *["reproduce", "--config", "grid.toml", "--workers", "2", "--out", "runs/a", "--json"],
    ],
}
GRID = """seeds = 2
[[grid]]
dataset = "letters"
recipe = "auto"
epsilon = [2, 4]
features = "hashing"
changes = { "privacy.delta" = 1e-3 }
"""


def prepare(folder: Path) -> None:
    """Documents, a finished run and a grid."""
    rows = [
        {"id": f"d{n}", "text": f"{['invoice', 'parcel'][n % 2]} word{n % 7} number {n}",
         "label": ["billing", "delivery"][n % 2]}
        for n in range(120)
    ]  # fmt: skip
    (folder / "letters").mkdir()
    (folder / "letters" / "documents.jsonl").write_text("\n".join(map(json.dumps, rows)))
    (folder / "grid.toml").write_text(GRID)
    done = [*COMMANDS["train"][:-1], "runs/done"]
    subprocess.run(done, cwd=folder, check=True, capture_output=True)


def run(command: list[str], folder: Path, kill_after: float | None = None) -> tuple[int, str]:
    """Runs a command, or kills it and all that it started; its exit code and last words."""
    process = subprocess.Popen(
        command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        start_new_session=True, env=os.environ | {"OMP_NUM_THREADS": "1"},
    )  # fmt: skip
    try:
        _, errors = process.communicate(timeout=kill_after or 300)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
        return -signal.SIGKILL, ""
    return process.returncode, errors


def whole(folder: Path, name: str) -> str | None:
    """What is wrong with what a kill left; ``None`` where it is absent or whole."""
    target = folder / name
    if not target.exists():
        return None
    code, errors = run([*RUN, "verify", name], folder)
    return None if code == 0 else f"half-written: {errors.strip()}"


def ledger_lines(folder: Path) -> int:
    path = folder / "ledger.jsonl"
    return len(path.read_text().splitlines()) if path.exists() else 0


def after_kill(verb: str, folder: Path) -> str | None:
    if verb == "reproduce":
        for path in (folder / "runs" / "a").glob("*.json"):
            json.loads(path.read_text())
        return None
    return whole(folder, "released" if verb == "release" else "runs/a")


def again(verb: str, folder: Path) -> str | None:
    """The same command, with leave to replace what a first one may have finished."""
    command = COMMANDS[verb] + ([] if verb == "reproduce" else ["--overwrite"])
    code, errors = run(command, folder)
    if code != 0:
        return f"lost: the command ended with {code}: {errors.strip()[-300:]}"
    if verb == "release" and ledger_lines(folder) != 1:
        return f"charged {ledger_lines(folder)} times"
    return after_kill(verb, folder)


def one_line(name: str, folder: Path, spoil: Callable[[Path], object]) -> str | None:
    """A fault of the machine must be answered by one line and an exit code of the user's."""
    spoil(folder)
    code, errors = run(COMMANDS["train"], folder)
    lines = [line for line in errors.strip().splitlines() if line]
    if code == 0 or (len(lines) == 1 and lines[0].startswith("Error: ")):
        return None
    return f"{name}: exit code {code}: {errors.strip()[-300:]}"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--times", type=int, default=50)
    parser.add_argument("--verbs", nargs="*", default=list(COMMANDS), choices=list(COMMANDS))
    parser.add_argument("--seed", type=int, default=0)
    asked = parser.parse_args()
    generator, problems, counts = random.Random(asked.seed), [], Counter[str]()
    with tempfile.TemporaryDirectory() as place:
        base = Path(place) / "base"
        base.mkdir()
        prepare(base)

        def fresh(name: str) -> Path:
            folder = Path(place) / name
            shutil.copytree(base, folder)
            return folder

        for verb in asked.verbs:
            folder = fresh(f"{verb}-timed")
            begun = time.monotonic()
            run(COMMANDS[verb], folder)
            seconds = time.monotonic() - begun
            for number in range(asked.times):
                folder = fresh(f"{verb}-{number}")
                moment = generator.uniform(0.05, 1.0) * seconds
                code, _ = run(COMMANDS[verb], folder, kill_after=moment)
                counts[f"{verb}, {'killed' if code < 0 else 'ended before'}"] += 1
                for problem in (after_kill(verb, folder), again(verb, folder)):
                    if problem is not None:
                        problems.append(f"{verb}, killed after {moment:.2f} s: {problem}")
                shutil.rmtree(folder)
        folder = fresh("two")
        both = [subprocess.Popen([*COMMANDS["train"]], cwd=folder) for _ in range(2)]
        codes = sorted(process.wait() for process in both)
        if codes not in ([0, 2], [0, 0]) or whole(folder, "runs/a") is not None:
            problems.append(f"two processes: exit codes {codes}")
        problem = one_line(
            "a file in the way", fresh("file"), lambda f: (f / "runs" / "a").write_text("mine")
        )
        problems += [] if problem is None else [problem]
    for what, count in sorted(counts.items()):
        print(f"{what}: {count}")
    for problem in problems:
        print(problem, file=sys.stderr)
    print(f"{len(problems)} problems")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
