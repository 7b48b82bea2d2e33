"""Tells by the bits of a released model whether one document trained it, if noise lets it.

    python scripts/bit_attack.py SOURCE --epsilon 1 --runs 100 [--float32-noise] [--json]

Mironov (2012): where noise is made as a float and added to a sum, only some results can come
out, and which ones depends on the sum. The attacker has the released tensors, all other
documents, the target document and this source code. For every iterate it computes the clipped
sum with the document (``present``) and without (``absent``), and looks for noise that turns one
of them into what was released. A hypothesis for which there is no such noise is ruled out.
``decided`` counts the runs with one hypothesis left, ``wrong`` those in which it is the false
one; half of the runs train with the document. ``--float32-noise`` puts back noise that was made
in float32 and added in float32, against which the attack works.
"""

from __future__ import annotations

import argparse
import json
import math
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any
from unittest.mock import patch

import numpy as np
from noise_bits import (
    FARTHEST,
    Seen,
    float32_cell,
    left_standing,
    next_above,
    next_below,
)
from numpy.typing import NDArray
from safetensors.numpy import load

from privgcn.audit.canaries import without
from privgcn.auto.recipe import learning_rate
from privgcn.config import make_settings
from privgcn.data import TRAIN, Corpus, load_corpus
from privgcn.graph import DocumentGraph
from privgcn.mechanism import Groups, RandomSource, Session, SoftmaxGradient
from privgcn.mechanism.fixed_point import Grid
from privgcn.runs.prepare import PreparedRun, graph_of, prepare
from privgcn.runs.train import fit

Floats = NDArray[np.float64]

# Floats to both sides of a guess that are tried as the value behind a released weight.
_TRIED = 6


def noise_from(noisy: Callable[[Floats, Grid, Any], Floats]) -> AbstractContextManager[Any]:
    """Puts a function in the place of the one that adds noise."""
    return patch("privgcn.mechanism.session.noisy", noisy)


def float32_noisy(total: Floats, grid: Grid, source: RandomSource) -> Floats:
    """Noise as it must not be: a float32 draw, added to the sum and rounded to float32."""
    pairs = (total.size + 1) // 2
    words = source.words(2 * pairs)
    logs = np.log(((words[:pairs] >> np.uint64(11)) + 0.5) * 2.0**-53).astype(np.float32)
    noise_multiplier = 2.0**grid.noise_bits / grid.unit
    radius = np.sqrt(logs * np.float32(-2.0 * noise_multiplier**2))
    angle = words[pairs:].astype(np.float32) * np.float32(math.pi * 2.0**-63)
    draws = np.concatenate([np.cos(angle) * radius, np.sin(angle) * radius])[: total.size]
    made = draws.reshape(total.shape).astype(np.float64) + total / grid.unit
    return made.astype(np.float32).astype(np.float64)


