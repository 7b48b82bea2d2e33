"""One journey for each verb, as a user meets it; what verbs compute is tested where it lies."""

from __future__ import annotations

import json
import shutil

import numpy as np
import polars as pl
import pytest
from typer.testing import CliRunner

from e2e.letters import PRIVATE, WORDS, call, letters, notes_of, record_of
from privgcn.audit.audit import Audit
from privgcn.cli.app import app
from privgcn.errors import ConfigError, DataError, PrivGCNError
from privgcn.features.cache import VectorCache, default_cache
from privgcn.runs.run import Run

RUN_FILES = {
    *("settings.toml", "statement.json", "scores.json", "model.safetensors", "model.json"),
    *("report.html", "documents_seen.safetensors", "manifest.json"),
}


class TestTrain:
    def test_json_has_what_the_contract_names(self, shelf, tmp_path):
        record = record_of("train", shelf / "letters", *PRIVATE, "--out", tmp_path / "r")

        assert {"run", "dataset", "seconds", "settings", "statement", "scores"} <= set(record)
        assert set(record["scores"]) == {"alone", "own-graph", "full-graph"}
        for row in record["scores"].values():
            assert {"micro_f1", "macro_f1", "accuracy", "log_loss"} <= set(row)
        assert record["deploy"]["decided_by"] == "validation"
        assert record["statement"]["epsilon"] <= 8
        assert record["scores"]["own-graph"]["micro_f1"] > 0.9
        assert {path.name for path in (tmp_path / "r").iterdir()} == RUN_FILES
        for path in (tmp_path / "r").glob("*.[jt]*"):
            assert "pulse pressure" not in path.read_text()
            # That of test documents is a score.
            assert "loss" not in path.read_text().replace("log_loss", "")

    def test_a_plain_run_has_references_and_no_statement(self, shelf, tmp_path):
        words = ["--features", "hashing", "--set", "training.epochs=2", "--out", tmp_path]
        shown = call("train", shelf / "letters", *words)
        record = record_of("train", shelf / "letters", *words, "--overwrite")

        assert record["statement"] is None
        assert not (tmp_path / "statement.json").exists()
        assert "No privacy guarantee" in shown
        assert "propagated regression" in shown
        assert "Best without privacy" in (tmp_path / "report.html").read_text()

    def test_a_dry_run_says_what_it_read_and_what_it_protects_and_writes_nothing(
        self, shelf, tmp_path, monkeypatch
    ):
        monkeypatch.chdir(tmp_path)
        words = ["train", shelf / "letters", "--dry-run", "--features", "hashing"]
        plain, private = notes_of(*words), notes_of(*words, *PRIVATE)

        assert plain.splitlines()[0] == "NOT PRIVATE: no --epsilon was given."
        assert "Read 240 documents of 240 owners in 2 classes and 228 edges." in plain
        assert "--unit person protects all documents of a person together." in private
        assert "together" not in notes_of(*words, *PRIVATE, "--unit", "person")
        small = notes_of(*words, "--epsilon", "0.2", "--delta", "1e-4")
        assert "160 documents at epsilon 0.2: expect noise to cost most of the score" in small
        assert call(*words, *PRIVATE) == "Dry run: nothing was trained or written.\n"
        record = record_of(*words, *PRIVATE)
        assert record["read"]["edges"] == 228
        assert record["settings"]["privacy"]["unit"] == "document"
        assert list(tmp_path.iterdir()) == []

    def test_seeds_show_the_spread_and_what_publishing_it_costs(self, shelf, tmp_path):
        words = ["--epsilon", "1", "--delta", "1e-4", "--features", "hashing", "--seeds", "3"]
        shown = call("train", shelf / "letters", *words, "--out", tmp_path)

        assert "of all 3 seeds, their scores included, would cost epsilon 1." in shown
        assert "Scores over 3 seeds" in (tmp_path / "report.html").read_text()
        claimed = json.loads((tmp_path / "statement.json").read_text())["epsilon"]
        assert claimed <= 1.0, "the claim is that of the model alone"

    def test_runs_of_one_seed_differ_unless_they_are_reproducible(self, shelf, tmp_path):
        weights = []
        for name in "abcd":
            more = ["--reproducible"] * (name in "cd")
            words = ["train", shelf / "letters", *PRIVATE, "--seed", 3, *more]
            call(*words, "--out", tmp_path / name)
            weights.append((tmp_path / name / "model.safetensors").read_bytes())

        assert weights[0] != weights[1]
        assert weights[2] == weights[3]
        with pytest.raises(PrivGCNError, match="seeded"):
            call("release", tmp_path / "c", tmp_path / "released")
        # One of several says so, and is released on its owner's word alone.
        assert "only if this model was NOT chosen" in call("verify", tmp_path / "b")
        with pytest.raises(PrivGCNError, match="--not-chosen"):
            call("release", tmp_path / "b", tmp_path / "released")
        # Two runs are two releases, and none is written over a run.
        with pytest.raises(ConfigError, match="Release one run at a time"):
            call("release", tmp_path / "a", tmp_path / "b", "--overwrite")
        assert not (tmp_path / "released").exists()

    def test_without_test_documents_nothing_is_scored_and_what_is_next_can_be_pasted(
        self, tmp_path
    ):
        path = letters(tmp_path / "letters") / "documents.jsonl"
        path.write_text(path.read_text().replace('"test"', '"train"'))
        out = tmp_path / "my run"
        shown = call("train", path.parent, *PRIVATE, "--out", out)

        assert "nothing was scored" in shown
        assert "micro-F1" not in shown
        assert f"privgcn verify '{out}'; privgcn release '{out}' DIR" in shown


