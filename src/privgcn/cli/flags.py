"""Options that several verbs share; one that stands for a setting is declared here, once.

A verb takes the settings that it wants by name, and gets what was typed in one object:

    @settings("epsilon", "delta", epsilon="The claim to audit.")
    def audit(source: Source, chosen: Chosen, as_json: AsJson = False) -> None:
        resolved = resolve(*chosen.overrides())

Such an option is ``None`` unless it was typed, so that no default of an option stands above
``--set`` or ``--config``.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from privgcn.cli.output import names_in, set_verbosity

if TYPE_CHECKING:
    from privgcn.config import Overrides

MODES = "alone, own-graph or full-graph"

AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON object and nothing else.")]
Source = Annotated[str, typer.Argument(help="A dataset's name or a folder of documents.")]
RunOrSource = Annotated[
    str, typer.Argument(help="A run folder, a dataset's name or a folder of documents.")
]
Overwrite = Annotated[
    bool,
    typer.Option(
        "--overwrite", help="Replace the run or release in that folder, and only its own files."
    ),
]
_Quiet = Annotated[
    bool, typer.Option("--quiet", "-q", help="Print the result only: no notes, no progress.")
]
_Verbose = Annotated[
    bool, typer.Option("--verbose", "-v", help="Print all settings, and where an error arose.")
]
_Config = Annotated[
    Path | None,
    typer.Option(help="A TOML file of settings; --set and other options override it."),
]
_Set = Annotated[list[str] | None, typer.Option("--set", help="Change one setting: a.b=c.")]


class _Flag(NamedTuple):
    """A flag that stands for a setting.

    Attributes:
        setting: Its dotted name.
        kind: Of the value that is typed.
        help: What it means, unless a verb says it better.
        least: The smallest number that it takes.
    """

    setting: str
    kind: Any
    help: str
    least: int | None = None


_FLAGS = {
    "epsilon": _Flag("privacy.epsilon", float, "Privacy budget; without it, no privacy."),
    "delta": _Flag("privacy.delta", float, "Delta of the guarantee (default: 1e-5)."),
    "unit": _Flag("privacy.unit", str, "What is protected: document, person, part or graph."),
    "relation": _Flag(
        "privacy.relation", str, "How neighbouring data differ: remove or replace."
    ),
    "parts": _Flag("privacy.parts", str, "each, a number, or column:NAME (declared public)."),
    "sampling": _Flag("privacy.sampling", str, "all, poisson or epoch."),
    "recipe": _Flag("recipe", str, "auto (default), paper-full or paper-split."),
    "optimizer": _Flag("training.optimizer", str, "sgd or adam."),
    "balanced": _Flag(
        "training.balanced",
        bool,
        "Let rare classes count as much as frequent ones, for macro F1.",
    ),
    "features": _Flag(
        "features.kind", str, "Kind of features, such as minilm, static, hashing or tfidf."
    ),
    "language": _Flag(
        "features.language",
        str,
        "Language of the texts (default: english). The encoders inside know English only.",
    ),
    "classes": _Flag(
        "data.classes", str, "The class set, comma-separated, if it is public knowledge."
    ),
    "seed": _Flag(
        "seed", int, "Seed of the partition and the initial weights (default: 0).", least=0
    ),
    "device": _Flag(
        "training.device",
        str,
        "Where to train: auto (what is faster), cpu or cuda (default: cpu).",
    ),
    "reproducible": _Flag(
        "privacy.reproducible",
        bool,
        "Seed noise and samples too; the run must not be released.",
    ),
}


@dataclass(frozen=True)
class Chosen:
    """The settings that were typed, in all three ways.

    Attributes:
        flags: By setting; ``None`` where a flag was left out.
        assignments: Each ``--set a.b=c``.
        config: The settings file.
    """

    flags: dict[str, Any]
    assignments: list[str] | None = None
    config: Path | None = None

    def overrides(self, **more: Any) -> list[Overrides]:
        """What was typed, the strongest first; ``more`` are settings with ``__`` for a dot."""
        from privgcn.config import Overrides

        named = {name.replace("__", "."): value for name, value in more.items()}
        return Overrides.command_line({**self.flags, **named}, self.assignments, self.config)

    @property
    def by_name(self) -> dict[str, Any]:
        """The flags by the last part of their setting's name."""
        return {name.rpartition(".")[2]: value for name, value in self.flags.items()}

    @property
    def words(self) -> list[str]:
        """The options that were typed, by name."""
        typed = [name for name, value in self.by_name.items() if value is not None]
        typed += ["set"] * bool(self.assignments) + ["config"] * bool(self.config)
        return [f"--{name}" for name in typed]


def settings(
    *names: str, files: bool = True, **helps: str
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Gives a verb the flags of these settings as ``chosen``.

    Args:
        names: Of the flags, in the order of the help.
        files: Whether there are ``--set`` and ``--config`` too.
        helps: What a flag means for this verb, by name.
    """

    def decorate(verb: Callable[..., None]) -> Callable[..., None]:
        own = inspect.signature(verb, eval_str=True)
        flags = [_parameter(name, helps.get(name)) for name in names]
        flags += [
            inspect.Parameter(name, _KEYWORD, default=None, annotation=kind)
            for name, kind in (("config", _Config), ("assignments", _Set))
            if files
        ]
        parameters = [
            new.replace(kind=_KEYWORD)
            for parameter in own.parameters.values()
            for new in (flags if parameter.name == "chosen" else [parameter])
        ]

        @wraps(verb)
        def collected(**options: Any) -> None:
            typed = {name: options.pop(name) for name in names}
            if "classes" in typed:
                typed["classes"] = names_in(typed["classes"])
            by_setting = {_FLAGS[name].setting: value for name, value in typed.items()}
            assignments, config = options.pop("assignments", None), options.pop("config", None)
            verb(chosen=Chosen(by_setting, assignments, config), **options)

        return _signed(collected, parameters)

    return decorate


def command(verb: Callable[..., None]) -> Callable[..., None]:
    """A verb with ``--quiet`` and ``--verbose``."""
    own = inspect.signature(verb, eval_str=True)
    more = [
        inspect.Parameter(name, _KEYWORD, default=False, annotation=kind)
        for name, kind in (("quiet", _Quiet), ("verbose", _Verbose))
    ]

    @wraps(verb)
    def spoken(quiet: bool = False, verbose: bool = False, **options: Any) -> None:
        set_verbosity("quiet" if quiet else "verbose" if verbose else "usual")
        verb(**options)

    keyword = [parameter.replace(kind=_KEYWORD) for parameter in own.parameters.values()]
    return _signed(spoken, [*keyword, *more])


_KEYWORD = inspect.Parameter.KEYWORD_ONLY


def _parameter(name: str, said: str | None) -> inspect.Parameter:
    flag = _FLAGS[name]
    option = typer.Option(help=said or flag.help, min=flag.least)
    annotation: Any = Annotated[flag.kind | None, option]
    return inspect.Parameter(name, _KEYWORD, default=None, annotation=annotation)


def _signed(
    made: Callable[..., None], parameters: list[inspect.Parameter]
) -> Callable[..., None]:
    """A function that Typer reads the given parameters from."""
    made.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    made.__annotations__ = {p.name: p.annotation for p in parameters}
    return made
