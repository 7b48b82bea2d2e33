"""Tells by the bits of a released model whether one document trained it, if noise lets it.

    python scripts/bit_attack.py SOURCE --epsilon 1 --runs 100 [--float32-noise] [--json]

Mironov (2012): where noise is drawn as a float and added to a sum, only some results can
come out, and which ones depends on the sum. The attacker has the released folder, all other
documents, the target document and this source code. For every kept step it computes the
clipped sum with the document (``present``) and without (``absent``), and looks for noise
that turns one of them into what was released. A hypothesis for which there is no such noise
is ruled out. ``decided`` counts the runs with one hypothesis left, ``wrong`` those in which
it is the false one; half of the runs train with the document. ``--float32-noise`` puts back
noise that was drawn in float32 and added in float32, against which the attack works.
"""

from __future__ import annotations

import argparse
import json
import math
import tempfile
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import torch
from torch import Tensor

from privgcn.config import Settings, make_settings
from privgcn.data import Corpus, load_corpus
from privgcn.data.corpus import TRAIN, CorpusFacts, no_edges
from privgcn.evidence.bits import (
    FARTHEST,
    Seen,
    float32_cell,
    left_standing,
    next_above,
    next_below,
)
from privgcn.evidence.canaries import without
from privgcn.features import Featurizer
from privgcn.graph import TextGraph
from privgcn.privacy.mechanism import noise
from privgcn.privacy.mechanism.cutting import cut_as_planned
from privgcn.privacy.mechanism.noise_grid import grid_of
from privgcn.privacy.mechanism.part_gradients import StackGradients
from privgcn.privacy.plan import PrivacyPlan
from privgcn.randomness import RandomSource
from privgcn.runs.assumptions import statement_of
from privgcn.runs.folder import read_folder, write_folder
from privgcn.runs.model import Model, model_files, read_model
from privgcn.runs.release import releasable_statement, write_release
from privgcn.runs.run import Run
from privgcn.runs.train import Prepared
from privgcn.training.fit import fit
from privgcn.training.optimisers import Optimiser
from privgcn.training.planning import with_rate

# Floats to both sides of a guess that are tried as the value behind a released weight.
_TRIED = 6


# -- what a released folder shows ---------------------------------------------------------


def mean_of(total: Tensor, plan: PrivacyPlan) -> Tensor:
    """What production code makes of a noisy sum: its noisy mean, without more noise."""
    with noise_from(lambda sums, *_: list(sums)):
        return noise.noisy_mean([total.double()], plan, RandomSource.secret())[0]


class Attacker:
    """Someone with a released folder, all documents and the source code."""

    def __init__(self, release: Path) -> None:
        self.fitted = read_model(read_folder(release)).fitted
        if self.fitted.plan is None or self.fitted.path is None:
            raise ValueError(f"The release in {release} must be private, with its iterates.")
        self.plan, self.path = self.fitted.plan, self.fitted.path

    def sums(self, graph: TextGraph) -> Tensor:
        """The clipped sums of all kept steps on these documents, by the production path."""
        parts = cut_as_planned(graph, self.plan, {})
        if self.fitted.centre is not None:
            parts = parts.with_features(parts.features.centred(self.fitted.centre[:, 0]))
        bias = self.fitted.bias
        gradients = StackGradients(
            self.fitted.model,
            parts,
            self.plan,
            None,
            short_residuals=self.fitted.settings.training.large_steps,
            bias=None if bias is None else bias.values,
        )
        return torch.stack([gradients.clipped_sum([w], None)[0] for w in self.path[:-1]])

    def noisy_sums(self) -> tuple[Seen, Seen]:
        """What the iterates tell of all steps' noisy sums: if rounded to float32, if not."""
        begin, end = self.path[:-1], self.path[1:]
        training = with_rate(self.fitted.settings.training, self.plan)
        share = self.plan.clip_norm / self.plan.schedule.expected_parts

        def moved(mean: Tensor) -> Tensor:
            optimiser = Optimiser([begin], training)
            optimiser.step([mean])
            return optimiser.parameters[0].detach()

        guess = (begin.double() - end.double()) / training.learning_rate
        total = guess / share
        place, values, vague = _behind(end, total, lambda y: moved(mean_of(y, self.plan)))
        # Where floats lie closer after the step than before, some of them are never reached.
        before = (next_above(total.float()) - total.float()).double()
        after = (next_above(end) - end).double() / (training.learning_rate * share)
        chance = (after / before).clamp(max=1.0).flatten()
        rounded = Seen(place, *float32_cell(values), vague, chance)
        place, values, vague = _behind(end, guess, moved)
        low, high = (cell / share for cell in float32_cell(values))
        # Wider by more than the rounding of this division.
        slack = values.double().abs() / share * 2.0**-50
        return rounded, Seen(place, low - slack, high + slack, vague, torch.ones_like(chance))

    def verdict(self, present: TextGraph, absent: TextGraph) -> bool | None:
        """Whether the document was there; ``None`` where the bits do not tell."""
        hypotheses = self.sums(present), self.sums(absent)
        reach = FARTHEST * self.plan.noise_multiplier
        return left_standing(*self.noisy_sums(), hypotheses, grid_of(self.plan).step, reach)


