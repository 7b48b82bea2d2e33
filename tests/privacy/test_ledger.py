"""Releases add up, survive a crash, and stop at the budget."""

import hashlib
import json
import multiprocessing
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from privacy.plans import plan, statement
from privgcn.errors import DataError, PrivacyContractError
from privgcn.files import write_atomically
from privgcn.privacy.accounting import epsilon_of
from privgcn.privacy.ledger import Budget, Ledger
from privgcn.privacy.plan import PartitionFacts, Schedule
from privgcn.privacy.statement import Fact, PrivacyStatement
from privgcn.privacy.values import in_plain_values
from privgcn.privacy.wording import round_up


@pytest.fixture
def ledger(tmp_path: Path) -> Ledger:
    return Ledger(tmp_path / "ledger.jsonl")


def test_releases_add_up_like_one_longer_run(ledger: Ledger) -> None:
    assert ledger.spent(1e-5) == 0.0
    assert ledger.entries() == ()
    assert not list(ledger.path.parent.iterdir())
    # Equal statements without a hash may belong to different models.
    for model, releases in (("a" * 64, 1), ("a" * 64, 1), (None, 2), (None, 3)):
        total = ledger.record(statement(model))
        assert len(ledger.entries()) == releases
    together = epsilon_of(noise_multiplier=20.0, steps=30)
    assert total == pytest.approx(together)
    assert Ledger(ledger.path).spent(1e-5) == pytest.approx(together)


def test_the_budget_stops_a_release_and_nothing_is_written(ledger: Ledger) -> None:
    once = statement().epsilon
    # A limit to the last digit.
    with pytest.raises(PrivacyContractError, match="budget"):
        ledger.record(statement("a" * 64), budget=Budget(0.99999 * once, 1e-5))
    assert not ledger.entries()
    budget = Budget(epsilon=once, delta=1e-5)
    assert ledger.record(statement("a" * 64), budget=budget) == once
    before = ledger.path.read_bytes()
    twice = round_up(epsilon_of(noise_multiplier=20.0, steps=20))
    with pytest.raises(PrivacyContractError, match=f"With this one they cost {twice}"):
        ledger.record(statement("b" * 64), budget=budget)
    assert ledger.path.read_bytes() == before
    # The same model again is within the budget: nothing new is learned from it.
    ledger.record(statement("a" * 64), budget=budget)
    # A budget is kept at its own delta.
    strict = Budget(10.0, 1e-7)
    assert ledger.record(statement("a" * 64), budget=strict) == ledger.spent(1e-7) > once


# hazard 25
def test_what_may_not_be_released(ledger: Ledger) -> None:
    with pytest.raises(PrivacyContractError, match="reproducible"):
        ledger.record(statement(releasable=False))
    with pytest.raises(PrivacyContractError, match="edited"):
        ledger.record(replace(statement(), epsilon=0.01))
    void = PrivacyStatement.of(plan(), releasable=True, not_covered=[Fact("unpaid_search")])
    with pytest.raises(PrivacyContractError, match="void by the fact 'unpaid_search'"):
        ledger.record(void)
    assert not ledger.path.exists()
    ledger.record(statement())
    with pytest.raises(PrivacyContractError, match="same unit"):
        ledger.record(statement(relation="replace"))


def divided(**facts: Any) -> dict[str, Any]:
    """The fields of a plan for unit ``part``, ten random groups of 100 documents by default."""
    given = {"kind": "random", "groups": 10, "seed": 1, **facts}
    units, unit = given.pop("units", 100), "graph" if given["kind"] == "single" else "part"
    schedule = Schedule("all", given["groups"])
    partition = PartitionFacts(**given)
    return {"unit": unit, "partition": partition, "schedule": schedule, "units": units}


COLUMN = {"kind": "column", "column": "ward", "seed": None}
SINGLE = {"kind": "single", "groups": 1, "seed": None}
EACH = {"kind": "each", "groups": 100, "seed": None}


