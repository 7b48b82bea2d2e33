"""Runs that leave one record each, are not made again, and fail alone."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from builders import corpus_folder
from privgcn.config import make_settings
from privgcn.data import TEST, TRAIN
from privgcn.errors import ConfigError, DataError
from privgcn_paper import runner
from privgcn_paper.results import PAPER_MODE, Runs, read_records
from privgcn_paper.runner import (
    Summary,
    Task,
    check,
    claimed_noise,
    corpus_of,
    run_all,
    settings_of,
)

HASHING = {"features.options": {"dimension": 32}, "training.epochs": 3}


@pytest.fixture
def letters(tmp_path) -> str:
    return str(corpus_folder(tmp_path / "letters"))


def auto(source: str, **axes) -> dict:
    point = {"dataset": source, "recipe": "auto", "features": "hashing", "epsilon": 4.0}
    return {**point, "changes": HASHING, **axes}


def plain(source: str, **axes) -> dict:
    return {
        "dataset": source,
        "recipe": "plain",
        "features": "hashing",
        "changes": HASHING,
    } | axes


def one(point: dict, seed: int = 0) -> dict:
    (record,) = runner.run([Task(point, seed)])
    return record


class TestOneRun:
    def test_leaves_a_record_that_makes_a_row(self, letters):
        made = one(auto(letters), 1)
        assert set(made["scores"]) == {"alone", "own-graph", PAPER_MODE}
        assert made["noise_multiplier"] > 0
        assert (made["classes"], made["train"], made["test"]) == (3, 40, 14)
        assert len(json.dumps(made)) < 5000

    def test_is_the_same_for_the_same_seed(self, letters):
        first, second, other = (one(auto(letters), seed) for seed in (1, 1, 2))
        assert first == second
        assert first["predicted"] != other["predicted"] or first["scores"] == other["scores"]

    def test_without_privacy_has_no_noise(self, letters):
        assert "noise_multiplier" not in one(plain(letters), 0)

    def test_leaves_the_number_of_threads_as_it_was(self, letters):
        import torch

        before = torch.get_num_threads()
        one(plain(letters), 0)
        assert torch.get_num_threads() == before

    @pytest.mark.parametrize(
        "axes",
        [{"epsilon": 4.0}, {}, {"epsilon": 4.0, "parts": 2, "sound": "clip cut"}],
    )
    def test_of_the_released_code_has_the_paper_s_mode_alone(self, letters, axes, monkeypatch):
        monkeypatch.setattr(runner, "PAPER_EPOCHS", {"adam": 2})
        point = {"dataset": letters, "recipe": "as-released", "features": "hashing"}
        made = one({**point, "optimizer": "adam", **axes}, 0)
        assert set(made["scores"]) == {PAPER_MODE}
        assert (made["noise_multiplier"] > 0) == bool(axes)
        assert made["steps"] == 2 * axes.get("parts", 1)

    def test_fractions_and_splits_are_those_of_the_released_graph_too(
        self, letters, monkeypatch
    ):
        monkeypatch.setattr(runner, "PAPER_EPOCHS", {"sgd": 1})
        point = {"dataset": letters, "recipe": "as-released", "features": "hashing"}
        point |= {"optimizer": "sgd", "split": [0.5, 0.1], "fraction": 0.5}
        made = one(point, 0)
        assert made["test"] == 24
        assert made["train"] == pytest.approx(15, abs=2)


class TestManyRuns:
    def all(self, points, folder, seeds=1, **options) -> Summary:
        tasks = [Task(point, seed) for point in points for seed in range(seeds)]
        return run_all(tasks, folder, workers=1, **options)

    def test_each_run_and_seed_is_a_row(self, letters, tmp_path):
        seen = []
        points = [auto(letters), plain(letters)]
        summary = self.all(points, tmp_path / "out", 2, progress=lambda *n: seen.append(n))
        assert (summary.done, summary.stored, summary.failures) == (4, 0, [])
        assert seen == [(1, 4), (2, 4), (3, 4), (4, 4)]
        rows = Runs.of_records(read_records(tmp_path / "out").values()).rows
        assert sorted((row["recipe"], row["seed"]) for row in rows) == [
            *(("auto", 0), ("auto", 1), ("plain", 0), ("plain", 1)),
        ]
        assert all(row["code"].startswith("0.") and row["seconds"] > 0 for row in rows)

    def test_what_has_a_record_is_not_run_again(self, letters, tmp_path, monkeypatch):
        self.all([plain(letters)], tmp_path / "out")
        monkeypatch.setattr(runner, "run", None)
        summary = self.all([plain(letters)], tmp_path / "out")
        assert (summary.done, summary.stored, summary.failures) == (0, 1, [])

    def test_a_corrupt_record_is_made_again(self, letters, tmp_path):
        self.all([plain(letters)], tmp_path / "out")
        (path,) = (tmp_path / "out").iterdir()
        before = json.loads(path.read_text())
        path.write_text(path.read_text()[:100])
        assert self.all([plain(letters)], tmp_path / "out").done == 1
        again = json.loads(path.read_text())
        assert again["predicted"] == before["predicted"]

    @pytest.mark.parametrize("error", [DataError("no"), ValueError("x"), KeyError("y")])
    def test_a_run_that_fails_is_named_and_others_go_on(
        self, letters, tmp_path, monkeypatch, error
    ):
        def fails(batch, device):
            if batch[0].seed == 1:
                raise error
            return real(batch, device)

        real = runner.run
        monkeypatch.setattr(runner, "run", fails)
        summary = self.all([plain(letters)], tmp_path / "out", 3)
        assert summary.done == 2
        ((task, why),) = summary.failures
        assert (task.seed, task.point) == (1, plain(letters))
        assert type(error).__name__ in why
        assert "recipe plain" in task.label
        monkeypatch.setattr(runner, "run", real)
        assert self.all([plain(letters)], tmp_path / "out", 3).done == 1

    def test_an_interrupt_leaves_what_was_done(self, letters, tmp_path, monkeypatch):
        def interrupted(batch, device):
            if batch[0].seed == 1:
                raise KeyboardInterrupt
            return real(batch, device)

        real = runner.run
        monkeypatch.setattr(runner, "run", interrupted)
        with pytest.raises(KeyboardInterrupt):
            self.all([plain(letters)], tmp_path / "out", 2)
        assert len(read_records(tmp_path / "out")) == 1
        monkeypatch.setattr(runner, "run", real)
        summary = self.all([plain(letters)], tmp_path / "out", 2)
        assert (summary.done, summary.stored) == (1, 1)

    def test_nothing_runs_where_one_run_is_a_mistake(self, letters, tmp_path):
        with pytest.raises(ConfigError):
            self.all([plain(letters), plain(letters, sound="clip")], tmp_path / "out")
        assert not (tmp_path / "out").exists()

    def test_an_unknown_engine(self, letters, tmp_path):
        with pytest.raises(ConfigError, match=r"'engine' .* local or ray. Got 'slurm'"):
            self.all([plain(letters)], tmp_path / "out", engine="slurm")


class TestBatches:
    def test_runs_that_differ_in_seed_noise_and_rate_alone_share_a_pass(self):
        full = {"dataset": "cora", "recipe": "paper-full", "optimizer": "sgd"}
        tasks = [Task({**full, "epsilon": e}, s) for e in (1.0, 2.0) for s in (0, 1)]
        adam = Task({**full, "optimizer": "adam", "epsilon": 1.0}, 0)
        lot = Task(
            {"dataset": "mnist", "recipe": "paper-full", "lot": 600, "noise": 4.0, "epochs": 1},
            0,
        )
        loud = {**full, "recipe": "as-released", "epsilon": 1.0}
        released = [Task(loud, 0), Task({**loud, "learning_rate": 0.1}, 1)]
        quiet = Task({**full, "recipe": "as-released"}, 0)
        others = [
            Task({"dataset": "cora", "recipe": "auto", "epsilon": 1.0}, 0),
            Task({**full, "epsilon": 1.0, "changes": {}}, 0),
        ]
        batches, rest = runner._batches([*tasks, adam, lot, *released, quiet, *others])
        assert batches == [tasks, [adam], [lot], released, [quiet]]
        assert rest == others

    def test_a_pass_scores_every_trial(self, letters, monkeypatch):
        point = {"dataset": letters, "recipe": "paper-split", "features": "hashing"}
        point |= {"optimizer": "sgd", "parts": 4, "epochs": 2}
        tasks = [Task({**point, "epsilon": e}, s) for e in (1.0, 8.0) for s in (0, 1)]
        made = runner._soundly(tasks, "cpu")
        assert [m["steps"] for m in made] == [8] * 4
        assert made[0]["noise_multiplier"] == made[1]["noise_multiplier"]
        assert made[0]["noise_multiplier"] > made[2]["noise_multiplier"]
        assert all(set(m["scores"]) == {"alone", "own-graph", PAPER_MODE} for m in made)
        alone = one({**point, "epsilon": 1.0}, 0)
        assert alone["noise_multiplier"] == made[0]["noise_multiplier"]
        assert alone["truth"] == made[0]["truth"]


class TestSettings:
    def test_the_paper_s_recipes_have_the_paper_s_unit(self):
        point = {"dataset": "cora", "optimizer": "sgd", "epsilon": 1.0}
        full = settings_of({**point, "recipe": "paper-full"}, 0).privacy
        split = settings_of({**point, "recipe": "paper-split", "parts": 10}, 0).privacy
        each = settings_of({**point, "recipe": "paper-split", "parts": "each"}, 0).privacy
        one = settings_of({**point, "recipe": "paper-split"}, 0).privacy
        assert (full.unit, full.parts, full.sampling) == ("graph", 1, "all")
        assert (split.unit, split.parts, split.sampling) == ("part", 10, "poisson")
        assert (each.unit, each.parts, each.sampling) == ("document", "each", "all")
        assert (one.unit, one.parts) == ("graph", 1)
        assert full.reproducible
        assert split.reproducible

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

    @pytest.mark.parametrize(
        ("point", "says"),
        [
            ({"recipe": "auto", "sound": "clip"}, "does not heed the axis 'sound'"),
            ({"recipe": "auto", "epsilon": 1.0, "parts": 2}, "does not heed the axis 'parts'"),
            ({"recipe": "as-released"}, "needs the axis 'optimizer'"),
            (
                {"recipe": "as-released", "optimizer": "sgd", "noise": 2.0},
                "heed the axis 'noise'",
            ),
            ({"recipe": "paper-full", "lot": 600, "noise": 4.0}, "needs the axis 'epochs'"),
            ({"recipe": "plain", "changes": {"a.b": 1}}, "There is no setting 'a.b'"),
        ],
    )
    def test_what_a_recipe_would_not_heed_is_refused(self, point, says):
        with pytest.raises(ConfigError, match=says):
            check({"dataset": "cora", **point})

    def test_the_noise_of_the_released_code_is_what_the_paper_says(self):
        assert claimed_noise("sgd", 2, 1, 2000) == 112.0
        assert claimed_noise("adam", 137, 1, 500) == 2.0
        assert claimed_noise("sgd", 1, 1, 2000) == pytest.approx(219.2, abs=0.05)
        assert claimed_noise("adam", 1, 10, 500) == pytest.approx(34.7, abs=0.1)


class TestCorpus:
    def test_a_fraction_is_taken_of_each_class_and_said(self, letters):
        whole, half = corpus_of(plain(letters)), corpus_of(plain(letters, fraction=0.5))
        for label in range(3):
            counts = [
                int(((c.labels == label) & (c.split == TRAIN)).sum()) for c in (whole, half)
            ]
            assert counts[1] == counts[0] // 2
        assert (whole.split == TEST).sum() == (half.split == TEST).sum()
        assert any("same fraction of every class" in gap for gap in half.facts.not_covered)

    def test_a_document_of_a_small_fraction_is_in_a_larger_one(self, letters):
        some, more = (corpus_of(plain(letters, fraction=f)) for f in (0.25, 0.75))
        assert set(some.ids) < set(more.ids)

    def test_a_split_of_one_s_own(self, letters):
        corpus = corpus_of(plain(letters, split=[0.6, 0.2]))
        assert np.bincount(corpus.split).tolist() == [36, 12, 12]
        with pytest.raises(ConfigError, match="leave some for tests"):
            corpus_of(plain(letters, split=[0.6, 0.4]))

    def test_without_test_documents_there_is_no_score(self, tmp_path):
        from builders import small_frame, write_corpus

        frame = small_frame(30)
        frame["split"] = ["train"] * 30
        folder = write_corpus(Path(tmp_path) / "train-only", frame)
        with pytest.raises(DataError, match=r"must have test documents .* split = "):
            corpus_of(plain(str(folder)))
