"""Releases add up, survive a crash, and stop at the budget."""

import json
import multiprocessing
import shutil
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import pytest

from privgcn.errors import ConfigError, DataError, PrivacyContractError
from privgcn.privacy.accounting.epsilon import epsilon_of
from privgcn.privacy.ledger import Budget, Ledger
from privgcn.privacy.ledger_file import LedgerFile
from privgcn.privacy.partition import PartitionFacts
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


@pytest.mark.parametrize("share", [0.999, 0.99999, 1.0])
def test_a_budget_is_a_limit_to_the_last_digit(tmp_path: Path, share: float) -> None:
    ledger = Ledger(tmp_path / "ledger.jsonl")
    budget = Budget(epsilon=share * statement().epsilon, delta=1e-5)
    if share < 1.0:
        with pytest.raises(PrivacyContractError, match="budget"):
            ledger.record(statement(), budget=budget)
    else:
        ledger.record(statement(), budget=budget)
    assert len(ledger.entries()) == int(share)


@pytest.mark.parametrize(("own", "budgets"), [(1e-5, 1e-7), (1e-7, 1e-5)])
def test_a_budget_is_kept_at_its_own_delta(tmp_path: Path, own: float, budgets: float) -> None:
    ledger = Ledger(tmp_path / "ledger.jsonl")
    total = ledger.record(statement(delta=own), budget=Budget(10.0, budgets))
    assert total == epsilon_of(noise_multiplier=20.0, steps=10, delta=budgets)


def test_what_may_not_be_released(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path / "ledger.jsonl")
    with pytest.raises(PrivacyContractError, match="reproducible"):
        ledger.record(statement(releasable=False))
    with pytest.raises(PrivacyContractError, match="edited"):
        ledger.record(statement().model_copy(update={"epsilon": 0.01}))
    with pytest.raises(PrivacyContractError, match="PrivacyStatement"):
        ledger.record("epsilon = 1")  # type: ignore[arg-type]
    assert not ledger.path.exists()
    with pytest.raises(DataError, match="cannot be read or written"):
        Ledger(tmp_path / "nowhere" / "ledger.jsonl").record(statement())
    ledger.record(statement())
    with pytest.raises(PrivacyContractError, match="same unit"):
        ledger.record(statement(relation="replace"))


def cut(**facts: Any) -> dict[str, Any]:
    """The fields of a plan for unit ``part``, ten random parts of 100 documents by default."""
    given = {"kind": "random", "parts": 10, "seed": 1, **facts}
    units = given.pop("units", 100)
    return {
        "unit": "graph" if given["kind"] == "single" else "part",
        "partition": PartitionFacts(**given),
        "schedule": AllParts(given["parts"]),
        "units": units,
    }


COLUMN = {"kind": "column", "column": "ward", "seed": None}


def test_releases_of_one_cut_add_up(tmp_path: Path) -> None:
    for name, fields in (
        ("random", cut()),
        ("each", cut(kind="each", parts=100, seed=None)),
        ("graph", cut(kind="single", parts=1, seed=None)),
    ):
        ledger = Ledger(tmp_path / name)
        ledger.record(statement("a" * 64, **fields))
        total = ledger.record(statement("b" * 64, **fields))
        assert total == pytest.approx(epsilon_of(noise_multiplier=20.0, steps=20))


@pytest.mark.parametrize(
    ("first", "then"),
    [
        (cut(), cut(seed=2)),
        (cut(), cut(parts=20)),
        (cut(), cut(units=101)),
        (cut(), cut(kind="each", parts=100, seed=None)),
        (cut(), cut(**COLUMN)),
        # A statement tells neither the values of a column nor who owns which document.
        (cut(**COLUMN), cut(**COLUMN)),
        (cut(by="owner"), cut(by="owner")),
        (
            cut(kind="single", parts=1, seed=None),
            cut(kind="single", parts=1, seed=None, units=9),
        ),
    ],
)
def test_releases_of_different_cuts_do_not_add_up(
    tmp_path: Path, first: dict[str, Any], then: dict[str, Any]
) -> None:
    ledger = Ledger(tmp_path / "ledger.jsonl")
    ledger.record(statement("a" * 64, **first))
    before = ledger.path.read_bytes()
    with pytest.raises(PrivacyContractError, match=r"same cut.*overlaps.*unit 'document'"):
        ledger.record(statement("b" * 64, **then))
    assert ledger.path.read_bytes() == before
    # The model that is in the ledger may be released again, whatever its cut.
    ledger.record(statement("a" * 64, **first))


@pytest.mark.parametrize(("unit", "by"), [("document", "document"), ("person", "owner")])
def test_documents_and_persons_add_up_over_all_cuts(tmp_path: Path, unit: str, by: str) -> None:
    ledger = Ledger(tmp_path / "ledger.jsonl")
    alone = {"unit": unit, "partition": PartitionFacts(kind="each", parts=100, by=by)}  # type: ignore[arg-type]
    ledger.record(statement("a" * 64, **alone))
    for place, fields in enumerate((cut(by=by), cut(by=by, seed=2), cut(by=by, **COLUMN))):
        total = ledger.record(statement(f"{place}" * 64, **{**fields, "unit": unit}))
    # One release at one clip norm, three at two: noise 20 and 10 for ten steps each, which
    # is as much as 130 steps at noise 20.
    assert total == pytest.approx(epsilon_of(noise_multiplier=20.0, steps=130), rel=1e-3)


