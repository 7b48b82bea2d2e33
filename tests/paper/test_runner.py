"""Runs that leave one record each, are not made again, and fail alone."""

import json
from pathlib import Path

import numpy as np
import pytest

from builders import corpus_folder
from privgcn.config import make_settings
from privgcn.data import TEST, TRAIN
from privgcn.errors import DataError
from privgcn_paper import runner
from privgcn_paper.results import PAPER_MODE, Runs, read_records
from privgcn_paper.runner import Task, claimed_noise, corpus_of, run_all, settings_of

HASHING = {"features.options": {"dimension": 32}, "training.epochs": 3}


@pytest.fixture
def letters(tmp_path):
    return str(corpus_folder(tmp_path / "letters"))


def auto(source):
    point = {"dataset": source, "recipe": "auto", "features": "hashing", "epsilon": 4.0}
    return {**point, "changes": HASHING}


def plain(source, **axes):
    point = {"dataset": source, "recipe": "plain", "features": "hashing"}
    return {**point, "changes": HASHING, **axes}


def one(point, seed=0):
    (record,) = runner.run([Task(point, seed)])
    return record


def make_all(points, folder, seeds=1, **options):
    tasks = [Task(point, seed) for point in points for seed in range(seeds)]
    return run_all(tasks, folder, workers=1, **options)


class TestOneRun:
    def test_leaves_a_record_that_its_seed_gives_again(self, letters):
        import torch

        before = torch.get_num_threads()
        made, again = (one(auto(letters), 1) for _ in range(2))
        assert made == again
        assert torch.get_num_threads() == before
        assert set(made["scores"]) == {"alone", "own-graph", PAPER_MODE}
        assert made["noise_multiplier"] > 0
        assert (made["classes"], made["train"], made["test"]) == (3, 40, 14)
        right = 1 - len(made["errors"]) / 14
        assert made["scores"][PAPER_MODE]["micro"] == pytest.approx(right)
        assert len(json.dumps(made)) < 5000
        assert one(plain(letters))["noise_multiplier"] is None

    @pytest.mark.parametrize(
        "axes",
        [{"epsilon": 4.0}, {"fraction": 0.5}, {"epsilon": 4.0, "parts": 2, "clip": True}],
    )
    def test_of_the_released_code_has_the_paper_s_mode_alone(self, letters, axes, monkeypatch):
        monkeypatch.setattr(runner, "PAPER_EPOCHS", {"adam": 2})
        point = {"dataset": letters, "recipe": "as-released", "features": "hashing"}
        made = one({**point, "optimizer": "adam", **axes})
        assert set(made["scores"]) == {PAPER_MODE}
        assert (made["noise_multiplier"] > 0) == ("epsilon" in axes)
        assert made["train"] < 22 or "fraction" not in axes
        assert made["steps"] == 2 * axes.get("parts", 1)


class TestManyRuns:
    def test_each_run_and_seed_is_a_row_and_is_made_once(self, letters, tmp_path, monkeypatch):
        seen = []
        points = [auto(letters), plain(letters)]
        summary = make_all(points, tmp_path / "out", 2, progress=lambda *n: seen.append(n))
        assert (summary.done, summary.stored, summary.failures) == (4, 0, [])
        assert seen == [(1, 4), (2, 4), (3, 4), (4, 4)]
        rows = Runs.of_records(read_records(tmp_path / "out").values()).rows
        assert sorted((row["recipe"], row["seed"]) for row in rows) == [
            *(("auto", 0), ("auto", 1), ("plain", 0), ("plain", 1))
        ]
        assert all(row["code"].startswith("0.") and row["seconds"] > 0 for row in rows)
        # A corrupt record is made again, and nothing else.
        path = next((tmp_path / "out").glob("*.json"))
        before = json.loads(path.read_text())
        path.write_text(path.read_text()[:100])
        summary = make_all(points, tmp_path / "out", 2)
        assert (summary.done, summary.stored) == (1, 3)
        assert json.loads(path.read_text())["scores"] == before["scores"]
        monkeypatch.setattr(runner, "run", None)
        assert make_all(points, tmp_path / "out", 2).done == 0


