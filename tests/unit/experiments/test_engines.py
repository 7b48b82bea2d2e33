from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import tiny_task

from privgcn.errors import ConfigError
from privgcn.experiments.engines import Outcome, outcomes_of, reason_of
from privgcn.experiments.grid import Experiment, Grid
from privgcn.experiments.local import LocalEngine, _queues, _Worker
from privgcn.experiments.progress import BarProgress, PlainProgress, Tally, duration
from privgcn.experiments.runner import make_engine, run_tasks
from privgcn.experiments.store import RecordStore
from privgcn.experiments.tasks import Task
from terminal import Terminal


def _tasks(count: int, **more: object) -> list[Task]:
    axes = {"shift": [number / count for number in range(count)]}
    axes |= {name: [value] for name, value in more.items()}
    return list(Experiment("tiny", [Grid(axes, tiny_task.KIND)], seeds=(0, 1)))


def _files(folder: Path) -> dict[str, bytes]:
    """The records of a folder; what is still being written begins with a dot."""
    found = (folder / "records").glob("[!.]*/*.json")
    return {f"{path.parent.name}/{path.name}": path.read_bytes() for path in found}


def test_all_tasks_end_and_are_stored(store: RecordStore) -> None:
    tasks = _tasks(6)
    summary = run_tasks(tasks, store, LocalEngine(2))
    assert (summary.runs, summary.done, summary.failed, summary.kept) == (12, 12, 0, 0)
    for task in tasks:
        for seed in task.seeds:
            record = store.get(task.run_key(seed))
            assert record is not None
            assert record["result"] == tiny_task.run(dict(task.settings), (seed,))[0]


def test_nothing_is_run_twice(tmp_path: Path) -> None:
    class Forbidden:
        workers = 1

        def run(self, tasks):
            assert list(tasks) == []
            return iter(())

    with RecordStore(tmp_path) as store:
        run_tasks(_tasks(3), store, LocalEngine(2))
    with RecordStore(tmp_path) as store:
        summary = run_tasks(_tasks(3), store, Forbidden())
        assert (summary.kept, summary.done) == (6, 0)


def test_failures_and_crashes_cost_one_task_each(store: RecordStore) -> None:
    broken, killed, good = _tasks(1, fails=True), _tasks(1, dies=True), _tasks(4)
    summary = run_tasks([*broken, *killed, *good], store, LocalEngine(2))
    assert (summary.done, summary.failed) == (8, 4)
    failures = store.failures_of([*broken, *killed, *good])
    reasons = {failure["configuration"]: failure["reason"] for failure in failures}
    assert reasons[broken[0].configuration].startswith("ArithmeticError: the blob is empty")
    assert "SIGKILL" in reasons[killed[0].configuration]
    kept = run_tasks([*broken, *good], store, LocalEngine(1))
    assert (kept.done, kept.failed, kept.kept) == (0, 2, 8)


def test_tasks_of_a_device_share_a_process_beside_those_of_cores(store: RecordStore) -> None:
    there = [task.on("cuda") for task in _tasks(12, pause=0.1)]
    assert {task.device for task in there} == {"cuda"}
    summary = run_tasks([*there, *_tasks(3)], store, LocalEngine(1))
    assert (summary.done, summary.failed) == (30, 0)
    for task in there:
        record = store.get(task.run_key(0))
        assert record is not None
        assert record["result"] == tiny_task.run(dict(task.settings) | {"pause": 0}, (0,))[0]


def test_a_device_gets_tasks_with_most_steps_first_and_cores_in_the_order_given() -> None:
    short, long = _tasks(3, steps=2), _tasks(2, steps=9)
    there = [task.on("cuda") for task in (*_tasks(3, steps=4), *_tasks(2, steps=8))]
    waiting = _queues([*short, *there, *long])
    assert [task for company in waiting["cpu"] for task in company] == [*short, *long]
    assert [task for company in waiting["cuda"] for task in company] == [
        *there[3:],
        *there[:3],
    ]


