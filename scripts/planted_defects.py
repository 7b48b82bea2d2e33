"""Plants known defects into the engine, one at a time, and shows that the audit finds each.

    python scripts/planted_defects.py [--only WORDS | --no-defects] [--sound 20] [--json]

Each defect is patched into this process for the length of one audit. ``found`` is whether the
audit failed, ``epsilon`` its lower bound beside the claim. ``--sound`` audits the engine as it
is, so many times; none of these audits may fail. Exits with 1 if a defect was missed or a
sound audit failed.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Any
from unittest.mock import patch

import torch
from bit_attack import float32_noise
from torch import Tensor

from privgcn.config import make_settings
from privgcn.evidence.audit import Audit, audit
from privgcn.graph import parts
from privgcn.models.stack import LayerGradient
from privgcn.privacy import plan as plans
from privgcn.privacy.mechanism import noise
from privgcn.privacy.mechanism.clipping import ClippedSums
from privgcn.privacy.schedule import PoissonParts
from privgcn.randomness import RandomSource
from privgcn.training import private
from privgcn.training.planning import plan_for_units

Patch = AbstractContextManager[Any]

_UNITS = 1_000
_GCN: dict[str, Any] = {
    "privacy.unit": "document",
    "privacy.parts": "each",
    "privacy.sampling": "all",
    "privacy.clip_norm": 0.1,
    "training.epochs": 10,
}
_SAMPLED = {
    "privacy.sampling": "poisson",
    "privacy.sampling_probability": 0.25,
    "training.epochs": 8,
}


def no_clipping() -> Patch:
    scales = ClippedSums._small_scales

    def ones(self: ClippedSums, *given: Any) -> Tensor:
        return torch.ones_like(scales(self, *given))

    return patch.object(ClippedSums, "_small_scales", ones)


def clipping_each_tensor() -> Patch:
    joint = ClippedSums.clipped_sum

    def apart(
        self: ClippedSums, gradients: Sequence[LayerGradient], **options: Any
    ) -> list[Tensor]:
        sums = []
        for inputs, outputs, bias_rows in gradients:
            sums += joint(self, [LayerGradient(inputs, outputs, None)], **options)
            if bias_rows is not None:
                ones = torch.ones_like(bias_rows[..., :1])
                (bias,) = joint(self, [LayerGradient(ones, bias_rows, None)], **options)
                sums.append(bias[0])
        return sums

    return patch.object(ClippedSums, "clipped_sum", apart)


def uncut_links() -> Patch:
    return patch.object(parts, "links_within", lambda edges, part_of: edges)


def less_noise(share: float) -> Patch:
    full = noise.noisy

    def less(sums: Any, grid: Any, noise_multiplier: float, source: Any) -> list[Tensor]:
        return full(sums, grid, noise_multiplier * share, source)

    return patch.object(noise, "noisy", less)


def noise_again(of: Callable[[RandomSource], Any]) -> Patch:
    """Noise that was drawn before, of whatever ``of`` calls the same source."""
    fresh = RandomSource.normal
    # Sources are kept, so that no later one can have the same identity.
    before: dict[Any, tuple[Any, list[Tensor]]] = {}

    def again(self: RandomSource, shapes: Any) -> list[Tensor]:
        key = (of(self), tuple(map(tuple, shapes)))
        if key not in before:
            before[key] = (self, fresh(self, shapes))
        return [tensor.clone() for tensor in before[key][1]]

    return patch.object(RandomSource, "normal", again)


def noise_of_two_steps_ago() -> Patch:
    fresh = RandomSource.normal
    before: dict[Any, list[Any]] = {}

    def old(self: RandomSource, shapes: Any) -> list[Tensor]:
        drawn = before.setdefault((id(self), tuple(map(tuple, shapes))), [self])
        drawn.append(fresh(self, shapes) if len(drawn) < 3 else drawn[-2])
        return [tensor.clone() for tensor in drawn[-1]]

    return patch.object(RandomSource, "normal", old)


def one_draw_for_all(first: Callable[[Tensor], Tensor]) -> Patch:
    """The first classes' or replicas' noise for all of them."""
    fresh = RandomSource.normal

    def shared(self: RandomSource, shapes: Any) -> list[Tensor]:
        return [first(t).expand(t.shape).clone() for t in fresh(self, shapes)]

    return patch.object(RandomSource, "normal", shared)


def more_often(times: float) -> Patch:
    def sample(self: PoissonParts, step: int, source: RandomSource) -> Any:
        return source.choose(self.parts, min(1.0, times * self.sampling_probability))

    return patch.object(PoissonParts, "sample", sample)


def released_twice() -> Patch:
    once = private.noisy_mean

    def twice(sums: Any, plan: Any, source: Any) -> list[Tensor]:
        first, second = once(sums, plan, source), once(sums, plan, source)
        return [(a + b) / 2.0 for a, b in zip(first, second, strict=True)]

    return patch.object(private, "noisy_mean", twice)


def doubled_once_clipped() -> Patch:
    right = private.noisy_mean

    def doubled(sums: Any, plan: Any, source: Any) -> list[Tensor]:
        return right([2.0 * tensor for tensor in sums], plan, source)

    return patch.object(private, "noisy_mean", doubled)


def two_norms_as_one() -> Patch:
    return patch.object(plans, "sensitivity_in_clips", lambda *_, **__: 1)


@dataclass(frozen=True)
class Defect:
    """A defect and the training that shows it."""

    name: str
    planted: Callable[[], Patch]
    recipe: str = "auto"
    optimizer: str | None = None
    changes: dict[str, Any] = field(default_factory=dict)

    def audited(self, runs: int | None) -> Audit:
        """Plants the defect and audits a plan that was made with it."""
        with self.planted():
            return audited(runs, self.recipe, self.optimizer, self.changes)


DEFECTS = (
    Defect("no clipping", no_clipping),
    Defect("clipping tensor by tensor", clipping_each_tensor, "paper-split", "sgd", _GCN),
    Defect("links between parts uncut", uncut_links, "paper-split", "sgd", _GCN),
    Defect("noise half as large", lambda: less_noise(0.5)),
    Defect("noise a tenth too small", lambda: less_noise(0.9)),
    Defect("noise repeated in every step", lambda: noise_again(id)),
    Defect("noise repeated in every run", lambda: noise_again(lambda source: 0)),
    Defect("noise of two steps ago", noise_of_two_steps_ago),
    Defect("one noise for all replicas", lambda: one_draw_for_all(lambda t: t[..., :1, :])),
    Defect("one noise for all classes", lambda: one_draw_for_all(lambda t: t[..., :1])),
    Defect("sampling at twice the rate", lambda: more_often(2.0), changes=_SAMPLED),
    Defect("sampling a tenth too often", lambda: more_often(1.1), changes=_SAMPLED),
    Defect("sums doubled once clipped", doubled_once_clipped),
    Defect("every sum released twice", released_twice),
    Defect(
        "two clip norms accounted as one",
        two_norms_as_one,
        changes={"privacy.relation": "replace"},
    ),
    Defect("noise in float32", float32_noise),
    Defect("noise in float32, sampled", float32_noise, changes=_SAMPLED),
)


def audited(
    runs: int | None,
    recipe: str = "auto",
    optimizer: str | None = None,
    changes: dict[str, Any] | None = None,
    *,
    dense: bool = False,
) -> Audit:
    """Audits a plan at epsilon 1 by the engine as it is in this process."""
    settings = make_settings(recipe, epsilon=1.0, optimizer=optimizer, changes=changes)
    privacy, epochs = settings.privacy, settings.training.epochs
    if privacy is None:
        raise ValueError(f"Recipe {recipe} is not private.")
    plan = plan_for_units(privacy, _UNITS, epochs=epochs, seed=0, columns={})
    return audit(settings, plan, dense=dense, runs=runs)


def named(words: str) -> list[Defect]:
    """The defect of this name, or those whose name holds these words."""
    exactly = [defect for defect in DEFECTS if defect.name == words]
    return exactly or [defect for defect in DEFECTS if words in defect.name]


def record_of(name: str, found: Audit, seconds: float) -> dict[str, Any]:
    return {
        "name": name,
        "found": bool(found.broken),
        "claim": found.claim,
        "epsilon": found.epsilon,
        "broken": list(found.broken),
        "seconds": round(seconds, 1),
    }


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--only", default="", help="defects whose name holds these words")
    parser.add_argument("--no-defects", action="store_true", help="the sound engine alone")
    parser.add_argument("--runs", type=int, help="on each of two neighbours")
    parser.add_argument("--sound", type=int, default=0, help="audits without any defect")
    parser.add_argument("--dense", action="store_true", help="sound audits of dense rows")
    parser.add_argument("--json", action="store_true")
    chosen = parser.parse_args(arguments)
    defects, sound = [], []
    planted = [] if chosen.no_defects else named(chosen.only)
    for defect in planted:
        begun = time.perf_counter()
        found = defect.audited(chosen.runs)
        defects.append(record_of(defect.name, found, time.perf_counter() - begun))
        if not chosen.json:
            print(_line(defects[-1]), flush=True)
    for number in range(chosen.sound):
        begun = time.perf_counter()
        found = audited(chosen.runs, dense=chosen.dense)
        seconds = time.perf_counter() - begun
        sound.append(record_of(f"sound engine, audit {number + 1}", found, seconds))
        if not chosen.json:
            print(_line(sound[-1]), flush=True)
    if chosen.json:
        print(json.dumps({"defects": defects, "sound": sound}, indent=2))
    missed = any(not record["found"] for record in defects)
    return 1 if missed or any(record["found"] for record in sound) else 0


def _line(record: dict[str, Any]) -> str:
    verdict = "FOUND" if record["found"] else "nothing found"
    bound = f"epsilon >= {record['epsilon']:.3g}, claim {record['claim']:.3g}"
    reasons = "; ".join(record["broken"])
    return f"{record['name']:<34}{verdict:<15}{bound}  ({record['seconds']} s)  {reasons}"


if __name__ == "__main__":
    sys.exit(main())
