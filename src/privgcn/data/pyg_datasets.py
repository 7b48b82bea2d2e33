"""Datasets of PyTorch Geometric by name, from raw files on this machine.

``pyg:Planetoid/Cora?split=full`` is ``Planetoid(root, "Cora", split="full")``, with the folder
``planetoid`` of the data folder as its root. Nothing is downloaded, and what the library
prepares is not kept: several processes may load the same dataset at once.
"""

from __future__ import annotations

import io
import os
import re
import tempfile
from collections.abc import Sequence
from contextlib import redirect_stderr
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl

from privgcn.data.corpus import Corpus
from privgcn.errors import DataError, DataNotAvailableError, MissingExtraError, reason, shown

PREFIX = "pyg:"
"""Of such a name."""

_FORM = re.compile(r"pyg:(?P<maker>\w+)(/(?P<name>[\w.-]+))?(\?(?P<options>.*))?")


def load_pyg_dataset(name: str, folder: Path) -> Corpus:
    """The one graph of a dataset as a corpus.

    Args:
        name: ``pyg:CLASS/NAME?OPTION=VALUE``; name and options are what the class takes.
        folder: The data folder.

    Raises:
        MissingExtraError: ``torch-geometric`` is not installed.
        DataNotAvailableError: Raw files are missing.
        DataError: There is no such dataset, or it is not one graph of documents.
    """
    found = _FORM.fullmatch(name)
    if found is None:
        raise DataError(
            "A dataset of PyTorch Geometric must be named like pyg:Planetoid/Cora or "
            f"pyg:Planetoid/Cora?split=full. Got {shown(name)}."
        )
    options = dict(parse_qsl(found["options"] or "")) | (
        {"name": found["name"]} if found["name"] else {}
    )
    root = str(folder / found["maker"].lower())
    with tempfile.TemporaryDirectory(prefix="privgcn-pyg-") as prepared:
        # The library says on stderr that it is at work.
        with redirect_stderr(io.StringIO()):
            dataset = _dataset(name, found["maker"], prepared, {"root": root, **options})
        if len(dataset) != 1:
            raise DataError(
                f"The dataset {shown(name)} must be one graph. Got {len(dataset)} graphs."
            )
        corpus = Corpus.from_pyg(dataset[0])
    facts = replace(corpus.facts, source=name, split_origin="benchmark")
    return replace(corpus, name=name, facts=facts)


def _dataset(name: str, maker: str, prepared: str, options: dict[str, str]) -> Sequence[Any]:
    try:
        from torch_geometric import datasets
        from torch_geometric.data import Dataset
    except ImportError:
        raise MissingExtraError(f"The dataset {shown(name)}", "graph") from None
    made_by = getattr(datasets, maker, None)
    if not (isinstance(made_by, type) and issubclass(made_by, Dataset)):
        raise DataError(
            f"The class in {shown(name)} must be one of torch_geometric.datasets. Got "
            f"{shown(maker)}."
        )

    class Local(made_by):  # type: ignore[misc, valid-type]
        """The same without a network, and without a trace beside the raw files."""

        processed_dir = property(lambda self: prepared)

        def _download(self) -> None:
            missing = [path for path in self.raw_paths if not os.path.exists(path)]
            if missing:
                names = ", ".join(map(os.path.basename, missing))
                raise DataNotAvailableError(
                    f"The dataset {shown(name)} needs its raw files in {self.raw_dir}; "
                    f"nothing is downloaded. Missing: {names}. Put them there, or set "
                    f"PRIVGCN_DATA to the folder that holds {maker.lower()}."
                )

    Local.__name__ = maker
    try:
        found: Sequence[Any] = Local(**options)
        return found
    except DataNotAvailableError:
        raise
    except Exception as error:
        raise DataError(
            f"The dataset {shown(name)} must be one that PyTorch Geometric can read with these "
            f"options. It says: {reason(error)}."
        ) from None
