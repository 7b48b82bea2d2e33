"""Every golden value, to the digits given, through the command line that users see."""

import json
import tomllib
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from privgcn.cli.app import app

FIGURES = tomllib.loads((Path(__file__).parent / "figures.toml").read_text())


def options(figure: dict[str, Any], names: tuple[str, ...]) -> list[str]:
    pairs = [
        (f"--{name.replace('_', '-')}", str(figure[name])) for name in names if name in figure
    ]
    return [word for pair in pairs for word in pair]


def digits(value: float, as_in: str) -> str:
    return f"{value:.{len(as_in.partition('.')[2])}f}"


@pytest.mark.parametrize("figure", FIGURES["epsilon"], ids=lambda figure: figure["what"])
def test_account_gives_the_golden_epsilon(figure: dict[str, Any]) -> None:
    names = ("noise_multiplier", "steps", "sampling_probability", "sensitivity", "accountant")
    result = CliRunner().invoke(
        app, ["account", *options(figure, names), "--delta", "1e-5", "--json"]
    )
    assert result.exit_code == 0, result.output
    assert digits(json.loads(result.output)["epsilon"], figure["epsilon"]) == figure["epsilon"]


@pytest.mark.parametrize("figure", FIGURES["noise"], ids=lambda figure: figure["what"])
def test_calibrate_gives_the_golden_noise(figure: dict[str, Any]) -> None:
    names = ("epsilon", "steps", "sampling_probability", "sensitivity", "accountant")
    result = CliRunner().invoke(app, ["calibrate", *options(figure, names), "--json"])
    assert result.exit_code == 0, result.output
    found = json.loads(result.output)
    expected = figure["noise_multiplier"]
    assert digits(found["noise_multiplier"], expected) == expected
    assert found["epsilon"] <= figure["epsilon"]
