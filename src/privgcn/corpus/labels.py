"""Names to codes: classes and owners."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
import numpy.typing as npt

from privgcn.errors import DataError


def check_classes(classes: Sequence[str]) -> tuple[str, ...]:
    """The declared class set, once it is known to be one.

    Raises:
        DataError: Fewer than two classes, or one of them twice.
    """
    declared = tuple(str(name) for name in classes)
    if isinstance(classes, str) or len(declared) < 2 or len(set(declared)) != len(declared):
        raise DataError(
            f"The 'classes' must be at least two different names. Got {list(declared)}."
        )
    return declared


def codes(
    values: Iterable[str | None], names: Sequence[str], missing: int = -1
) -> npt.NDArray[np.int64]:
    """The place of every value in ``names``; ``missing`` for None."""
    index: dict[str | None, int] = {name: code for code, name in enumerate(names)}
    index[None] = missing
    return np.fromiter((index[value] for value in values), dtype=np.int64)
