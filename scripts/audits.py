"""Audits the sound engine: each unit, relation and schedule, and one case again and again.

    python scripts/audits.py [--epsilon 1 4] [--repeats 20] [--jobs 1]

Prints, of each audit, the claim and the lower bound, the share of the claim that the bound
reaches, and the processor seconds it took. Exits with 1 if an audit calls a claim broken.
"""

from __future__ import annotations

import argparse
import sys
import time
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from typing import Any

from privgcn.audit.audit import Audit, audit
from privgcn.config import make_settings
from privgcn.privacy.plan import plan_for

UNITS = 2_000
POISSON = {"sampling": "poisson", "sampling_probability": 0.25}
EPOCH = {"sampling": "epoch", "parts": 10}
CASES: dict[str, tuple[dict[str, Any], bool]] = {
    f"{unit}, {relation}, {name}": ({"unit": unit, "relation": relation, **more}, dense)
    for unit, relation in (
        ("document", "remove"),
        ("document", "replace"),
        ("person", "remove"),
        ("person", "replace"),
    )
    for name, more, dense in (
        ("all", {}, False),
        ("all, dense rows", {}, True),
        ("poisson", POISSON, False),
        ("epoch of 10 parts", EPOCH, False),
    )
}
CASES |= {
    f"{unit}, {relation}, {name}": ({"unit": unit, "relation": relation, **more}, False)
    for relation in ("remove", "replace")
    for unit, name, more in (
        ("part", "all of 10 parts", {"parts": 10}),
        ("part", "poisson of 10 parts", {**POISSON, "parts": 10}),
        ("part", "epoch of 10 parts", EPOCH),
        ("graph", "all", {"parts": 1}),
    )
}
AGAIN = "document, remove, all"


def audited(case: str, epsilon: float) -> tuple[str, Audit, float]:
    """One audit of recipe auto."""
    changes, dense = CASES[case]
    dotted = {f"privacy.{name}": value for name, value in changes.items()}
    settings = make_settings("auto", epsilon=epsilon, changes={"privacy.delta": 1e-5, **dotted})
    assert settings.privacy is not None
    epochs = settings.training.epochs
    plan = plan_for(settings.privacy, UNITS, epochs=epochs, seed=0, columns={})
    begun = time.process_time()
    result = audit(settings, plan, dense=dense)
    return case, result, time.process_time() - begun


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--epsilon", nargs="*", type=float, default=[1.0, 4.0])
    parser.add_argument("--repeats", type=int, default=20)
    parser.add_argument("--jobs", type=int, default=1)
    asked = parser.parse_args()
    tasks = [(case, epsilon) for case in CASES for epsilon in asked.epsilon]
    tasks += [(AGAIN, 1.0)] * asked.repeats
    broken = 0
    print("| case | claim | at least | share | s |\n| --- |" + " --- |" * 4)
    with ProcessPoolExecutor(asked.jobs, mp_context=get_context("spawn")) as pool:
        for case, found, seconds in pool.map(audited, *zip(*tasks, strict=True)):
            broken += bool(found.broken)
            print(
                f"| {case} | {found.claim:.3g} | {found.epsilon:.3f} | {found.share:.0%} | "
                f"{seconds:.0f} |",
                *found.broken,
                flush=True,
            )
    print(f"{broken} of {len(tasks)} audits call a sound claim broken")
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
