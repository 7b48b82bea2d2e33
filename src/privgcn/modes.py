"""The inference modes: what a prediction looks at, and whether the guarantee covers it.

The one table of them, read by the statement, prediction, reports, the command line and
experiments. It is a root module because the claim and the prediction, which are rooms apart,
must not tell different stories.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

from privgcn.errors import ConfigError

Mode = Literal["alone", "own-graph", "full-graph"]


class ModeFacts(NamedTuple):
    """What is true of one inference mode.

    Attributes:
        sees: What a prediction looks at, in words.
        covered: Whether the guarantee of the training documents covers a prediction that no
            training document is given to. Post-processing: it looks at nothing but the
            released model and new documents.
    """

    sees: str
    covered: bool


MODES: dict[Mode, ModeFacts] = {
    "alone": ModeFacts("the new document only", covered=True),
    "own-graph": ModeFacts("the new documents and the links among them", covered=True),
    "full-graph": ModeFacts("also links to, and texts of, training documents", covered=False),
}
MODE_NAMES = ", ".join(MODES)


def check_mode(mode: str) -> Mode:
    """The mode, or an error that names the known ones."""
    for known in MODES:
        if mode == known:
            return known
    raise ConfigError(f"The 'inference' must be one of {MODE_NAMES}. Got {mode!r}.")


def facts_of(mode: str) -> ModeFacts:
    """The row of the table, or an error that names the known modes."""
    return MODES[check_mode(mode)]
