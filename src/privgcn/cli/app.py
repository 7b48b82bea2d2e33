"""Joins the verbs and turns errors into one clear line and an exit code.

A verb's module is imported when it runs; further verbs come by entry points of the group
``privgcn.commands``.
"""

from __future__ import annotations

import os
import traceback
from importlib import import_module
from importlib.metadata import entry_points
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from privgcn import __version__
from privgcn.cli.output import leads, print_error, set_manner, verbosity, wants_json
from privgcn.errors import ConfigError, PrivGCNError, RankLostError

# Each verb's module, under the headings of the help.
_GROUPS = {
    "Every day": {
        "check": "data",
        "train": "train",
        "evaluate": "runs",
        "predict": "runs",
        "report": "runs",
        "verify": "runs",
        "release": "runs",
    },
    "Budgets": {"plan": "plan", "tune": "train", "ledger": "plan"},
    "Data": {"demo": "train", "datasets": "data", "fetch": "data", "cache": "data"},
    "Experiments": {"audit": "audit", "attack": "audit"},
}
_MODULES = {verb: module for verbs in _GROUPS.values() for verb, module in verbs.items()}
#: The verbs of this package, in the order of the help.
VERBS = tuple(_MODULES)
_OTHER_NAMES = {"account": "plan", "calibrate": "plan"}
_STYLE: dict[str, Any] = {
    "rich_markup_mode": None,
    "context_settings": {"help_option_names": ["-h", "--help"]},
}


class Verbs(TyperGroup):
    """All verbs, each imported when it is used."""

    def list_commands(self, ctx: Any) -> list[str]:
        """Their names: those of this package first."""
        return [*VERBS, *sorted(_further_verbs())]

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """One verb with its options; ``None`` where there is none of that name."""
        own, further = _OTHER_NAMES.get(cmd_name, cmd_name), _further_verbs()
        if own not in VERBS and own not in further:
            return None
        verb = _own_verb(own) if own in VERBS else further[own].load()
        single = typer.Typer(add_completion=False, **_STYLE)
        single.command(cmd_name)(verb)
        return typer.main.get_command(single)

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """One line for each verb; a verb of another package is not imported for it."""
        for title, verbs in _GROUPS.items():
            rows = [(verb, _own_verb(verb).__doc__.partition("\n")[0]) for verb in verbs]
            if title == "Experiments":
                rows += [(name, f"See 'privgcn {name} -h'.") for name in _further_verbs()]
            with formatter.section(title):
                formatter.write_dl(rows)

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """The verb that was typed, if this many processes may run it."""
        processes = os.environ.get("WORLD_SIZE", "1")
        if args[:1] != ["train"] and processes != "1":
            raise ConfigError(
                f"'privgcn {args[0]}' runs in one process; of all verbs only 'train' shares "
                f"its work. Got {processes} processes of torchrun. Run it without torchrun."
            )
        return super().resolve_command(ctx, args)


app = typer.Typer(
    name="privgcn", cls=Verbs, no_args_is_help=True, pretty_exceptions_enable=False, **_STYLE
)


def _own_verb(name: str) -> Any:
    return getattr(import_module(f"privgcn.cli.{_MODULES[name]}"), name)


def _further_verbs() -> dict[str, Any]:
    return {point.name: point for point in entry_points(group="privgcn.commands")}


@app.callback(invoke_without_command=True)
def _every_verb(
    version: Annotated[
        bool, typer.Option("--version", help="Show the version and exit.")
    ] = False,
) -> None:
    """Text classification on graphs of documents, under differential privacy."""
    if version:
        print(f"privgcn {__version__}")
        raise typer.Exit


def run(words: list[str]) -> int:
    """Runs one command; what is wrong is said in one line, and the exit code returned."""
    # Threads of a busy machine must sleep, not spin, while they wait for each other.
    os.environ.setdefault("OMP_WAIT_POLICY", "passive")
    if "RANK" in os.environ:
        # Of a rank that is lost we tell ourselves, in one line.
        os.environ.setdefault("TORCH_CPP_LOG_LEVEL", "ERROR")
    set_manner()
    try:
        code = app(words, prog_name="privgcn", standalone_mode=False)
        return code if isinstance(code, int) else 0
    except Exception as error:
        kind, code, message = type(error).__name__, 1, str(error)
        usage = getattr(error, "format_message", None)
        if kind == "Abort":
            raise KeyboardInterrupt from None
        if kind == "NoArgsIsHelpError":
            print(usage and usage())
            return 2
        if isinstance(error, PrivGCNError):
            code = error.exit_code
        elif usage is not None:
            context = getattr(error, "ctx", None)
            where = "privgcn" if context is None else context.command_path
            kind, code, message = "UsageError", 2, usage().rstrip(".")
            message = f"{message}. See '{where} --help'."
        elif wants_json():
            message = f"{message or repr(error)} (a bug of privgcn; --verbose shows where)"
        else:
            raise
        if verbosity() == "verbose" and usage is None:
            traceback.print_exc()
        lost = isinstance(error, RankLostError)
        # All ranks fail alike and the first speaks for them; a loss only the others know.
        if leads() or lost:
            print_error(kind, message, code)
        if lost:
            # Half-open connections may abort a process that clears them away.
            os._exit(code)
        return code
