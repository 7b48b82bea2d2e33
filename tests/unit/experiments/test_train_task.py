from __future__ import annotations

import pytest

from privgcn.config import PAPER_EPOCHS, parse_settings
from privgcn.errors import ConfigError
from privgcn.experiments.grid import Experiment, Grid
from privgcn.experiments.paper import emulation
from privgcn.experiments.predictions import pack, unpack
from privgcn.experiments.tasks import Task, make_task, run_company, run_task
from privgcn.experiments.train_task import check_device, resolve, weight

AUTO = {"dataset": "clinic", "recipe": "auto", "epsilon": 1.0, "fraction": 0.5}


HASHED = {"features.kind": "hashing", "features.options": {"dimension": 64}}


def test_a_point_becomes_the_settings_of_a_reproducible_run() -> None:
    tree = resolve({**AUTO, "features": "hashing"})
    settings = parse_settings(tree["settings"])
    assert settings.recipe == "auto"
    assert settings.data.source == "clinic"
    assert settings.features.kind == "hashing"
    assert settings.privacy is not None
    assert settings.privacy.epsilon == 1.0
    assert settings.privacy.reproducible, (
        "runs of experiments must say they are not for release"
    )
    assert tree["fraction"] == 0.5


@pytest.mark.parametrize(
    ("parts", "unit", "sampling"),
    [(1, "graph", "all"), (4, "part", "poisson"), ("each", "document", "all")],
)
def test_the_unit_follows_the_number_of_parts(
    parts: int | str, unit: str, sampling: str
) -> None:
    point = {"dataset": "cora", "recipe": "paper-split", "epsilon": 2, "parts": parts}
    privacy = parse_settings(resolve(point)["settings"]).privacy
    assert privacy is not None
    assert (privacy.parts, privacy.unit, privacy.sampling) == (parts, unit, sampling)


def test_equal_runs_of_different_experiments_are_one_run() -> None:
    base = {"dataset": ["cora"], "optimizer": ["sgd"], "epsilon": [2]}
    grids = [
        Grid({**base, "recipe": ["paper-full"]}),
        Grid({**base, "recipe": ["paper-split"], "parts": [1]}),
        Grid({**base, "recipe": ["paper-full"], "fraction": [1.0]}),
    ]
    assert len(list(Experiment("same", grids))) == 1
    plain = Grid({"dataset": ["cora"], "recipe": ["plain"], "parts": [None, 1]})
    assert len(list(Experiment("same", [plain]))) == 1


@pytest.mark.parametrize("point", [{"dataset": "cora"}, {**AUTO, "optimiser": "sgd"}])
def test_axes_are_checked(point: dict[str, object]) -> None:
    with pytest.raises(ConfigError, match="grid of kind 'train'"):
        resolve(point)


def test_a_run_gives_scores_in_every_mode_and_its_predictions(letters: str) -> None:
    point = {**AUTO, "dataset": letters, "changes": HASHED}
    results = run_task("train", resolve(point), (0, 1))
    assert len(results) == 2
    for result in results:
        assert set(result["scores"]) == {"alone", "own-graph", "full-graph"}
        truth, predicted = unpack(result["truth"]), unpack(result["predicted"]["own-graph"])
        score = result["scores"]["own-graph"]["micro_f1"]
        assert (truth == predicted).mean() == pytest.approx(score)
        assert result["privacy"]["epsilon"] <= 1.0
        assert result["synthetic"] is False
        documents = result["documents"]
        assert (documents["train"], documents["test"]) == (16, 32)
        assert documents["train_links"] == 0 < documents["links"]
    assert results == run_task("train", resolve(point), (0, 1)), "same settings, same record"


def test_seeds_that_share_no_work_are_tasks_of_their_own(letters: str) -> None:
    sampled = {"dataset": letters, "recipe": "paper-split", "epsilon": 1, "parts": 4}
    for point in ({**AUTO, "dataset": letters, "apart": True}, sampled):
        task = Task("train", resolve(point), (3, 4))
        assert [piece.seeds for piece in task.pieces()] == [(3,), (4,)]
        assert [p.run_key(p.seeds[0]) for p in task.pieces()] == [
            task.run_key(3),
            task.run_key(4),
        ]
    matched = Task("train", resolve({**AUTO, "dataset": letters}), (3, 4))
    assert len(matched.pieces()) == 2, "each seed is matched by itself"
    together = Task("train", resolve({"dataset": letters, "recipe": "plain"}), (3, 4))
    assert together.pieces() == [together]
    on_device = Task("train", resolve(sampled), (3, 4)).on("cuda")
    assert on_device.pieces() == [on_device], "a device samples for all seeds in one pass"


def test_a_task_runs_where_it_is_faster_and_keeps_its_name(letters: str) -> None:
    short = Task("train", resolve({**AUTO, "dataset": "cora"}), (0, 1))
    long = Task(
        "train", resolve({"dataset": "cora", "recipe": "paper-split", "epsilon": 1}), (0,)
    )
    released = make_task(
        emulation.KIND, {"dataset": "pubmed", "optimizer": "sgd", "epsilon": 2}, (0,)
    )
    assert [task.on("auto").device for task in (short, long, released)] == [
        "cpu",
        "cuda",
        "cuda",
    ]
    assert [task.on("cuda").device for task in (short, long)] == ["cuda", "cuda"]
    assert long.on("cpu").device == "cpu"
    assert long.on("cuda").with_seeds([4]).device == "cuda"
    assert long.on("cuda").run_key(0) == long.run_key(0)