def test_a_ledger_that_mixes_cuts_has_no_sum(tmp_path: Path) -> None:
    paths = [tmp_path / "a", tmp_path / "b"]
    for path, seed in zip(paths, (1, 2), strict=True):
        Ledger(path).record(statement(f"{seed}" * 64, **cut(seed=seed)))
    mixed = LedgerFile(tmp_path / "mixed")
    for path in paths:
        with mixed.adding() as opened:
            opened.add(path.read_bytes().rstrip())
    with pytest.raises(PrivacyContractError, match="same cut"):
        Ledger(mixed.path).spent(1e-5)


@pytest.mark.parametrize(
    "broken",
    [
        pytest.param(lambda lines: lines[:-1], id="last line cut off"),
        pytest.param(lambda lines: lines[:1], id="last lines cut off"),
        pytest.param(lambda lines: lines[1:], id="first line taken out"),
        pytest.param(lambda lines: [lines[0], lines[2]], id="middle line taken out"),
        pytest.param(lambda lines: [lines[1], lines[0], lines[2]], id="order changed"),
        pytest.param(lambda lines: [_cheaper(lines[0]), *lines[1:]], id="first line edited"),
        pytest.param(lambda lines: [*lines[:2], _cheaper(lines[2])], id="last line edited"),
        pytest.param(lambda lines: [*lines[:2], lines[2][:-9]], id="last line torn"),
        pytest.param(lambda lines: [*lines, lines[2][:-9]], id="a torn line more"),
        pytest.param(lambda lines: [*lines, lines[2], lines[2]], id="two lines more"),
        pytest.param(lambda lines: [], id="emptied"),
        pytest.param(None, id="deleted"),
    ],
)
def test_a_changed_ledger_is_noticed(tmp_path: Path, three_releases: Path, broken: Any) -> None:
    ledger = Ledger(shutil.copytree(three_releases, tmp_path / "copy") / "ledger.jsonl")
    lines = ledger.path.read_text().splitlines(keepends=True)
    if broken is None:
        ledger.path.unlink()
    else:
        ledger.path.write_text("".join(broken(lines)))
    for use in (ledger.entries, lambda: ledger.record(statement("f" * 64))):
        with pytest.raises(DataError, match="changed, cut off or deleted"):
            use()
    # Whoever puts the lines back can go on.
    ledger.path.write_text("".join(lines))
    ledger.record(statement("f" * 64))
    assert len(ledger.entries()) == 4


def test_an_edited_only_line_is_noticed(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path / "ledger.jsonl")
    ledger.record(statement("a" * 64))
    ledger.path.write_text(_cheaper(ledger.path.read_text()))
    with pytest.raises(DataError, match="changed, cut off or deleted"):
        ledger.spent(1e-5)


def _cheaper(line: str) -> str:
    edited = line.replace('"steps": 10', '"steps": 1')
    assert edited != line
    return edited


