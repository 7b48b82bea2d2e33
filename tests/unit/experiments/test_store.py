from __future__ import annotations

import json
from pathlib import Path

import pytest
import tiny_task

from privgcn.errors import ConfigError
from privgcn.experiments.grid import Task
from privgcn.experiments.store import RecordStore


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


@pytest.mark.parametrize("damage", ["cut", "changed", "one file lost", "renamed", "empty"])
def test_damaged_records_are_set_aside_and_count_as_missing(
    tmp_path: Path, damage: str
) -> None:
    good, bad = _task(2.0), _task(1.0)
    _fill(tmp_path, good, bad)
    place = tmp_path / "records" / bad.key
    path = place / f"{bad.run_key(0)}.json"
    if damage == "cut":
        path.write_bytes(path.read_bytes()[:-20])
    elif damage == "changed":
        record = json.loads(path.read_text())
        record["result"]["accuracy"] = 1.5
        path.write_text(json.dumps(record))
    elif damage == "renamed":
        path.rename(place / "other.json")
    elif damage == "one file lost":
        path.unlink()
    else:
        for file in place.iterdir():
            file.unlink()
    with RecordStore(tmp_path) as store:
        assert store.torn == [bad.key]
        assert store.missing(bad) == (0, 1)
        assert store.missing(good) == ()
        store.add(bad, tiny_task.run(dict(bad.settings), bad.seeds), 0.1)
    with RecordStore(tmp_path) as store:
        assert store.torn == []
        assert store.missing(bad) == ()
    assert (tmp_path / "torn" / bad.key).is_dir()


def test_a_failure_keeps_its_reason_until_a_retry_succeeds(tmp_path: Path) -> None:
    task = _task()
    with RecordStore(tmp_path) as store:
        store.fail(task, "no memory")
    with RecordStore(tmp_path) as store:
        assert store.has_failed(task)
        assert [failure["reason"] for failure in store.failures] == ["no memory"]
        store.add(task, tiny_task.run(dict(task.settings), task.seeds), 0.1)
        assert store.failures == []
    with RecordStore(tmp_path) as store:
        assert store.failures == []


def test_a_failure_that_a_kill_left_beside_its_records_is_forgotten(tmp_path: Path) -> None:
    task = _task()
    with RecordStore(tmp_path) as store:
        store.fail(task, "no memory")
    text = (tmp_path / "failures" / f"{task.configuration}.json").read_text()
    _fill(tmp_path, task)
    (tmp_path / "failures" / f"{task.configuration}.json").write_text(text)
    with RecordStore(tmp_path) as store:
        assert store.failures == []


def test_a_torn_failure_is_set_aside(tmp_path: Path) -> None:
    with RecordStore(tmp_path) as store:
        store.fail(_task(), "no memory")
    place = tmp_path / "failures" / f"{_task().configuration}.json"
    place.write_text(place.read_text()[:10])
    with RecordStore(tmp_path) as store:
        assert store.torn == [place.name]
        assert store.failures == []


def test_one_process_at_a_time(tmp_path: Path) -> None:
    with (
        RecordStore(tmp_path),
        pytest.raises(ConfigError, match="in use by another process"),
        RecordStore(tmp_path),
    ):
        pass
