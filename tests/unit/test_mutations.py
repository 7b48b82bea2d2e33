"""The list of mutations fits the source, so that it cannot rot."""

import ast
import re
from pathlib import Path
from typing import Any

import mutations
import pytest
import symbol_changes as changes

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.parametrize("mutation", mutations.MUTATIONS, ids=lambda mutation: mutation.name)
def test_every_mutation_applies_and_names_tests_that_exist(mutation: Any) -> None:
    changed = mutations.PACKAGE.changed(mutation.changes)
    assert changed
    for file, text in changed.items():
        before = (mutations.PACKAGE.folder / file).read_text(encoding="utf-8")
        assert ast.dump(ast.parse(text)) != ast.dump(ast.parse(before))
    for test in mutation.tests:
        path, name = test.partition("[")[0].split("::")
        content = (ROOT / path).read_text(encoding="utf-8")
        assert re.search(rf"^def {name}\(", content, re.MULTILINE), test


def test_no_two_mutations_have_one_name() -> None:
    names = [mutation.name for mutation in mutations.MUTATIONS]
    assert len(set(names)) == len(names)


def package(tmp_path: Path, **texts: str) -> Any:
    for name, text in texts.items():
        (tmp_path / f"{name}.py").write_text(text)
    return changes.Package(tmp_path)


SOURCE = """
class Box:
    def size(self, extra):
        total = self.width * 2
        if extra:
            raise ValueError(extra)
        return total

def half(x):
    return x / 2
"""


@pytest.mark.parametrize(
    ("change", "there", "gone"),
    [
        (
            changes.swap("Box.size", "any_a * 2", "any_a + any_a"),
            "self.width + self.width",
            "*",
        ),
        (changes.swap("half", "2", "4"), "x / 4", "x / 2"),
        (changes.drop("Box", "if extra:\n    raise any_error"), "pass", "raise"),
        (changes.swap("half", "return any_x", "y = any_x\nreturn y"), "y = x / 2", "return x"),
        (
            changes.behave("half", "def half(x):\n    return original_half(x) + 1"),
            "def original_half(x)",
            "nothing",
        ),
    ],
    ids=str,
)
def test_changes_are_of_trees_and_not_of_lines(
    tmp_path: Path, change: Any, there: str, gone: str
) -> None:
    first = package(tmp_path / "", here=SOURCE).changed((change,))["here.py"]
    assert there in first
    assert gone not in first
    (tmp_path / "here.py").unlink()
    # Moved to another module, with other line breaks, it is the same change.
    spread = SOURCE.replace("x / 2", "(\n        x\n        / 2\n    )")
    moved = package(tmp_path, other=f"import os\n{spread}").changed((change,))["other.py"]
    assert moved.endswith(first.lstrip())


def test_signatures_of_an_overloaded_function_are_not_its_definition(tmp_path: Path) -> None:
    signatures = "@overload\ndef half(x: int) -> float: ...\n" * 2
    source = SOURCE.replace("def half", f"{signatures}def half")
    (text,) = package(tmp_path, here=source).changed((changes.swap("half", "2", "4"),)).values()
    assert text.endswith("return x / 4")
    assert text.count("@overload") == 2


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (changes.swap("Crate.size", "2", "3"), "exactly one Crate.size"),
        (changes.swap("twice", "2", "3"), "exactly one twice"),
        (changes.swap("half", "3", "4"), "exactly once"),
        (changes.swap("Box.size", "extra", "nothing"), "exactly once"),
        (changes.behave("half", "def half(y):\n    return y"), "parameters"),
        (changes.behave("half", "def whole(x):\n    return x"), "name"),
        (changes.behave("Box", "class Box:\n    pass"), "function"),
    ],
    ids=str,
)
def test_a_change_that_no_longer_applies_fails_loudly(
    tmp_path: Path, change: Any, words: str
) -> None:
    both = {"twice_here": "def twice(): return 2", "twice_there": "def twice(): return 2"}
    with pytest.raises(ValueError, match=words):
        package(tmp_path, here=SOURCE, **both).changed((change,))
    (file,) = package(tmp_path).changed((changes.swap("twice_there:twice", "2", "3"),))
    assert file == "twice_there.py"


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