def test_from_an_export_to_a_release_without_renaming_a_column(tmp_path):
    """Two checks and no guess; the run remembers how its documents are read."""
    rows = ["no;body;kind;who"]
    for number in range(240):
        kind = ("heart", "skin")[number % 2]
        rows.append(f"{number};{WORDS[kind]} größe word{number};{kind};p{number % 120}")
    export = tmp_path / "export.csv"
    export.write_text("\n".join(rows), encoding="cp1252")
    first = CliRunner().invoke(app, ["check", str(export), "--json"])
    found = json.loads(first.stdout)
    assert (first.exit_code, found["trainable"]) == (2, False)
    assert found["options"]["encoding"] == "cp1252"
    mended = [word for name, value in found["options"].items() for word in (f"--{name}", value)]
    columns = ["--id", "no", "--text", "body", "--label", "kind", "--owner", "who"]
    assert record_of("check", export, *mended, *columns)["trainable"]
    shown = call("check", export, *mended, *columns)
    assert "Next: privgcn train" in shown
    assert shown.rstrip().endswith("--epsilon 1 --unit person")

    run, released = tmp_path / "run", tmp_path / "released"
    reading = [*columns, "--encoding", "cp1252"]
    words = ["train", export, *PRIVATE, *reading, "--unit", "person", "--out", run]
    record = record_of(*words)
    assert record["statement"]["plan"]["unit"] == "person"
    assert record_of("evaluate", run)["scores"].keys() == record["scores"].keys()
    assert record_of("predict", run, export, "--out", tmp_path / "p.csv")["left_out"] > 0
    call(*words, "--dry-run")
    call("release", run, released)
    assert "body" not in (released / "settings.toml").read_text()
    # A release does not know the columns of its documents, so that they can be named.
    read = [export, "--encoding", "cp1252", "--id", "no", "--text", "body"]
    predicted = record_of("predict", released, *read, "--out", tmp_path / "q.csv")
    assert predicted["documents"] == 240
    scored = record_of("evaluate", released, *read, "--label", "kind")
    assert scored["scores"]["alone"]["documents"] == 240


