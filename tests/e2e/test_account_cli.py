"""account, calibrate and verify as a user meets them."""

import json
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

import pytest
from typer.testing import CliRunner

from privgcn import __version__
from privgcn.cli.app import app
from privgcn.errors import PrivGCNError
from privgcn.privacy.partition import PartitionFacts
from privgcn.privacy.plan import PrivacyPlan
from privgcn.privacy.schedule import AllParts
from privgcn.privacy.statement import PrivacyStatement

ACCOUNT = ["account", "--noise-multiplier", "4", "--steps", "100"]


def run(*words: str) -> subprocess.CompletedProcess[str]:
    """The program as users start it, errors and exit codes included."""
    code = "from privgcn.cli import main; main()"
    return subprocess.run(
        [sys.executable, "-c", code, *words], capture_output=True, text=True, check=False
    )


def test_the_version_is_that_of_the_package() -> None:
    result = CliRunner().invoke(app, ["--version"])
    assert (result.exit_code, result.output) == (0, f"privgcn {__version__}\n")
    assert __version__ == version("privgcn")


def test_account_json_has_the_promised_fields() -> None:
    result = CliRunner().invoke(app, [*ACCOUNT, "--json"])
    assert result.exit_code == 0
    assert set(json.loads(result.output)) == {
        "epsilon",
        "delta",
        "accountant",
        "noise_multiplier",
        "steps",
        "sampling_probability",
        "sensitivity",
    }


def test_account_for_people() -> None:
    result = CliRunner().invoke(app, ACCOUNT)
    assert result.exit_code == 0
    assert result.output.startswith("epsilon <= ")


def test_calibrate_json_has_the_promised_fields() -> None:
    result = CliRunner().invoke(
        app, ["calibrate", "--epsilon", "1", "--steps", "100", "--json"]
    )
    assert result.exit_code == 0
    record = json.loads(result.output)
    assert {"noise_multiplier", "epsilon"} <= set(record)
    assert record["epsilon"] <= 1.0
    result = CliRunner().invoke(app, ["calibrate", "--epsilon", "1", "--steps", "100"])
    assert "noise multiplier" in result.output


@pytest.mark.parametrize(
    "words",
    [
        ["account", "--noise-multiplier", "0", "--steps", "100"],
        ["account", "--noise-multiplier", "nan", "--steps", "100"],
        [*ACCOUNT, "--sensitivity", "3"],
        [*ACCOUNT, "--sampling-probability", "0"],
        [*ACCOUNT, "--delta", "0"],
        [*ACCOUNT, "--accountant", "gdp"],
        [*ACCOUNT, "--accountant=moments", "--sensitivity=2", "--sampling-probability=.1"],
        ["calibrate", "--epsilon", "0.01", "--steps", "9", "--accountant", "moments"],
        ["verify", "no-such-folder"],
    ],
    ids=" ".join,
)
def test_mistakes_are_the_users(words: list[str]) -> None:
    result = CliRunner().invoke(app, words)
    assert isinstance(result.exception, PrivGCNError)
    assert result.exception.exit_code == 2


def test_a_mistake_is_one_line_and_exit_code_two() -> None:
    result = run(*ACCOUNT, "--sensitivity", "3")
    assert result.returncode == 2
    assert result.stdout == ""
    assert result.stderr.startswith("Error: The 'sensitivity'")
    assert "Traceback" not in result.stderr
    assert result.stderr.count("\n") == 1


def test_help_imports_nothing_heavy() -> None:
    code = (
        "import sys, privgcn.cli; "
        "print([name for name in ('torch', 'scipy', 'dp_accounting', 'polars', 'sklearn') "
        "if name in sys.modules])"
    )
    result = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    assert result.stdout.strip() == "[]"


@pytest.fixture
def statement(tmp_path: Path) -> Path:
    plan = PrivacyPlan(
        unit="document",
        relation="remove",
        partition=PartitionFacts(kind="each", parts=50),
        schedule=AllParts(50),
        clip_norm=1.0,
        noise_multiplier=6.0,
        steps=3,
        delta=1e-5,
        units=50,
    )
    file = tmp_path / "statement.json"
    file.write_text(PrivacyStatement.of(plan, releasable=False).to_json())
    return file


def test_verify_holds(statement: Path) -> None:
    result = CliRunner().invoke(app, ["verify", str(statement), "--json"])
    assert result.exit_code == 0
    record = json.loads(result.output)
    assert record["verified"] is True
    assert record["releasable"] is False
    result = CliRunner().invoke(app, ["verify", str(statement)])
    assert "verified: epsilon <= " in result.output
    assert "not releasable" in result.output


def test_verify_fails_on_an_edit(statement: Path) -> None:
    statement.write_text(
        statement.read_text().replace('"noise_multiplier": 6.0', '"noise_multiplier": 9.0')
    )
    result = run("verify", str(statement))
    assert result.returncode == 2
    assert result.stderr.startswith("Error: The ")
    assert "edited" in result.stderr
