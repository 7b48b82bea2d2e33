"""The list of mutations fits the source, so that it cannot rot."""

import importlib
import re
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "scripts"))
mutations = importlib.import_module("mutations")


@pytest.mark.parametrize("mutation", mutations.MUTATIONS, ids=lambda mutation: mutation.name)
def test_every_mutation_applies_and_names_tests_that_exist(
    mutation: mutations.Mutation,
) -> None:
    texts = mutations.sources()
    changed = mutations.mutated(texts, mutation)
    for file, text in changed.items():
        assert text != texts[file]
        compile(text, file, "exec")
    for test in mutation.tests:
        path, name = test.partition("[")[0].split("::")
        content = (ROOT / path).read_text(encoding="utf-8")
        assert re.search(rf"^def {name}\(", content, re.MULTILINE), test


def test_a_stale_patch_fails_loudly() -> None:
    mutation = mutations.MUTATIONS[0]
    texts = {edit.file: "nothing that fits" for edit in mutation.edits}
    with pytest.raises(ValueError, match="exactly once"):
        mutations.mutated(texts, mutation)


def test_the_defects_of_the_specification_are_on_the_list() -> None:
    names = " / ".join(mutation.name for mutation in mutations.MUTATIONS)
    for words in (
        "no clipping",
        "clip each tensor apart",
        "mask the loss but keep the edges",
        "visit every part once but account Poisson",
        "reuse one noise draw for same-shaped tensors",
        "divide by the realised sample size",
        "2C accounted as C",
        "a fixed-size sampler accounted as Poisson",
        "seeded from --seed in a releasable run",
        "class weights from all labels",
        "one owner split over two parts",
    ):
        assert words in names
