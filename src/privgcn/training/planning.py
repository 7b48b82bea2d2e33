"""From settings and public facts of the training documents to a privacy plan and step size."""

from __future__ import annotations

import math
import threading
from collections.abc import Mapping
from typing import Any

from privgcn.config import PrivacySettings, TrainingSettings
from privgcn.errors import ConfigError, PrivacyContractError
from privgcn.graph.textgraph import TextGraph
from privgcn.privacy.mechanism.cutting import members_of, public_column
from privgcn.privacy.mechanism.together import AnyPlan
from privgcn.privacy.partition import PartitionFacts
from privgcn.privacy.plan import PrivacyPlan
from privgcn.privacy.schedule import make_schedule, steps_per_epoch

_COLUMN = "column:"
_CALM = 20.0
_LONGEST_STEP = 2000.0
# Threads that plan alike wait for the first of them: it remembers what it computed.
_ONE_AT_A_TIME = threading.Lock()


def make_plan(
    privacy: PrivacySettings,
    graph: TextGraph,
    *,
    epochs: int,
    seed: int,
    columns: Mapping[str, Any],
) -> PrivacyPlan:
    """The plan of a run, calibrated to its epsilon or with the noise multiplier given.

    Only public facts of the graph are read: how many documents or owners train, and a
    column that the user declared public.

    Args:
        privacy: What is protected, and how strongly.
        graph: The training documents.
        epochs: Passes over the training documents.
        seed: Of the random partition.
        columns: Extra columns of the corpus.
    """
    _, units = members_of(graph, member_of(privacy))
    return plan_for_units(privacy, units, epochs=epochs, seed=seed, columns=columns)


def plan_for_units(
    privacy: PrivacySettings,
    units: int,
    *,
    epochs: int,
    seed: int,
    columns: Mapping[str, Any],
) -> PrivacyPlan:
    """The same from the number of training documents (or owners) alone."""
    if (privacy.epsilon is None) == (privacy.noise_multiplier is None):
        raise ConfigError(
            "The privacy settings must have either 'epsilon' or 'noise_multiplier'. "
            f"Got {privacy.epsilon} and {privacy.noise_multiplier}."
        )
    by = member_of(privacy)
    facts = _partition_facts(privacy, units, by, seed, columns)
    schedule = make_schedule(privacy.sampling, facts.parts, privacy.sampling_probability)
    fields: dict[str, Any] = {
        "unit": privacy.unit,
        "relation": privacy.relation,
        "partition": facts,
        "schedule": schedule,
        "clip_norm": privacy.clip_norm,
        "steps": epochs * steps_per_epoch(schedule),
        "delta": privacy.delta,
        "units": units,
        "accountant": privacy.accountant or "pld",
    }
    if privacy.noise_multiplier is not None:
        return PrivacyPlan(noise_multiplier=privacy.noise_multiplier, **fields)
    with _ONE_AT_A_TIME:
        return PrivacyPlan.for_epsilon(float(privacy.epsilon or 0), **fields)


def signal_over_noise(plan: PrivacyPlan, features: int) -> float:
    """How far the documents' sum stands above noise spread over all features."""
    return plan.units / (_CALM * one_shot_noise(plan) * math.sqrt(features))


def one_shot_noise(plan: PrivacyPlan) -> float:
    """Noise of the mean over all steps' sums, in units of the clip norm."""
    return plan.noise_multiplier / math.sqrt(plan.steps)


def with_rate(settings: TrainingSettings, plan: AnyPlan) -> TrainingSettings:
    """The same settings with the learning rate that their reach asks for.

    A step moves by the noisy mean over the units, so the learning rate is the one at which
    the noise of all steps adds up to the reach, whatever budget, documents and steps. With
    very many documents, or little noise, it is capped: longer steps would only throw the
    weights about.
    """
    if settings.reach is None:
        return settings
    if not isinstance(plan, PrivacyPlan):
        raise PrivacyContractError(
            "Plans in one pass have one learning rate, and a reach gives each its own. "
            "Train with each of them in a pass of its own."
        )
    rate = settings.reach * plan.schedule.expected_parts / (one_shot_noise(plan) * plan.steps)
    step = min(rate, _LONGEST_STEP) / plan.clip_norm
    return settings.model_copy(update={"learning_rate": step})


def member_of(privacy: PrivacySettings | None) -> str:
    """What is counted: owners where persons are protected, else documents."""
    return "owner" if privacy is not None and privacy.unit == "person" else "document"


def _partition_facts(
    privacy: PrivacySettings, units: int, by: str, seed: int, columns: Mapping[str, Any]
) -> PartitionFacts:
    parts = privacy.parts
    values: dict[str, Any] = {"by": by}
    if isinstance(parts, str) and parts.startswith(_COLUMN):
        name = parts.removeprefix(_COLUMN)
        _, count = public_column(columns, name)
        values |= {"kind": "column", "parts": count, "column": name}
    elif parts == "each":
        values |= {"kind": "each", "parts": units}
    elif isinstance(parts, int):
        if parts < 1 or parts > units:
            raise PrivacyContractError(
                f"The 'parts' of the privacy settings must be between 1 and {units}, the "
                f"number of training {'owners' if by == 'owner' else 'documents'}. Got {parts}."
            )
        if parts == 1:
            values |= {"kind": "single", "parts": 1}
        else:
            values |= {"kind": "random", "parts": parts, "seed": seed}
    else:
        raise ConfigError(
            "The 'parts' of the privacy settings must be a number, 'each' or "
            f"'column:NAME'. Got {parts!r}."
        )
    return PartitionFacts(**values)
