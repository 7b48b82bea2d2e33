"""Models: one registry line each."""

from __future__ import annotations

from collections.abc import Callable

from privgcn.errors import ConfigError
from privgcn.models.module import ModuleModel
from privgcn.models.stack import Layer, LayerStack

AnyModel = LayerStack | ModuleModel


def gcn(features: int, classes: int, *, hidden: int, hops: int, dropout: float) -> LayerStack:
    """The paper's two-layer graph convolutional network; each layer travels one hop."""
    layers = (Layer(features, hidden, 1), Layer(hidden, classes, 1))
    return LayerStack("gcn", layers, dropout)


def linear(
    features: int, classes: int, *, hidden: int, hops: int, dropout: float
) -> LayerStack:
    """Softmax regression on features that travelled ``hops`` hops; no bias, no hidden layer.

    A bias column would take its share of every clipped gradient and earn little: with it
    the norm of a unit-length document grows by a factor of the square root of two.
    """
    return LayerStack("linear", (Layer(features, classes, hops),), bias=False)


def mlp(features: int, classes: int, *, hidden: int, hops: int, dropout: float) -> LayerStack:
    """The network of ``gcn`` without links: the graph-blind baseline."""
    layers = (Layer(features, hidden, 0), Layer(hidden, classes, 0))
    return LayerStack("mlp", layers, dropout)


MODELS: dict[str, Callable[..., LayerStack]] = {"gcn": gcn, "linear": linear, "mlp": mlp}


def make_model(
    kind: str,
    features: int,
    classes: int,
    *,
    hidden: int = 32,
    hops: int = 2,
    dropout: float = 0.5,
) -> LayerStack:
    """Builds a registered model for a number of features and classes."""
    if kind == "module":
        raise ConfigError(
            "The model 'module' is one that the user brings. Give it in Python: "
            "GraphClassifier(module=...)."
        )
    if kind not in MODELS:
        known = ", ".join(MODELS)
        raise ConfigError(f"The 'kind' of a model must be one of {known}. Got {kind!r}.")
    return MODELS[kind](features, classes, hidden=hidden, hops=hops, dropout=dropout)


__all__ = ["MODELS", "AnyModel", "Layer", "LayerStack", "ModuleModel", "make_model"]