@pytest.fixture(scope="module")
def three_releases(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("three")
    for place in range(3):
        Ledger(folder / "ledger.jsonl").record(statement(f"{place}" * 64))
    return folder


def _with(**changes: Any) -> bytes:
    """The line of a release with some fields of its plan changed."""
    record = {
        "digest": "0" * 64,
        "model_sha256": None,
        "plan": {**statement().plan.to_dict(), **changes},
    }
    return json.dumps(record).encode()


@pytest.mark.parametrize(
    "line",
    [
        pytest.param(b"", id="empty"),
        pytest.param(b"x", id="no JSON"),
        pytest.param(b"\xff\xfe", id="not UTF-8"),
        pytest.param(b"[" * 200_000, id="deep"),
        pytest.param(b'{"a":' * 200_000, id="deep objects"),
        pytest.param(b"1" * 10_000, id="long number"),
        pytest.param(b"[]", id="list"),
        pytest.param(b"{}", id="no fields"),
        pytest.param(b'{"' + b"a" * 1_000_000 + b'": 1}', id="long field"),
        pytest.param(b'{"digest": 1, "digest": 1}', id="doubled field"),
        pytest.param(_with().replace(b'"' + b"0" * 64 + b'"', b"7"), id="digest is a number"),
        pytest.param(_with().replace(b'null, "plan', b'[], "plan'), id="hash is a list"),
        pytest.param(_with(steps="ten"), id="steps in letters"),
        pytest.param(_with(steps=10**4000), id="steps beyond floats"),
        pytest.param(_with(delta=10**4000), id="delta beyond floats"),
        pytest.param(_with(clip_norm=None), id="no clip norm"),
        pytest.param(_with(unit=["part"]), id="unit is a list"),
        pytest.param(_with(schedule=[]), id="schedule is a list"),
        pytest.param(_with(schedule={"name": {}, "parts": 100}), id="schedule without a name"),
        pytest.param(_with(partition=7), id="partition is a number"),
        pytest.param(_with(side_queries=[7]), id="query is a number"),
        pytest.param(_with(selection=7), id="search is a number"),
        pytest.param(_with(selection={"law": []}), id="search without fields"),
        pytest.param(_with(noise_multiplier=float("nan")), id="noise is not a number"),
    ],
)
def test_a_line_that_nobody_wrote_is_one_error(tmp_path: Path, line: bytes) -> None:
    file = LedgerFile(tmp_path / "ledger.jsonl")
    with file.adding() as opened:
        opened.add(line)
    for use in (Ledger(file.path).entries, lambda: Ledger(file.path).record(statement())):
        with pytest.raises(DataError, match="Line 1 of the ledger") as caught:
            use()
        assert "\n" not in str(caught.value)
        assert len(str(caught.value)) < 1000


ODD = [None, True, -1, 0, 10**400, 1e308, "", "x", "part", [], [[]], {}, {"name": "all"}]


def _leaves(value: Any) -> list[tuple[Any, ...]]:
    """The places of a record, as paths of keys; the record itself is the first."""
    inner = value.items() if isinstance(value, dict) else ()
    inner = enumerate(value) if isinstance(value, list) else inner
    return [()] + [(key, *path) for key, item in inner for path in _leaves(item)]


def test_odd_values_anywhere_in_a_line_are_read_or_refused(tmp_path: Path) -> None:
    search = {
        "law": "poisson",
        "expected_runs": 5.0,
        "candidates": [
            {
                "noise_multiplier": 20.0,
                "count": 10,
                "sampling_probability": 1.0,
                "sensitivity": 1,
            }
        ],
        "score": {"name": "score", "noise_multiplier": 8.0, "sensitivity": 1},
        "validation_units": 30,
    }
    query = {"name": "counts", "noise_multiplier": 9.0, "sensitivity": 1}
    refused: list[str] = []
    for number, line in enumerate(
        (_with(selection=search, accountant="rdp"), _with(side_queries=[query]))
    ):
        whole = LedgerFile(tmp_path / f"whole-{number}")
        with whole.adding() as opened:
            opened.add(line)
        assert len(Ledger(whole.path).entries()) == 1
        for place in _leaves(json.loads(line))[1:]:
            for value in ODD:
                record = json.loads(line)
                inner = record
                for key in place[:-1]:
                    inner = inner[key]
                inner[place[-1]] = value
                # One line more than the head remembers is read, as its writer was stopped.
                whole.path.write_bytes(line + b"\n" + json.dumps(record).encode() + b"\n")
                try:
                    Ledger(whole.path).entries()
                except DataError as error:
                    refused.append(str(error))
    assert len(refused) > 400
    assert all(words.startswith("Line 2 of the ledger") for words in refused)


@pytest.mark.parametrize(("epsilon", "delta"), [(0.0, 1e-5), (1.0, 0.0), (float("nan"), 1e-5)])
def test_bad_budgets(epsilon: float, delta: float) -> None:
    with pytest.raises(ConfigError):
        Budget(epsilon=epsilon, delta=delta)


def _release(path: str, weights: str) -> None:
    Ledger(path).record(statement(weights))


def _release_once(path: str, weights: str) -> None:
    budget = Budget(epsilon=1.2 * statement().epsilon, delta=1e-5)
    try:
        Ledger(path).record(statement(weights), budget=budget)
    except PrivacyContractError:
        raise SystemExit(7) from None


def _at_once(pipe: Connection, writer: Any, path: str) -> None:
    """Four writers as copies of a process that has imported what they need, where that goes."""
    able = "fork" in multiprocessing.get_all_start_methods()
    context: Any = multiprocessing.get_context("fork" if able else "spawn")
    writers = [
        context.Process(target=writer, args=(path, f"{place:064x}")) for place in range(4)
    ]
    for process in writers:
        process.start()
    for process in writers:
        process.join(120)
    pipe.send(sorted(process.exitcode for process in writers))


@pytest.mark.parametrize(
    ("writer", "codes", "entries"),
    [(_release, [0, 0, 0, 0], 4), (_release_once, [0, 7, 7, 7], 1)],
    ids=["all are kept", "one budget is spent once"],
)
def test_parallel_writers(tmp_path: Path, writer: Any, codes: list[int], entries: int) -> None:
    path = tmp_path / "ledger.jsonl"
    context = multiprocessing.get_context("spawn")
    here, there = context.Pipe()
    process = context.Process(target=_at_once, args=(there, writer, str(path)))
    process.start()
    assert here.poll(300)
    assert here.recv() == codes
    process.join()
    assert len(Ledger(path).entries()) == entries


def test_a_release_that_was_stopped_counts_once(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path / "ledger.jsonl")
    ledger.record(statement("a" * 64))
    head = tmp_path / "ledger.jsonl.head"
    old_head = head.read_bytes()
    total = ledger.record(statement("b" * 64))
    # Stopped after its line was written, and before the head was.
    head.write_bytes(old_head)
    assert ledger.spent(1e-5) == total
    assert ledger.record(statement("b" * 64)) == total
    assert len(ledger.entries()) == 2
    assert head.read_bytes() != old_head