def test_tasks_of_a_company_share_a_pass_on_a_device_alone(store: RecordStore) -> None:
    together, apart = _tasks(3, shared=True), _tasks(2)
    here = [company for queue in _queues([*together, *apart]).values() for company in queue]
    assert [len(company) for company in here] == [1] * 5, "cores share nothing"
    there = [task.on("cuda") for task in [*together, *apart]]
    assert sorted(map(len, _queues(there)["cuda"])) == [1, 1, 3]
    summary = run_tasks(there, store, LocalEngine(1))
    assert (summary.done, summary.failed) == (10, 0)
    results = [store.get(task.run_key(1)) for task in there]
    beside = [0 if found is None else found["result"].get("beside") for found in results]
    assert beside == [[0, 1 / 3, 2 / 3]] * 3 + [None] * 2
    for task, found in zip(there, results, strict=True):
        assert found is not None
        alone = tiny_task.run(dict(task.settings), (1,))[0]
        assert {name: found["result"][name] for name in alone} == alone


def test_a_company_fails_as_a_whole_and_needs_a_result_for_each_seed() -> None:
    for more, reason in (({"fails": True}, "the blob is empty"), ({"most": 1}, "one result")):
        there = [task.on("cuda") for task in _tasks(2, shared=True, **more)]
        found = outcomes_of(there)
        assert [outcome.task for outcome in found] == there
        assert all(outcome.results is None for outcome in found)
        assert all(reason in str(outcome.reason) for outcome in found)


def test_a_crash_on_a_device_costs_what_was_under_way_there(store: RecordStore) -> None:
    killed = [task.on("cuda") for task in _tasks(1, dies=True, pause=0.2)]
    there = [task.on("cuda") for task in _tasks(20, pause=0.05)]
    summary = run_tasks([*killed, *there, *_tasks(2)], store, LocalEngine(1))
    failed = store.failures_of([*killed, *there])
    assert summary.done + summary.failed == 46
    assert 2 <= summary.failed <= 16
    assert all("SIGKILL" in failure["reason"] for failure in failed)


def test_a_lost_device_ends_at_once_what_was_under_way_there(store: RecordStore) -> None:
    first = _tasks(1, loses_device=True, pause=1.0, steps=9)
    hanging, waiting = _tasks(7, pause=300, steps=8), _tasks(4, steps=7)
    there = [task.on("cuda") for task in (*first, *hanging, *waiting)]
    begun = time.monotonic()
    summary = run_tasks(there, store, LocalEngine(1))
    assert time.monotonic() - begun < 60
    assert (summary.done, summary.failed) == (8, 16), "a new process did the rest"
    (cause,) = store.failures_of([task.on("cuda") for task in first])
    assert cause["reason"].startswith(
        r"RuntimeError: CUDA error: an illegal memory access\nCompile with"
    )
    for failure in store.failures_of([task.on("cuda") for task in hanging]):
        assert failure["reason"].startswith("The process of the device was ended by a CUDA")
        assert failure["reason"].endswith(cause["reason"])


def test_the_same_error_on_a_core_costs_one_task(store: RecordStore) -> None:
    tasks = [*_tasks(1, loses_device=True), *_tasks(3)]
    summary = run_tasks(tasks, store, LocalEngine(1))
    assert (summary.done, summary.failed) == (6, 2)


def test_seeds_that_failed_before_are_told_and_tried_again(tmp_path: Path) -> None:
    whole = _tasks(1)[0].with_seeds((0, 1, 2, 3))
    pieces = [whole.with_seeds([seed]) for seed in whole.seeds]

    class FailsEvenSeeds:
        workers, here = 1, True

        def run(self, tasks):
            for task in tasks:
                if task.seeds[0] % 2:
                    yield Outcome(task, tiny_task.run(dict(task.settings), task.seeds), None, 0)
                else:
                    yield Outcome(task, None, "no memory", 0)

    with RecordStore(tmp_path) as store:
        summary = run_tasks(pieces, store, FailsEvenSeeds())
        assert (summary.done, summary.failed) == (2, 2)
        assert [failure["seeds"] for failure in store.failures_of(pieces)] == [[0, 2]]
    with RecordStore(tmp_path) as store:
        # Another experiment asks for the same runs in one task, and for one more.
        more = [whole.with_seeds((0, 1, 2, 3, 4))]
        again = run_tasks(more, store, LocalEngine(1))
        assert (again.kept, again.done, again.failed) == (2, 3, 0)
        assert store.failures_of(more) == []


