"""No answer tells by its bits whether a document was there; float32 noise would tell.

The attack of ``scripts/bit_attack.py``, on released tensors and on answers of every question.
"""

import json
from contextlib import nullcontext

import bit_attack
import numpy as np
import pytest
import torch
from noise_bits import FARTHEST, decide
from torch import nn

from brute_force import plan_of, random_graph
from privgcn.audit.canaries import without
from privgcn.mechanism import (
    Groups,
    ModuleGradient,
    RandomSource,
    Session,
    SoftmaxGradient,
    Statistics,
)
from privgcn.mechanism.fixed_point import Grid


@pytest.mark.parametrize("weak", [True, False])
def test_float32_noise_put_back_tells_the_document_and_ours_does_not(weak, capsys):
    options = ["--float32-noise"] if weak else []
    bit_attack.main(["toy", "--epsilon", "1", "--runs", "4", "--json", *options])
    counts = json.loads(capsys.readouterr().out)
    assert counts == {"runs": 4, "decided": 4 if weak else 0, "wrong": 0}


def question_of(kind):
    if kind == "statistics":
        return Statistics()
    if kind == "softmax":
        return SoftmaxGradient(np.zeros((40, 3)), np.zeros(3))
    torch.manual_seed(0)
    module = nn.Sequential(nn.Linear(40, 8), nn.ReLU(), nn.Linear(8, 3))
    return ModuleGradient(module, lambda graph: (torch.from_numpy(graph.features),))


@pytest.mark.parametrize("kind", ["statistics", "softmax", "module"])
@pytest.mark.parametrize("weak", [True, False])
def test_answers_of_every_question(kind, weak):
    graph = random_graph(64, 40, 3, edges=0, unlabelled=0.0)
    pair = graph, without(graph, np.arange(64) == 5)
    plan = plan_of(graph, noise=3.7, steps=6)

    def session_of(number, source):
        return Session(plan, Groups.of_plan(plan, pair[number]), source)

    known = []
    with bit_attack.noise_from(lambda total, grid, _: known.append(total / grid.unit) or total):
        for number in (0, 1):
            session_of(number, RandomSource.secret()).query(question_of(kind))
    grid, verdicts = Grid.of(3.7, 64), []
    with bit_attack.noise_from(bit_attack.float32_noisy) if weak else nullcontext():
        for number in (0, 1):
            session = session_of(number, RandomSource.secret())
            for _ in range(6):
                # 64 is a power of two, so nothing is rounded by the division.
                released = session.query(question_of(kind)) * 64
                farthest = FARTHEST * 3.7
                verdict = decide(released, *known, spacing=1.0 / grid.unit, farthest=farthest)
                verdicts.append((verdict, number == 0))
    assert all(verdict in (None, there) for verdict, there in verdicts)
    decided = sum(verdict is not None for verdict, _ in verdicts)
    assert decided >= 9 if weak else decided == 0