class TestEvaluateAndPredict:
    def test_evaluate_computes_the_scores_of_the_run_again(self, shelf, tmp_path):
        again = record_of("evaluate", shelf / "run")["scores"]

        assert again == json.loads((shelf / "run" / "scores.json").read_text())["modes"]
        one = record_of("evaluate", shelf / "run", "--inference", "alone")["scores"]
        assert list(one) == ["alone"]
        (tmp_path / "own.csv").write_text("id,text,label\na,a stubborn rash,skin\n")
        for model in ("run", "released"):
            shown = call("evaluate", shelf / model, tmp_path / "own.csv")
            assert "1 test document of own" in shown

    def test_documents_that_trained_are_left_out(self, shelf, tmp_path):
        words = ["predict", shelf / "run", shelf / "letters", "--all-classes", "--out"]
        out = tmp_path / "p.csv"
        printed, shown = call(*words, "-"), call(*words, out)
        table = pl.read_csv(out)

        assert "Answered 80 of 240 documents." in shown
        assert out.read_text() == printed
        assert table.columns == [
            *("id", "label", "probability", "probability of heart", "probability of skin")
        ]
        assert (len(table), set(table["label"])) == (80, {"heart", "skin"})
        total = table["probability of heart"] + table["probability of skin"]
        assert (total - 1.0).abs().max() < 2e-6

    def test_all_wrong_columns_are_named_at_once(self, shelf, tmp_path):
        wrong = [shelf / "run", shelf / "letters", "--id", "nummer", "--text", "body"]
        for verb, *more in (["predict", "--out", tmp_path / "p.csv"], ["evaluate"]):
            with pytest.raises(DataError, match=r"--id .*'nummer'.*--text .*'body'"):
                call(verb, *wrong, *more)

    # hazard 32
    def test_training_documents_given_as_new_ones_are_named(self, shelf, tmp_path):
        other = letters(tmp_path / "other", range(1000, 1010), split=False)
        words = ["predict", shelf / "run", other, "--out", tmp_path / "p.csv", "--overwrite"]
        assert record_of(*words)["covered"] is True
        first = (shelf / "letters" / "documents.jsonl").read_text().splitlines()
        with (other / "documents.jsonl").open("a") as file:
            # The first two trained, the last two did not.
            for number in (0, 1, 8, 9):
                text = json.loads(first[number])["text"].replace(" ", "  ")
                file.write(json.dumps({"id": f"copy{number}", "text": text}) + "\n")
        found = record_of(*words)

        assert (found["covered"], found["documents"]) == (False, 14)
        assert found["training_documents"] == ["copy0", "copy1"]

    def test_the_encoder_is_where_the_user_says(self, shelf, tmp_path, monkeypatch):
        paths = []

        def loaded(run, *, path=None, **more):
            paths.append(path)
            return read_model(run, path=path, **more)

        read_model = Run.model
        monkeypatch.setattr(Run, "model", loaded)
        words = [shelf / "run", shelf / "letters", "--encoder", tmp_path]
        call("evaluate", *words)
        call("predict", *words, "--out", tmp_path / "p.csv")
        assert paths == [tmp_path, tmp_path]


