"""What can go wrong, in words: every error states the rule, the value and the remedy."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pydantic import ValidationError
    from pydantic.fields import FieldInfo

# Characters of a message; the middle of a longer one is left out.
LONGEST_MESSAGE = 2000


def shown(value: object) -> str:
    """A value from a file as an error may show it: text in quotes, not too long."""
    try:
        text = str(value)
    except ValueError:  # Python writes no whole number of more than 4300 digits.
        return "a number with too many digits"
    text = text if len(text) <= 160 else f"{text[:80]}…{text[-60:]}"
    return repr(text) if isinstance(value, str) else text


def reason(error: BaseException) -> str:
    """What another library says is wrong, cut to what fits in a sentence."""
    first = str(error).strip().partition("\n")[0]
    return first if len(first) <= 120 else first[:120] + "…"


def one_line(message: str) -> str:
    """A message on one line that a screen holds, whatever a file or an argument contained."""
    line = "".join(c if c.isprintable() else repr(c)[1:-1] for c in message)
    return line if len(line) <= LONGEST_MESSAGE else f"{line[:1500]} … {line[-400:]}"


class PrivGCNError(Exception):
    """Base of all errors that this package raises on purpose; the message is one line."""

    exit_code = 1

    def __init__(self, message: str = "") -> None:
        super().__init__(one_line(message))


class ConfigError(PrivGCNError, ValueError):
    """A setting is outside its rule."""

    exit_code = 2


class DataError(PrivGCNError):
    """A file or a corpus breaks the input contract."""

    exit_code = 2


class DataNotAvailableError(DataError):
    """Data are not on this machine and could not be fetched."""

    exit_code = 3


class PrivacyWarning(UserWarning):
    """What is done is allowed, and voids a claim that one might read into it."""


class DataWarning(UserWarning):
    """Documents were read in a way that their owner should know of."""


class BudgetWarning(UserWarning):
    """The budget is small for the documents: noise will cost much of the score."""


class NotCalibratedError(PrivGCNError):
    """No noise multiplier reaches the asked-for epsilon."""

    exit_code = 2


class PrivacyContractError(PrivGCNError):
    """A private run would break a precondition of its own guarantee."""

    exit_code = 2


class RankLostError(PrivGCNError):
    """A process that trains the same model is gone, or cannot be reached."""


class MissingExtraError(ConfigError):
    """An optional dependency is not installed."""

    def __init__(self, feature: str, extra: str) -> None:
        super().__init__(
            f"{feature} needs the optional dependencies '{extra}', which are not installed. "
            f"Install them with: pip install 'privgcn[{extra}]', or in a checkout of the "
            f"repository: pip install -e '.[{extra}]'"
        )


def refusal(
    error: ValidationError, owner: str, fields: dict[str, FieldInfo] | None = None
) -> ConfigError:
    """The first thing that is wrong: what, its owner, the rule, the value and the remedy."""
    first = error.errors(include_url=False)[0]
    cause = first.get("ctx", {}).get("error")
    if isinstance(cause, ConfigError):
        return cause
    # A field given by its position, or the one argument of a check.
    names, location = list(fields or {}), first["loc"] or (0,)
    if isinstance(location[0], int) and location[0] < len(names):
        location = (names[location[0]], *location[1:])
    name = ".".join(str(at) for at in location)
    message = first["msg"].removeprefix("Value error, ")
    message = message.replace("greater than or equal to", "at least")
    message = message.replace("less than or equal to", "at most")
    _, should, must = message.partition(" should ")
    rule = {
        "missing": "must be given",
        "extra_forbidden": "is unknown",
        "unexpected_keyword_argument": "is unknown",
    }.get(first["type"], f"must {must}" if should else f"is wrong: {message}")
    field = (fields or {}).get(name)
    if field is not None:
        name = field.title or name
    remedy = f" {field.description}" if field is not None and field.description else ""
    got = "" if first["type"] == "missing" else f" Got {shown(first['input'])}."
    return ConfigError(f"The {shown(name)} of {owner} {rule}.{got}{remedy}")
