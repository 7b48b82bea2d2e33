"""The options of verbs: each is declared once, by the name of its parameter.

    @takes("epsilon", "delta", epsilon="The claim to audit.", repeats=Option(min=10))
    def audit(source: str, chosen: Chosen, repeats: int | None = None) -> Answer:
        settings = resolve(*chosen.overrides(source=source))

The flag of a setting is ``None`` unless it was typed, so that no default of an option stands
above ``--set`` or ``--config``.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple, TypeVar

from typer import Argument, Exit, Option

from privgcn.cli.output import Answer, set_manner

if TYPE_CHECKING:
    from privgcn.config import Overrides

Verb = TypeVar("Verb", bound=Callable[..., "Answer | None"])

READING = ("id", "text", "label", "owner", "split", "edges", "encoding")
"""Flags that say how to read documents of one's own."""
MODES = "alone, own-graph or full-graph"
REPLACE = "Replace the file, if there is one."
RUN_OR_SOURCE = Argument(help="A run folder, a dataset's name or a folder of documents.")
RUN_OR_RELEASE = Argument(help="A run or release folder.", metavar="RUN")

# What a parameter means for all verbs that have it.
_SHARED: dict[str, Any] = {
    "run": Argument(help="A run folder.", metavar="RUN"),
    "out": "Run folder (default: below runs).",
    "overwrite": "Replace the run or release in that folder, and only its own files.",
    "encoder": "Where the encoder of the features lies, if it is not installed.",
    "config": "A TOML file of settings; --set and other options override it.",
    "assignments": Option("--set", help="Change one setting: a.b=c."),
    "no_cache": "Keep no vectors of texts on this machine, and use none that were kept.",
    "as_json": Option("--json", help="Print one JSON object and nothing else."),
    "quiet": Option("--quiet", "-q", help="Print the result only: no notes, no progress."),
    "verbose": Option("--verbose", "-v", help="Print all settings, and where an error arose."),
}
# Settings with a flag, by section: the type and what it means.
_SECTIONS: dict[str, dict[str, tuple[type, Any]]] = {
    "": {
        "recipe": (str, "auto (default), paper-full or paper-split."),
        "seed": (int, Option(help="Of the partition and first weights (default: 0).", min=0)),
    },
    "privacy.": {
        "epsilon": (float, "Privacy budget; without it, no privacy."),
        "noise_multiplier": (float, "Noise over the clip norm, instead of --epsilon."),
        "delta": (float, "Delta of the guarantee (default: 1e-5)."),
        "unit": (str, "What is protected: document, person, part or graph."),
        "relation": (str, "How neighbouring data differ: remove or replace."),
        "parts": (str, "each, a number, or column:NAME (declared public)."),
        "sampling": (str, "all, poisson or epoch."),
        "reproducible": (bool, "Seed noise and samples too; the run must not be released."),
    },
    "training.": {
        "optimizer": (str, "sgd or adam."),
        "balanced": (bool, "Let rare classes count as much as frequent ones, for macro F1."),
        "device": (str, "Where to train: auto (what is faster), cpu (default) or cuda."),
    },
    "features.": {
        "features": (str, "fast, best, or a kind, such as both, static, hashing or tfidf."),
        "language": (str, "Language of the texts (default: english)."),
        "encoder": (str, "A Hugging Face encoder on this machine, by folder or name."),
    },
    "data.": {
        "source": (str, Argument(help="A dataset's name, or a folder or file of documents.")),
        "classes": (str, "The class set, comma-separated, if it is public knowledge."),
        "id": (str, "The column with the ids, if it has another name than id."),
        "text": (str, "The column with the texts."),
        "label": (str, "The column with the labels."),
        "owner": (str, "The column that says whose each document is."),
        "split": (str, "The column with the split; random draws one."),
        "edges": (str, "A file of edges, instead of that in the folder."),
        "encoding": (str, "Encoding of text files, such as cp1252."),
    },
}
_OTHER_NAMES = {"features": "kind", "encoder": "options.model"}
# Of each flag, and of the argument: the setting, its type and what it means.
_SETTINGS = {
    flag: (section + _OTHER_NAMES.get(flag, flag), kind, meaning)
    for section, flags in _SECTIONS.items()
    for flag, (kind, meaning) in flags.items()
}