def test_more_work_weighs_more() -> None:
    small = weight(resolve({"dataset": "cora", "recipe": "plain"}))
    large = weight(resolve({"dataset": "pubmed", "recipe": "plain"}))
    split = weight(resolve({"dataset": "cora", "recipe": "paper-split", "epsilon": 1}))
    assert small < split
    assert small < large


def test_predictions_are_packed_exactly() -> None:
    import numpy as np

    values = np.array([0, 3, 40, -1, 7])
    assert unpack(pack(values)).tolist() == values.tolist()


def test_the_device_of_runs_comes_from_the_environment(
    letters: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    tree = resolve({**AUTO, "dataset": letters})
    monkeypatch.setenv("PRIVGCN_DEVICE", "abacus")
    with pytest.raises(ConfigError, match="abacus"):
        run_task("train", tree, (0,))
    monkeypatch.setenv("PRIVGCN_DEVICE", "cpu")
    assert run_task("train", tree, (0,))[0]["scores"]
    assert resolve({**AUTO, "dataset": letters}) == tree


def test_a_task_says_itself_where_it_runs_and_its_record_says_where_it_did(
    letters: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    tree = resolve({**AUTO, "dataset": letters, "changes": HASHED})
    monkeypatch.setenv("PRIVGCN_DEVICE", "cuda")
    task = Task("train", tree, (0,)).on("cpu")
    (results,) = run_company([task])
    assert results[0]["device"] == "cpu", "an option outweighs the environment"
    monkeypatch.setenv("PRIVGCN_DEVICE", "auto")
    assert run_task("train", tree, (0,))[0]["device"] == "cpu"
    # What auto takes is decided before training, so the record can say it.
    monkeypatch.setattr("torch.cuda.is_available", lambda: True)
    assert run_task("train", tree, (0,))[0]["device"] == "cpu"


def test_levels_of_noise_share_a_pass_where_parts_are_sampled() -> None:
    base = {"dataset": "cora", "recipe": "paper-split", "parts": 10, "optimizer": "sgd"}

    def at(epsilon: float, **more: object) -> Task:
        return make_task("train", {**base, "epsilon": epsilon, **more}, (0, 1)).on("cuda")

    assert at(1).company == at(2).company
    others = [at(1, optimizer="adam"), at(1, fraction=0.5), at(1, parts=5), at(1, parts=1)]
    assert len({at(1).company, *(task.company for task in others)}) == 5
    assert at(1, parts=1).company != at(2, parts=1).company, "nothing is sampled"
    assert at(1).on("cpu").company != at(2).on("cpu").company


def test_steps_are_those_of_a_run() -> None:
    split = {"dataset": "cora", "recipe": "paper-split", "epsilon": 1, "parts": 10}
    split["optimizer"] = "sgd"
    assert make_task("train", split, (0, 1)).steps == 10 * PAPER_EPOCHS["sgd"]
    assert make_task("train", {**split, "parts": 1}, (0,)).steps == PAPER_EPOCHS["sgd"]
    plain = {"dataset": "pubmed", "recipe": "plain", "optimizer": "adam"}
    assert make_task("train", plain, (0,)).steps == PAPER_EPOCHS["adam"]
    released = {"dataset": "cora", "optimizer": "adam", "epsilon": 2, "parts": 4}
    assert make_task(emulation.KIND, released, (0,)).steps == 4 * PAPER_EPOCHS["adam"]
    assert make_task("references", {"dataset": "cora"}, (0,)).steps == 1


def test_cuda_must_be_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PRIVGCN_DEVICE", "cuda")
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    with pytest.raises(ConfigError, match=r"finds no CUDA device\. Got 'cuda'"):
        check_device()
    with pytest.raises(ConfigError, match="option --device must be cpu or auto"):
        check_device("cuda")
    assert check_device("auto") == "cpu"
    assert check_device(here=False) == "cuda", "a cluster may have what this machine has not"
    monkeypatch.setattr("torch.cuda.is_available", lambda: True)
    assert check_device() == "cuda"


@pytest.mark.parametrize(
    ("kind", "settings"),
    [
        (None, {"model": "bert-base-multilingual-cased", "average": "lines"}),
        ("bow", {"min_count": 15, "max_count": 15000, "stop_words": "none"}),
        ("word-vectors", {"source": "cc.sk.300.bin", "stop_words": "none"}),
        ("hashing", {}),
    ],
)
def test_pokec_is_encoded_as_in_the_paper(
    kind: str | None, settings: dict[str, object]
) -> None:
    point = {"dataset": "pokec", "recipe": "plain", "optimizer": "sgd", "features": kind}
    features = resolve(point)["settings"]["features"]
    assert features["kind"] == (kind or "transformer")
    assert features["options"] == settings
    released = emulation.resolve(
        {"dataset": "pokec", "optimizer": "sgd", "epsilon": None, "features": kind}
    )
    assert released["features"]["features.kind"] == features["kind"]
