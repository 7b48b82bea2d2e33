"""How texts are cut into words, and which words are left out."""

from __future__ import annotations

import re
from typing import Any

from privgcn.errors import ConfigError, DataError

_PUNCTUATION = re.compile(r"[^\w\s]|_")


def split_words(text: str, *, lowercase: bool = True) -> list[str]:
    """Words between white space, lower-cased, punctuation removed, as the paper does it."""
    return _PUNCTUATION.sub("", text.lower() if lowercase else text).split()


def stop_words(language: str | None, owner: str) -> frozenset[str]:
    """A fixed, public list of words to leave out.

    Raises:
        ConfigError: There is no list for the language.
    """
    if language is None:
        return frozenset()
    if language != "english":
        raise ConfigError(
            f"The 'stop_words' of the features '{owner}' must be 'english' or null. "
            f"Got {language!r}."
        )
    from sklearn.feature_extraction.text import ENGLISH_STOP_WORDS

    return frozenset(ENGLISH_STOP_WORDS)


def saved_words(words: Any) -> frozenset[str]:
    """Words as a saved model holds them.

    Raises:
        DataError: They are not a list of different words.
    """
    if not isinstance(words, list) or not all(isinstance(word, str) for word in words):
        raise DataError("The words of saved features must be a list of texts.")
    if len(set(words)) != len(words):
        raise DataError("The words of saved features must differ from each other.")
    return frozenset(words)
