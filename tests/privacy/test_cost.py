"""What a user waits for: verifying a claim loads neither PyTorch, SciPy nor an accountant."""

import resource
import subprocess
import sys
from pathlib import Path

from privacy.plans import statement

LOADED = "\nprint(*sorted({name.partition('.')[0] for name in sys.modules}))"
VERIFY = """
import sys
from privgcn.privacy.statement import PrivacyStatement
PrivacyStatement.from_json(open(sys.argv[1]).read()).verify()"""
ACCOUNT = """
import sys
from privgcn.privacy.accounting import epsilon_of
for pair in sys.argv[1:]:
    accountant, rate = pair.split()
    epsilon_of(noise_multiplier=4.0, steps=1000, accountant=accountant,
               sampling_probability=float(rate))"""
HEAVY = {"torch", "scipy", "dp_accounting", "sklearn", "polars"}


def run(program: str, *arguments: str) -> tuple[set[str], float]:
    """The heavy packages that a program loaded, and its seconds of CPU."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    command = [sys.executable, "-c", program + LOADED, *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    seconds = after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime
    return HEAVY & set(done.stdout.split()), seconds


def test_accounting_loads_what_it_needs() -> None:
    loaded, seconds = run(ACCOUNT, "pld 1.0", "rdp 0.1", "moments 0.1")
    assert not loaded
    assert seconds < 1.0
    assert run(ACCOUNT, "pld 0.1")[0] == {"scipy", "dp_accounting"}


def test_verifying_a_statement_is_quick(tmp_path: Path) -> None:
    path = tmp_path / "statement.json"
    path.write_text(statement().to_json())
    loaded, seconds = run(VERIFY, str(path))
    assert not loaded
    assert seconds < 0.8