@pytest.mark.parametrize("facts", [{}, EACH, SINGLE])
def test_releases_of_one_partition_add_up(ledger: Ledger, facts: dict[str, Any]) -> None:
    for letter in "ab":
        total = ledger.record(statement(letter * 64, **divided(**facts)))
    assert total == pytest.approx(epsilon_of(noise_multiplier=20.0, steps=20))


@pytest.mark.parametrize(
    ("first", "then"),
    [
        (divided(), divided(seed=2)),
        (divided(), divided(groups=20)),
        (divided(), divided(units=101)),
        (divided(), divided(**EACH)),
        (divided(), divided(**COLUMN)),
        # A statement tells neither the values of a column nor who owns which document.
        (divided(**COLUMN), divided(**COLUMN)),
        (divided(by="owner"), divided(by="owner")),
        (divided(**SINGLE), divided(**SINGLE, units=9)),
    ],
)
def test_releases_of_different_partitions_do_not_add_up(
    ledger: Ledger, first: dict[str, Any], then: dict[str, Any]
) -> None:
    ledger.record(statement("a" * 64, **first))
    before = ledger.path.read_bytes()
    with pytest.raises(PrivacyContractError, match=r"same partition.*unit 'document'"):
        ledger.record(statement("b" * 64, **then))
    assert ledger.path.read_bytes() == before
    # The model that is in the ledger may be released again, whatever its partition.
    ledger.record(statement("a" * 64, **first))


@pytest.mark.parametrize(("unit", "by"), [("document", "document"), ("person", "owner")])
def test_documents_and_persons_add_up_over_all_partitions(
    ledger: Ledger, unit: str, by: Any
) -> None:
    each = PartitionFacts(kind="each", groups=100, by=by)
    ledger.record(statement("a" * 64, unit=unit, partition=each))
    others = (divided(by=by), divided(by=by, seed=2), divided(by=by, **COLUMN))
    for number, fields in enumerate(others):
        total = ledger.record(statement(f"{number}" * 64, **{**fields, "unit": unit}))
    # One release at one clip norm, three at two: noise 20 and 10 for ten steps each, which
    # is as much as 130 steps at noise 20.
    assert total == pytest.approx(epsilon_of(noise_multiplier=20.0, steps=130), rel=1e-3)


@pytest.mark.parametrize(
    ("name", "broken"),
    [
        ("", lambda lines: lines[:-1]),
        ("", lambda lines: [lines[0], *lines[2:]]),
        ("", lambda lines: [lines[0].replace(b"10", b"1"), *lines[1:]]),
        ("", lambda lines: [*lines, lines[-1][:-9]]),
        ("", lambda lines: [*lines, lines[-1], lines[-1]]),
        ("", lambda lines: []),
        ("", None),
        (".head", lambda lines: []),
        (".head", lambda lines: [b"0" * 64 + b"\n"]),
        (".head", None),
    ],
)
def test_a_changed_ledger_or_head_is_noticed(ledger: Ledger, name: str, broken: Any) -> None:
    for number in range(3):
        ledger.record(statement(f"{number}" * 64))
    path = Path(f"{ledger.path}{name}")
    content = path.read_bytes()
    if broken is None:
        path.unlink()
    else:
        path.write_bytes(b"".join(broken(content.splitlines(keepends=True))))
    for use in (ledger.entries, lambda: ledger.record(statement("f" * 64))):
        with pytest.raises(DataError, match="changed, cut off or deleted"):
            use()
    # Whoever puts it back can go on.
    path.write_bytes(content)
    ledger.record(statement("f" * 64))
    assert len(ledger.entries()) == 4


