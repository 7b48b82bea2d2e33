"""What users of other libraries expect: one test for each row of docs/how-to/coming-from.md."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from scipy.sparse import csr_matrix
from sklearn import config_context
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GroupKFold, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import check_estimator
from torch import Tensor, nn
from typer.testing import CliRunner

from builders import run_folder, seeded_session, small_graph, small_plan
from privgcn import Corpus, GraphClassifier, calibrate, epsilon_of
from privgcn.cli.app import app
from privgcn.errors import ConfigError, DataError, PrivacyContractError
from privgcn.mechanism import Statistics
from privgcn.mechanism.fixed_point import Grid

pytestmark = pytest.mark.filterwarnings("ignore")

PAGE = Path(__file__).resolve().parents[2] / "docs" / "how-to" / "coming-from.md"
QUICK = {"training.epochs": 3}
WORDS = {"billing": "invoice payment amount", "delivery": "parcel courier doorstep"}
TEXTS = [f"{words} {row % 7}" for row in range(40) for words in WORDS.values()]
LABELS = list(WORDS) * 40
RNG = np.random.default_rng(0)
NUMBERS = RNG.integers(0, 2, 60)
VECTORS = RNG.normal(size=(60, 5)) + 2.0 * NUMBERS[:, None]


def private(**changes: Any) -> GraphClassifier:
    return GraphClassifier(**{"epsilon": 4.0, "delta": 1e-3, "features": "static", **changes})


def on_vectors(**changes: Any) -> GraphClassifier:
    return GraphClassifier(**{"epsilon": 4.0, "delta": 1e-3, **changes}).fit(VECTORS, NUMBERS)


@pytest.fixture(scope="module")
def model() -> GraphClassifier:
    return private().fit(TEXTS, LABELS)


class Net(nn.Module):
    def __init__(self) -> None:
        from torch_geometric.nn import SAGEConv

        super().__init__()
        self.layer = SAGEConv(5, 2)

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        return self.layer(x, edge_index)


def data() -> Any:
    corpus = Corpus.from_frame(
        {
            "text": [str(row) for row in range(60)],
            "label": NUMBERS.tolist(),
            "split": ["train"] * 45 + ["test"] * 15,
        },
        edges=[(row, row + 1) for row in range(59)],
    )
    made = corpus.to_pyg()
    import torch

    made.x = torch.tensor(VECTORS, dtype=torch.float32)
    return made


def test_every_row_has_a_test_and_every_test_a_row() -> None:
    named = re.findall(r"`(test_\w+)` \|", PAGE.read_text(encoding="utf-8"))
    rows = [
        line for line in PAGE.read_text(encoding="utf-8").splitlines() if "| `test_" in line
    ]
    assert len(rows) == len(named)
    here = {name for name in globals() if name.startswith("test_")}
    assert set(named) == here - {"test_every_row_has_a_test_and_every_test_a_row"}


def test_sklearn_arrays() -> None:
    for X in (VECTORS, csr_matrix(VECTORS)):
        model = GraphClassifier(None, settings=QUICK).fit(X, NUMBERS)
        assert model.classes_.tolist() == [0, 1]
        assert model.n_features_in_ == 5
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(VECTORS, columns=list("abcde"))
    model = GraphClassifier(None, settings=QUICK).fit(frame, NUMBERS)
    assert model.feature_names_in_.tolist() == list("abcde")


def test_sklearn_parameters(model: GraphClassifier) -> None:
    assert clone(model).get_params() == model.get_params()
    assert clone(model).set_params(epsilon=2.0).epsilon == 2.0


@pytest.mark.parametrize("method", ["predict", "predict_proba", "predict_log_proba", "score"])
def test_sklearn_not_fitted(method: str) -> None:
    with pytest.raises(NotFittedError):
        getattr(private(), method)(TEXTS, *([LABELS] if method == "score" else []))


def test_sklearn_predictions(model: GraphClassifier) -> None:
    probabilities = model.predict_proba(TEXTS[:6])
    np.testing.assert_allclose(probabilities.sum(axis=1), 1.0)
    best = model.classes_[probabilities.argmax(axis=1)]
    assert best.tolist() == model.predict(TEXTS[:6]).tolist()
    np.testing.assert_allclose(np.exp(model.predict_log_proba(TEXTS[:6])), probabilities)
    assert on_vectors().predict(VECTORS).dtype.kind == "i"
    assert isinstance(model.predict(TEXTS[:1])[0], str)


def test_sklearn_pipeline() -> None:
    pipeline = make_pipeline(
        StandardScaler(), GraphClassifier(None, settings={"training.epochs": 30})
    )
    assert pipeline.fit(VECTORS, NUMBERS).score(VECTORS, NUMBERS) > 0.8


def test_sklearn_seed() -> None:
    probabilities = [on_vectors(random_state=1).predict_proba(VECTORS) for _ in range(2)]
    assert abs(probabilities[0] - probabilities[1]).max() > 0
    seeded = [on_vectors(random_state=1, reproducible=True) for _ in range(2)]
    first, second = (each.predict_proba(VECTORS) for each in seeded)
    np.testing.assert_array_equal(first, second)
    assert seeded[0].statement_ is not None
    assert not seeded[0].statement_.releasable


def test_sklearn_saving(model: GraphClassifier, tmp_path: Path) -> None:
    model.save(tmp_path / "model")
    suffixes = {path.suffix for path in (tmp_path / "model").iterdir()}
    assert suffixes == {".json", ".toml", ".safetensors"}
    again = GraphClassifier.load(tmp_path / "model")
    assert again.predict(TEXTS[:4]).tolist() == model.predict(TEXTS[:4]).tolist()


def test_sklearn_check_estimator() -> None:
    together = "predictions look at all documents that are asked about together"
    model = GraphClassifier(
        epsilon=1e4, delta=1e-3, unit="document", reproducible=True, random_state=0
    )
    names = ("subset_invariance", "sample_order_invariance")
    expected = {f"check_methods_{name}": together for name in names}
    check_estimator(model, expected_failed_checks=expected, on_skip=None)


def test_sklearn_groups() -> None:
    owners = np.arange(60) // 3
    with config_context(enable_metadata_routing=True):
        model = GraphClassifier(epsilon=8.0, delta=1e-2, unit="person")
        model.set_fit_request(owners=True)
        routed = {"owners": owners, "groups": owners}
        scores = cross_val_score(model, VECTORS, NUMBERS, cv=GroupKFold(3), params=routed)
    assert np.isfinite(scores).all()


def test_sentence_transformers_texts(model: GraphClassifier) -> None:
    assert model.predict(["the courier lost a parcel"]).tolist() == ["delivery"]
    assert model.settings_.features.kind == "static"
    with pytest.raises(ConfigError, match="list of texts"):
        model.predict("the courier lost a parcel")


def test_sentence_transformers_encoders(model: GraphClassifier) -> None:
    assert "the vectors themselves" in str(on_vectors().statement_)
    assert not model._model.featurizer.learns
    assert "nothing from these texts" in " ".join(str(model.statement_).split())


def test_setfit_columns() -> None:
    class Dataset:
        """As ``datasets`` has it: names, and columns by name."""

        column_names = ("text", "label")

        def __getitem__(self, name: str) -> list[str]:
            return {"text": TEXTS, "label": LABELS}[name]

    for frame in (Dataset(), pl.DataFrame({"text": TEXTS, "label": LABELS})):
        assert private().fit(frame).classes_.tolist() == ["billing", "delivery"]


def test_setfit_other_column() -> None:
    with pytest.raises(DataError, match="Rename 'texts' to 'text'"):
        private().fit({"texts": TEXTS, "label": LABELS})


def test_setfit_card(model: GraphClassifier, tmp_path: Path) -> None:
    model.save(tmp_path / "model")
    words = ["release", str(tmp_path / "model"), str(tmp_path / "released"), "--not-chosen"]
    assert CliRunner().invoke(app, words).exit_code == 0
    assert "epsilon" in (tmp_path / "released" / "README.md").read_text(encoding="utf-8")


def test_pyg_data() -> None:
    given = data()
    model = GraphClassifier(epsilon=8.0, delta=1e-3, features="given").fit(given)
    assert model.statement_ is not None
    assert model.statement_.units == int(given.train_mask.sum())
    assert model.predict(given).shape == (60,)
    assert model.score(given) == model.score(Corpus.from_pyg(given).test)


def test_pyg_edge_index() -> None:
    import torch

    edges = torch.tensor([[0, 1, 1, 2], [1, 0, 1, 1]])
    corpus = Corpus.from_texts(TEXTS[:3], edges=edges)
    assert corpus.edges.T.tolist() == [[0, 1], [1, 2]]
    assert corpus.to_pyg().edge_index.shape == (2, 4)


@pytest.mark.parametrize("name", ["edge_attr", "edge_weight"])
def test_pyg_weights(name: str) -> None:
    given = data()
    given[name] = given.edge_index[0].float()
    with pytest.raises(DataError, match="no weights"):
        GraphClassifier(epsilon=8.0, delta=1e-3).fit(given)


def test_pyg_module() -> None:
    model = on_vectors(module=Net(), parts=6, settings=QUICK)
    assert isinstance(model.module_, Net)
    assert not model.module_.training


def test_opacus_accounting() -> None:
    calibration = calibrate(epsilon=1.0, steps=30, delta=1e-5)
    assert calibration.epsilon <= 1.0
    spent = epsilon_of(noise_multiplier=calibration.noise_multiplier, steps=30, delta=1e-5)
    assert spent == pytest.approx(calibration.epsilon)


def test_opacus_batch_norm() -> None:
    module = Net()
    module.norm = nn.BatchNorm1d(2)
    with pytest.raises(PrivacyContractError, match="LayerNorm"):
        on_vectors(module=module)


def test_opacus_units() -> None:
    persons = GraphClassifier(epsilon=4.0, delta=1e-3, unit="person", settings=QUICK)
    statement = persons.fit(VECTORS, NUMBERS, owners=np.arange(60) // 3).statement_
    assert statement is not None
    assert (statement.units, statement.sensitivity) == (20, 1)


def test_opacus_statement() -> None:
    statement = on_vectors().statement_
    assert statement is not None
    assert 0 < statement.epsilon <= 4.0
    assert (statement.unit, statement.relation) == ("document", "remove")
    assert statement.not_covered
    assert statement.noise == "secret"
    chosen = {"privacy.clip_norm": 0.5, "privacy.noise_multiplier": 9.0, **QUICK}
    statement = on_vectors(epsilon=None, settings=chosen).statement_
    assert statement is not None
    assert (statement.clip_norm, statement.noise_multiplier) == (0.5, 9.0)


def invoked(*words: object) -> Any:
    return CliRunner().invoke(app, list(map(str, words)))


def test_opendp_plan() -> None:
    assert 0.99 < small_plan(epsilon=1.0, noise_multiplier=None).epsilon <= 1.0
    assert "epsilon at most" in invoked("plan", "--documents", 1000, "--classes", 4).stdout


def test_opendp_queryable() -> None:
    graph = small_graph(30)
    session = seeded_session(small_plan(30, epochs=1), graph)
    session.query(Statistics())
    with pytest.raises(RuntimeError, match="All 1 releases of the plan were made"):
        session.query(Statistics())


def test_opendp_grid() -> None:
    plan, graph = small_plan(30, epochs=1), small_graph(30)
    answer = seeded_session(plan, graph).query(Statistics()) * plan.schedule.expected_groups
    steps = answer * Grid.of(plan.noise_multiplier, plan.partition.groups).unit
    assert np.abs(steps - np.rint(steps)).max() < 0.01


def test_opendp_registry(model: GraphClassifier, tmp_path: Path) -> None:
    model.save(tmp_path / "model")
    entry = ("--registry", tmp_path / "entry.yaml")
    done = invoked("release", tmp_path / "model", tmp_path / "out", "--not-chosen", *entry)
    assert "must say what only you know. Missing: name" in str(done.exception)


def test_spacy_overrides(tmp_path: Path) -> None:
    (tmp_path / "own.toml").write_text("[training]\nepochs = 5\n")
    words = ("train", "clinic", "--config", tmp_path / "own.toml", "--dry-run", "--json")
    for more, epochs in (((), 5), (("--set", "training.epochs=3"), 3)):
        record = json.loads(invoked(*words, *more).stdout)
        assert record["settings"]["training"]["epochs"] == epochs


def test_spacy_check(tmp_path: Path) -> None:
    (tmp_path / "letters.csv").write_text("id,body\n1,a\n1,b\n")
    done = invoked("check", tmp_path / "letters.csv")
    assert done.exit_code == 2
    assert "Problem 2" in done.stdout
    assert "--text body" in done.stdout


def test_spacy_near_miss() -> None:
    done = invoked("train", "clinic", "--set", "training.epoch=3")
    assert "Did you mean 'training.epochs'?" in str(done.exception)


@pytest.mark.parametrize(
    ("column", "match"),
    [
        ({"label": ["Skin", "skin"] * 20}, "differ only"),
        ({"id": ["a"] * 40}, "must be its own"),
        ({"owner": ["p"] * 39 + [""]}, "for all documents or for none"),
    ],
)
def test_skrub_dirty_table(column: dict[str, list[str]], match: str) -> None:
    with pytest.raises(DataError, match=match):
        private(unit="document").fit({"text": TEXTS[:40], "label": LABELS[:40], **column})


def test_skrub_report(tmp_path: Path) -> None:
    html = (run_folder(tmp_path / "run") / "report.html").read_text(encoding="utf-8")
    assert "<script" not in html
    assert not re.findall(r'(?:src|href)="(?!#|data:,)', html)
