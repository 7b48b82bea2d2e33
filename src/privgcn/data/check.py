"""Everything that is wrong with documents at once, by the rules that loading uses.

>>> check_documents("clinic").trainable
True
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from privgcn.data.catalogue import dataset_names, documents_path, load_corpus
from privgcn.data.corpus import SPLIT_NAMES, training_rules
from privgcn.data.problems import Problem, Problems


@dataclass(frozen=True)
class Check:
    """All problems, and facts as far as they could be read: as private as the documents."""

    problems: tuple[Problem, ...]
    facts: dict[str, Any]

    @property
    def trainable(self) -> bool:
        """Whether no problem stops training."""
        return not any(problem.stops for problem in self.problems)

    @property
    def options(self) -> dict[str, str]:
        """Options of ``load_corpus`` that mend some of the problems."""
        return dict(problem.option for problem in self.problems if problem.option)


def check_documents(
    source: str | os.PathLike[str], *, classes: Sequence[str] | None = None, **reading: Any
) -> Check:
    """Reads documents to the end, whatever is wrong; options as in ``load_corpus``."""
    name = os.fspath(source)
    if name in dataset_names():
        return Check((), _facts(vars(load_corpus(name, classes=classes, **reading))))
    path, fields = documents_path(name), dict[str, Any]()
    from privgcn.data.ingest import read_documents

    with Problems(check=True) as problems:
        fields = read_documents(path, problems, classes=classes, **reading)
        training_rules(name, fields["labels"], fields["split"], fields["classes"], problems)
    return Check(tuple(problems.by_rule.values()), _facts(fields) if fields else {})


def _facts(fields: Mapping[str, Any]) -> dict[str, Any]:
    labels, split, owners = fields["labels"], fields["split"], fields["owner_names"]
    names = fields["classes"]
    unlabelled, *counts = np.bincount(labels + 1, minlength=len(names) + 1).tolist()
    return {
        "documents": len(labels),
        "owners": None if owners is None else len(owners),
        "edges": fields["edges"].shape[1],
        "classes": dict(zip(names, counts, strict=True)),
        "unlabelled": unlabelled,
        "split": dict(zip(SPLIT_NAMES, np.bincount(split, minlength=4).tolist(), strict=True)),
        "split_origin": fields["facts"].split_origin,
    }
