"""One model over several ranks: the same bits, noise once, and a rank that gets lost."""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch
from safetensors.torch import load

from privgcn.privacy.plan import PrivacyPlan
from privgcn.training.checkpoint import Checkpoint
from privgcn.training.fit import fit
from privgcn.training.fitted import Fit
from rank_cases import CASES, LONG, NOISE, STEPS_BEFORE_THE_LOSS, started

LIMIT = 300


def run_all(size: int, what: str, folder: Path) -> None:
    with started(size, [what, str(folder)]) as ranks:
        for rank in ranks:
            assert rank.ended() == (0, "", "")


@pytest.fixture(scope="module", params=[2, 4])
def shared(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp(f"ranks-{request.param}")
    run_all(request.param, "cases", folder)
    return folder


@pytest.mark.parametrize("name", CASES)
def test_several_ranks_leave_the_tensors_of_one(shared: Path, name: str) -> None:
    alone = load(CASES[name].fit().serialised())
    found = load((shared / name).read_bytes())
    assert found.keys() == alone.keys()
    assert ("centre" in alone) == ("dense" in name or "by one" in name)
    if "centre" in alone:
        assert bool(alone["centre"].any())
    for tensor in alone:
        assert torch.equal(found[tensor], alone[tensor]), tensor


def test_noise_is_added_once_secretly_and_anew_in_every_run(shared: Path) -> None:
    plan = fit(NOISE.graph, NOISE.settings).plan
    assert isinstance(plan, PrivacyPlan)
    rate = NOISE.settings.training.learning_rate
    assert rate is not None
    expected = rate * plan.noise_std / plan.schedule.expected_parts
    first, second = (
        load((shared / f"noise {number}").read_bytes())["layers.0.weight"] for number in (0, 1)
    )
    # 8000 draws each: the spread of their standard deviation is 0.8 %. Twice the noise in the
    # sum, one from each of two ranks, would be 41 % more.
    for weights in (first, second):
        assert float(weights.double().std()) == pytest.approx(expected, rel=0.05)
    together = torch.corrcoef(torch.stack([first.flatten(), second.flatten()]))
    assert abs(float(together[0, 1])) < 0.06


def wait_for(path: Path) -> None:
    deadline = time.monotonic() + LIMIT
    while not path.exists():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def resumed(folder: Path, size: int) -> bytes:
    """The tensors of a run that goes on from a copy of the state in ``folder``."""
    own = folder / f"resumed-{size}"
    shutil.copytree(folder / "state", own / "state")
    (own / "go").touch()
    if size == 1:
        return LONG.fit(checkpoint_folder=own / "state").serialised()
    run_all(size, "long", own)
    return (own / "model").read_bytes()


@pytest.fixture(scope="module")
def lost(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What is left of a run of three ranks of which one was killed."""
    folder = tmp_path_factory.mktemp("lost")
    with started(3, ["long", str(folder)]) as ranks:
        wait_for(folder / "now")
        ranks[2].signal(signal.SIGKILL)
        ranks[2].process.join()
        (folder / "go").touch()
        told = [rank.ended() for rank in ranks]
    (folder / "told").write_text(json.dumps(told))
    return folder


def test_a_lost_rank_ends_the_run_with_one_clear_line(lost: Path) -> None:
    leader, other, killed = json.loads((lost / "told").read_text())
    assert leader[0] == 4
    assert leader[1] == ""
    assert leader[2].count("\n") == 1
    assert leader[2].startswith("Error: A rank was lost during the training")
    assert f"after {STEPS_BEFORE_THE_LOSS} of" in leader[2]
    assert "Run the same command again" in leader[2]
    assert killed == [-signal.SIGKILL, "", ""]
    # The third ends too, without a word.
    assert other == [4, "", ""]
    assert not (lost / "model").exists()


def test_after_a_loss_any_number_of_ranks_goes_on_with_the_same_plan(lost: Path) -> None:
    alone = resumed(lost, 1)
    assert resumed(lost, 2) == alone
    whole: Fit = LONG.fit()
    assert whole.plan is not None
    done: list[int] = []
    again = lost / "again"
    shutil.copytree(lost / "state", again)
    fitted = LONG.fit(checkpoint_folder=again, progress=lambda step, _: done.append(step))
    assert done == list(range(STEPS_BEFORE_THE_LOSS + 1, whole.plan.steps + 1))
    assert fitted.plan == whole.plan
    # Fresh noise: a resumed run never takes again what it took before.
    assert fitted.serialised() == alone != whole.serialised()


def test_told_to_end_a_run_keeps_its_last_whole_step(tmp_path: Path) -> None:
    """As torchrun does when a rank is lost: no step is left half taken."""
    with started(2, ["long", str(tmp_path)]) as ranks:
        wait_for(tmp_path / "now")
        ranks[0].signal(signal.SIGTERM)
        (tmp_path / "go").touch()
        leader, other = (rank.ended() for rank in ranks)
    assert leader[:2] == (4, "")
    assert leader[2].count("\n") == 1
    assert f"after {STEPS_BEFORE_THE_LOSS} of" in leader[2]
    assert other == (4, "", "")
    state = Checkpoint(tmp_path / "state", {}).path
    assert int(load(state.read_bytes())["steps"]) == STEPS_BEFORE_THE_LOSS


def test_if_rank_0_is_lost_the_next_one_says_so(tmp_path: Path) -> None:
    with started(2, ["long", str(tmp_path)]) as ranks:
        wait_for(tmp_path / "now")
        ranks[0].signal(signal.SIGKILL)
        _, other = (rank.ended() for rank in ranks)
    assert other[:2] == (4, "")
    assert other[2].startswith("Error: Rank 0 was lost.")
    assert other[2].count("\n") == 1


def test_a_rank_that_never_comes_is_an_error(tmp_path: Path) -> None:
    """In a process of its own, whose PyTorch would say more than one line."""
    command = ["train", "clinic", "--epsilon", "1", "--out", str(tmp_path / "run")]
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    meeting = {"RANK": "0", "WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1"}
    usual = {k: v for k, v in os.environ.items() if k != "TORCH_CPP_LOG_LEVEL"}
    done = subprocess.run(
        [sys.executable, "-m", "privgcn", *command],
        env={**usual, **meeting, "MASTER_PORT": str(port), "PRIVGCN_RANK_TIMEOUT": "3"},
        capture_output=True,
        text=True,
        timeout=LIMIT,
    )
    assert (done.returncode, done.stdout) == (4, "")
    assert done.stderr.startswith("Error: A rank was lost before the training began")
    assert done.stderr.count("\n") == 1
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["train", "clinic"], "Training without privacy runs in one process."),
        (["train", "clinic", "--epsilon", "-1"], "The 'privacy.epsilon' of the settings"),
        (["tune", "clinic", "--epsilon", "1"], "'privgcn tune' runs in one process"),
        (["reproduce", "table1"], "'privgcn reproduce' runs in one process"),
    ],
)
def test_what_cannot_be_shared_is_refused_in_one_line(arguments: list[str], words: str) -> None:
    trains = arguments[0] == "train"
    with started(2, arguments, others=int(trains)) as ranks:
        (code, out, err), *others = (rank.ended() for rank in ranks)
    assert (code, out) == (2, "")
    assert err.startswith(f"Error: {words}")
    assert err.count("\n") == 1
    # Rank 0 lets the others go.
    assert others == [(0, "", "")] * trains


@pytest.fixture
def letters(tmp_path: Path) -> Path:
    """A user's own folder."""
    folder = tmp_path / "letters"
    folder.mkdir()
    words = {"heart": "pulse pressure valve beat", "skin": "rash itch cream spot"}
    lines = []
    for number in range(80):
        kind = ("heart", "skin")[number % 2]
        record = {"id": f"d{number}", "text": f"{words[kind]} letter {number % 7}"}
        record |= {"label": kind, "owner": f"p{number % 40}"}
        lines.append(json.dumps({**record, "split": "test" if number % 40 > 30 else "train"}))
    (folder / "documents.jsonl").write_text("\n".join(lines) + "\n")
    links = [f"d{number},d{number - 2}" for number in range(2, 80)]
    (folder / "edges.csv").write_text("\n".join(["source,target", *links]) + "\n")
    return folder


def test_torchrun_leaves_the_tensors_of_one_process(tmp_path: Path, letters: Path) -> None:
    tensors = []
    for name, launcher in (
        ("one", []),
        ("two", ["-m", "torch.distributed.run", "--nproc-per-node", "2"]),
    ):
        folder = tmp_path / name
        command = [*launcher, "-m", "privgcn", "train", str(letters), "--features", "hashing"]
        wishes = ["--epsilon", "8", "--delta", "1e-3", "--reproducible", "--json"]
        done = subprocess.run(
            [sys.executable, *command, *wishes, "--out", str(folder)],
            capture_output=True,
            text=True,
            timeout=LIMIT,
            check=True,
        )
        # One rank prints one object; nothing but what it warns of is on stderr.
        assert json.loads(done.stdout)["run"] == str(folder)
        assert done.stderr.count("Each document is protected by itself") == 1
        tensors.append((folder / "model.safetensors").read_bytes())
    assert tensors[0] == tensors[1]
    assert {path.name for path in tmp_path.iterdir()} == {"letters", "one", "two"}
