"""No release tells by its bits whether a document was there; float32 noise would tell.

The attack of ``scripts/bit_attack.py``, on released folders and, for whatever else adds
noise, on the noisy sums themselves, before anything is rounded to float32.
"""

import json
from collections.abc import Iterator
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

import bit_attack
import numpy as np
import pytest
import torch
from torch import Tensor

from brute_force import random_graph
from privgcn.config import Settings, make_settings
from privgcn.evidence.bits import decide
from privgcn.evidence.canaries import without
from privgcn.graph import DenseRows, TextGraph
from privgcn.privacy.accounting.selection import RunCount
from privgcn.privacy.mechanism import noise
from privgcn.privacy.mechanism.centre import clipped_outline, released_outline
from privgcn.privacy.mechanism.cutting import cut_as_planned
from privgcn.privacy.mechanism.part_gradients import StackGradients
from privgcn.randomness import RandomSource
from privgcn.runs.candidates import SearchSpace
from privgcn.runs.tune import _Runs, search
from privgcn.training.fit import fit
from privgcn.training.planning import make_plan

DOCUMENTS = 64
TARGET = 5


def noise_of(float32: bool) -> AbstractContextManager[None]:
    return bit_attack.float32_noise() if float32 else nullcontext()


# -- released folders -------------------------------------------------------------------


@pytest.fixture(scope="module")
def dense_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Documents with vectors that have much in common, so that a centre is taken off."""
    random = np.random.default_rng(0)
    labels = np.arange(200) % 3
    vectors = 3 + random.normal(size=(3, 16))[labels] + 0.5 * random.normal(size=(200, 16))
    folder = tmp_path_factory.mktemp("dense")
    np.save(folder / "features.npy", vectors.astype(np.float32))
    lines = [
        json.dumps({"id": f"d{row}", "text": "", "label": f"c{label}", "split": "train"})
        for row, label in enumerate(labels)
    ]
    (folder / "documents.jsonl").write_text("\n".join(lines) + "\n")
    return folder


@pytest.mark.parametrize("source", ["toy", "dense"])
def test_float32_noise_put_back_tells_the_document(
    source: str, dense_folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    place = str(dense_folder) if source == "dense" else source
    options = ["--epsilon", "1", "--runs", "6", "--float32-noise", "--json"]
    bit_attack.main([place, *options])
    counts = json.loads(capsys.readouterr().out)
    assert list(counts) == ["runs", "decided", "wrong"]
    assert counts["runs"] == 6
    assert counts["decided"] >= 5
    assert counts["wrong"] == 0


@pytest.mark.parametrize("source", ["toy", "dense"])
@pytest.mark.parametrize("epsilon", [0.1, 8.0])
def test_a_release_does_not_tell_the_document(
    source: str, epsilon: float, dense_folder: Path
) -> None:
    place = str(dense_folder) if source == "dense" else source
    counts = bit_attack.attack(place, epsilon=epsilon, runs=4)
    assert counts == {"runs": 4, "decided": 0, "wrong": 0}


def test_a_person_reads_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    bit_attack.main(["toy", "--epsilon", "1", "--runs", "1", "--float32-noise"])
    assert capsys.readouterr().out in (
        "1 runs: 1 decided, 0 wrong.\n",
        "1 runs: 0 decided, 0 wrong.\n",
    )


# -- every step of other runs -----------------------------------------------------------

AUTO: dict[str, Any] = {"training.epochs": 4, "privacy.noise_multiplier": 2.0}
PAPER: dict[str, Any] = {
    "training.epochs": 4,
    "privacy.noise_multiplier": 1.0,
    # Who does not know the masks knows less; this attacker needs none.
    "model.dropout": 0.0,
}
SPLIT = {**PAPER, "privacy.parts": 8, "privacy.sampling_probability": 0.5}
CASES: dict[str, tuple[str, str | None, dict[str, Any], bool]] = {
    "sparse": ("auto", None, AUTO, True),
    "dense with a centre": ("auto", None, AUTO, False),
    "sparse and balanced": ("auto", None, {**AUTO, "training.balanced": True}, True),
    "replace": ("auto", None, {**AUTO, "privacy.relation": "replace"}, True),
    "paper-full sgd": ("paper-full", "sgd", PAPER, True),
    "paper-full adam": ("paper-full", "adam", PAPER, False),
    "paper-split sgd": ("paper-split", "sgd", SPLIT, False),
    "paper-split adam": ("paper-split", "adam", SPLIT, True),
}
# Here even float32 noise hides: the sums are far above it, or far below.
EXTREMES: dict[str, Any] = {
    "least noise": ("auto", None, {**AUTO, "privacy.noise_multiplier": 0.01}, True),
    "most noise": ("auto", None, {**AUTO, "privacy.noise_multiplier": 1e9}, True),
}


def neighbours(settings: Settings, *, sparse: bool) -> tuple[TextGraph, TextGraph]:
    graph = random_graph(DOCUMENTS, 40, 4, sparse=sparse, unlabelled=0.0)
    if not sparse:
        graph = replace(graph, features=DenseRows(graph.features.dense() + 3.0))
    assert settings.privacy is not None
    if settings.privacy.relation == "remove":
        return graph, without(graph, TARGET)
    labels = graph.labels.clone()
    labels[TARGET] = (labels[TARGET] + 1) % 4
    return graph, replace(graph, labels=labels)


def steps_of(trained: TextGraph, other: TextGraph, settings: Settings) -> Iterator[Any]:
    """Of each step: the noisy sum, the sum before noise, and what the neighbour's would be."""
    seen: list[tuple[Any, ...]] = []
    gradients, noisy = StackGradients.clipped_sum, noise.noisy

    def summed(self: StackGradients, parameters: Any, samples: Any) -> list[Tensor]:
        seen.append(([p.detach().clone() for p in parameters], samples))
        return gradients(self, parameters, samples)

    def drawn(sums: Any, *others: Any) -> list[Tensor]:
        released = noisy(sums, *others)
        if seen:
            seen[-1] += (sums, [each.clone() for each in released])
        return released

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(StackGradients, "clipped_sum", summed)
        patch.setattr(noise, "noisy", drawn)
        fitted = fit(trained, settings)
    assert fitted.plan is not None
    parts = cut_as_planned(other, fitted.plan, {})
    if fitted.centre is not None:
        rows = DenseRows(parts.features.dense())
        parts = parts.with_features(rows.centred(fitted.centre[:, 0]))
    short = settings.training.large_steps
    bias = None if fitted.bias is None else fitted.bias.values
    neighbour = StackGradients(
        fitted.model, parts, fitted.plan, None, short_residuals=short, bias=bias
    )
    for parameters, samples, before, after in seen:
        yield after, before, neighbour.clipped_sum(parameters, samples)


