"""Audits of the engine as it is, and with defects that were planted."""

from __future__ import annotations

from typing import Any
from unittest.mock import patch

import planted_defects
import pytest

from privgcn.config import Settings, make_settings
from privgcn.errors import ConfigError, PrivacyContractError
from privgcn.evidence.audit import Audit, audit, usual_runs
from privgcn.evidence.canaries import check_alike, worst_case
from privgcn.privacy.plan import PrivacyPlan
from privgcn.randomness import RandomSource
from privgcn.training.planning import plan_for_units

# Bounds on secret noise: a test that fails by chance once in 50,000 calls.
SURE = 0.999


def plan_of(settings: Settings) -> PrivacyPlan:
    assert settings.privacy is not None
    return plan_for_units(
        settings.privacy, 100, epochs=settings.training.epochs, seed=0, columns={}
    )


def audited(
    recipe: str = "auto", *, epsilon: float, dense: bool = False, runs: int, **changes: Any
) -> Audit:
    named = {name.replace("__", "."): value for name, value in changes.items()}
    optimizer = named.pop("optimizer", None)
    settings = make_settings(recipe, epsilon=epsilon, optimizer=optimizer, changes=named)
    return audit(settings, plan_of(settings), dense=dense, runs=runs, confidence=SURE)


@pytest.mark.parametrize(
    ("unit", "dense"), [("document", False), ("person", False), ("person", True)]
)
def test_a_sound_engine_passes_and_half_of_its_claim_is_reached(unit: str, dense: bool) -> None:
    found = audited(epsilon=4.0, dense=dense, runs=1_000, privacy__unit=unit)
    assert found.broken == ()
    assert 0.5 < found.share <= 1.0
    # The canary is clipped to the norm that is accounted, in nearly every step.
    assert 0.9 < found.usual_move <= found.largest_move <= 1.0
    assert found.findings[0].adversary == "all releases"


CASES: list[tuple[int, dict[str, Any]]] = [
    (2, {"privacy__relation": "replace"}),
    (2, {"privacy__parts": 4}),
    (2, {"privacy__unit": "person", "privacy__parts": 3, "privacy__sampling": "epoch"}),
    (1, {"privacy__sampling": "poisson", "privacy__sampling_probability": 0.3}),
    (2, {"privacy__sampling": "poisson", "privacy__parts": 4}),
    (1, {"recipe": "paper-split", "optimizer": "sgd"}),
    (1, {"recipe": "paper-full", "optimizer": "adam"}),
    (2, {"recipe": "paper-full", "optimizer": "sgd", "privacy__relation": "replace"}),
]


def test_a_centre_is_audited_under_every_schedule_and_cut() -> None:
    for changes in (
        {"privacy__sampling": "epoch", "privacy__parts": 3},
        {"privacy__sampling": "poisson", "privacy__sampling_probability": 1.0},
    ):
        few = {"training__epochs": 3, **changes}
        found = audited(epsilon=3.0, dense=True, runs=10, **few)
        assert found.broken == ()
        # Centred rows have length one: nobody in a shared part can be loud enough for two.
        assert 0.95 < found.largest_move <= found.sensitivity


@pytest.mark.parametrize(("sensitivity", "changes"), CASES)
def test_every_kind_of_plan_has_its_worst_case(
    sensitivity: int, changes: dict[str, Any]
) -> None:
    few = {"training__epochs": 3, **changes}
    found = audited(epsilon=3.0, runs=40, **few)
    assert found.broken == ()
    assert found.sensitivity == sensitivity
    assert 0.85 * sensitivity < found.largest_move <= sensitivity
    assert all(finding.epsilon <= found.claim for finding in found.findings)


# Whether a defect is so gross that the bound proves it as well.
FAST = {
    "no clipping": True,
    "clipping tensor by tensor": False,
    "links between parts uncut": True,
    "two clip norms accounted as one": False,
}
NOISE = {
    "noise repeated in every step": "noise that repeats between steps",
    "noise repeated in every run": "noise that repeats between runs",
    "noise in float32": "bits of noisy sums",
}


def defect(name: str) -> Any:
    (found,) = [each for each in planted_defects.DEFECTS if each.name == name]
    return found


@pytest.mark.parametrize(("name", "gross"), FAST.items())
def test_a_unit_that_moves_a_sum_too_far_is_found(name: str, gross: bool) -> None:
    found = defect(name).audited(400)
    assert any("moved a sum" in reason for reason in found.broken)
    assert found.largest_move > 1.5 * found.sensitivity
    assert not gross or found.findings[0].surely > 3 * found.claim