def test_the_same_records_whatever_the_number_of_workers(tmp_path: Path) -> None:
    for name, workers in (("one", 1), ("three", 3)):
        with RecordStore(tmp_path / name) as store:
            run_tasks(_tasks(5), store, LocalEngine(workers))
    assert _files(tmp_path / "one") == _files(tmp_path / "three")


def test_an_interrupt_leaves_everything_resumable(tmp_path: Path) -> None:
    class Interrupted:
        def show(self, tally: Tally) -> None:
            if tally.done >= 4:
                raise KeyboardInterrupt

        def close(self) -> None:
            pass

    tasks = _tasks(8, pause=0.01)
    with RecordStore(tmp_path) as store:
        with pytest.raises(KeyboardInterrupt):
            run_tasks(tasks, store, LocalEngine(2), progress=Interrupted())
        stored = len(store)
        assert 4 <= stored < 16
    with RecordStore(tmp_path) as store:
        summary = run_tasks(tasks, store, LocalEngine(2))
        assert (summary.kept, summary.done) == (stored, 16 - stored)


_SCRIPT = """
import sys
from privgcn.experiments.grid import Experiment, Grid
from privgcn.experiments.local import LocalEngine
from privgcn.experiments.runner import make_engine, run_tasks
from privgcn.experiments.store import RecordStore
import tiny_task

if __name__ == "__main__":
    axes = {"shift": [n / 40 for n in range(40)], "pause": [0.04]}
    experiment = Experiment("tiny", [Grid(axes, tiny_task.KIND)], seeds=(0, 1, 2))
    with RecordStore(sys.argv[1]) as store:
        print("ready", flush=True)
        print(run_tasks(experiment, store, LocalEngine(2)))
"""


def test_five_kills_at_random_moments_leave_the_records_of_an_undisturbed_run(
    tmp_path: Path,
) -> None:
    script = tmp_path / "grid.py"
    script.write_text(_SCRIPT)
    command = [sys.executable, str(script)]
    subprocess.run([*command, str(tmp_path / "calm")], check=True, capture_output=True)
    calm = _files(tmp_path / "calm")
    assert len(calm) == 120
    draw = random.Random(os.getpid())
    counts = []
    for _ in range(5):
        process = subprocess.Popen([*command, str(tmp_path / "killed")], stdout=subprocess.PIPE)
        assert process.stdout is not None
        process.stdout.readline()
        time.sleep(draw.uniform(0.2, 0.8))
        process.send_signal(signal.SIGKILL)
        process.wait()
        process.stdout.close()
        counts.append(len(_files(tmp_path / "killed")))
    assert counts == sorted(counts), "no kill may lose a record"
    subprocess.run([*command, str(tmp_path / "killed")], check=True, capture_output=True)
    assert _files(tmp_path / "killed") == calm
    assert not (tmp_path / "killed" / "torn").exists()
    assert not any((tmp_path / "killed" / "failures").iterdir())


def test_workers_end_with_a_killed_parent(tmp_path: Path) -> None:
    script = tmp_path / "grid.py"
    script.write_text(_SCRIPT.replace("[0.04]", "[30]"))
    process = subprocess.Popen(
        [sys.executable, str(script), str(tmp_path / "out")], stdout=subprocess.PIPE
    )
    assert process.stdout is not None
    process.stdout.readline()
    children = Path(f"/proc/{process.pid}/task/{process.pid}/children")
    if not children.exists():
        process.kill()
        process.wait()
        process.stdout.close()
        pytest.skip("needs the list of child processes that Linux keeps")
    deadline = time.monotonic() + 60
    while not (workers := children.read_text().split()) and time.monotonic() < deadline:
        time.sleep(0.05)
    time.sleep(0.5)
    workers = children.read_text().split()
    process.kill()
    process.wait()
    process.stdout.close()
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline and any(Path(f"/proc/{p}").exists() for p in workers):
        time.sleep(0.05)
    assert workers
    assert not any(_running(pid) for pid in workers)