def flat(steps: list[list[Tensor]]) -> Tensor:
    return torch.cat([tensor.flatten() for step in steps for tensor in step])


def verdicts(case: tuple[str, str | None, dict[str, Any], bool]) -> list[bool | None]:
    """For two runs on each of two neighbours: whether the attack finds the true one."""
    recipe, optimizer, changes, sparse = case
    settings = make_settings(recipe, optimizer=optimizer, changes=changes)
    graph, neighbour = neighbours(settings, sparse=sparse)
    found = []
    for trained, other in 2 * [(graph, neighbour), (neighbour, graph)]:
        released, true, false = zip(*steps_of(trained, other, settings), strict=True)
        found.append(decide(flat(released), flat(true), flat(false)))
    return found


@pytest.mark.parametrize("case", CASES.values(), ids=list(CASES))
def test_float32_noise_put_back_tells_the_document_step_by_step(case: Any) -> None:
    with noise_of(float32=True):
        found = verdicts(case)
    assert False not in found
    assert found.count(True) >= 3


@pytest.mark.parametrize("case", (CASES | EXTREMES).values(), ids=list(CASES | EXTREMES))
def test_no_step_of_any_run_tells_the_document(case: Any) -> None:
    assert verdicts(case) == [None] * 4


# -- other releases ---------------------------------------------------------------------


def centre_verdict() -> bool | None:
    """Attacks thirty releases of an outline together, its centre and its class shares."""
    changes = {**AUTO, "privacy.noise_multiplier": 20.0}
    settings = make_settings("auto", changes=changes)
    graph, gone = neighbours(settings, sparse=False)
    assert settings.privacy is not None
    plan = make_plan(settings.privacy, graph, epochs=4, seed=0, columns={})
    parts, other = (cut_as_planned(each, plan, {}) for each in (graph, gone))
    released: list[Tensor] = []
    noisy = noise.noisy

    def drawn(*arguments: Any) -> list[Tensor]:
        made = noisy(*arguments)
        released.append(torch.cat([tensor.flatten() for tensor in made])[:, None])
        return made

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(noise, "noisy", drawn)
        for _ in range(30):
            released_outline(parts, plan, RandomSource.secret())
    outlines = [clipped_outline(each, plan, None) for each in (parts, other)]
    sums = [
        torch.cat([tensor.flatten() for tensor in outline])[:, None].expand(30, -1, 1)
        for outline in outlines
    ]
    return decide(torch.stack(released), *sums)


def test_a_centre_does_not_tell_the_document() -> None:
    assert centre_verdict() is None


def test_a_centre_with_float32_noise_put_back_tells_it() -> None:
    with noise_of(float32=True):
        assert centre_verdict() is True


def score_verdict() -> bool | None:
    """Attacks two hundred noisy scores of one run of a search together."""
    found: list[bool | None] = []
    scored = _Runs.score

    def attacked(self: _Runs, number: int, fitted: Any, source: Any) -> float:
        noisy = [scored(self, number, fitted, source) for _ in range(200)]
        scale, self.score_noise = self.score_noise, None
        # A document that is right and was not there would add one.
        exact = scored(self, number, fitted, source)
        self.score_noise = scale
        true = torch.full((200,), exact, dtype=torch.float64)
        released = torch.tensor(noisy, dtype=torch.float64)
        found.append(decide(released, true + 1, true))
        return noisy[0]

    corpus = bit_attack.toy_corpus()
    # Few validation documents: a score far above its noise hides even float32 draws.
    split = np.where(np.arange(240) < 236, 0, 1).astype(np.int8)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_Runs, "score", attacked)
        patch.setattr(RunCount, "draw", lambda self, source: 1)
        search(
            replace(corpus, split=split),
            make_settings("auto", epsilon=2.0, changes={"training.epochs": 4}),
            SearchSpace({"training.reach": (1.0, 2.0)}),
            RunCount("poisson", 3.0),
        )
    (verdict,) = found
    return verdict


def test_the_score_of_a_search_does_not_tell_the_document() -> None:
    assert score_verdict() is None


def test_the_score_of_a_search_with_float32_noise_put_back_tells_it() -> None:
    with noise_of(float32=True):
        assert score_verdict() is False
