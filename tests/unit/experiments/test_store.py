from __future__ import annotations

import json
from pathlib import Path

import pytest
import tiny_task

from privgcn.errors import ConfigError
from privgcn.experiments.store import RecordStore
from privgcn.experiments.tasks import Task


def _task(shift: float = 1.0, seeds: tuple[int, ...] = (0, 1)) -> Task:
    return Task(tiny_task.KIND, tiny_task.resolve({"shift": shift}), seeds)


def _fill(folder: Path, *tasks: Task) -> None:
    with RecordStore(folder) as store:
        for task in tasks:
            store.add(task, tiny_task.run(dict(task.settings), task.seeds), 0.1)


def _files(folder: Path) -> dict[str, bytes]:
    records = folder / "records"
    return {str(p.relative_to(records)): p.read_bytes() for p in records.rglob("*.json")}


def test_records_are_read_back_as_they_were_written(tmp_path: Path) -> None:
    task = _task()
    _fill(tmp_path, task)
    with RecordStore(tmp_path) as store:
        assert len(store) == 2
        assert store.missing(task) == ()
        record = store.get(task.run_key(1))
        assert record is not None
        assert record["seed"] == 1
        assert record["settings"] == dict(task.settings)
        assert record["result"] == tiny_task.run(dict(task.settings), (1,))[0]
        assert store.seconds() == {task.key: 0.1}


def test_the_same_runs_give_the_same_bytes(tmp_path: Path) -> None:
    _fill(tmp_path / "a", _task(1.0), _task(2.0))
    _fill(tmp_path / "b", _task(2.0), _task(1.0))
    assert _files(tmp_path / "a") == _files(tmp_path / "b")


def test_more_seeds_ask_only_for_the_new_ones(tmp_path: Path) -> None:
    _fill(tmp_path, _task(seeds=(0, 1)))
    with RecordStore(tmp_path) as store:
        assert store.missing(_task(seeds=(0, 1, 2, 3))) == (2, 3)


def test_what_a_kill_left_half_written_is_dropped(tmp_path: Path) -> None:
    task = _task()
    half = tmp_path / "records" / f".writing-{task.key}"
    half.mkdir(parents=True)
    (half / f"{task.run_key(0)}.json").write_text("{")
    with RecordStore(tmp_path) as store:
        assert store.missing(task) == (0, 1)
        assert store.torn == []
    assert not half.exists()


@pytest.mark.parametrize(
    "damage", ["cut", "deep", "changed", "moved", "astray", "lost", "renamed"]
)
def test_a_damaged_record_costs_its_own_run_and_no_other(tmp_path: Path, damage: str) -> None:
    good, bad = _task(2.0), _task(1.0)
    _fill(tmp_path, good, bad)
    place = tmp_path / "records" / bad.key
    path = place / f"{bad.run_key(0)}.json"
    if damage == "cut":
        path.write_bytes(path.read_bytes()[:-20])
    elif damage == "deep":
        path.write_text("[" * 100_000)
    elif damage == "changed":
        record = json.loads(path.read_text())
        record["result"]["accuracy"] = 1.5
        path.write_text(json.dumps(record))
    elif damage == "moved":
        path.write_bytes((place.parent / good.key / f"{good.run_key(0)}.json").read_bytes())
    elif damage == "astray":
        path.rename(place.parent / good.key / path.name)
    elif damage == "renamed":
        path.rename(place / "other.json")
    else:
        path.unlink()
    seen = damage not in ("lost", "renamed")
    with RecordStore(tmp_path) as store:
        assert store.torn == ([bad.run_key(0)] if seen else [])
        assert store.missing(bad) == (0,)
        assert store.missing(good) == ()
        again = bad.with_seeds((0,))
        store.add(again, tiny_task.run(dict(again.settings), again.seeds), 0.1)
    with RecordStore(tmp_path) as store:
        assert store.torn == []
        assert store.missing(bad) == ()
    assert (tmp_path / "torn" / path.name).exists() == seen


@pytest.mark.parametrize("stray", [False, True])
def test_a_task_without_any_good_record_is_written_anew(tmp_path: Path, stray: bool) -> None:
    task = _task()
    _fill(tmp_path, task)
    before = _files(tmp_path)
    for path in (tmp_path / "records" / task.key).iterdir():
        path.write_text("{")
    if stray:
        (tmp_path / "records" / task.key / ".DS_Store").write_bytes(b"\0")
    with RecordStore(tmp_path) as store:
        assert set(store.torn) == {task.run_key(0), task.run_key(1)}
        assert store.missing(task) == (0, 1)
    _fill(tmp_path, task)
    assert _files(tmp_path) == before


def test_files_of_others_are_left_alone(tmp_path: Path) -> None:
    task = _task()
    _fill(tmp_path, task)
    strays = [
        tmp_path / "records" / ".DS_Store",
        tmp_path / "records" / task.key / ".DS_Store",
        tmp_path / "records" / task.key / "notes.json",
        tmp_path / "failures" / ".DS_Store",
    ]
    for stray in strays:
        stray.write_bytes(b"\0")
    with RecordStore(tmp_path) as store:
        assert store.torn == []
        assert store.missing(task) == ()
    assert all(stray.exists() for stray in strays)