class TestVerifyAndRelease:
    def test_a_run_a_release_and_a_statement_hold(self, shelf):
        for path in ("run", "released", "run/statement.json"):
            record = record_of("verify", shelf / path)
            assert (record["verified"], record["releasable"]) == (True, True)
            assert record["warnings"] == []
            assert "verified: epsilon at most " in call("verify", shelf / path)

    def test_a_budget_refuses_one_release_too_many(self, shelf, tmp_path):
        ledger = tmp_path / "ledger.jsonl"
        budget = ("--ledger", ledger, "--budget", 9, "--delta", "1e-3")
        call("train", shelf / "letters", *PRIVATE, "--out", tmp_path / "b")
        first = record_of("release", shelf / "run", tmp_path / "ra", *budget)
        assert first["spent"] <= 8
        listed = record_of("ledger", ledger, "--delta", "1e-3")
        assert listed["spent"] == first["spent"]
        assert [one["epsilon"] for one in listed["releases"]] == [first["epsilon"]]
        assert "Together: epsilon at most" in call("ledger", ledger)
        with pytest.raises(PrivGCNError, match="budget"):
            call("release", tmp_path / "b", tmp_path / "rb", *budget)
        assert not (tmp_path / "rb").exists()

    def test_an_entry_of_the_registry_is_written_beside(self, shelf, tmp_path):
        path = tmp_path / "letters.yaml"
        words = ["release", shelf / "run", tmp_path / "out", "--about", "Letters"]
        words += ["--intended-use", "Triage", "--registry", path]
        with pytest.raises(ConfigError, match=r"Missing: name .*registry_authors"):
            call(*words)
        said = ("name", "data_curators", "data_product_region", "registry_authors")
        entries = [*(f"{name}=A clinic" for name in said), "publication_date=2026-03-01"]
        words += [word for entry in entries for word in ("--entry", entry)]
        for more in ([], ["--overwrite"]):
            call(*words, *more)
            assert 'intended_use: "Triage"' in path.read_text()
        with pytest.raises(ConfigError, match="Add --overwrite"):
            call(*words[:2], tmp_path / "other", *words[3:])

    def test_every_verb_checks_the_manifest_first(self, shelf, tmp_path):
        run, out = shutil.copytree(shelf / "run", tmp_path / "run"), tmp_path / "out"
        with (run / "settings.toml").open("a") as file:
            file.write("\n")
        for words in (
            ["verify", run],
            ["evaluate", run],
            ["predict", run, shelf / "letters", "--out", out],
            ["release", run, out],
            ["report", run, "--out", out],
        ):
            with pytest.raises(DataError, match="was edited"):
                call(*words)
        assert not out.exists()


def test_a_report_goes_to_a_file_or_to_standard_output(shelf, tmp_path):
    assert "</html>" in call("report", shelf / "run", "--out", "-")
    out = tmp_path / "b.html"
    both = ["report", shelf / "run", shelf / "plain", "--out", out]
    assert record_of(*both)["report"] == str(out)
    assert call(*both, "--overwrite") == f"report: {out}\n"
    assert "2 runs side by side" in out.read_text()
    with pytest.raises(ConfigError, match="both write to standard output"):
        record_of("report", shelf / "run", "--out", "-")


class TestTune:
    def test_the_winner_is_a_run_like_any_other(self, shelf, tmp_path):
        out = tmp_path / "run"
        tries = ["--try", "training.noise_scale=1,2", "--unit", "person"]
        record = record_of("tune", shelf / "letters", *PRIVATE, *tries, "--out", out)
        claim = record["statement"]
        assert claim["epsilon"] <= 8
        assert record["chosen"]["training.noise_scale"] in (1, 2)
        assert {path.name for path in out.iterdir()} == RUN_FILES
        assert record_of("verify", out)["epsilon"] == claim["epsilon"]
        ledger = ("--ledger", tmp_path / "ledger.jsonl")
        released = record_of("release", out, tmp_path / "out", *ledger)
        assert released["spent"] == pytest.approx(claim["epsilon"])
        # Nothing tells how many runs there were.
        assert "seconds" not in record
        told = {"expected_runs", "candidates", "score", "validation_units"}
        assert set(claim["plan"]["selection"]) == told

    def test_public_validation_is_stated(self, shelf, tmp_path):
        words = ["--try", "prediction.hops=2,5", "--public-validation", "--expected-runs", "2"]
        shown = call("tune", shelf / "letters", *PRIVATE, *words, "--out", tmp_path / "run")
        assert "Epsilon covers the whole search." in shown
        assert "public_validation" in (tmp_path / "run" / "statement.json").read_text()


def test_plan_says_noise_steps_and_whether_they_are_enough():
    words = ["plan", "--documents", 1208, "--classes", 7, "--features", 1433]
    record = record_of(*words, "--epsilon", 1)

    assert record["noise_multiplier"] == pytest.approx(20.43, abs=0.05)
    assert (record["steps"], record["advice"]) == (30, [])
    assert record["signal"] == pytest.approx(1.22, abs=0.01)
    assert "advice" not in call(*words)
    assert "expect noise to cost most of the score" in call(*words, "--epsilon", 0.1)