def test_an_interrupt_at_the_keyboard_does_not_end_a_worker_even_while_it_starts() -> None:
    worker = _Worker(_tasks(1))
    try:
        deadline = time.monotonic() + 30
        while not worker._pipe.poll(0.002) and time.monotonic() < deadline:
            os.kill(worker._process.pid, signal.SIGINT)
        (outcome,) = worker.outcomes()
    finally:
        worker.end()
    assert outcome.results is not None, outcome.reason


def _running(pid: str) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]
    except FileNotFoundError:
        return False
    return state != "Z"


def test_engines_are_chosen_by_name() -> None:
    assert make_engine("local", workers=3).workers == 3
    with pytest.raises(ConfigError, match="'engine' must be one of local, ray"):
        make_engine("slurm")
    with pytest.raises(ConfigError, match="for engine 'ray' only"):
        make_engine("local", address="auto")
    with pytest.raises(ConfigError, match="'workers' of LocalEngine"):
        LocalEngine(0)


def test_reasons_are_one_line() -> None:
    assert reason_of(ConfigError("The 'x' must be y.")) == "The 'x' must be y."
    with pytest.raises(ZeroDivisionError) as caught:
        raise ZeroDivisionError("nothing")
    assert reason_of(caught.value).startswith("ZeroDivisionError: nothing (test_engines.py:")


def test_progress_says_done_failed_and_time_left(capsys: pytest.CaptureFixture[str]) -> None:
    tally = Tally(runs=10, weight=10.0, begun=time.monotonic() - 60)
    assert "time left unknown" in tally.line()
    tally.done, tally.failed, tally.kept, tally.weight_done = 3, 1, 2, 5.0
    assert tally.line() == "5 of 10 runs done, 2 of them earlier, 1 failed, about 60 s left"
    now = [0.0]
    progress = PlainProgress(sys.stdout, every=5.0, clock=lambda: now[0])
    for second in (0.0, 1.0, 6.0):
        now[0] = second
        progress.show(tally)
    assert len(capsys.readouterr().out.splitlines()) == 2
    tally.done = 7
    progress.show(tally)
    assert "9 of 10" in capsys.readouterr().out


def test_progress_says_how_many_tasks_are_under_way_before_the_first_ended(
    store: RecordStore,
) -> None:
    lines: list[str] = []

    class Lines:
        def show(self, tally: Tally) -> None:
            lines.append(tally.line())

        def close(self) -> None:
            pass

    run_tasks(_tasks(3), store, LocalEngine(2), progress=Lines())
    assert lines[0] == "0 of 6 runs done, 0 failed, 2 tasks under way, time left unknown"
    assert not any("under way" in line for line in lines[1:])


def test_a_bar_touches_the_terminal_only_after_the_first_tally(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr(sys, "stderr", Terminal())
    unused = BarProgress()
    unused.close()
    assert sys.stderr.getvalue() == "", "a mistake of the user ends before any run"
    bar = BarProgress()
    bar.show(Tally(runs=2, weight=1.0))
    bar.close()
    hidden, shown = "\x1b[?25l", "\x1b[?25h"
    text = sys.stderr.getvalue()
    assert hidden in text
    assert text.rindex(shown) > text.rindex(hidden)


@pytest.mark.parametrize(
    ("seconds", "words"), [(4, "4 s"), (200, "3 min"), (7500, "2 h 05 min")]
)
def test_durations_in_words(seconds: float, words: str) -> None:
    assert duration(seconds) == words
