"""The reference pages of settings and command line, from the models and from Typer.

    python scripts/reference.py             # writes docs/reference/*.md

``tests/docs/test_docs.py`` fails when a page is out of date.
"""

from __future__ import annotations

import inspect
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from types import UnionType
from typing import Any, Literal, Union, get_args, get_origin

import typer
from pydantic import BaseModel
from pydantic.fields import FieldInfo

from privgcn.cli.app import app
from privgcn.config import RECIPES, PrivacySettings, Settings, flattened, make_settings

ROOT = Path(__file__).resolve().parents[1]
FOLDER = ROOT / "docs" / "reference"

_ROW = re.compile(r"^    (\w+): (.*?)(?=^    \w|\Z)", re.MULTILINE | re.DOTALL)
_BOUNDS = {"ge": "at least", "gt": "above", "le": "at most", "lt": "below"}
_TYPES = {int: "integer", float: "number", str: "text", bool: "true or false", dict: "table"}


def _table(columns: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> str:
    lines = [columns, tuple("---" for _ in columns), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def _oneline(text: str) -> str:
    """Docstring markup as Markdown, in one line."""
    return " ".join(text.split()).replace("``", "`").replace("|", "\\|")


def _written(value: Any) -> str:
    if value is None:
        return "none"
    return f"`{str(value).lower() if isinstance(value, bool) else value}`"


def _kind(hint: Any) -> list[str]:
    """The values that a type allows, in words."""
    if get_origin(hint) is Literal:
        return [_written(value) for value in get_args(hint)]
    if get_origin(hint) in (Union, UnionType):
        return [
            word for part in get_args(hint) if part is not type(None) for word in _kind(part)
        ]
    if get_origin(hint) is list:
        return ["list of texts"]
    return [_TYPES[get_origin(hint) or hint]]


def _number(bound: float) -> str:
    return f"{bound:,}" if isinstance(bound, int) else f"{bound:g}"


def _allowed(field: FieldInfo) -> str:
    words = ", ".join(_kind(field.annotation))
    for rule in field.metadata:
        for name, word in _BOUNDS.items():
            bound = getattr(rule, name, None)
            if bound is not None:
                words += f", {word} {_number(bound)}"
    return words


def _sections() -> Iterator[tuple[str, type[BaseModel]]]:
    for name, field in Settings.model_fields.items():
        if name == "privacy":
            yield name, PrivacySettings
        elif isinstance(field.annotation, type) and issubclass(field.annotation, BaseModel):
            yield name, field.annotation


def settings_page() -> str:
    """All settings with what they allow, what they mean and what recipes set them to."""
    blocks = [
        "# Settings",
        "Made by `python scripts/reference.py` from `privgcn/config.py`. Set a value with a "
        "flag, with `--set training.epochs=10`, in a TOML file for `--config`, or in Python "
        'with `settings={"training.epochs": 10}`. The first of these that names a setting '
        "counts; otherwise the recipe does, and then the default. Every run folder holds "
        "`settings.toml` with all values that took effect.",
    ]
    blocks += ["## Of the run", _rows(Settings, "", ("recipe", "seed"))]
    for section, model in _sections():
        intro = inspect.cleandoc(model.__doc__ or "").partition("Attributes:\n")[0]
        names = tuple(model.model_fields)
        blocks += [
            f"## {section.capitalize()}",
            _oneline(intro),
            _rows(model, f"{section}.", names),
        ]
    return "\n\n".join([*blocks, _recipes()]) + "\n"


def _rows(model: type[BaseModel], prefix: str, names: tuple[str, ...]) -> str:
    attributes = inspect.cleandoc(model.__doc__ or "").partition("Attributes:\n")[2]
    meaning = {name: _oneline(text) for name, text in _ROW.findall(attributes)}
    fields = model.model_fields
    rows = [
        (
            f"`{prefix}{name}`",
            _allowed(fields[name]),
            _written(fields[name].get_default(call_default_factory=True)),
            meaning[name],
        )
        for name in names
    ]
    return _table(("setting", "values", "default", "meaning"), rows)


def _recipes() -> str:
    defaults = flattened(Settings(privacy=PrivacySettings()).model_dump())
    lines = []
    for name in RECIPES:
        settings = make_settings(name, epsilon=None if name == "plain" else 1.0)
        chosen = [
            f"`{key}={value}`"
            for key, value in flattened(settings.model_dump()).items()
            if key not in ("recipe", "privacy", "privacy.epsilon")
            and value != defaults.get(key)
        ]
        lines.append(f"- **{name}**: {', '.join(chosen)}.")
    intro = "What each recipe sets, where it differs from the default."
    return "\n\n".join(("## Recipes", intro, "\n".join(lines)))


def command_line_page() -> str:
    """Every verb with its arguments and options; what several verbs take stands there once."""
    group: Any = typer.main.get_command(app)
    verbs = {name: group.get_command(None, name) for name in group.list_commands(None)}
    rows = {
        name: [_parameter_row(p) for p in command.params if not p.hidden]
        for name, command in verbs.items()
    }
    often = Counter(row for table in rows.values() for row in table if row[0][1] == "-")
    # Of two meanings of one option the usual one; the other stays with its verb.
    shared = dict(row for row, count in reversed(often.most_common()) if count > 1)
    everywhere = [option for (option, _), count in often.items() if count == len(verbs)]
    blocks = [
        "# Command line",
        "Made by `python scripts/reference.py` from the program's own help. `privgcn VERB -h` "
        "says the same. Answers go to standard output, everything else to standard error. The "
        "exit code is 0, 2 for a mistake of the user, 3 for data that are not available, 5 "
        "where an audit found a claim broken, 130 after Ctrl-C, and 1 for a lost rank of "
        "`torchrun` or a bug. `privgcn --install-completion` completes words in your shell.",
    ]
    for name, command in verbs.items():
        words = [_name(p) for p in command.params if p.param_type_name == "argument"]
        usage = " ".join(["privgcn", name, *words, "[OPTIONS]"])
        blocks += [f"## `{name}`", _help(command.help), f"```text\n{usage}\n```"]
        own = [row for row in rows[name] if row not in shared.items()]
        also = [row[0] for row in rows[name] if row not in own and row[0] not in everywhere]
        blocks.append(_options(own))
        if also:
            blocks.append(f"[As other verbs](#options-of-several-verbs): {', '.join(also)}.")
    blocks += [
        "## Options of several verbs",
        f"Every verb takes {', '.join(everywhere)}.",
        _options(reversed(shared.items())),
    ]
    return "\n\n".join(blocks) + "\n"


def _options(rows: Iterable[tuple[str, str]]) -> str:
    return "\n".join(f"- {name}: {meaning}" for name, meaning in rows)


def _help(text: str | None) -> str:
    paragraphs = inspect.cleandoc(text or "").replace("\b", "").split("\n\n")
    return "\n\n".join(_oneline(part) for part in paragraphs)


def _name(argument: Any) -> str:
    """An argument as the usage line writes it."""
    name = argument.metavar or argument.name.upper()
    name = name.removesuffix("...") + ("..." if argument.nargs == -1 else "")
    return name if argument.required else f"[{name}]"


def _parameter_row(parameter: Any) -> tuple[str, str]:
    name = ", ".join(f"`{word}`" for word in (*parameter.opts, *parameter.secondary_opts))
    if parameter.param_type_name == "argument":
        name = f"`{_name(parameter)}`"
    told = _oneline(parameter.help or "")
    default = parameter.default
    if (
        default not in (None, (), [])
        and not isinstance(default, bool)
        and not callable(default)
    ):
        told += f" Default: `{default}`."
    return name, told.strip()


PAGES = {"settings.md": settings_page, "command-line.md": command_line_page}


def main() -> None:
    FOLDER.mkdir(exist_ok=True)
    for name, page in PAGES.items():
        (FOLDER / name).write_text(page(), encoding="utf-8")


if __name__ == "__main__":
    main()
