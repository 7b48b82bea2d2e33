"""The checklist of the paper's claims points at what exists, and misses no published number."""

from __future__ import annotations

import math
from typing import Any

import paper_checklist as checklist
import pytest

from privgcn.config import PAPER_EPOCHS
from privgcn.evidence.bounds import classical_epsilon
from privgcn.experiments.paper.emulation import claimed_noise
from privgcn.experiments.paper.epsilons import moments_epsilon
from privgcn.experiments.paper.published import OPTIMIZERS, leaves
from privgcn.experiments.paper.targets import TARGETS


def test_the_page_is_current() -> None:
    stored = checklist.PAGE.read_text(encoding="utf-8")
    assert stored == checklist.page(), "run python scripts/paper_checklist.py"


@pytest.mark.parametrize("pointer", sorted({p for one in checklist.claims() for p in one.code}))
def test_what_implements_a_claim_exists(pointer: str) -> None:
    assert checklist.file_of_code(pointer).is_relative_to(checklist.PACKAGE)


@pytest.mark.parametrize(
    "pointer", sorted({p for one in checklist.claims() for p in one.shown})
)
def test_what_shows_a_claim_exists(pointer: str) -> None:
    checklist.check_shown(pointer)


def test_every_published_number_belongs_to_a_claim() -> None:
    claimed = set().union(*(one.published() for one in checklist.claims()))
    assert set(leaves()) - claimed == set()


def test_every_difference_to_the_released_code_belongs_to_a_claim() -> None:
    claimed = [what for one in checklist.claims() for what in one.differences]
    assert sorted(claimed) == sorted(checklist.differences())


def test_every_pattern_of_numbers_fits_some() -> None:
    for one in checklist.claims():
        for pattern in one.numbers:
            alone = one.model_copy(update={"numbers": [pattern]})
            assert alone.published(), pattern


def test_every_experiment_shows_some_claim() -> None:
    shown = {p.partition(":")[0] for one in checklist.claims() for p in one.shown}
    assert set(TARGETS) <= shown


@pytest.mark.parametrize("pointer", ["models.gnc", "nowhere.gcn", "models.gcn.layers_of"])
def test_a_symbol_that_is_gone_is_noticed(pointer: str) -> None:
    with pytest.raises(LookupError):
        checklist.file_of_code(pointer)


def test_a_key_that_is_gone_is_noticed() -> None:
    with pytest.raises(LookupError):
        checklist.file_of_code("data/datasets.toml:pokec.encodings.glove")


@pytest.mark.parametrize(
    "pointer",
    [
        "tests/unit/test_paper_checklist.py::test_that_is_not_here",
        "tests/unit/test_gone.py::test_the_page_is_current",
        "gone.md",
        "experiment-d",
        "table1:gone",
    ],
)
def test_a_place_that_is_gone_is_noticed(pointer: str) -> None:
    with pytest.raises(LookupError):
        checklist.check_shown(pointer)


@pytest.mark.parametrize(
    ("change", "word"),
    [
        ({"verdict": "differs"}, "needs a note"),
        ({"code": []}, "needs 'code' and 'shown'"),
        ({"shown": []}, "needs 'code' and 'shown'"),
        ({"verdict": "so-so"}, "verdict"),
    ],
)
def test_a_claim_must_be_whole(change: dict[str, Any], word: str) -> None:
    whole = {"says": "x", "verdict": "done", "code": ["models.gcn"], "shown": ["table1"]}
    assert checklist.Claim.model_validate(whole)
    with pytest.raises(ValueError, match=word):
        checklist.Claim.model_validate({**whole, **change})


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_ten_parts_need_a_third_of_the_noise(optimizer: Any) -> None:
    epochs = PAPER_EPOCHS[optimizer]
    whole, split = (claimed_noise(optimizer, 2.0, parts, epochs) for parts in (1, 10))
    assert whole / split == pytest.approx(3.2, abs=0.05)
    ours = moments_epsilon(whole, epochs) / moments_epsilon(whole, 10 * epochs, 0.1)
    assert ours == pytest.approx(3.2, abs=0.05)


@pytest.mark.parametrize(("dataset", "share"), [("pokec", 0.87), ("reddit", 0.90)])
def test_the_headlines_follow_from_the_published_scores(dataset: str, share: float) -> None:
    told = leaves()
    private = told[f"table1.{dataset}.dp_split_eps1.adam"]
    assert round(private / told[f"table1.{dataset}.non_private.adam"], 2) == share


def test_randomised_response_with_two_coins_has_epsilon_ln_3() -> None:
    runs = 1_000_000
    truth, lie = 3 * runs // 4, runs // 4
    found = classical_epsilon(truth, lie, runs, 0.0, 0.95)
    assert math.log(3) - 0.02 < found < math.log(3)
