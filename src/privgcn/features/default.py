"""Which features a text gets when nobody named any.

The choice reads public facts only: how many documents there are, the language that was
declared and whether there is a GPU. It never reads a text.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

ENGLISH = "english"

MOST_DOCUMENTS = 10_000
"""Up to so many documents MiniLM is bearable on two cores: six minutes, and only once."""

MOST_DOCUMENTS_GPU = 200_000
"""As above, five minutes on a small GPU by the estimate below."""

# Texts a second of processor time on one core: 240 abstracts of raw-text Cora, 219 tokens each
# on average, the best of three runs. A GPU was not measured: that figure is an estimate.
_SPEED = {"minilm": 14.0, "static": 2000.0}
_GPU_SPEED = 700.0


@dataclass(frozen=True)
class Choice:
    """The features that were chosen, and what choosing otherwise would bring.

    Attributes:
        kind: A name of the registry.
        options: Of that kind.
        seconds: About how long all documents take, the first time.
        reason: Why this kind, in words.
        alternative: What else could be had, in words.
    """

    kind: str
    options: dict[str, Any]
    seconds: float
    reason: str
    alternative: str

    def __str__(self) -> str:
        return (
            f"Features: {self.kind} ({self.reason}; about {_duration(self.seconds)}). "
            f"{self.alternative}"
        )


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
    cores = torch.get_num_threads()
    seconds = {kind: documents / speed / cores for kind, speed in _SPEED.items()}
    if gpu:
        seconds["minilm"] = documents / _GPU_SPEED
    if language.lower() not in (ENGLISH, "en"):
        return Choice(
            kind="hashing",
            options={"stop_words": None},
            seconds=seconds["static"],
            reason=f"the texts are declared to be {language}, and the encoders that come with "
            "this package know English only",
            alternative="An encoder of that language scores higher: --features transformer "
            "--set features.options.model=FOLDER, with any Hugging Face encoder.",
        )
    most = MOST_DOCUMENTS_GPU if gpu else MOST_DOCUMENTS
    if documents <= most:
        return Choice(
            kind="minilm",
            options={},
            seconds=seconds["minilm"],
            reason="texts taken as English; --language says otherwise",
            alternative=f"--features static takes about {_duration(seconds['static'])} and "
            "scored three to four points less.",
        )
    return Choice(
        kind="static",
        options={},
        seconds=seconds["static"],
        reason=f"texts taken as English, --language says otherwise; more than {most} documents",
        alternative=f"--features minilm takes about {_duration(seconds['minilm'])} and scored "
        "three to four points more.",
    )


def _duration(seconds: float) -> str:
    if seconds < 90:
        return f"{max(1, round(seconds))} s"
    return f"{round(seconds / 60)} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"
