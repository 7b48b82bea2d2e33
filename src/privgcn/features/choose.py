"""The feature kinds by name, and which of them a text gets when nobody named any.

The choice reads public facts only: how many documents there are, the language that was
declared and whether there is a GPU. It never reads a text. Other packages add kinds by entry
points of the group ``privgcn.features``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from typing import TYPE_CHECKING, Any

from privgcn.errors import ConfigError, shown
from privgcn.features.base import LOCAL, bare_name

if TYPE_CHECKING:
    from privgcn.data import Corpus
    from privgcn.features.base import Featurizer

GROUP = "privgcn.features"

ENGLISH = "english"

MOST_DOCUMENTS = 10_000
"""Up to so many documents MiniLM is bearable on two cores: six minutes, and only once."""

MOST_DOCUMENTS_GPU = 200_000
"""As above, five minutes on a small GPU by the estimate below."""

# Texts a second of processor time on one core: 240 abstracts of raw-text Cora, 219 tokens each
# on average, the best of three runs. A GPU was not measured: that figure is an estimate.
_MINILM_SPEED, _STATIC_SPEED = 14.0, 2000.0
_GPU_SPEED = 700.0

_OWN = {
    "given": "privgcn.features.base:GivenVectors",
    "hashing": "privgcn.features.words:HashingWords",
    "bow": "privgcn.features.words:BagOfWords",
    "tfidf": "privgcn.features.words:TfIdf",
    "transformer": "privgcn.features.encoders:TransformerFeatures",
    "minilm": "privgcn.features.encoders:MiniLM",
    "static": "privgcn.features.static:StaticVectors",
}


@dataclass(frozen=True)
class Choice:
    """The features that were chosen.

    Attributes:
        kind: A name of the registry.
        why: Why this kind, how long it takes, and what choosing otherwise would bring.
        options: Of that kind.
    """

    kind: str
    why: str
    options: dict[str, Any] = field(default_factory=dict)

    def __str__(self) -> str:
        return f"Features: {self.kind} {self.why}"


def choose(documents: int, *, language: str = ENGLISH, gpu: bool | None = None) -> Choice:
    """The default features of so many documents.

    Args:
        documents: All that will be encoded: a public number.
        language: Of the texts, as declared; ``english`` where nobody did.
        gpu: Whether there is one; None looks.
    """
    import torch

    if gpu is None:
        gpu = torch.cuda.is_available()
    if language.lower() not in (ENGLISH, "en"):
        return Choice(
            "hashing",
            f"(the texts are declared to be {language}, and the encoders that come with this "
            "package know English only). An encoder of that language scores higher: --features "
            "transformer --set features.options.model=FOLDER, with any Hugging Face encoder.",
            {"stop_words": None},
        )
    cores = torch.get_num_threads()
    minilm = documents / (_GPU_SPEED if gpu else _MINILM_SPEED * cores)
    times = {"minilm": minilm, "static": documents / _STATIC_SPEED / cores}
    most = MOST_DOCUMENTS_GPU if gpu else MOST_DOCUMENTS
    kind, other, scored = ("minilm", "static", "less")
    size = ""
    if documents > most:
        kind, other, scored = ("static", "minilm", "more")
        size = f"; more than {most} documents"
    return Choice(
        kind,
        f"(texts taken as English; --language says otherwise{size}; about "
        f"{_duration(times[kind])}). --features {other} takes about {_duration(times[other])} "
        f"and scored three to four points {scored}.",
    )


def _duration(seconds: float) -> str:
    if seconds < 90:
        return f"{max(1, round(seconds))} s"
    return f"{round(seconds / 60)} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"


def feature_kinds() -> dict[str, EntryPoint]:
    """All kinds by name; none of their modules is imported before ``load``."""
    own = {name: EntryPoint(name, value, GROUP) for name, value in _OWN.items()}
    return {**own, **{e.name: e for e in entry_points(group=GROUP) if e.name not in own}}


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
            else what ``choose`` says.
        options: What the kind's class accepts.
        corpus: Decides what None means, by its form and size and not by its content.
        language: Of the texts, as declared: part of what None means.
        documents: How many will be encoded in all, where that is more than the corpus, or
            where the number of documents is not public: the number of units.

    Raises:
        ConfigError: The kind or an option is unknown, or an option breaks its rule.
    """
    wanted = dict(options or {})
    if kind is None and corpus.vector_length is not None:
        kind = "given"
    elif kind is None:
        choice = choose(len(corpus) if documents is None else documents, language=language)
        kind, wanted = choice.kind, {**choice.options, **wanted}
    return _load(kind).with_options(wanted)


def featurizer_from_state(
    state: Mapping[str, Any], path: str | Path | None = None
) -> Featurizer:
    """The fitted featurizer that ``Featurizer.state`` described.

    Args:
        state: Of a model file; nothing in it is obeyed as a path or an address.
        path: Where the caller says that the encoder or the word vectors lie; default: they
            are looked up by their name on this machine, and recognised by their checksum.

    Raises:
        ConfigError: The kind is unknown, or a value breaks its rule.
        DataError: A value is missing.
    """
    own = None if path is None else Path(path).expanduser()
    return _load(str(state.get("kind"))).from_state(state, own)


def without_paths(kind: str | None, options: Mapping[str, Any]) -> dict[str, Any]:
    """Options with names of files instead of where they lie on this machine."""
    fields = {} if kind is None else _load(kind).model_fields
    return {
        name: bare_name(value) if name in fields and LOCAL in fields[name].metadata else value
        for name, value in options.items()
        if name != "cache_dir"
    }


def _load(kind: str) -> type[Featurizer]:
    kinds = feature_kinds()
    if kind not in kinds:
        raise ConfigError(
            f"The 'features' must be one of {', '.join(kinds)}. Got {shown(kind)}."
        )
    made: type[Featurizer] = kinds[kind].load()
    return made