class TestBatches:
    def test_runs_that_differ_in_seed_noise_and_rate_alone_share_a_pass(self):
        full = {"dataset": "cora", "recipe": "paper-full", "optimizer": "sgd"}
        full_runs = [Task({**full, "epsilon": e}, s) for e in (1.0, 2.0) for s in (0, 1)]
        adam = [Task({**full, "optimizer": "adam", "epsilon": 1.0}, 0)]
        images = {"dataset": "mnist", "recipe": "paper-full", "lot": 600, "noise": 4.0}
        image_run = [Task({**images, "epochs": 1}, 0)]
        loud = {**full, "recipe": "as-released", "epsilon": 1.0}
        released = [Task(loud, 0), Task({**loud, "learning_rate": 0.1}, 1)]
        quiet = [Task({**full, "recipe": "as-released"}, 0)]
        split = {**full, "recipe": "paper-split", "epsilon": 1.0}
        ten = [Task({**split, "parts": 10}, 0)]
        each = [Task({**split, "parts": "each"}, s) for s in (0, 1)]
        auto_run = [Task({"dataset": "cora", "recipe": "auto", "epsilon": 1.0}, 0)]
        plain_run = [Task({**full, "recipe": "plain", "parts": "each"}, 0)]
        changed = [Task({**split, "parts": "each", "changes": {}}, 0)]
        batches = [image_run, adam, full_runs, released, quiet, ten, each]
        alone = [auto_run, plain_run, changed]
        tasks = [task for batch in [*batches[::-1], *alone] for task in batch]
        on_gpu, others = runner._batches(tasks, "cuda")
        # Those of few steps come first.
        assert on_gpu[:2] == [image_run, adam]
        assert sorted(on_gpu, key=batches.index) == batches
        assert sorted(others, key=alone.index) == alone
        # On a processor only where a session would take many groups one by one.
        on_gpu, others = runner._batches(tasks, "cpu")
        assert on_gpu == []
        assert [batch for batch in others if len(batch) > 1] == [each]
        assert sum(map(len, others)) == len(tasks)

    @pytest.mark.parametrize(("parts", "steps"), [(4, [8] * 4), ("each", [2] * 4)])
    def test_a_pass_scores_every_trial(self, letters, parts, steps, monkeypatch):
        monkeypatch.setattr(runner, "_MANY_PARTS", (4, "each"))
        point = {"dataset": letters, "recipe": "paper-split", "features": "hashing"}
        point |= {"optimizer": "sgd", "parts": parts, "epochs": 2}
        tasks = [Task({**point, "epsilon": e}, s) for e in (1.0, 8.0) for s in (0, 1)]
        made = runner.run(tasks)
        assert [m["steps"] for m in made] == steps
        noises = [m["noise_multiplier"] for m in made]
        assert noises[0] == noises[1] > noises[2] == noises[3]
        assert all(set(m["scores"]) == {"alone", "own-graph", PAPER_MODE} for m in made)
        # As a session has it, which trains one of them.
        monkeypatch.setattr(runner, "_MANY_PARTS", ())
        alone = one({**point, "epsilon": 1.0})
        assert (alone["noise_multiplier"], alone["steps"]) == (noises[0], steps[0])


class TestSettings:
    @pytest.mark.parametrize(
        ("recipe", "axes", "expected"),
        [
            ("paper-full", {}, ("graph", 1, "all")),
            ("paper-split", {"parts": 10}, ("part", 10, "poisson")),
            ("paper-split", {"parts": "each"}, ("document", "each", "all")),
            ("paper-split", {}, ("graph", 1, "all")),
        ],
    )
    def test_the_paper_s_recipes_have_the_paper_s_unit(self, recipe, axes, expected):
        point = {"dataset": "cora", "optimizer": "sgd", "epsilon": 1.0, "recipe": recipe}
        made = settings_of({**point, **axes}, 0).privacy
        assert (made.unit, made.parts, made.sampling) == expected
        assert made.reproducible

    def test_axes_are_settings(self):
        point = {"dataset": "cora", "recipe": "auto", "noise": 3.0, "epochs": 7}
        made = settings_of({**point, "changes": {"training.noise_scale": 2.0}}, 5)
        assert (made.privacy.noise_multiplier, made.training.epochs, made.seed) == (3.0, 7, 5)
        assert made.training.noise_scale == 2.0
        rate = {"dataset": "cora", "recipe": "plain", "optimizer": "sgd", "learning_rate": 0.1}
        assert settings_of(rate, 0).training.learning_rate == 0.1

    def test_texts_of_pokec_are_encoded_as_in_the_paper(self):
        pokec = {"dataset": "pokec", "recipe": "plain"}
        assert settings_of(pokec, 0).features.kind == "transformer"
        assert settings_of(pokec, 0).features.options == {}
        assert settings_of(pokec, 0, "/bert").features.options == {"model": "/bert"}
        words = settings_of({**pokec, "features": "bow"}, 0, "/bert").features
        assert (words.kind, words.options) == ("bow", {})
        assert settings_of({"dataset": "cora", "recipe": "plain"}, 0).features == (
            make_settings("plain", changes={"data.source": "cora"}).features
        )

    def test_the_noise_of_the_released_code_is_what_the_paper_says(self):
        assert claimed_noise("sgd", 2, 1, 2000) == 112.0
        assert claimed_noise("adam", 137, 1, 500) == 2.0
        assert claimed_noise("sgd", 1, 1, 2000) == pytest.approx(219.2, abs=0.05)
        assert claimed_noise("adam", 1, 10, 500) == pytest.approx(34.7, abs=0.1)


class TestCorpus:
    def test_a_fraction_is_taken_of_each_class_and_said(self, letters):
        some, half, whole = (corpus_of(plain(letters, fraction=f)) for f in (0.25, 0.5, 1.0))
        for label in range(3):
            counts = [
                int(((c.labels == label) & (c.split == TRAIN)).sum()) for c in (whole, half)
            ]
            assert counts[1] == counts[0] // 2
        assert (whole.split == TEST).sum() == (half.split == TEST).sum()
        assert any("same fraction of every class" in gap for gap in half.facts.not_covered)
        assert set(some.ids) < set(half.ids)

    def test_a_split_of_one_s_own_leaves_some_for_tests(self, letters, tmp_path):
        from builders import small_frame, write_corpus

        corpus = corpus_of(plain(letters, split=[0.6, 0.2]))
        assert np.bincount(corpus.split).tolist() == [36, 12, 12]
        frame = small_frame(30)
        frame["split"] = ["train"] * 30
        folder = write_corpus(Path(tmp_path) / "train-only", frame)
        with pytest.raises(DataError, match=r"must have test documents .* column 'split'"):
            corpus_of(plain(str(folder)))