@pytest.mark.parametrize("name", NOISE)
def test_noise_that_is_no_secret_is_found_by_the_test_for_it(name: str) -> None:
    found = defect(name).audited(400)
    guilty = {finding.adversary for finding in found.findings if finding.surely > found.claim}
    assert NOISE[name] in guilty


def test_replicas_that_share_their_noise_are_found() -> None:
    found = defect("one noise for all replicas").audited(50)
    # In each of three passes the first run is the only one with noise of its own.
    assert any("147 runs drew noise that was drawn before" in reason for reason in found.broken)


SEEN = {
    "noise a tenth too small": "noise has a standard deviation of at most",
    "noise of two steps ago": "60 runs drew noise that was drawn before",
    "one noise for all classes": "coordinates got the noise of another one",
    "sums doubled once clipped": "noisy releases were of sums that neither neighbour has",
    "every sum released twice": "a run made 60 noisy releases",
    "sampling a tenth too often": "steps used a part with a probability of at least",
    "noise in float32, sampled": "released numbers do not lie on the grid",
}


@pytest.mark.parametrize("name", SEEN)
def test_what_an_auditor_sees_of_the_engine_needs_few_runs(name: str) -> None:
    found = defect(name).audited(60 if "sampl" in name else 20)
    (reason,) = [reason for reason in found.broken if SEEN[name] in reason]
    assert reason.startswith(SEEN[name]) or reason.split(" ", 1)[1].startswith(SEEN[name])


def test_noise_of_another_shape_is_found_though_it_is_large_enough() -> None:
    fresh = RandomSource.normal

    def uniform(self: RandomSource, shapes: Any) -> list[Any]:
        return [t.div(2**0.5).erf_().mul_(1.8) for t in fresh(self, shapes)]

    settings = make_settings(epsilon=1.0)
    with patch.object(RandomSource, "normal", uniform):
        found = audit(settings, plan_of(settings), dense=False, runs=20)
    assert found.broken == ("noise is not Gaussian",)
    assert found.usual_noise > found.noise_multiplier


def test_more_noise_than_planned_breaks_no_claim() -> None:
    settings = make_settings(epsilon=1.0)
    with planted_defects.less_noise(1.5):
        found = audit(settings, plan_of(settings), dense=False, runs=20)
    assert found.broken == ()
    assert found.usual_noise == pytest.approx(1.5 * found.noise_multiplier, rel=0.05)


def test_room_that_a_claim_leaves_for_a_search_is_not_the_engines() -> None:
    # No clipping would give an epsilon of about 28: below this claim, above that of the plan.
    settings = make_settings(epsilon=1.0)
    with planted_defects.no_clipping():
        found = audit(settings, plan_of(settings), dense=False, runs=400, claim=100.0)
    assert any(reason.endswith("not 1, by all releases") for reason in found.broken)
    assert found.claim == 100.0


@pytest.mark.slow
@pytest.mark.parametrize("name", ["noise half as large", "sampling at twice the rate"])
def test_too_little_noise_is_found(name: str) -> None:
    found = defect(name).audited(2_500)
    assert found.findings[0].surely > found.claim


def test_all_defects_of_the_issue_are_planted() -> None:
    assert len(planted_defects.DEFECTS) == 17


def test_an_audit_without_privacy_or_with_too_few_runs_is_refused() -> None:
    settings = make_settings(epsilon=1.0)
    plan = plan_of(settings)
    with pytest.raises(ConfigError, match=r"'runs' of an audit must be at least 10. Got 5"):
        audit(settings, plan, dense=False, runs=5)
    with pytest.raises(ConfigError, match="'confidence'"):
        audit(settings, plan, dense=False, runs=10, confidence=1.0)
    pair = worst_case(settings, plan, dense=False)
    with pytest.raises(PrivacyContractError, match="needs a private run"):
        check_alike(make_settings(), pair.present, plan, {})
    fewer = pair.settings.changed({"training.epochs": 29})
    with pytest.raises(PrivacyContractError, match="accounted as the audited run"):
        check_alike(fewer, pair.present, plan, {})


def test_long_plans_are_audited_by_fewer_runs() -> None:
    assert usual_runs(plan_of(make_settings(epsilon=1.0))) == 5_000
    long = make_settings("paper-split", epsilon=1.0)
    assert usual_runs(plan_of(long)) == 200
