"""The feature kinds by name: a class for each, one line here."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from privgcn.errors import ConfigError
from privgcn.features.base import bare_name
from privgcn.features.default import ENGLISH, choose

if TYPE_CHECKING:
    from privgcn.data import Corpus
    from privgcn.features.base import Featurizer


class FeatureKind(NamedTuple):
    """A feature kind before its module is imported: where its class is, and what it does."""

    module: str
    name: str
    summary: str

    def load(self) -> type[Featurizer]:
        """The class."""
        return cast("type[Featurizer]", getattr(import_module(self.module), self.name))


FEATURES = {
    "given": FeatureKind(
        "privgcn.features.base", "GivenVectors", "the vectors that came with the documents"
    ),
    "hashing": FeatureKind(
        "privgcn.features.bags",
        "HashingWords",
        "bag of words without a vocabulary: learns nothing from the texts",
    ),
    "bow": FeatureKind(
        "privgcn.features.bags", "BagOfWords", "bag of words; the vocabulary is learned"
    ),
    "tfidf": FeatureKind(
        "privgcn.features.bags",
        "TfIdf",
        "bag of words, rare words weigh more; vocabulary and weights are learned",
    ),
    "word-vectors": FeatureKind(
        "privgcn.features.word_vectors",
        "WordVectors",
        "the mean of public word vectors (GloVe, fastText)",
    ),
    "transformer": FeatureKind(
        "privgcn.features.transformer",
        "TransformerFeatures",
        "a frozen Hugging Face encoder, by name or folder",
    ),
    "minilm": FeatureKind(
        "privgcn.features.minilm",
        "MiniLM",
        "the frozen encoder all-MiniLM-L6-v2: English, offline",
    ),
    "static": FeatureKind(
        "privgcn.features.static",
        "StaticVectors",
        "the sum of public token vectors: English, offline, fast",
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
    if kind is None and corpus.vectors is not None:
        kind = "given"
    elif kind is None:
        choice = choose(len(corpus) if documents is None else documents, language=language)
        kind, wanted = choice.kind, {**choice.options, **wanted}
    return _load(kind).with_options(wanted)


def featurizer_from_state(state: Mapping[str, Any]) -> Featurizer:
    """The fitted featurizer that ``Featurizer.state`` described.

    Raises:
        ConfigError: The kind is unknown, or a value breaks its rule.
        DataError: A value is missing.
    """
    return _load(str(state.get("kind"))).from_state(state)


def without_places(state: Mapping[str, Any]) -> dict[str, Any]:
    """A state with names of files instead of where they lie on this machine."""
    named = {"model": bare_name(state["model"])} if "model" in state else {}
    if "source" in state:  # always a file, even where it is not found from here
        named["source"] = Path(state["source"]).name
    hidden = {"cache_dir": None} if "cache_dir" in state else {}
    return {**state, **named, **hidden}


def _load(kind: str) -> type[Featurizer]:
    if kind not in FEATURES:
        raise ConfigError(f"The 'features' must be one of {', '.join(FEATURES)}. Got {kind!r}.")
    return FEATURES[kind].load()
