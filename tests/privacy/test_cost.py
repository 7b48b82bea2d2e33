"""What a user waits for: verifying a claim loads neither PyTorch, SciPy nor an accountant."""

import resource
import subprocess
import sys
from pathlib import Path

import pytest

from privacy.plans import statement

VERIFY = """
import sys
from privgcn.privacy.statement import PrivacyStatement
PrivacyStatement.from_json(open(sys.argv[1]).read()).verify()
print(*sorted({name.partition('.')[0] for name in sys.modules}))
"""
ACCOUNT = """
import sys
from privgcn.privacy.accounting import epsilon_of
epsilon_of(noise_multiplier=4.0, steps=1000, accountant=sys.argv[1],
           sampling_probability=float(sys.argv[2]))
print(*sorted({name.partition('.')[0] for name in sys.modules}))
"""
HEAVY = {"torch", "scipy", "dp_accounting", "sklearn", "polars"}


def run(program: str, *arguments: str) -> tuple[set[str], float]:
    """The heavy packages that a program loaded, and its seconds of CPU."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    command = [sys.executable, "-c", program, *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    seconds = after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime
    return HEAVY & set(done.stdout.split()), seconds


@pytest.mark.parametrize(
    ("accountant", "rate", "loads"),
    [
        ("pld", "1.0", set()),
        ("rdp", "0.1", set()),
        ("moments", "0.1", set()),
        ("pld", "0.1", {"scipy", "dp_accounting"}),
    ],
)
def test_accounting_loads_what_it_needs(accountant: str, rate: str, loads: set[str]) -> None:
    loaded, seconds = run(ACCOUNT, accountant, rate)
    assert loaded == loads
    assert loads or seconds < 1.0


def test_verifying_a_statement_is_quick(tmp_path: Path) -> None:
    path = tmp_path / "statement.json"
    path.write_text(statement().to_json())
    loaded, seconds = run(VERIFY, str(path))
    assert not loaded
    assert seconds < 0.8