class Chosen(NamedTuple):
    """The settings that were typed: by flag (``None`` where left out), ``--set`` and file."""

    flags: Mapping[str, Any]
    assignments: list[str] | None = None
    config: Path | None = None

    @property
    def options(self) -> list[str]:
        """What was typed of all this, as a user knows it."""
        named = {**self.flags, "set": self.assignments, "config": self.config}
        return [f"--{name}" for name, value in named.items() if value not in (None, [])]

    def overrides(self, **more: Any) -> list[Overrides]:
        """What was typed, the strongest first; ``more`` is by the names of ``flags``."""
        from privgcn.config import command_line

        flags = {**self.flags, **more}
        if flags.get("classes"):
            names = map(str.strip, flags["classes"].split(","))
            flags["classes"] = [name for name in names if name]
        values = {_SETTINGS[name][0]: value for name, value in flags.items()}
        return command_line(values, self.assignments, self.config)


def takes(*settings: str, **meanings: Any) -> Callable[[Verb], Callable[..., None]]:
    """Says which settings have flags, and what a verb's parameters mean.

    Settings come in ``chosen``, with ``--set`` and ``--config``; or, where they only say how to
    read documents, in ``reading``. A meaning is the help, or an option or argument of Typer.
    """

    def declared(verb: Verb) -> Callable[..., None]:
        signature = inspect.signature(verb, eval_str=True).parameters
        typed: dict[str, tuple[Any, Any]] = {}
        for name, own in signature.items():
            if name not in ("chosen", "reading"):
                typed[name] = own.annotation, own.default
                continue
            typed |= {flag: (_SETTINGS[flag][1] | None, None) for flag in settings}
            if name == "chosen":
                typed |= {
                    "config": (Path | None, None),
                    "assignments": (list[str] | None, None),
                }
        caches = ["no_cache"] * ("features" in settings or "encoder" in signature)
        typed |= dict.fromkeys(["as_json", *caches, "quiet", "verbose"], (bool, False))

        @wraps(verb)
        def run(as_json: bool, quiet: bool, verbose: bool, **options: Any) -> None:
            set_manner("quiet" if quiet else "verbose" if verbose else "usual", as_json=as_json)
            no_cache = options.pop("no_cache", False)
            flags = {name: options.pop(name) for name in settings}
            if "chosen" in signature:
                more = options.pop("assignments"), options.pop("config")
                options["chosen"] = Chosen(flags, *more)
            elif "reading" in signature:
                options["reading"] = {k: v for k, v in flags.items() if v is not None}
            with ExitStack() as stack:
                if no_cache:
                    from privgcn.features.cache import disabled

                    stack.enter_context(disabled())
                answer = verb(**options)
            if answer is not None:
                answer.show()
                if answer.code:
                    raise Exit(answer.code)

        # An encoder is a folder to most verbs, and a setting where it is among the flags.
        usual = {name: row[2] for name, row in _SETTINGS.items()}
        known = {**usual, **_SHARED, **{name: usual[name] for name in settings}, **meanings}
        parameters = [_parameter(name, *typed[name], known.get(name)) for name in typed]
        run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
        run.__annotations__ = {p.name: p.annotation for p in parameters}
        return run

    return declared


def _parameter(name: str, kind: Any, default: Any, meaning: Any) -> inspect.Parameter:
    if isinstance(meaning, str):
        # A switch has no opposite, but where it stands for a setting.
        switch = (f"--{name.replace('_', '-')}",) if kind is bool else ()
        meaning = Option(*switch, help=meaning)
    annotation = kind if meaning is None else Annotated[kind, meaning]
    keyword = inspect.Parameter.KEYWORD_ONLY
    return inspect.Parameter(name, keyword, default=default, annotation=annotation)
