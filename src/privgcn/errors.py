"""What can go wrong, in words: every error states the rule, the value and the remedy."""

from __future__ import annotations


def shown(value: object) -> str:
    """A value from a file as an error may show it: in quotes, on one line, not too long."""
    text = str(value)
    return repr(text if len(text) <= 160 else f"{text[:80]}…{text[-60:]}")


def reason(error: BaseException) -> str:
    """What another library says is wrong, cut to what fits in a sentence."""
    first = str(error).strip().partition("\n")[0]
    return first if len(first) <= 120 else first[:120] + "…"


class PrivGCNError(Exception):
    """Base of all errors that this package raises on purpose.

    ``exit_code`` is what the command line returns: 2 for a mistake of the user, 3 for data
    that cannot be had, 1 for a bug.
    """

    exit_code = 1


class ConfigError(PrivGCNError, ValueError):
    """A setting is outside its rule."""

    exit_code = 2


class DataError(PrivGCNError):
    """A file or a corpus breaks the input contract."""

    exit_code = 2


class DataNotAvailableError(DataError):
    """Data are not on this machine and could not be fetched."""

    exit_code = 3


class NotCalibratedError(PrivGCNError):
    """No noise multiplier reaches the asked-for epsilon."""

    exit_code = 2


class PrivacyContractError(PrivGCNError):
    """A private run would break a precondition of its own guarantee."""

    exit_code = 2


class MissingExtraError(ConfigError):
    """An optional dependency is not installed."""

    def __init__(self, feature: str, extra: str) -> None:
        super().__init__(
            f"{feature} needs the optional dependencies '{extra}', which are not installed. "
            f"Install them with: pip install 'privgcn[{extra}]', or in a checkout of the "
            f"repository: pip install -e '.[{extra}]'"
        )
