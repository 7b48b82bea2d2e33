"""The checklist of the paper's claims, from ``docs/paper-checklist.toml``.

    python scripts/paper_checklist.py       # writes docs/paper-checklist.md

``tests/unit/test_paper_checklist.py`` fails when the page is out of date, when a pointer leads
nowhere, or when a published number belongs to no claim.
"""

from __future__ import annotations

import importlib
import re
import tomllib
from collections import Counter
from fnmatch import fnmatchcase
from functools import cache, reduce
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, model_validator

from privgcn.experiments.paper import mapping
from privgcn.experiments.paper.published import leaves, read_table
from privgcn.experiments.paper.targets import TARGETS

ROOT = Path(__file__).resolve().parents[1]
DOCS = ROOT / "docs"
PACKAGE = ROOT / "src" / "privgcn"
SOURCE = DOCS / "paper-checklist.toml"
PAGE = DOCS / "paper-checklist.md"

VERDICTS = {
    "done": "it is so here",
    "measured": "runs answer it; the page of the reproduction says how they came out",
    "differs": "done differently, for the reason that is given",
    "contradicted": "what we computed or ran says otherwise",
    "not run": "implemented, but the raw data of Pokec or Reddit are not at hand offline",
    "untested": "nothing here tests it, for the reason that is given",
}
"""What a verdict means."""

_EXPLAINED = ("differs", "contradicted", "untested")


class Claim(BaseModel):
    """A claim of the paper.

    Attributes:
        says: The claim in our words.
        verdict: One of ``VERDICTS``.
        code: What implements it: a symbol below ``privgcn``, or a key of a TOML file there as
            ``folder/file.toml:key``.
        shown: Where our result is: a test, a page of ``docs``, an experiment of ``privgcn
            reproduce``, or one of its tables as ``experiment:table``.
        numbers: Patterns of the leaves of ``published.toml`` that it is about.
        differences: Entries of ``differences.toml`` that it is about: where the paper's text,
            its released code and ours differ.
        note: What is different, or what has to be known.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    says: str
    verdict: Literal["done", "measured", "differs", "contradicted", "not run", "untested"]
    code: list[str] = []
    shown: list[str] = []
    numbers: list[str] = []
    differences: list[str] = []
    note: str = ""

    @model_validator(mode="after")
    def _whole(self) -> Self:
        if self.verdict in _EXPLAINED and not self.note:
            raise ValueError(f"the verdict '{self.verdict}' needs a note: {self.says}")
        if self.verdict != "untested" and not (self.code and self.shown):
            raise ValueError(f"the claim needs 'code' and 'shown': {self.says}")
        return self

    def published(self) -> set[str]:
        """The leaves of ``published.toml`` that it is about."""
        return {
            leaf for leaf in leaves() if any(fnmatchcase(leaf, one) for one in self.numbers)
        }


class Section(BaseModel):
    """A section of the paper and its claims."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    section: str
    claim: Annotated[list[Claim], Field(min_length=1)]


@cache
def sections() -> list[Section]:
    """The checklist, in the order of the paper."""
    content = tomllib.loads(SOURCE.read_text(encoding="utf-8"))
    return TypeAdapter(list[Section]).validate_python(content["part"])


def differences() -> list[str]:
    """What differs between the paper's text, its released code and this reproduction."""
    return [entry["what"] for entry in read_table("differences.toml")["difference"]]


def claims() -> list[Claim]:
    """Every claim."""
    return [one for part in sections() for one in part.claim]


def file_of_code(pointer: str) -> Path:
    """The file in which a pointer of ``code`` lies.

    Raises:
        LookupError: There is nothing of that name.
    """
    if ".toml:" in pointer:
        name, _, key = pointer.partition(":")
        content: Any = tomllib.loads((PACKAGE / name).read_text(encoding="utf-8"))
        reduce(lambda node, part: node[part], key.split("."), content)
        return PACKAGE / name
    names = pointer.split(".")
    for count in range(len(names), 0, -1):
        try:
            module = importlib.import_module(".".join(["privgcn", *names[:count]]))
        except ModuleNotFoundError:
            continue
        try:
            reduce(getattr, names[count:], module)
        except AttributeError:
            break
        return Path(str(module.__file__))
    raise LookupError(f"There is no {pointer} in the package.")


