"""What released class shares do to scores, and what ``balanced`` takes back."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from brute_force import random_graph
from privgcn.config import MODES, make_settings
from privgcn.errors import ConfigError
from privgcn.graph import DenseRows, TextGraph, rows_of
from privgcn.prediction.inference import scores_in_mode
from privgcn.training.class_bias import ClassBias
from privgcn.training.fit import fit
from privgcn.training.fitted import Fit


def uneven(documents: int, seed: int, *, dense: bool) -> TextGraph:
    """One frequent class and two rare ones, hard to tell apart."""
    random = torch.Generator().manual_seed(seed)
    labels = torch.multinomial(
        torch.tensor([0.86, 0.08, 0.06]), documents, replacement=True, generator=random
    )
    centres = torch.randn(3, 20, generator=torch.Generator().manual_seed(9))
    rows = 0.4 * centres[labels] + torch.randn(documents, 20, generator=random)
    rows = torch.nn.functional.normalize(rows)
    graph = random_graph(documents, 1, 3, links=0, sparse=False)
    features = DenseRows(rows)
    if not dense:
        import scipy.sparse as sp

        features = rows_of(sp.csr_matrix(rows.numpy()))
    return replace(graph, features=features, labels=labels)


def trained(*, dense: bool, balanced: bool) -> Fit:
    changes = {"privacy.reproducible": True, "training.balanced": balanced}
    chosen = make_settings("auto", epsilon=4.0, changes=changes)
    return fit(uneven(2000, 0, dense=dense), chosen)


@pytest.mark.parametrize("dense", [True, False])
@pytest.mark.parametrize("mode", MODES)
def test_balanced_finds_more_of_the_rare_classes(dense: bool, mode: str) -> None:
    new = uneven(1000, 1, dense=dense)
    rows, recall = torch.arange(1000), []
    for balanced in (False, True):
        fitted = trained(dense=dense, balanced=balanced)
        scores = scores_in_mode(fitted, new, rows, mode)  # type: ignore[arg-type]
        found = scores[:, 0].argmax(1)
        rare = new.labels > 0
        recall.append(float((found[rare] == new.labels[rare]).double().mean()))
    assert recall[1] > recall[0] + 0.02


def test_frequent_classes_begin_ahead() -> None:
    bias = ClassBias.of_shares(torch.tensor([[0.64, 0.04, 0.32]]), balanced=False)
    assert float(bias.values.sum()) == pytest.approx(0.0, abs=1e-6)
    assert float(bias.values[0, 0] - bias.values[0, 1]) == pytest.approx(
        0.5 * torch.tensor(16.0).log().item()
    )
    assert bias.alone > 0 == bias.matched
    even = ClassBias.of_shares(torch.full((1, 3), 1 / 3), balanced=False)
    assert not even.values.any()


def test_balanced_takes_the_bias_off_every_prediction() -> None:
    shares = torch.tensor([[0.7, 0.3]])
    usual, balanced = (ClassBias.of_shares(shares, balanced=b) for b in (False, True))
    assert torch.equal(usual.values, balanced.values), "training is the same"
    assert usual.alone - balanced.alone == usual.matched - balanced.matched == 1.0


def test_training_starts_from_the_bias(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first gradient of a document of the frequent class is the smaller one."""
    fitted = trained(dense=True, balanced=False)
    assert fitted.bias is not None
    assert fitted.bias.values.argmax() == 0
    given = []
    from privgcn.privacy.mechanism.part_gradients import StackGradients

    made = StackGradients.__init__

    def spy(self, *args, **options) -> None:
        given.append(options["bias"])
        made(self, *args, **options)

    monkeypatch.setattr(StackGradients, "__init__", spy)
    again = trained(dense=True, balanced=False)
    assert again.bias is not None
    assert torch.equal(given[0], again.bias.values)


@pytest.mark.parametrize(
    ("recipe", "changes"),
    [("paper-split", {}), ("auto", {"training.epochs": 1})],
)
def test_balanced_is_refused_where_it_cannot_be_kept(recipe: str, changes: dict) -> None:
    with pytest.raises(ConfigError, match=r"training\.balanced"):
        make_settings(recipe, epsilon=1.0, changes={**changes, "training.balanced": True})


def test_balanced_needs_an_epsilon() -> None:
    with pytest.raises(ConfigError, match=r"training\.balanced"):
        make_settings(changes={"training.balanced": True})
