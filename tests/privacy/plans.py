"""Plans and statements for the tests of the claim."""

from collections.abc import Sequence
from typing import Any

from privgcn.privacy.plan import PartitionFacts, PrivacyPlan, Schedule
from privgcn.privacy.statement import Fact, PrivacyStatement

EACH = PartitionFacts(kind="each", groups=100)
RANDOM = PartitionFacts(kind="random", groups=10, seed=1)
OWNERS = PartitionFacts(kind="each", groups=100, by="owner")
SINGLE = PartitionFacts(kind="single", groups=1)


def plan(**changes: Any) -> PrivacyPlan:
    """A hundred documents, each a group of its own."""
    fields: dict[str, Any] = {
        "unit": "document",
        "relation": "remove",
        "partition": EACH,
        "schedule": Schedule("all", 100),
        "clip_norm": 0.5,
        "noise_multiplier": 8.0,
        "steps": 30,
        "delta": 1e-5,
        "units": 100,
    }
    return PrivacyPlan(**{**fields, **changes})


def statement(
    model_sha256: str | None = None,
    *,
    releasable: bool = True,
    not_covered: Sequence[Fact | str] = (),
    **changes: Any,
) -> PrivacyStatement:
    """The statement of such a plan."""
    made = plan(**{"noise_multiplier": 20.0, "steps": 10, **changes})
    return PrivacyStatement.of(
        made, releasable=releasable, not_covered=not_covered, model_sha256=model_sha256
    )