def check_shown(pointer: str) -> None:
    """Passes where a pointer of ``shown`` leads somewhere.

    Raises:
        LookupError: It does not.
    """
    if pointer.startswith("tests/"):
        path, _, name = pointer.partition("::")
        text = (ROOT / path).read_text(encoding="utf-8") if (ROOT / path).is_file() else ""
        found = re.search(rf"^def {name}\(", text, re.MULTILINE) is not None
    elif ".md" in pointer:
        found = (DOCS / pointer).is_file()
    else:
        experiment, _, table = pointer.partition(":")
        found = experiment in TARGETS and (not table or table in read_table("tables.toml"))
    if not found:
        raise LookupError(f"There is no {pointer}.")


def _code(pointer: str) -> str:
    path = file_of_code(pointer).relative_to(ROOT).as_posix()
    return f"[`{pointer}`](../{path})"


def _shown(pointer: str) -> str:
    if pointer.startswith("tests/"):
        path, _, name = pointer.partition("::")
        return f"test: [{name.removeprefix('test_').replace('_', ' ')}](../{path})"
    if ".md" in pointer:
        title = (DOCS / pointer).read_text(encoding="utf-8").partition("\n")[0]
        return f"[{title.removeprefix('# ')}]({pointer})"
    experiment, _, table = pointer.partition(":")
    command = f"`privgcn reproduce {experiment}`"
    if not table:
        return command
    title = re.sub(r"\{.*?\}", "…", read_table("tables.toml")[table]["title"])
    return f"{command}, “{title}”"


@cache
def _compared() -> set[str]:
    """The leaves of ``published.toml`` that have a row on the page of the reproduction."""
    return {one.leaf for one in mapping.claims()}


def _row(number: int, one: Claim) -> str:
    shown = [_shown(pointer) for pointer in one.shown]
    if count := len(one.published() & _compared()):
        numbers = "number" if count == 1 else "numbers"
        shown.append(f"{count} published {numbers} beside ours: [page](reproduction.md)")
    shown += [f"`privgcn reproduce as-released`, differences: {d}" for d in one.differences]
    verdict = f"**{one.verdict}**" + (f". {one.note}" if one.note else "")
    cells = (
        str(number),
        one.says,
        "<br>".join(map(_code, one.code)) or "-",
        "<br>".join(shown) or "-",
        verdict,
    )
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def page() -> str:
    """The checklist as Markdown."""
    tally = Counter(one.verdict for one in claims())
    counted = ", ".join(f"{tally[name]} {name}" for name in VERDICTS if tally[name])
    blocks = [
        "# The paper's claims, one by one",
        "<!-- Made by `python scripts/paper_checklist.py` from docs/paper-checklist.toml. Do "
        "not edit: change the TOML file and run the script again. -->",
        f"Every claim of the paper that can be checked, in its order and in our words: "
        f"{sum(tally.values())} in all ({counted}). Scores and verdicts that hang on runs are "
        "on [the page of the reproduction](reproduction.md), which `privgcn reproduce` writes; "
        "this list says where to look and repeats none of them. A test imports every symbol, "
        "looks up every test, experiment and table, and fails where a number of "
        "`published.toml` or a difference of `differences.toml` belongs to no claim.",
        "\n".join(f"- **{name}**: {words}." for name, words in VERDICTS.items()),
    ]
    number = 0
    for part in sections():
        lines = [
            "| | claim | where implemented | where shown | verdict |",
            "| --: | :-- | :-- | :-- | :-- |",
        ]
        for one in part.claim:
            number += 1
            lines.append(_row(number, one))
        blocks += [f"## {part.section}", "\n".join(lines)]
    return "\n\n".join(blocks) + "\n"


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
