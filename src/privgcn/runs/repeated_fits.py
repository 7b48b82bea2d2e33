"""Notices a search that nobody pays for: private documents trained on with several settings.

Each private fit is a release of its own, and choosing among them is one more query. Both happen
outside of what a statement counts, so all that can be done here is to say so.
"""

from __future__ import annotations

import sys
import warnings

import numpy as np
from scipy.sparse import csr_matrix

from privgcn.config import Settings
from privgcn.data import Corpus
from privgcn.errors import PrivacyWarning

_SEARCH = "sklearn.model_selection"
_REMEDY = (
    "The epsilon of each model counts that model alone. Use 'privgcn tune', whose epsilon "
    "covers the whole search, or choose settings on public documents with cross_validate."
)
#: Documents and settings of the private fits of this process.
_earlier: list[tuple[frozenset[int], Settings]] = []


def warn_of_unpaid_search(corpus: Corpus, settings: Settings) -> None:
    """Warns where a private fit looks like part of a search over settings.

    That is a fit inside of scikit-learn's model selection (``GridSearchCV``,
    ``cross_val_score``), or one with other settings on documents half of which trained a
    private model of this process before. A reproducible fit must not be released anyway.

    Args:
        corpus: The training documents.
        settings: Of the fit.
    """
    if settings.privacy is None or settings.privacy.reproducible:
        return
    documents = _marks(corpus)
    before = [
        other
        for others, other in _earlier
        if 2 * len(documents & others) >= min(len(documents), len(others))
    ]
    _earlier.append((documents, settings))
    if _in_model_selection():
        _warn(
            "scikit-learn's model selection trains on the same private documents again and "
            "again, and the claim of a model that it chooses is void."
        )
    elif any(other != settings for other in before):
        _warn(
            "These private documents were trained on before, with other settings. To choose "
            "among such models is a search that no epsilon counts, and the claim is void."
        )


def _warn(text: str) -> None:
    warnings.warn(f"{text} {_REMEDY}", PrivacyWarning, stacklevel=4)


def _in_model_selection() -> bool:
    frame = sys._getframe()
    while frame.f_back is not None:
        frame = frame.f_back
        if frame.f_globals.get("__name__", "").startswith(_SEARCH):
            return True
    return False


def _marks(corpus: Corpus) -> frozenset[int]:
    """Hashes that mean nothing outside of this process."""
    if corpus.texts is not None:
        return frozenset(map(hash, corpus.texts))
    rows = csr_matrix(corpus.vectors)
    ends = zip(rows.indptr[:-1], rows.indptr[1:], strict=True)
    return frozenset(
        hash((rows.indices[a:b].tobytes(), np.asarray(rows.data[a:b]).tobytes()))
        for a, b in ends
    )