def test_account_and_calibrate_have_the_promised_fields():
    named = {"delta", "accountant", "steps", "sampling_probability", "sensitivity"}
    words = ["account", "--noise-multiplier", 4, "--steps", 100]
    record = record_of("calibrate", "--epsilon", 1, "--steps", 100)

    assert set(record) == set(record_of(*words)) == {"epsilon", "noise_multiplier", *named}
    assert record["epsilon"] <= 1.0
    assert record_of("plan", *words[1:]) == record_of(*words)
    assert call(*words).startswith("noise multiplier 4 gives epsilon at most ")
    printed = float(call("calibrate", "--epsilon", 1, "--steps", 100).split()[2])
    assert record["noise_multiplier"] <= printed < 1.001 * record["noise_multiplier"]


def test_what_an_audit_measured_is_rounded_down(shelf, monkeypatch):
    measured = Audit(
        *(1.0, 0.3, 1e-5, "document", "remove", 1, 0.95, 100, 90, 0.9999, 0.2999, 1.0, ())
    )
    monkeypatch.setattr("privgcn.audit.audit.audit_target", lambda target, **options: measured)
    shown = call("audit", shelf / "run")
    assert "epsilon at least 0.999 (mu 0.299) with 95% confidence, 99% of the claim" in shown


def test_audit_and_attack_measure_a_run(shelf, tmp_path):
    shown = record_of("audit", shelf / "run", "--repeats", 20, "--confidence", 0.9999)
    assert (shown["broken"], shown["unit"]) == ([], "document")
    assert 0.0 <= shown["share"] <= 1.0
    with pytest.raises(ConfigError, match="Got --epsilon"):
        call("audit", shelf / "run", "--epsilon", 1)
    out = tmp_path / "attacks.json"
    assert f"Wrote {out}" in call("attack", shelf / "run", "--shadows", 4, "--out", out)
    page = tmp_path / "report.html"
    call("report", shelf / "run", "--evidence", out, "--out", page)
    assert "document membership" in page.read_text()
    assert [path.stat().st_mode & 0o777 for path in (out, page)] == [0o600, 0o600]


def test_the_demo_runs_twice_in_its_own_folder_only(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for _ in range(2):
        assert "holds for each patient" in notes_of("demo")
    with pytest.raises(ConfigError, match="--overwrite"):
        call("demo", "--out", "./runs/../runs/demo/../demo")
    (tmp_path / "runs" / "demo" / "notes.txt").write_text("mine")
    with pytest.raises(DataError, match=r"notes\.txt was added"):
        call("demo")


def test_datasets_are_listed_and_fetched(tmp_path, monkeypatch):
    monkeypatch.delenv("PRIVGCN_DATA", raising=False)
    record = record_of("datasets", "--data-dir", tmp_path)
    where = {row["name"]: row["where"] for row in record["datasets"]}

    assert (where["clinic"], where["cora"]) == ("here", "not fetched")
    assert "not fetched" in call("datasets", "--data-dir", tmp_path)
    assert "nothing to download" in call("fetch", "clinic")
    with pytest.raises(DataError) as missing:
        call("fetch", "pokec", "--data-dir", tmp_path, "--from", tmp_path)
    assert missing.value.exit_code == 3


def test_the_cache_is_shown_purged_and_left_out(tmp_path, shelf, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    words = ["train", letters(tmp_path / "few", range(30)), "--epsilon", "8", "--delta", "1e-3"]
    words += ["--out", tmp_path / "run"]
    call(*words, "--no-cache")
    new = (shelf / "letters", "--no-cache", "--out", tmp_path / "p.csv")
    call("predict", tmp_path / "run", *new)
    assert not (tmp_path / "cache").exists()
    assert f"stay in {tmp_path}" in notes_of(*words, "--dry-run")
    VectorCache(default_cache(), "model", 3).vectors(
        ["a"], lambda texts: np.ones((len(texts), 3), dtype=np.float32)
    )
    assert "private texts" in call("cache")
    assert record_of("cache")["files"] == 1
    assert "--purge --cache-dir" in call("cache", "--cache-dir", default_cache())
    call("cache", "--purge")
    assert record_of("cache")["files"] == 0
    with pytest.raises(ConfigError, match="must be a folder"):
        call("cache", "--cache-dir", shelf / "run" / "model.json")
