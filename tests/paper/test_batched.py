"""Many trials side by side, held to a session that trains one of them."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from scipy.sparse import csr_array

from brute_force import plan_of
from builders import small_graph
from privgcn.config import Settings
from privgcn.mechanism import Groups, RandomSource, Session
from privgcn.privacy.plan import Schedule
from privgcn.sgd.train import train_private
from privgcn_paper import batched
from privgcn_paper.batched import Method, Trial, train_batched

DOCUMENTS = 36
METHOD = Method(5, 6, "sgd", clip_norm=0.3, hidden=5, dropout=0.0)
POISSON = {"schedule": "poisson", "sampling_probability": 0.4}
RATE = 0.02


def graph_of(*, sparse):
    graph = small_graph(DOCUMENTS, features=7)
    rows = graph.features * np.float32(3)
    labels = np.where(np.arange(DOCUMENTS) < 4, -1, graph.labels)
    return replace(graph, features=csr_array(rows) if sparse else rows, labels=labels)


def by_session(graph, method, seed, samples):
    """The weights that a session without noise gives for one seed."""
    rate = method.sampling_probability if method.schedule == "poisson" else None
    groups = None if method.groups == DOCUMENTS else method.groups
    facts = {"unit": "part", "clip_norm": method.clip_norm, "steps": method.steps}
    plan = plan_of(graph, groups=groups, seed=seed, probability=rate, **facts)
    model = {"kind": "gcn", "hidden": method.hidden, "dropout": method.dropout}
    training = {"optimizer": method.optimizer, "learning_rate": RATE, "patience": 0}
    settings = Settings(seed=seed, model=model, training=training)
    with pytest.MonkeyPatch.context() as patch:
        quiet = lambda total, grid, source: total / grid.unit  # noqa: E731
        patch.setattr("privgcn.mechanism.session.noisy", quiet)
        if samples is not None:
            sampled = lambda self, step, source: samples[step]  # noqa: E731
            patch.setattr(Schedule, "sample", sampled)
        session = Session(plan, Groups.of_plan(plan, graph), RandomSource.seeded(0, "test"))
        return dict(train_private(session, settings).tensors)


@pytest.mark.parametrize("optimizer", ["sgd", "adam"])
@pytest.mark.parametrize(
    ("groups", "way"), [(1, {}), (DOCUMENTS, {}), (5, POISSON), (DOCUMENTS, POISSON)]
)
@pytest.mark.parametrize("sparse", [True, False])
def test_without_noise_every_trial_goes_where_its_session_goes(optimizer, groups, way, sparse):
    graph = graph_of(sparse=sparse)
    method = replace(METHOD, groups=groups, optimizer=optimizer, **way)
    made = train_batched(graph, method, [Trial(3, 0.0, RATE), Trial(8, 0.0, RATE)])
    for own, seed in zip(made, (3, 8), strict=True):
        samples = None
        if way:
            steps, taken = batched._poisson(method, seed)
            samples = [np.isin(np.arange(groups), taken[steps == step]) for step in range(6)]
        expected = by_session(graph, method, seed, samples)
        assert own.keys() == expected.keys()
        for name, value in own.items():
            assert value.dtype == np.float32
            np.testing.assert_allclose(value, expected[name], atol=1e-4)
    assert not np.array_equal(made[0]["layers.0.weight"], made[1]["layers.0.weight"])


@pytest.mark.parametrize(("groups", "way"), [(1, {}), (4, POISSON), (36, POISSON)])
def test_the_noise_has_its_deviation_in_every_tensor_and_trial(groups, way):
    graph, rate, noises = graph_of(sparse=True), 1e-3, (0.0, 2.0, 50.0)
    method = replace(METHOD, groups=groups, steps=1, hidden=2000, **way)
    quiet, *noisy = train_batched(graph, method, [Trial(0, noise, rate) for noise in noises])
    draws = []
    for own, noise in zip(noisy, noises[1:], strict=True):
        unit = noise * 0.3 / (method.sampling_probability * groups) * rate
        each = [(own[name] - quiet[name]).ravel() / unit for name in sorted(own)]
        for values in each:
            if len(values) > 1000:
                assert float(values.std()) == pytest.approx(1.0, abs=0.08)
                assert abs(float(values.mean())) < 5 / len(values) ** 0.5
        draws.append(np.concatenate(each))
    assert abs(np.corrcoef(*draws)[0, 1]) < 0.03, "trials have noise of their own"


def test_samples_are_poissons():
    method = replace(
        METHOD, groups=20, steps=5000, schedule="poisson", sampling_probability=0.1
    )
    steps, groups = batched._poisson(method, 0)
    counts = np.bincount(steps, minlength=5000)
    assert counts.mean() == pytest.approx(2.0, abs=0.1)
    assert counts.var() == pytest.approx(20 * 0.1 * 0.9, abs=0.15)
    assert len(np.unique(steps * 20 + groups)) == len(steps)
    by_group = np.bincount(groups, minlength=20)
    assert np.abs(by_group - 500).max() < 5 * (5000 * 0.09) ** 0.5
    table = batched._samples(method, [Trial(0, 1.0, RATE), Trial(1, 1.0, RATE)], each=False)
    assert len(table) == 5000
    first = table[(table >= 0) & (table < 20)]
    np.testing.assert_array_equal(np.bincount(first, minlength=20), by_group)


@pytest.mark.parametrize("groups", [1, 3, DOCUMENTS])
def test_dropout_leaves_out_and_keeps_the_mean(groups):
    """The mean of many steps' gradients at the same weights is close to that without."""
    method = replace(METHOD, groups=groups, clip_norm=1e6, hidden=50)
    start, without, dropped = (
        train_batched(
            graph_of(sparse=False),
            replace(method, steps=steps, dropout=dropout),
            [Trial(0, 0.0, 1e-6)],
        )[0]["layers.1.weight"].astype(np.float64)
        for steps, dropout in ((0, 0.0), (1000, 0.0), (1000, 0.5))
    )
    assert np.corrcoef((without - start).ravel(), (dropped - start).ravel())[0, 1] > 0.9
    assert not np.array_equal(without, dropped)


def test_a_batch_gives_the_same_bits_again():
    graph = graph_of(sparse=True)
    method = replace(METHOD, schedule="poisson", sampling_probability=0.3, dropout=0.5)
    trials = [Trial(0, 1.0, RATE), Trial(1, 4.0, RATE)]
    before = torch.random.get_rng_state()
    first, second = (train_batched(graph, method, trials) for _ in range(2))
    assert torch.equal(before, torch.random.get_rng_state())
    for one, other in zip(first, second, strict=True):
        for name in one:
            np.testing.assert_array_equal(one[name], other[name])
            assert np.isfinite(one[name]).all()


@pytest.mark.gpu
@pytest.mark.parametrize("groups", [1, 4, DOCUMENTS])
def test_a_captured_step_does_what_a_step_does(groups):
    if not torch.cuda.is_available():
        pytest.skip("no CUDA device")
    way = {} if groups == 1 else POISSON
    method = replace(METHOD, groups=groups, steps=20, optimizer="adam", **way)
    trials = [Trial(0, 0.0, RATE), Trial(1, 0.0, RATE)]
    made = [train_batched(graph_of(sparse=True), method, trials, at) for at in ("cpu", "cuda")]
    for one, other in zip(*made, strict=True):
        for name in one:
            np.testing.assert_allclose(one[name], other[name], atol=1e-4)
