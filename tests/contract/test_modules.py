"""Any module trains privately through the classifier."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from sklearn.base import clone
from torch import Tensor, nn
from typer.testing import CliRunner

from privgcn import GraphClassifier, load_corpus
from privgcn.cli import app
from privgcn.config import make_settings
from privgcn.errors import ConfigError, PrivacyContractError
from privgcn.runs.run import verify
from privgcn.runs.train import train

pytestmark = pytest.mark.filterwarnings("ignore")


class Net(nn.Module):
    """One convolution of a given kind."""

    def __init__(self, kind: str = "SAGEConv", features: int = -1) -> None:
        import torch_geometric.nn

        super().__init__()
        self.layer = getattr(torch_geometric.nn, kind)(features, 2)

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        return self.layer(x, edge_index)


class Other(Net):
    """The same under another name."""


def documents() -> tuple[np.ndarray, np.ndarray, list[tuple[int, int]]]:
    rng = np.random.default_rng(0)
    labels = rng.integers(0, 2, 60)
    vectors = rng.normal(size=(60, 6)) + 3.0 * labels[:, None]
    return vectors, labels, [(row, row + 1) for row in range(0, 60, 2)]


def trained(module: nn.Module, **changes: Any) -> GraphClassifier:
    vectors, labels, links = documents()
    arguments = {"epsilon": 8.0, "delta": 1e-3, "settings": {"training.epochs": 5}, **changes}
    return GraphClassifier(module=module, **arguments).fit(vectors, labels, links=links)


@pytest.mark.parametrize("kind", ["GATConv", "SAGEConv", "GCNConv", "ChebConv"])
def test_layers_of_pyg_train_privately(kind: str) -> None:
    from functools import partial

    import torch_geometric.nn

    module = Net()
    layer = getattr(torch_geometric.nn, kind)
    module.layer = (partial(layer, K=2) if kind == "ChebConv" else layer)(6, 2)
    model = trained(module, parts=12)
    statement = model.statement_
    assert statement is not None
    assert statement.epsilon <= 8.0
    assert (statement.partition.parts, statement.sensitivity) == (12, 2)
    assert "the user's own module 'Net'" in " ".join(str(statement).lower().split()).replace(
        "'net'", "'Net'"
    )
    vectors, labels, links = documents()
    assert model.predict(vectors, links=links).shape == labels.shape
    before, after = module.layer.state_dict(), model.module_.layer.state_dict()
    assert any(not torch.equal(before[name], after[name]) for name in before)


def test_a_module_learns() -> None:
    vectors, labels, links = documents()
    changes = {"training.epochs": 20, "training.learning_rate": 0.1}
    private = trained(Net(), epsilon=50.0, settings=changes)
    assert private.score(vectors, labels, links=links) > 0.8
    plain = GraphClassifier(module=Net(), settings=changes).fit(vectors, labels, links=links)
    assert plain.statement_ is None
    assert plain.score(vectors, labels, links=links) > 0.9


def test_the_users_module_is_not_changed_and_can_be_cloned() -> None:
    module = Net(features=6)
    before = {name: value.clone() for name, value in module.state_dict().items()}
    model = trained(module)
    assert model.get_params()["module"] is module
    for name, value in module.state_dict().items():
        assert torch.equal(before[name], value)
    copy = clone(model)
    assert copy.module is not module
    assert copy.parts == model.parts


def test_a_saved_module_is_read_with_its_class_and_not_without(tmp_path: Path) -> None:
    vectors, _, links = documents()
    model = trained(Net(), unit="document", parts=10)
    model.save(tmp_path / "model")
    assert verify(tmp_path / "model").statement == model.statement_
    with pytest.raises(ConfigError, match="class 'Net', and files hold no code"):
        GraphClassifier.load(tmp_path / "model")
    with pytest.raises(ConfigError, match=r"must be of the class 'Net'\. Got 'Other'"):
        GraphClassifier.load(tmp_path / "model", module=Other())
    again = GraphClassifier.load(tmp_path / "model", module=Net())
    for mode in ("alone", "own-graph"):
        np.testing.assert_array_equal(
            again.predict_proba(vectors, links=links, inference=mode),
            model.predict_proba(vectors, links=links, inference=mode),
        )
    from safetensors.torch import load_file

    bare = Net(features=6)
    bare.load_state_dict(load_file(tmp_path / "model" / "model.safetensors"))
    assert torch.equal(bare.layer.lin_l.weight, model.module_.layer.lin_l.weight)


def test_a_module_is_released_without_its_class(tmp_path: Path) -> None:
    vectors, _, _ = documents()
    model = trained(Net())
    model.save(tmp_path / "model")
    arguments = ["release", str(tmp_path / "model"), str(tmp_path / "out")]
    done = CliRunner().invoke(
        app, [*arguments, "--with-learned-features"], catch_exceptions=False
    )
    assert done.exit_code == 0
    again = GraphClassifier.load(tmp_path / "out", module=Net())
    np.testing.assert_array_equal(again.predict_proba(vectors), model.predict_proba(vectors))


def test_batch_normalisation_is_refused() -> None:
    module = Net()
    module.norm = nn.BatchNorm1d(2)
    with pytest.raises(PrivacyContractError, match="LayerNorm instead"):
        trained(module)


def test_a_stack_is_no_module_and_the_other_way_round(tmp_path: Path) -> None:
    vectors, labels, _ = documents()
    static = {"features.kind": "static"}
    with pytest.raises(ConfigError, match="GraphClassifier\\(module="):
        GraphClassifier(settings={"model.kind": "module"}).fit(vectors, labels)
    with pytest.raises(ConfigError, match=r"model\.kind 'module'"):
        train(load_corpus("clinic"), make_settings("plain", changes=static), module=Net())
    plain = GraphClassifier(settings={"training.epochs": 2}).fit(vectors, labels)
    plain.save(tmp_path / "stack")
    with pytest.raises(ConfigError, match="no module"):
        GraphClassifier.load(tmp_path / "stack", module=Net())
