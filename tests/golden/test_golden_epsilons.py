"""Epsilons that must not move: published figures, our own, and those of 0.1.0."""

import tomllib
from pathlib import Path

import pytest

from privgcn.privacy.accounting import GaussianEvent, calibrate, epsilon_of
from privgcn.privacy.plan import PartitionFacts, PrivacyPlan, Schedule
from privgcn.privacy.selection import Selection

HERE = Path(__file__).parent
FIGURES = tomllib.loads((HERE / "figures.toml").read_text())
PLANS = tomllib.loads((HERE / "plans.toml").read_text())["plan"]
NAMES = ("noise_multiplier", "steps", "sampling_probability", "sensitivity", "accountant")


def digits(value, as_in):
    return f"{value:.{len(as_in.partition('.')[2])}f}"


# hazard 12
@pytest.mark.parametrize("figure", FIGURES["epsilon"], ids=lambda figure: figure["what"])
def test_golden_epsilon(figure):
    epsilon = epsilon_of(**{name: figure[name] for name in NAMES if name in figure})
    assert digits(epsilon, figure["epsilon"]) == figure["epsilon"]


@pytest.mark.parametrize("figure", FIGURES["noise"], ids=lambda figure: figure["what"])
def test_golden_noise(figure):
    names = [name for name in ("epsilon", *NAMES[1:]) if name in figure]
    found = calibrate(**{name: figure[name] for name in names})
    expected = figure["noise_multiplier"]
    assert digits(found.noise_multiplier, expected) == expected
    assert found.epsilon <= figure["epsilon"]


def old_plan(row):
    search = row.get("search")
    selection = search and Selection(
        expected_runs=search["expected_runs"],
        candidates=tuple(GaussianEvent(*candidate) for candidate in search["candidates"]),
        score=GaussianEvent(search["score"][0], 1, 1.0, search["score"][1])
        if "score" in search
        else None,
        validation_units=search["validation_units"],
    )
    return PrivacyPlan(
        unit=row["unit"],
        relation=row["relation"],
        partition=PartitionFacts(
            kind=row["kind"],
            groups=row["groups"],
            by="owner" if row["unit"] == "person" else "document",
            seed=0 if row["kind"] == "random" else None,
        ),
        schedule=Schedule(row["sampling"], row["groups"], row.get("probability")),
        clip_norm=1.0,
        noise_multiplier=row["noise_multiplier"],
        steps=row["steps"],
        delta=row["delta"],
        units=row["units"],
        accountant=row["accountant"],
        selection=selection,
    )


def name_of(row):
    words = [row[key] for key in ("accountant", "unit", "relation", "sampling")]
    return "-".join([*words, str(row["noise_multiplier"]), "search" * ("search" in row)])


@pytest.mark.parametrize("row", PLANS, ids=name_of)
def test_the_plans_of_0_1_0_cost_what_they_did(row):
    plan = old_plan(row)
    assert plan.sensitivity == row["sensitivity"]
    close = 1e-4 if row["accountant"] == "pld" and row["sampling"] == "poisson" else 1e-6
    assert plan.epsilon == pytest.approx(row["epsilon"], rel=close)
    assert plan.epsilon_without_amplification == pytest.approx(
        row["epsilon_without_amplification"], rel=1e-6
    )
