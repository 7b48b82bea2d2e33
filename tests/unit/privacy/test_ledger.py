"""Releases add up, survive a crash, and stop at the budget."""

import multiprocessing
from pathlib import Path
from typing import Any

import pytest

from privgcn.errors import ConfigError, DataError, PrivacyContractError
from privgcn.privacy.accounting import epsilon_of
from privgcn.privacy.ledger import Budget, Ledger
from privgcn.privacy.partition_facts import PartitionFacts
from privgcn.privacy.plan import PrivacyPlan
from privgcn.privacy.schedule import AllParts
from privgcn.privacy.statement import PrivacyStatement


def statement(
    weights: str | None = None, *, releasable: bool = True, **changes: Any
) -> PrivacyStatement:
    fields: dict[str, Any] = {
        "unit": "document",
        "relation": "remove",
        "partition": PartitionFacts(kind="each", parts=100),
        "schedule": AllParts(100),
        "clip_norm": 1.0,
        "noise_multiplier": 20.0,
        "steps": 10,
        "delta": 1e-5,
        "units": 100,
    }
    return PrivacyStatement.of(
        PrivacyPlan(**{**fields, **changes}), releasable=releasable, model_sha256=weights
    )


def test_releases_add_up_like_one_longer_run(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path / "ledger.jsonl")
    assert ledger.spent(1e-5) == 0.0
    assert ledger.entries() == ()
    for place in range(3):
        total = ledger.record(statement(f"{place}" * 64))
    together = epsilon_of(noise_multiplier=20.0, steps=30)
    assert total == pytest.approx(together)
    assert Ledger(ledger.path).spent(1e-5) == pytest.approx(together)
    assert len(ledger.entries()) == 3


def test_the_same_model_counts_once_and_an_unnamed_one_every_time(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path / "ledger.jsonl")
    ledger.record(statement("a" * 64))
    ledger.record(statement("a" * 64))
    assert len(ledger.entries()) == 1
    # Equal statements without a hash may belong to different models.
    ledger.record(statement())
    ledger.record(statement())
    assert len(ledger.entries()) == 3


def test_the_budget_stops_a_release_and_nothing_is_written(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path / "ledger.jsonl")
    once = statement().epsilon
    budget = Budget(epsilon=1.2 * once, delta=1e-5)
    assert ledger.record(statement("a" * 64), budget=budget) == pytest.approx(once)
    before = ledger.path.read_bytes()
    with pytest.raises(PrivacyContractError, match="budget"):
        ledger.record(statement("b" * 64), budget=budget)
    assert ledger.path.read_bytes() == before
    # The same model again is within the budget: nothing new is learned from it.
    ledger.record(statement("a" * 64), budget=budget)


def test_what_may_not_be_released(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path / "ledger.jsonl")
    with pytest.raises(PrivacyContractError, match="reproducible"):
        ledger.record(statement(releasable=False))
    with pytest.raises(PrivacyContractError, match="edited"):
        ledger.record(statement().model_copy(update={"epsilon": 0.01}))
    with pytest.raises(PrivacyContractError, match="PrivacyStatement"):
        ledger.record("epsilon = 1")  # type: ignore[arg-type]
    assert not ledger.path.exists()
    with pytest.raises(DataError, match="cannot be written"):
        Ledger(tmp_path / "nowhere" / "ledger.jsonl").record(statement())
    ledger.record(statement())
    with pytest.raises(PrivacyContractError, match="same unit"):
        ledger.record(statement(relation="replace"))


def test_a_torn_line_is_noticed(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path / "ledger.jsonl")
    ledger.record(statement("a" * 64))
    whole = ledger.path.read_text()
    ledger.path.write_text(whole + whole[: len(whole) // 2])
    with pytest.raises(DataError, match="torn"):
        ledger.spent(1e-5)
    with pytest.raises(DataError, match="torn"):
        ledger.record(statement("b" * 64))


def test_changed_and_missing_lines_are_noticed(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path / "ledger.jsonl")
    for place in range(3):
        ledger.record(statement(f"{place}" * 64))
    lines = ledger.path.read_text().splitlines(keepends=True)
    edited = lines[0].replace('"steps": 10', '"steps": 1')
    assert edited != lines[0]
    for broken in (
        [lines[0], lines[2]],
        lines[1:],
        [edited, *lines[1:]],
        ["{}\n", *lines],
        ["x\n"],
    ):
        ledger.path.write_text("".join(broken))
        with pytest.raises(DataError, match="Line"):
            ledger.entries()


@pytest.mark.parametrize(("epsilon", "delta"), [(0.0, 1e-5), (1.0, 0.0), (float("nan"), 1e-5)])
def test_bad_budgets(epsilon: float, delta: float) -> None:
    with pytest.raises(ConfigError):
        Budget(epsilon=epsilon, delta=delta)


def _release(path: str, weights: str) -> None:
    Ledger(path).record(statement(weights))


def test_parallel_writers_do_not_lose_each_other(tmp_path: Path) -> None:
    path = tmp_path / "ledger.jsonl"
    context = multiprocessing.get_context("spawn")
    writers = [
        context.Process(target=_release, args=(str(path), f"{place:064x}"))
        for place in range(6)
    ]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join(120)
    assert all(writer.exitcode == 0 for writer in writers)
    assert len(Ledger(path).entries()) == 6
