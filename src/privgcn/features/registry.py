"""The feature kinds by name: one file for each, one line here."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Any, cast

from privgcn.errors import ConfigError
from privgcn.features.base import bare_name
from privgcn.features.default import ENGLISH, choose

if TYPE_CHECKING:
    from privgcn.corpus import Corpus
    from privgcn.features.base import Featurizer


@dataclass(frozen=True)
class FeatureKind:
    """A feature kind before its module is imported.

    Attributes:
        summary: What it does, for help texts.
        module: Where its class is.
        name: The class.
    """

    summary: str
    module: str
    name: str

    def load(self) -> type[Featurizer]:
        """The class."""
        return cast("type[Featurizer]", getattr(import_module(self.module), self.name))


FEATURES: dict[str, FeatureKind] = {
    "given": FeatureKind(
        "the vectors that came with the documents", "privgcn.features.given", "GivenVectors"
    ),
    "hashing": FeatureKind(
        "bag of words without a vocabulary: learns nothing from the texts",
        "privgcn.features.hashing",
        "HashingWords",
    ),
    "bow": FeatureKind(
        "bag of words; the vocabulary is learned", "privgcn.features.bow", "BagOfWords"
    ),
    "tfidf": FeatureKind(
        "bag of words, rare words weigh more; vocabulary and weights are learned",
        "privgcn.features.bow",
        "TfIdf",
    ),
    "word-vectors": FeatureKind(
        "the mean of public word vectors (GloVe, fastText)",
        "privgcn.features.word_vectors",
        "WordVectors",
    ),
    "transformer": FeatureKind(
        "a frozen Hugging Face encoder, by name or folder",
        "privgcn.features.transformer",
        "TransformerFeatures",
    ),
    "minilm": FeatureKind(
        "the frozen encoder all-MiniLM-L6-v2: English, offline",
        "privgcn.features.minilm",
        "MiniLM",
    ),
    "static": FeatureKind(
        "the mean of public token vectors: English, offline, fast",
        "privgcn.features.static",
        "StaticVectors",
    ),
}


def make_featurizer(
    kind: str | None,
    options: Mapping[str, Any] | None,
    corpus: Corpus,
    *,
    language: str = ENGLISH,
    documents: int | None = None,
) -> Featurizer:
    """A featurizer that is not fitted yet.

    Args:
        kind: A name of the registry. None takes ``given`` where the corpus has vectors, and
            else what ``privgcn.features.default`` chooses.
        options: What the kind's class accepts.
        corpus: Decides what None means, by its form and size and not by its content.
        language: Of the texts, as declared: part of what None means.
        documents: How many will be encoded in all, where that is more than the corpus.

    Raises:
        ConfigError: The kind or an option is unknown, or an option breaks its rule.
    """
    wanted = dict(options or {})
    if kind is not None:
        return _build(kind, wanted)
    if corpus.vectors is not None:
        return _build("given", wanted)
    choice = choose(len(corpus) if documents is None else documents, language=language)
    return _build(choice.kind, {**choice.options, **wanted})


def featurizer_from_state(state: Mapping[str, Any]) -> Featurizer:
    """The fitted featurizer that ``Featurizer.state`` described.

    Raises:
        ConfigError: The kind is unknown.
    """
    return _kind(str(state.get("kind"))).load().from_state(dict(state))


def without_places(options: Mapping[str, Any]) -> dict[str, Any]:
    """Options or a state with names of files instead of where they lie on this machine."""
    named = {
        name: bare_name(options[name])
        for name in ("source", "model")
        if isinstance(options.get(name), str)
    }
    hidden = {"cache_dir": None} if options.get("cache_dir") else {}
    return {**options, **named, **hidden}


def _kind(name: str) -> FeatureKind:
    if name not in FEATURES:
        raise ConfigError(f"The 'features' must be one of {', '.join(FEATURES)}. Got {name!r}.")
    return FEATURES[name]


def _build(name: str, options: dict[str, Any]) -> Featurizer:
    made = _kind(name).load()
    allowed = list(inspect.signature(made).parameters)
    for option in options:
        if option not in allowed:
            known = f"Its options are {', '.join(allowed)}." if allowed else "It has none."
            raise ConfigError(f"The features '{name}' have no option '{option}'. {known}")
    return made(**options)