def test_a_failure_keeps_its_reason_until_a_retry_succeeds(tmp_path: Path) -> None:
    task = _task()
    with RecordStore(tmp_path) as store:
        store.fail(task, "no memory")
    with RecordStore(tmp_path) as store:
        assert store.failed(task) == (0, 1)
        assert [(f["seeds"], f["reason"]) for f in store.failures_of([task])] == [
            ([0, 1], "no memory")
        ]
        store.add(task, tiny_task.run(dict(task.settings), task.seeds), 0.1)
        assert store.failures_of([task]) == []
    with RecordStore(tmp_path) as store:
        assert store.failures_of([task]) == []


def test_the_success_of_one_seed_does_not_hide_the_failure_of_another(tmp_path: Path) -> None:
    whole = _task(seeds=(0, 1, 2, 3))
    pieces = [whole.with_seeds([seed]) for seed in whole.seeds]
    with RecordStore(tmp_path) as store:
        for piece in pieces:
            if piece.seeds[0] % 2 == 0:
                store.fail(piece, "no memory")
            else:
                store.add(piece, tiny_task.run(dict(piece.settings), piece.seeds), 0.1)
    with RecordStore(tmp_path) as store:
        assert store.failed(whole) == (0, 2)
        assert [f["seeds"] for f in store.failures_of([whole])] == [[0, 2]]
        assert [f["seeds"] for f in store.failures_of(pieces[:2])] == [[0]]
        store.add(pieces[2], tiny_task.run(dict(whole.settings), (2,)), 0.1)
        assert [f["seeds"] for f in store.failures_of([whole])] == [[0]]


def test_failures_for_different_reasons_stay_apart(store: RecordStore) -> None:
    store.fail(_task(seeds=(0,)), "no memory")
    store.fail(_task(seeds=(1,)), "no disk")
    told = {f["reason"]: f["seeds"] for f in store.failures_of([_task()])}
    assert told == {"no memory": [0], "no disk": [1]}


def test_a_failure_that_names_another_run_is_set_aside(tmp_path: Path) -> None:
    task = _task(seeds=(0, 1))
    with RecordStore(tmp_path) as store:
        store.fail(task.with_seeds([0]), "no memory")
    (place,) = (tmp_path / "failures").iterdir()
    place.rename(place.with_name(f"{task.run_key(1)}.json"))
    with RecordStore(tmp_path) as store:
        assert store.failed(task) == ()
        assert store.torn == [task.run_key(1)]


def test_a_failure_that_a_kill_left_beside_its_records_is_forgotten(tmp_path: Path) -> None:
    task = _task()
    with RecordStore(tmp_path) as store:
        store.fail(task, "no memory")
    places = {path: path.read_text() for path in (tmp_path / "failures").iterdir()}
    _fill(tmp_path, task)
    for path, text in places.items():
        path.write_text(text)
    with RecordStore(tmp_path) as store:
        assert store.failures_of([task]) == []
    assert not any((tmp_path / "failures").iterdir())


@pytest.mark.parametrize("kind", ["records", "failures"])
def test_records_of_another_version_are_named_and_stay(tmp_path: Path, kind: str) -> None:
    _fill(tmp_path, _task())
    with RecordStore(tmp_path) as store:
        store.fail(_task(2.0, seeds=(0,)), "no memory")
    path = next((tmp_path / kind).rglob("*.json"))
    earlier = json.loads(path.read_text()) | {"format": 1}
    path.write_text(json.dumps(earlier))
    with pytest.raises(ConfigError, match=r"another version of privgcn \(format 1; "):
        RecordStore(tmp_path).__enter__()
    assert json.loads(path.read_text()) == earlier
    assert not (tmp_path / "torn").exists()


def test_a_torn_failure_is_set_aside(tmp_path: Path) -> None:
    with RecordStore(tmp_path) as store:
        store.fail(_task(seeds=(0,)), "no memory")
    place = tmp_path / "failures" / f"{_task().run_key(0)}.json"
    place.write_text(place.read_text()[:10])
    with RecordStore(tmp_path) as store:
        assert store.torn == [place.stem]
        assert store.failures_of([_task()]) == []


@pytest.mark.parametrize("place", ["file", "file/below", "/proc/nowhere", "half"])
def test_a_place_that_can_not_be_written_is_a_clear_error(tmp_path: Path, place: str) -> None:
    (tmp_path / "file").write_text("a letter")
    (tmp_path / "half").mkdir()
    (tmp_path / "half" / "records").write_text("a letter")
    with (
        pytest.raises(
            ConfigError, match=r"must be a folder that can be read and written.*--out"
        ),
        RecordStore(tmp_path / place),
    ):
        pass
    assert (tmp_path / "file").read_text() == "a letter"


def test_a_disk_that_refuses_a_record_is_a_clear_error(tmp_path: Path) -> None:
    task = _task(seeds=(0,))
    results = tiny_task.run(dict(task.settings), task.seeds)
    with RecordStore(tmp_path) as store:
        (tmp_path / "times.jsonl").mkdir()
        with pytest.raises(ConfigError, match="cannot be written: Is a directory"):
            store.add(task, results, 0.1)
    # The records themselves were whole before.
    with RecordStore(tmp_path) as store:
        assert store.missing(task) == ()


def test_one_process_at_a_time(tmp_path: Path) -> None:
    with (
        RecordStore(tmp_path),
        pytest.raises(ConfigError, match="in use by another process"),
        RecordStore(tmp_path),
    ):
        pass