# hazard 16
@pytest.mark.parametrize("before", [True, False])
@pytest.mark.parametrize("nth", [1, 2, 3])
@pytest.mark.parametrize("old", ["", "a"])
def test_stopped_at_any_write_it_holds_the_old_lines_or_the_new(
    ledger: Ledger, old: str, nth: int, before: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file is written whole or not at all (tests/test_files.py); three are for a release."""
    for letter in old:
        ledger.record(statement(letter * 64))
    calls: list[Path] = []

    def stopped(path: Path, content: bytes, mode: int) -> None:
        calls.append(path)
        if len(calls) < nth or not before:
            write_atomically(path, content, mode=mode)
        if len(calls) == nth:
            raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr("privgcn.privacy.ledger.write_atomically", stopped)
        with pytest.raises(KeyboardInterrupt):
            ledger.record(statement("f" * 64))
    there = len(ledger.entries()) - len(old)
    assert there == (nth == 3 or (nth == 2 and not before))
    # The same release again: once in the file, and the end is protected anew.
    ledger.record(statement("f" * 64))
    lines = ledger.path.read_bytes().splitlines(keepends=True)
    assert len(lines) == len(old) + 1
    ledger.path.write_bytes(b"".join(lines[:-1]))
    with pytest.raises(DataError, match="cut off"):
        ledger.entries()


def _release(path: str, number: int, most: float) -> None:
    try:
        Ledger(path).record(statement(f"{number:064x}"), budget=Budget(most, 1e-5))
    except PrivacyContractError:
        raise SystemExit(7) from None


@pytest.mark.skipif("fork" not in multiprocessing.get_all_start_methods(), reason="no fork")
def test_parallel_writers_spend_one_budget_once(ledger: Ledger) -> None:
    context: Any = multiprocessing.get_context("fork")
    most = 1.2 * statement().epsilon
    writers = [context.Process(target=_release, args=(ledger.path, n, most)) for n in range(4)]
    for process in writers:
        process.start()
    for process in writers:
        process.join(120)
    assert sorted(process.exitcode for process in writers) == [0, 7, 7, 7]
    assert len(ledger.entries()) == 1


def test_a_link_and_the_ledger_have_one_lock(ledger: Ledger, tmp_path: Path) -> None:
    ledger.record(statement("a" * 64))
    link = tmp_path / "folder" / "link"
    link.parent.mkdir()
    link.symlink_to(ledger.path)
    Ledger(link).record(statement("b" * 64))
    assert len(ledger.entries()) == 2
    assert [path.name for path in link.parent.iterdir()] == ["link"]


@pytest.mark.parametrize(
    "name",
    ["missing/ledger", "file/ledger", "x" * 300, "/sys/ledger", "folder", "pipe", "loop"],
)
def test_what_cannot_be_a_ledger_is_one_error(tmp_path: Path, name: str) -> None:
    (tmp_path / "file").touch()
    (tmp_path / "folder").mkdir()
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    for lacking in ("folder", "pipe", "loop"):
        (tmp_path / f"{lacking}.head").write_text(hashlib.sha256().hexdigest() + "\n")
    with pytest.raises(DataError, match=r"cannot be read|regular file"):
        Ledger(tmp_path / name).record(statement())


def test_a_huge_file_is_not_read_and_not_made(
    ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    ledger.record(statement("a" * 64))
    line = ledger.path.read_bytes()
    monkeypatch.setattr("privgcn.privacy.ledger.MOST_BYTES", len(line) + 9)
    with pytest.raises(DataError, match="at most"):
        ledger.record(statement("b" * 64))
    assert ledger.path.read_bytes() == line
    os.truncate(ledger.path, 1 << 40)
    with pytest.raises(DataError, match="at most"):
        ledger.entries()


# tests/runs/test_hostile_runs.py writes many more lines that nobody wrote.
@pytest.mark.parametrize("line", [b"[" * 200_000, b'{"' + b"a" * 1_000_000 + b'": 1}', None])
def test_a_line_that_nobody_wrote_is_one_error(ledger: Ledger, line: Any) -> None:
    if line is None:
        plain = {**in_plain_values(statement().plan), "steps": 10**4000}
        line = json.dumps({"digest": "0" * 64, "model_sha256": None, "plan": plain}).encode()
    ledger.path.write_bytes(line + b"\n")
    Path(f"{ledger.path}.head").write_text(hashlib.sha256(line + b"\n").hexdigest() + "\n")
    with pytest.raises(DataError, match="Line 1 of the ledger") as caught:
        ledger.entries()
    assert len(str(caught.value)) < 1000