class Attacker:
    """Someone with the released tensors of a run, all documents and the source code."""

    def __init__(self, prepared: PreparedRun, released: bytes) -> None:
        noise_scale = prepared.settings.training.noise_scale
        assert prepared.plan is not None
        assert noise_scale is not None
        self.prepared, self.plan, self.tensors = prepared, prepared.plan, load(released)
        if "label_direction" in self.tensors:
            raise ValueError("The attack reads steps of one rate: use classes without names.")
        self.rate = learning_rate(self.plan, noise_scale)
        self.iterates = self.tensors["iterates"]

    def sums(self, graph: DocumentGraph) -> Floats:
        """The clipped sums behind all iterates on these documents, in clip norms."""
        made: list[Floats] = []

        def recorded(total: Floats, grid: Grid, source: Any) -> Floats:
            made.append(total / grid.unit)
            return made[-1]

        rows = np.flatnonzero(graph.split == TRAIN)
        columns = self.prepared.corpus.train.columns
        groups = Groups.of_plan(self.plan, graph, rows=rows, columns=columns)
        session = Session(self.plan, groups, RandomSource.seeded(0, "none"))
        session.center(self.tensors.get("mean"))
        bias = self.tensors.get("class_bias", np.zeros(graph.classes)).astype(np.float64)
        with noise_from(recorded):
            for weights in self.iterates[:-1]:
                session.query(SoftmaxGradient(weights, bias))
        return np.stack(made)

    def moved(self, answer: Floats) -> NDArray[np.float32]:
        """The iterates after answers of a session, as training computes them."""
        step = self.rate * (self.plan.clip_norm * answer)
        moved: NDArray[np.float32] = (self.iterates[:-1] - step).astype(np.float32)
        return moved

    def noisy_sums(self) -> tuple[Seen, Seen]:
        """What the iterates tell of all noisy sums: if rounded to float32, if not."""
        begin, end = self.iterates[:-1], self.iterates[1:]
        expected = self.plan.schedule.expected_groups
        scale = self.rate * self.plan.clip_norm / expected
        total = (begin.astype(np.float64) - end) / scale
        seen = _behind(end, total, lambda sums: self.moved(sums / expected))
        # Where floats lie closer after the step than before, some of them are never reached.
        typed = total.astype(np.float32)
        before = (next_above(typed) - typed).astype(np.float64)
        after = (next_above(end) - end).astype(np.float64) / scale
        chance = np.minimum(after / before, 1.0).ravel()
        rounded = Seen(seen[0], *float32_cell(seen[1]), seen[2], chance)
        # What was not rounded lies where the float64 of the iterate's cell can come from.
        low, high = float32_cell(end.ravel())
        start = begin.ravel().astype(np.float64)
        slack = (np.abs(start) + np.abs(end.ravel())) * 2.0**-50
        ends = (start - high - slack) / scale, (start - low + slack) / scale
        position, known = np.arange(end.size), np.zeros(end.size, bool)
        return rounded, Seen(position, *ends, known, np.ones(end.size))

    def verdict(self, present: DocumentGraph, absent: DocumentGraph) -> bool | None:
        """Whether the document was there; ``None`` where the bits do not tell."""
        hypotheses = self.sums(present), self.sums(absent)
        noise = self.plan.noise_multiplier
        spacing = 1.0 / Grid.of(noise, self.plan.partition.groups).unit
        return left_standing(*self.noisy_sums(), hypotheses, spacing, FARTHEST * noise)


def _behind(
    image: NDArray[np.float32], guess: Floats, function: Callable[[Floats], NDArray[np.float32]]
) -> tuple[NDArray[np.int64], NDArray[np.float32], NDArray[np.bool_]]:
    """The float32 values near a guess that a function takes to ``image``.

    Returns:
        The coordinate of each, the values, and the coordinates for which there are too many
        to try.
    """
    value = guess.astype(np.float32)
    for _ in range(_TRIED):
        value = next_below(value)
    positions, values = [], []
    for _ in range(2 * _TRIED + 1):
        hits = function(value.astype(np.float64)) == image
        positions.append(np.flatnonzero(hits))
        values.append(value.ravel()[positions[-1]])
        value = next_above(value)
    vague = np.zeros(image.size, bool)
    vague[positions[0]] = vague[positions[-1]] = True
    position = np.concatenate(positions)
    known = ~vague[position]
    return position[known], np.concatenate(values)[known], vague


# -- runs -------------------------------------------------------------------------------


def toy_corpus() -> Corpus:
    """Short texts of three classes."""
    random = np.random.default_rng(0)
    labels = random.integers(0, 3, 400)
    words = [f"word{number}" for number in range(300)]
    chances = random.dirichlet(np.full(len(words), 0.3), 3)
    texts = [" ".join(random.choice(words, 25, p=chances[label])) for label in labels]
    return Corpus.from_texts(texts, [("first", "second", "third")[label] for label in labels])


def attack(
    source: str, *, epsilon: float, runs: int, float32: bool = False, seed: int = 0
) -> dict[str, int]:
    """Counts the runs that the attack decides, and those that it decides wrongly."""
    corpus = toy_corpus() if source == "toy" else load_corpus(source, seed=seed)
    prepared = prepare(corpus, make_settings(epsilon=epsilon, seed=seed))
    graph = graph_of(corpus, prepared.featurizer, prepared.settings)
    random = np.random.default_rng(seed)
    counts = {"runs": runs, "decided": 0, "wrong": 0}
    for number in range(runs):
        present = number % 2 == 0
        document = int(random.choice(np.flatnonzero(graph.split == TRAIN)))
        gone = without(graph, np.arange(len(graph)) == document)
        with noise_from(float32_noisy) if float32 else nullcontext():
            released = fit(prepared, graph if present else gone).serialised()
        verdict = Attacker(prepared, released).verdict(graph, gone)
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