def _behind(
    image: Tensor, guess: Tensor, function: Callable[[Tensor], Tensor]
) -> tuple[Tensor, Tensor, Tensor]:
    """The float32 values near a guess that a function takes to ``image``.

    Returns:
        The coordinate of each, the values, and the coordinates for which there are too many
        to try.
    """
    value = guess.float()
    for _ in range(_TRIED):
        value = next_below(value)
    places, values = [], []
    for _ in range(2 * _TRIED + 1):
        places.append((function(value) == image).flatten().nonzero()[:, 0])
        values.append(value.flatten()[places[-1]])
        value = next_above(value)
    vague = torch.zeros(image.numel(), dtype=torch.bool)
    vague[places[0]] = vague[places[-1]] = True
    place = torch.cat(places)
    known = ~vague[place]
    return place[known], torch.cat(values)[known], vague


# -- runs -------------------------------------------------------------------------------


def toy_corpus() -> Corpus:
    """240 short texts of three classes, all of which train."""
    random = np.random.default_rng(0)
    labels = random.integers(0, 3, 240)
    words = [f"word{number}" for number in range(300)]
    chances = random.dirichlet(np.full(len(words), 0.3), 3)
    texts = tuple(" ".join(random.choice(words, 25, p=chances[label])) for label in labels)
    return Corpus(
        name="toy",
        ids=np.array([f"text-{row}" for row in range(240)], dtype=object),
        texts=texts,
        labels=labels,
        classes=("first", "second", "third"),
        edges=no_edges(),
        split=np.full(240, TRAIN, dtype=np.int8),
        facts=CorpusFacts(source="toy", synthetic=True),
    )


def float32_noisy(
    sums: Sequence[Tensor], grid: Any, noise_multiplier: float, source: Any
) -> list[Tensor]:
    """Noise as it must not be: a float32 draw, added to the sum and rounded to float32."""
    made = []
    for tensor in sums:
        pairs = (tensor.numel() + 1) // 2
        words = source.words(2 * pairs)
        uniform = torch.from_numpy((words[:pairs] >> np.uint64(11)).astype(np.float64))
        logs = uniform.add_(0.5).mul_(2.0**-53).log_().float()
        radius = logs.mul_(-2.0 * noise_multiplier * noise_multiplier).sqrt_()
        turns = torch.from_numpy(words[pairs:].astype(np.int64)).float()
        angle = turns.mul_(math.pi * 2.0**-63)
        draws = torch.cat([torch.cos(angle).mul_(radius), torch.sin(angle).mul_(radius)])
        rounded = draws[: tensor.numel()].view(tensor.shape).add_(tensor.cpu())
        made.append(rounded.to(tensor.device, torch.float64))
    return made


def noise_from(noisy: Callable[..., list[Tensor]]) -> AbstractContextManager[Any]:
    """Puts a function in the place of the one that adds noise."""
    return patch.object(noise, "noisy", noisy)


def float32_noise() -> AbstractContextManager[Any]:
    """Puts float32 noise back."""
    return noise_from(float32_noisy)


@dataclass(frozen=True, eq=False)
class Target:
    """Training documents made ready once, for many runs with and without one of them."""

    corpus: Corpus
    featurizer: Featurizer
    graph: TextGraph
    settings: Settings

    @classmethod
    def of(cls, corpus: Corpus, settings: Settings) -> Target:
        """Featurises the training documents of a corpus."""
        ready = Prepared.of(corpus.train, settings)
        return cls(ready.corpus, ready.featurizer, ready.graph, settings)

    def released(self, graph: TextGraph, folder: Path) -> Path:
        """Trains on a graph and releases the model, as ``train`` and ``release`` do."""
        fitted = fit(graph, self.settings, columns=self.corpus.columns)
        statement = statement_of(fitted, self.corpus, self.featurizer)
        saved = Model(fitted, self.featurizer, np.asarray(self.corpus.classes), statement)
        write_folder(folder / "model", "model", model_files(saved))
        run = Run(folder / "model")
        releasable_statement(run, learned_features=True)
        write_release(run, folder / "release", {})
        return folder / "release"

    def attacked(self, document: int, *, present: bool) -> bool | None:
        """Trains with or without a document, and attacks the release."""
        gone = without(self.graph, document)
        with tempfile.TemporaryDirectory() as place:
            folder = self.released(self.graph if present else gone, Path(place))
            return Attacker(folder).verdict(self.graph, gone)


def attack(
    source: str, *, epsilon: float, runs: int, float32: bool = False, seed: int = 0
) -> dict[str, int]:
    """Counts the runs that the attack decides, and those that it decides wrongly."""
    corpus = toy_corpus() if source == "toy" else load_corpus(source, seed=seed)
    target = Target.of(corpus, make_settings(epsilon=epsilon, seed=seed))
    random = np.random.default_rng(seed)
    counts = {"runs": runs, "decided": 0, "wrong": 0}
    with float32_noise() if float32 else nullcontext():
        for number in range(runs):
            present = number % 2 == 0
            document = int(random.integers(len(target.graph)))
            verdict = target.attacked(document, present=present)
            counts["decided"] += verdict is not None
            counts["wrong"] += verdict is (not present)
    return counts


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("source", help="a dataset's name, a folder, or toy")
    parser.add_argument("--epsilon", type=float, required=True)
    parser.add_argument("--runs", type=int, required=True)
    parser.add_argument("--float32-noise", action="store_true", help="put weak noise back")
    parser.add_argument("--seed", type=int, default=0, help="of split and target documents")
    parser.add_argument("--json", action="store_true")
    chosen = parser.parse_args(arguments)
    counts = attack(
        chosen.source,
        epsilon=chosen.epsilon,
        runs=chosen.runs,
        float32=chosen.float32_noise,
        seed=chosen.seed,
    )
    if chosen.json:
        print(json.dumps(counts))
    else:
        print(f"{counts['runs']} runs: {counts['decided']} decided, {counts['wrong']} wrong.")


if __name__ == "__main__":
    main()
