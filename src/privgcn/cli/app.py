"""Joins the verbs and turns errors into one clear line and an exit code."""

from __future__ import annotations

import os
import sys
import traceback
from collections.abc import Callable
from functools import wraps
from typing import Annotated, Any

import typer

from privgcn import __version__
from privgcn.cli import (
    account,
    attack,
    audit,
    cache,
    calibrate,
    datasets,
    demo,
    evaluate,
    fetch,
    plan,
    predict,
    release,
    report,
    reproduce,
    train,
    tune,
    verify,
)
from privgcn.cli.output import print_error, speaking, voice, wants_json
from privgcn.cli.quick_help import import_help
from privgcn.errors import ConfigError, PrivacyContractError, PrivGCNError, RankLostError
from privgcn.training.ranks import Ranks

app = typer.Typer(
    name="privgcn",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
    context_settings={"help_option_names": ["-h", "--help"]},
)

_STOPPED = "Stopped. Nothing unfinished was left behind."
_GO_ON = {
    "reproduce": " Add --resume to continue.",
    "train": " Run the same command again to continue from its last checkpoint.",
}


def _stoppable(verb: str, command: Callable[..., None]) -> Callable[..., None]:
    """Says what an interrupt at the keyboard left: Typer itself would end without a word."""

    @wraps(command)
    def stoppable(*arguments: Any, **options: Any) -> None:
        ranks = Ranks.of_environment()
        if verb != "train" and not ranks.alone:
            raise ConfigError(
                f"'privgcn {verb}' runs in one process; of all verbs only 'train' shares its "
                f"work. Got {ranks.size} processes of torchrun. Run it without torchrun."
            )
        try:
            command(*arguments, **options)
        except KeyboardInterrupt:
            if ranks.leads:
                print(_STOPPED + _GO_ON.get(verb, ""), file=sys.stderr)
            raise typer.Exit(130) from None

    return stoppable


for verb, command in (
    ("demo", demo.demo),
    ("datasets", datasets.datasets),
    ("fetch", fetch.fetch),
    ("train", train.train),
    ("evaluate", evaluate.evaluate),
    ("predict", predict.predict),
    ("plan", plan.plan),
    ("tune", tune.tune),
    ("account", account.account),
    ("calibrate", calibrate.calibrate),
    ("verify", verify.verify),
    ("audit", audit.audit),
    ("attack", attack.attack),
    ("release", release.release),
    ("report", report.report),
    ("reproduce", reproduce.reproduce),
    ("cache", cache.cache),
):
    app.command(verb)(speaking(_stoppable(verb, command)))


def _show_version(wanted: bool) -> None:
    if wanted:
        print(f"privgcn {__version__}")
        raise typer.Exit


@app.callback()
def _every_verb(
    version: Annotated[
        bool,
        typer.Option(
            "--version",
            callback=_show_version,
            is_eager=True,
            help="Show the version and exit.",
        ),
    ] = False,
) -> None:
    """Text classification on graphs of documents, under differential privacy."""


def main() -> None:
    """Runs the command line.

    The exit code is 0, 2 (user), 3 (data not available), 4 (a rank was lost), 5 (an audit found
    a claim broken), 130 or 1 (bug).
    """
    # Threads of a busy machine must sleep, not spin, while they wait for each other.
    os.environ.setdefault("OMP_WAIT_POLICY", "passive")
    if "RANK" in os.environ:
        # Of a rank that is lost we tell ourselves, in one line.
        os.environ.setdefault("TORCH_CPP_LOG_LEVEL", "ERROR")
    if not {"-h", "--help"}.isdisjoint(sys.argv) or len(sys.argv) == 1:
        import_help()
    try:
        # Typer itself would print a mistake in the words of the command line as a picture.
        sys.exit(app(standalone_mode=not wants_json()))
    except PrivGCNError as error:
        if voice() == "verbose":
            traceback.print_exc()
        # Of several ranks the first speaks for all, but for what only another can know.
        own = isinstance(error, RankLostError | PrivacyContractError)
        if str(error) and (own or os.environ.get("RANK", "0") == "0"):
            print_error(type(error).__name__, str(error), error.exit_code)
        if isinstance(error, RankLostError):
            # Half-open connections may abort a process that clears them away.
            os._exit(error.exit_code)
        sys.exit(error.exit_code)
    except Exception as error:
        if hasattr(error, "format_message"):
            # Words that are no command; only with --json does Typer leave them to us.
            print_error("UsageError", error.format_message(), 2)
            sys.exit(2)
        if not wants_json():
            raise
        if voice() == "verbose":
            traceback.print_exc()
        said = f"{str(error) or repr(error)} (a bug of privgcn; --verbose shows where it arose)"
        print_error(type(error).__name__, said, 1)
        sys.exit(1)
