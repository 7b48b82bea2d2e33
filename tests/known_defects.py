"""Known defects, each of which some version of this field's code had or nearly had.

A defect is a patch of a function, beside the property that it breaks and the check that must
notice it. ``tests/test_known_defects.py`` runs every check on the code as it is, where it must
pass, and with every defect planted, where it must fail.
"""

from __future__ import annotations

import json
import os
import stat
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from scipy.sparse import issparse

from builders import reseal, run_folder, small_corpus, small_graph, small_settings
from privgcn.config import make_settings
from privgcn.data import Corpus, documents
from privgcn.data import corpus as corpora
from privgcn.errors import PrivGCNError
from privgcn.features import bert, encoders, make_featurizer, words
from privgcn.features import choose as _choose  # noqa: F401  (imports the module)
from privgcn.features.cache import VectorCache
from privgcn.graph import DocumentGraph, partition
from privgcn.mechanism import (
    Groups,
    RandomSource,
    Session,
    SoftmaxGradient,
    Statistics,
    fixed_point,
    groups,
    module_gradient,
)
from privgcn.mechanism import session as door
from privgcn.privacy import ledger, verify
from privgcn.privacy import plan as plans
from privgcn.privacy.accounting import GaussianEvent, epsilon_of, gaussian_epsilon
from privgcn.privacy.plan import PartitionFacts, PrivacyPlan, Schedule
from privgcn.privacy.selection import RunCount, Selection
from privgcn.privacy.statement import PrivacyStatement
from privgcn.runs import folder as folders
from privgcn.runs import prepare as preparing
from privgcn.runs import run as runs
from privgcn.runs import train as training

Plant = Callable[[pytest.MonkeyPatch], Any]
Check = Callable[[], None]

choosing = sys.modules["privgcn.features.choose"]


@dataclass(frozen=True)
class Defect:
    """A name, how it is planted, and what notices it."""

    name: str
    plant: Plant
    caught_by: Check


PROPERTIES: dict[str, list[Defect]] = {}


def defect(broken: str, name: str, caught_by: Check) -> Callable[[Plant], Plant]:
    """Declares a patch as a known defect that breaks a property."""

    def declare(plant: Plant) -> Plant:
        PROPERTIES.setdefault(broken, []).append(Defect(name, plant, caught_by))
        return plant

    return declare


def put(owner: Any, name: str, value: Any) -> Plant:
    """A patch that replaces one name."""
    return lambda patch: patch.setattr(owner, name, value)


# -- checks -----------------------------------------------------------------------------------


def audited(
    recipe: str = "auto", *, count: int = 500, units: int = 100, **changes: Any
) -> None:
    """An audit of a plan at epsilon 1 has nothing to object."""
    from privgcn.audit.audit import audit

    dotted = {name.replace("__", "."): value for name, value in changes.items()}
    optimizer = "sgd" if recipe != "auto" else None
    settings = make_settings(recipe, epsilon=1.0, optimizer=optimizer, changes=dotted)
    assert settings.privacy is not None
    epochs = settings.training.epochs
    plan = plans.plan_for(settings.privacy, units, epochs=epochs, seed=0, columns={})
    result = audit(settings, plan, dense=False, runs=count, confidence=0.999)
    assert not result.broken, result.broken


SAMPLED: dict[str, Any] = {
    "privacy__sampling": "poisson",
    "privacy__sampling_probability": 0.25,
    "training__epochs": 8,
}
auto = audited
exchanged = partial(audited, privacy__relation="replace", count=20)
sampled = partial(audited, **SAMPLED)
people = partial(audited, privacy__unit="person", count=20)
network = partial(
    audited, "paper-split", count=10, training__epochs=1, privacy__sampling="epoch"
)


def sums(graph: DocumentGraph, question: Any = None) -> Any:
    """What documents add up to: noise of one key cancels."""
    plan = plan_of(units=len(graph))
    empty = replace(graph, labels=np.full_like(graph.labels, -1))
    answers = []
    for each in (graph, empty):
        session = Session(plan, Groups.of_plan(plan, each), RandomSource.seeded(0, "noise"))
        shape = (graph.width, graph.classes)
        weights = np.random.default_rng(0).normal(size=shape)
        answers.append(session.query(question or SoftmaxGradient(weights, np.zeros(shape[1]))))
    grid = fixed_point.Grid.of(plan.noise_multiplier, len(graph))
    return np.rint((answers[0] - answers[1]) * len(graph) * grid.unit)


def plan_of(**changes: Any) -> PrivacyPlan:
    """Documents one by one, in every step."""
    units = changes.get("units", 30)
    fields: dict[str, Any] = {
        "unit": "document",
        "relation": "remove",
        "partition": PartitionFacts(kind="each", groups=units),
        "schedule": Schedule("all", units),
        "clip_norm": 0.5,
        "noise_multiplier": 8.0,
        "steps": 30,
        "delta": 1e-5,
        "units": units,
    }
    return PrivacyPlan(**{**fields, **changes})


def sums_are_exact() -> None:
    """A sum is that of its halves, to the last bit, in any order."""
    graph = small_graph(300, features=40)
    rows, half = np.arange(300), np.arange(300) % 2 == 0
    graph.features[5] *= 1e3
    halves = [replace(graph, labels=np.where(h, graph.labels, -1)) for h in (half, ~half)]
    whole = sums(graph)
    assert np.array_equal(whole, sums(halves[0]) + sums(halves[1]))
    order = np.random.default_rng(0).permutation(rows)
    assert np.array_equal(whole, sums(graph.induced(order)))
    # Rows that somebody else may have made as long as they please.
    loud = replace(halves[0], features=graph.features * np.where(half, 1, 1e30)[:, None])
    assert np.array_equal(sums(halves[0]), sums(loud))


def hostile_rows_add_zero() -> None:
    """Neither a number that is not finite nor an impossible label moves anything."""
    graph = small_graph(30)
    quiet = graph.labels.copy()
    quiet[:4] = -1
    bad = graph.features.copy()
    bad[:4] = np.array([np.nan, np.inf, -np.inf, 0.0])[:, None]
    expected = sums(replace(graph, labels=quiet))
    assert np.array_equal(sums(replace(graph, features=bad)), expected)
    grid = fixed_point.Grid.of(8.0, 30)
    import torch

    whole = module_gradient.clipped(torch.tensor([1.0, float("nan")]), 1.0, grid)
    assert not whole.any()


def samples_are_independent() -> None:
    """Poisson samples differ in size and from step to step, and no two sources share them."""
    schedule = Schedule("poisson", 100, 0.1)
    first, second = RandomSource.secret(), RandomSource.secret()
    own = np.stack([schedule.sample(step, first) for step in range(400)])
    other = np.stack([schedule.sample(step, second) for step in range(400)])
    assert 4 < own.sum(1).var() < 18
    for moved in (own[1:], other[:-1]):
        both = (own[:-1] & moved).mean()
        assert 0.006 < both < 0.014
    assert 0.09 < own.mean() < 0.11


class Unanswerable(Statistics):
    """A question that fails once documents are read."""

    def clipped_sum(self, access: Any) -> Any:
        raise AttributeError


def the_door_closes() -> None:
    """A session answers as often as its plan pays for, questions that fail included."""
    plan, graph = plan_of(steps=2), small_graph(30)
    session = Session(plan, Groups.of_plan(plan, graph), RandomSource.secret())
    with pytest.raises(AttributeError):
        session.query(Unanswerable())
    assert session.remaining == 1
    session.query(Statistics())
    with pytest.raises(RuntimeError):
        session.query(Statistics())
    other = plan_of(steps=2, partition=PartitionFacts(kind="random", groups=30, seed=5))
    with pytest.raises(PrivGCNError):
        Session(other, Groups.of_plan(plan, graph), RandomSource.secret())


def claims_are_right() -> None:
    """Sensitivity, composition and epsilon are those of the privacy model."""
    shared = PartitionFacts(kind="random", groups=10, seed=1)
    in_groups = partial(plan_of, partition=shared)
    assert plan_of().sensitivity == 1
    assert plan_of(relation="replace").sensitivity == 2
    assert in_groups(schedule=Schedule("all", 10)).sensitivity == 2
    assert plan_of().epsilon == pytest.approx(gaussian_epsilon(30**0.5 / 8, 1e-5), rel=1e-6)
    twice = plan_of(relation="replace", noise_multiplier=16.0)
    assert twice.epsilon == pytest.approx(plan_of().epsilon, rel=1e-6)
    assert in_groups(schedule=Schedule("epoch", 10), steps=25).training.count == 3
    poisson = plan_of(schedule=Schedule("poisson", 30, 0.2))
    expected = epsilon_of(noise_multiplier=8.0, steps=30, sampling_probability=0.2)
    assert poisson.epsilon == pytest.approx(expected)
    assert poisson.epsilon < poisson.epsilon_without_amplification
    fields = {n: v for n, v in vars(plan_of()).items() if n != "noise_multiplier"}
    assert 0.999 < PrivacyPlan.for_epsilon(1.0, **fields).epsilon <= 1.0
    # The bound of Abadi et al. for the noise that the paper took.
    moments = epsilon_of(noise_multiplier=112.0, steps=2000, accountant="moments")
    assert moments == pytest.approx(1.996, abs=1e-3)


def searches_are_paid() -> None:
    """The number of runs has no end, and the winner costs what the search costs."""
    source, law = RandomSource.secret(), RunCount(10.0)
    counts = np.array([law.draw(source) for _ in range(1500)])
    assert counts.min() >= 1
    assert counts.max() > 18
    assert counts.mean() == pytest.approx(10.0, abs=0.5)
    assert counts.var() == pytest.approx(10.0, abs=2.0)
    events = (GaussianEvent(8.0, 30), GaussianEvent(8.0, 60))
    score = GaussianEvent(4.0, 1)
    found = Selection(expected_runs=10.0, candidates=events, score=score, validation_units=9)
    cheap = Selection(expected_runs=10.0, candidates=events[:1], score=None, validation_units=0)
    costs = [plan_of(selection=each, accountant="rdp").epsilon for each in (found, cheap)]
    assert costs[0] > costs[1] > plan_of(accountant="rdp").epsilon
    assert set(found.alternatives) == {*events, score}


def releases_add_up() -> None:
    """A ledger counts every model, and refuses what may not be released."""
    with tempfile.TemporaryDirectory() as folder:
        book = ledger.Ledger(Path(folder) / "ledger")
        for model in ("a", "b"):
            named = PrivacyStatement.of(plan_of(), releasable=True, model_sha256=model * 64)
            spent = book.record(named)
        assert spent == pytest.approx(plan_of(steps=60).epsilon, rel=1e-3)
        with pytest.raises(PrivGCNError):
            book.record(PrivacyStatement.of(plan_of(), releasable=False, model_sha256="c" * 64))


def secrets_come_from_the_system() -> None:
    """The key is what the operating system gives, and a fork draws nothing."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "urandom", lambda size: bytes([7]) * size)
        first, second = RandomSource.secret(), RandomSource(bytes([7]) * 32)
    assert np.array_equal(first.words(8), second.words(8))
    assert (RandomSource.secret().words(8) != RandomSource.secret().words(8)).any()
    assert not RandomSource.seeded(0, "noise").releasable
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "getpid", lambda: -1)
        with pytest.raises(RuntimeError):
            first.words(1)


def content_decides_nothing() -> None:
    """Split, partition, owners, classes and features follow from public facts."""
    few, many = [["b", "a", "c"], ["b", "b", "b", "a", "c"]]
    named = [
        Corpus.from_frame(
            {
                "id": list(map(str, range(len(o)))),
                "text": ["x"] * len(o),
                "owner": o,
                "label": ["u", "v", "v", "v", "v"][: len(o)],
            }
        )
        for o in (few, many)
    ]
    for made, own in zip(named, (few, many), strict=True):
        assert [made.owner_names[code] for code in made.owners] == own
        assert list(made.owner_names) == ["a", "b", "c"]
        assert made.classes == ("u", "v")
    facts = PartitionFacts(kind="random", groups=3, by="owner", seed=4)
    owners, more = np.arange(20), np.concatenate([np.arange(20), np.repeat(7, 10)])
    for divide in (
        lambda own: groups.partition(facts, len(own), own, {}),
        lambda own: corpora.random_split(len(own), 3, own),
    ):
        assert np.array_equal(divide(owners), divide(more)[:20])
    with pytest.MonkeyPatch.context() as patch:
        # Sixteen tokens of forty units.
        patch.setattr(choosing, "tokens_a_second", lambda: 16 * 40 / choosing.BUDGET)
        for long in ("a", "words " * 3000):
            corpus = Corpus.from_texts([long] * 20, labels=["u", "v"] * 10)
            made = choosing.make_featurizer(None, None, corpus)
            assert made.state().get("max_length") == 32
        settings = make_settings(epsilon=4.0, changes={"privacy.unit": "person"})
        for letters in (2, 5):
            corpus = Corpus.from_frame(_letters(letters))
            made = preparing.make_features(corpus, settings)
            assert made.state().get("max_length") == 32


def _letters(each: int) -> dict[str, list[str]]:
    count = 20 * each
    return {
        "id": [str(row) for row in range(count)],
        "text": ["a letter"] * count,
        "label": ["u" if row % 3 else "v" for row in range(count)],
        "owner": [f"p{row % 20}" for row in range(count)],
    }


def only_answers_leave() -> None:
    """The same answers give the same model, record and statement, whatever documents are."""
    made = []
    for other in (False, True):
        corpus = small_corpus(60)
        if other:
            texts = tuple(reversed(corpus.texts))
            labels = np.where(corpus.split == 0, 0, corpus.labels)
            corpus = replace(corpus, texts=texts, labels=labels, edges=corpus.edges[:, 1:])
        settings = small_settings(training__balanced=True)
        with pytest.MonkeyPatch.context() as patch:
            query = Session.query

            def answer(self: Session, question: Any, query: Any = query) -> Any:
                shape = query(self, question).shape
                return np.random.default_rng(self.remaining).normal(size=shape) * 0.01

            patch.setattr(Session, "query", answer)
            prepared = replace(training.prepare(corpus, settings), corpus=corpus)
            trained = training.train(prepared).model
        made.append(trained)
    first, second = made
    assert first.released.tensors.keys() == second.released.tensors.keys()
    for name, tensor in first.released.tensors.items():
        assert np.array_equal(tensor, second.released.tensors[name]), name
    assert first.record == second.record
    assert first.statement.to_json() == second.statement.to_json()


def statements_say_what_ran() -> None:
    """What voids a claim is stated, and every edit of a statement is noticed."""
    corpus = replace(
        small_corpus(60), facts=replace(small_corpus(60).facts, classes_declared=False)
    )
    changes = {"features__kind": "bow", "features__options": {"min_count": 1}}
    settings = small_settings(**changes)
    stated = training.train_run(corpus, settings).model.statement
    codes = {fact.code for fact in stated.not_covered}
    assert {"learned_features", "classes_from_labels"} <= codes
    covered = {claim.mode: claim.covered for claim in stated.inference_modes}
    assert covered == {"alone": True, "own-graph": True, "full-graph": False}
    seeded = training.train_run(corpus, settings.changed({"privacy.reproducible": True}))
    assert stated.releasable
    assert not seeded.model.statement.releasable
    record = json.loads(stated.to_json())
    fewer = [fact for fact in record["not_covered"] if fact["code"] != "learned_features"]
    for name, value in (
        ("epsilon", 0.1),
        ("noise_multiplier", 99.0),
        ("not_covered", []),
        ("not_covered", fewer),
    ):
        record = json.loads(stated.to_json())
        owner = record if name in record else record["plan"]
        assert owner[name] != value
        owner[name] = value
        with pytest.raises(PrivGCNError):
            PrivacyStatement.from_json(json.dumps(record)).verify()


def edits_are_noticed() -> None:
    """A run is for its owner, and no file of it can be changed, added or taken away."""
    with tempfile.TemporaryDirectory() as folder:
        path, before = Path(folder) / "run", os.umask(0)
        try:
            run_folder(path)
        finally:
            os.umask(before)
        runs.verify(path)
        for own in (path, *path.iterdir()):
            assert not stat.S_IMODE(own.stat().st_mode) & 0o077, own
        for name in ("statement.json", "model.json", "settings.toml", "scores.json"):
            kept = (path / name).read_bytes()
            (path / name).write_bytes(kept + b" ")
            with pytest.raises(PrivGCNError):
                runs.verify(path)
            (path / name).write_bytes(kept)
        settings = (path / "settings.toml").read_text()
        record = (path / "model.json").read_text()
        for name, edited in (
            ("settings.toml", settings.replace('method = "matched"', 'method = "direct"')),
            ("model.json", record.replace("billing", "betting")),
        ):
            kept = (path / name).read_text()
            assert edited != kept
            reseal(path, {name: edited})
            with pytest.raises(PrivGCNError):
                runs.verify(path)
            reseal(path, {name: kept})


def rows_follow_from_their_text() -> None:
    """The same text has the same row in any company, and whole texts are told apart."""
    texts = ["kernels of graphs", "a loud sonata " * 40, "kernels of graphs and rare zithers"]
    for kind, options in (("hashing", {"dimension": 64}), ("minilm", {})):
        rows = []
        for some in ([texts[0]], texts, texts[::-1]):
            with tempfile.TemporaryDirectory() as folder:
                own = {**options, **({"cache_dir": folder} if kind == "minilm" else {})}
                corpus = Corpus.from_texts(some, labels=["u", "v", "v"][: len(some)])
                made = make_featurizer(kind, own, corpus).fit(corpus)
                found = made.transform(corpus)
                found = found.toarray() if issparse(found) else found
                rows.append(found[some.index(texts[0])].tobytes())
        assert len(set(rows)) == 1, kind
    with tempfile.TemporaryDirectory() as folder:
        cache_of = VectorCache(Path(folder), "encoder", 1)
        long = ["word " * 900 + end for end in ("one", "two")]
        for number, text in enumerate(long):
            made_of = lambda some, n=number: np.full((1, 1), n, "f4")  # noqa: E731
            row = cache_of.vectors([text], made_of, lambda count: None)
            assert row[0, 0] == number


def states_name_nothing_of_this_machine() -> None:
    """No path leaves with a model, and no name that came with one is asked of a hub."""
    corpus = Corpus.from_texts(["a", "b"], labels=["u", "v"])
    with tempfile.TemporaryDirectory() as folder:
        made = make_featurizer("minilm", {"cache_dir": folder}, corpus).fit(corpus)
        assert folder not in json.dumps(made.state())
        with pytest.MonkeyPatch.context() as patch:
            asked: list[dict[str, Any]] = []

            def snapshot(model: str, **options: Any) -> Path:
                asked.append(options)
                raise OSError(model)

            patch.setattr("huggingface_hub.snapshot_download", snapshot)
            with pytest.raises(PrivGCNError):
                encoders.stored_model("someone/else")
        assert all(options.get("local_files_only") for options in asked)


# -- noise is not what the plan says -----------------------------------------------------------

NOISE = "noise is what the plan says"
exactly = door.noisy
fresh = RandomSource.gaussian_steps

for name, wrong in {
    "noise forgotten": lambda t, g, s: t / g.unit,
    "noise a tenth too small": lambda t, g, s: exactly(np.rint(t / 0.9), g, s) * 0.9,
    "noise where nothing is, none where data are": lambda t, g, s: np.where(
        t == 0, exactly(t, g, s), t / g.unit
    ),
    "an empty sum gets no noise": lambda t, g, s: exactly(t, g, s) if t.any() else t,
    "every sum released twice": lambda t, g, s: (exactly(t, g, s) + exactly(t, g, s)) / 2,
    "noise in float32": lambda t, g, s: (
        t / g.unit + exactly(t * 0, g, s).astype("f4").astype(float)
    ),
    "noise of a generator of floats": lambda t, g, s: (
        t / g.unit + np.random.default_rng().normal(size=t.shape) * 2.0**g.noise_bits / g.unit
    ),
    "noise of another shape": lambda t, g, s: (
        t / g.unit
        + np.rint(
            s.words(t.size).astype(float).reshape(t.shape) * 2.0**-64 * 2**g.noise_bits * 4
            - 2 * 2**g.noise_bits
        )
        / g.unit
    ),
}.items():
    # Under sampling an adversary, and this audit, sees sums of nobody.
    defect(NOISE, name, sampled if "empty" in name else auto)(put(door, "noisy", wrong))


def remembering(pick: Callable[[list[Any]], Any]) -> Any:
    def again(self: RandomSource, count: int, bits: int) -> Any:
        drawn = self.__dict__.setdefault("before", {}).setdefault(count, [])
        drawn.append(fresh(self, count, bits))
        return pick(drawn).copy()

    return again


for name, pick in {
    "one noise for all steps": lambda drawn: drawn[0],
    "noise of two steps ago": lambda drawn: drawn[-3] if len(drawn) > 2 else drawn[-1],
    "noise comes back with the other sign": lambda drawn: (
        -drawn[-2] if len(drawn) % 2 == 0 else drawn[-1]
    ),
    "one noise for all classes": lambda drawn: np.full_like(drawn[-1], drawn[-1][0]),
}.items():
    defect(NOISE, name, auto)(put(RandomSource, "gaussian_steps", remembering(pick)))

# -- a group moves a sum by more than it pays for ---------------------------------------------

MOVES = "one unit moves a sum by no more than is accounted"


def apart(vector: Any, clip_norm: float, grid: Any) -> Any:
    import torch

    whole = module_gradient_clipped
    return torch.cat([whole(half, clip_norm, grid) for half in vector.tensor_split(2)])


def mixed_first(self: DocumentGraph, group: Any, count: int) -> Any:
    return subgraphs(replace(self, features=self.propagation @ self.features), group, count)


module_gradient_clipped = module_gradient.clipped
subgraphs, directions = DocumentGraph.subgraphs, groups.directions
clipped_sum = SoftmaxGradient.clipped_sum

defect(MOVES, "the clip norm is half of what is summed", auto)(
    put(SoftmaxGradient, "clipped_sum", lambda self, access: 2 * clipped_sum(self, access))
)
defect(MOVES, "rows are not scaled to length one", auto)(
    put(groups, "directions", lambda rows, mean=None: directions(rows, mean) * 1.5)
)
defect(MOVES, "a network's gradient is not clipped", network)(
    put(module_gradient, "clipped", lambda v, c, g: (v.double() * 50 * g.unit).trunc())
)
defect(MOVES, "clipping tensor by tensor", network)(put(module_gradient, "clipped", apart))
defect(MOVES, "edges between groups are kept", network)(
    put(DocumentGraph, "subgraphs", mixed_first)
)
defect(MOVES, "every document of a person is clipped by itself", people)(
    put(groups.Documents, "_fractions", lambda self, counted: counted * 1.0)
)
defect(MOVES, "two clip norms accounted as one", exchanged)(
    put(PrivacyPlan, "sensitivity", property(lambda self: 1))
)

# -- sums -------------------------------------------------------------------------------------

EXACT = "sums are exact, and a bad row is a row of zeros"


def in_float32(self: SoftmaxGradient, access: Any) -> Any:
    return clipped_sum(self, access).astype("f4").astype(float)


def by_the_longest(rows: Any, mean: Any = None) -> Any:
    with np.errstate(all="ignore"):
        return np.nan_to_num(rows / np.sqrt(fixed_point.row_squares(rows)).max())


defect(EXACT, "sums in float32", sums_are_exact)(
    put(SoftmaxGradient, "clipped_sum", in_float32)
)
defect(EXACT, "rows divided by the longest", sums_are_exact)(
    put(groups, "directions", by_the_longest)
)
defect(EXACT, "a row that is not finite is imputed", hostile_rows_add_zero)(
    put(groups, "directions", lambda rows, mean=None: directions(np.nan_to_num(rows), mean))
)
defect(EXACT, "a gradient that is not finite is imputed", hostile_rows_add_zero)(
    put(
        module_gradient,
        "clipped",
        lambda v, c, g: module_gradient_clipped(v.nan_to_num(), c, g),
    )
)

# -- samples, divisor and door ----------------------------------------------------------------

SAMPLES = "samples are what is accounted, and the divisor is expected"
sample = RandomSource.sample


def of_fixed_size(self: Schedule, step: int, source: RandomSource) -> Any:
    order = np.argsort(source.words(self.groups))
    return order < round(self.expected_groups)


def realised(self: Session, question: Any) -> Any:
    held: list[int] = []
    real = Schedule.sample

    def counted(schedule: Schedule, step: int, source: Any) -> Any:
        drawn = real(schedule, step, source)
        held.append(int(drawn.sum()))
        return drawn

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Schedule, "sample", counted)
        made = query(self, question)
    expected = self.plan.schedule.expected_groups
    return made * expected / max(1, held[0]) if held else made


query = Session.query
defect(SAMPLES, "samples a tenth too often", sampled)(
    put(RandomSource, "sample", lambda self, n, p: sample(self, n, min(1.0, 1.1 * p)))
)
defect(SAMPLES, "samples of a fixed size", samples_are_independent)(
    put(Schedule, "sample", of_fixed_size)
)
defect(SAMPLES, "one group after the other, accounted as Poisson", samples_are_independent)(
    put(Schedule, "sample", lambda self, step, s: np.arange(100) // 10 == step % 10)
)
defect(SAMPLES, "samples seeded by the step", samples_are_independent)(
    put(
        Schedule,
        "sample",
        lambda self, step, s: np.random.default_rng(step).random(self.groups) < 0.1,
    )
)
defect(SAMPLES, "the divisor is the realised sample", sampled)(put(Session, "query", realised))

DOOR = "a session answers as often as its plan pays for"


def never_closing(self: Session, question: Any) -> Any:
    self._answered = min(self._answered, self.plan.steps - 1)
    return query(self, question)


def free_if_it_fails(self: Session, question: Any) -> Any:
    before = self._answered
    try:
        return query(self, question)
    except AttributeError:
        self._answered = before
        raise


defect(DOOR, "the door stays open", the_door_closes)(put(Session, "query", never_closing))
defect(DOOR, "a question that fails is free", the_door_closes)(
    put(Session, "query", free_if_it_fails)
)

SECRET = "noise and samples are secret"
defect(SECRET, "a constant key", auto)(
    put(RandomSource, "secret", classmethod(lambda cls: cls(bytes(32))))
)
defect(SECRET, "a key of 32 bits of the clock", secrets_come_from_the_system)(
    put(
        RandomSource,
        "secret",
        classmethod(lambda cls: cls(hash(cls).to_bytes(32, "little"))),
    )
)
seeded = RandomSource.seeded
defect(SECRET, "seeded noise calls itself releasable", statements_say_what_ran)(
    put(
        RandomSource,
        "seeded",
        classmethod(lambda cls, seed, purpose: cls()),
    )
)
defect(SECRET, "draws after a fork", secrets_come_from_the_system)(
    put(
        RandomSource,
        "words",
        lambda self, n: np.frombuffer(self._stream.update(bytes(8 * n)), np.uint64),
    )
)

# -- accounting -------------------------------------------------------------------------------

COSTS = "epsilon is that of everything released"


def too_little(*args: Any, **kwargs: Any) -> Any:
    right = calibrate_event(*args, **kwargs)
    return replace(right, noise_multiplier=0.99 * right.noise_multiplier)


calibrate_event, draw = plans.calibrate_event, RunCount.draw
for name, patch in {
    "the table says one clip norm": put(PrivacyPlan, "sensitivity", property(lambda self: 1)),
    "the accountant forgets the sensitivity": put(
        plans, "GaussianEvent", lambda noise, count, rate, _: GaussianEvent(noise, count, rate)
    ),
    "one step": put(Schedule, "releases", lambda s, n: min(n, 1)),
    "an epoch that was begun is free": put(
        Schedule, "releases", lambda s, n: n // s.groups if s.name == "epoch" else n
    ),
    "half of the sampling rate": put(
        Schedule,
        "rate",
        property(lambda s: (s.sampling_probability or 2.0) / 2),
    ),
    "calibration on the wrong side": put(plans, "calibrate_event", too_little),
}.items():
    defect(COSTS, name, claims_are_right)(patch)
for name, patch in {
    "a truncated law of runs": put(RunCount, "draw", lambda self, s: min(draw(self, s), 12)),
    "a fixed number of runs": put(RunCount, "draw", lambda self, source: 10),
    "the first candidate counts for all": put(
        Selection, "alternatives", property(lambda s: s.candidates[:1])
    ),
    "scores of a search are free": put(
        Selection, "alternatives", property(lambda s: s.candidates)
    ),
    "a search costs what its winner costs": put(RunCount, "bound", lambda s, curve, _: curve),
}.items():
    defect(COSTS, name, searches_are_paid)(patch)
defect(COSTS, "the ledger keeps the dearest release only", releases_add_up)(
    put(ledger.Ledger, "_composed", lambda self, all_of, delta: max(p.epsilon for p in all_of))
)
defect(COSTS, "the ledger takes what is not releasable", releases_add_up)(
    put(ledger, "check_releasable", lambda statement, not_chosen: None)
)

# -- what content decides ---------------------------------------------------------------------

PUBLIC = "content decides nothing public"


def by_appearance(table: Any, problems: Any) -> Any:
    codes, names = owner_codes(table, problems)
    if codes is None:
        return codes, names
    _, first = np.unique(codes, return_index=True)
    order = np.argsort(first)
    return np.argsort(order)[codes], corpora.Strings.of(
        [table.frame["owner"].unique().sort()[order]]
    )


def by_size(facts: Any, count: int, owners: Any, columns: Any) -> Any:
    own = partition(facts, count, owners, columns)
    return own if owners is None else (own + np.bincount(owners)[owners]) % facts.groups


def most_first(table: Any, classes: Any, problems: Any) -> Any:
    names, labels = labels_of(table, classes, problems)
    order = np.argsort(-np.bincount(labels[labels >= 0], minlength=len(names)))
    return tuple(names[at] for at in order), np.argsort(order)[labels]


def uneven(count: int, seed: int, owners: Any = None) -> Any:
    own = random_split(count, seed, owners)
    return own if owners is None else np.roll(own, int(np.bincount(owners).argmax()))


def by_length(kind: Any, options: Any, corpus: Any, **more: Any) -> Any:
    long = kind is None and corpus.texts is not None and max(map(len, corpus.texts)) > 1000
    return make(("static" if long else kind), options, corpus, **more)


owner_codes, labels_of = documents.owner_codes, documents._labels
random_split, make = corpora.random_split, choosing.make_featurizer
for owner, attribute, value, name in (
    (documents, "owner_codes", by_appearance, "owners numbered as they appear"),
    (groups, "partition", by_size, "a partition by how much owners write"),
    (documents, "_labels", most_first, "classes in the order of their size"),
    (corpora, "random_split", uneven, "a split that follows how much owners write"),
    (choosing, "make_featurizer", by_length, "long texts choose another encoder"),
    (
        preparing,
        "public_size",
        lambda corpus, settings: len(corpus),
        "how much persons write chooses the encoder",
    ),
):
    defect(PUBLIC, name, content_decides_nothing)(put(owner, attribute, value))

# -- what leaves training ---------------------------------------------------------------------

RELEASED = "only answers leave the training documents"
fit = training.fit


def class_means(prepared: Any) -> Any:
    rows = np.asarray(
        prepared.featurizer.transform(prepared.corpus.train).todense(), np.float32
    )
    labels = prepared.corpus.train.labels
    return np.stack([rows[labels == c].sum(0) + 0.1 for c in range(len(prepared.classes))])


def with_tensor(name: str, value: Callable[[Any], Any]) -> Any:
    def leaking(prepared: Any, graph: Any) -> Any:
        made = fit(prepared, graph)
        return replace(made, tensors={**made.tensors, name: value(graph)})

    return leaking


defect(RELEASED, "name vectors from training rows", only_answers_leave)(
    put(training, "_label_vectors", class_means)
)
defect(RELEASED, "class bias from all labels", only_answers_leave)(
    put(
        training,
        "fit",
        with_tensor(
            "class_bias",
            lambda graph: np.bincount(graph.labels[graph.split == 0], minlength=3).astype("f4"),
        ),
    )
)
defect(RELEASED, "the true mean of rows", only_answers_leave)(
    put(
        training,
        "fit",
        with_tensor(
            "weight",
            lambda graph: np.asarray(graph.features[graph.split == 0].mean(0), "f4"),
        ),
    )
)
not_covered = training.not_covered
defect(RELEASED, "a statement that tells the number of edges", only_answers_leave)(
    put(
        training,
        "not_covered",
        lambda corpus, featurizer: [
            *not_covered(corpus, featurizer),
            training.Fact("other", detail=f"{corpus.edges.shape[1]} edges"),
        ],
    )
)
defect(RELEASED, "a statement bound to a hash of private texts", only_answers_leave)(
    put(
        training,
        "assumed_public",
        lambda corpus, featurizer: [
            training.Fact("own_module", detail=str(hash(tuple(corpus.texts))))
        ],
    )
)

# -- statements and files ---------------------------------------------------------------------

STATED = "a statement says what ran"
defect(STATED, "what is not covered is left out", statements_say_what_ran)(
    put(training, "not_covered", lambda corpus, featurizer: [])
)
defect(STATED, "a vocabulary counts as nothing learned", statements_say_what_ran)(
    put(words.BagOfWords, "learned", None)
)
defect(STATED, "classes of data count as declared", statements_say_what_ran)(
    put(
        training,
        "not_covered",
        lambda corpus, featurizer: not_covered(
            replace(corpus, facts=replace(corpus.facts, classes_declared=True)), featurizer
        ),
    )
)
EDITS = "an edit is noticed"
defect(EDITS, "a statement is not computed again", statements_say_what_ran)(
    put(PrivacyStatement, "verify", lambda self: None)
)
defect(EDITS, "the digest covers the plan alone", statements_say_what_ran)(
    put(PrivacyStatement, "digest", lambda self: f"{abs(hash(self.plan)):064x}"[:64])
)


def of_weights_alone(weights: bytes, record: Any, settings: Any) -> str:
    return verify.hashlib.sha256(verify._split_weights(weights)[0].encode()).hexdigest()


same = SimpleNamespace(sha256=lambda data: SimpleNamespace(hexdigest=lambda: "0" * 64))
write = folders.write_synced
defect(EDITS, "a model's record and settings are not bound", edits_are_noticed)(
    lambda patch: [
        patch.setattr(package, "model_sha256", of_weights_alone)
        for package in (verify, training)
    ]
)
defect(EDITS, "a manifest that is never compared", edits_are_noticed)(
    put(folders, "hashlib", same)
)
defect(EDITS, "a run that others can read", edits_are_noticed)(
    put(folders, "write_synced", lambda path, data, mode: write(path, data, mode=0o666))
)

# -- features ---------------------------------------------------------------------------------

TEXTS = "features that learn nothing follow from their own text"


def by_frequency(self: Any, corpus: Any) -> Any:
    rows = hashed(self, corpus)
    held = np.bincount(rows.indices, minlength=rows.shape[1])
    return rows.multiply(1 / np.maximum(held, 1)).tocsr()


def of_one_length(tokens: Any, forward: Any, **more: Any) -> Any:
    import torch

    with torch.inference_mode():
        shape = len(tokens), max(map(len, tokens))
        return bert.mean_layer(tokens, shape, forward, 0).numpy()


hashed, key = words.HashingWords.transform, VectorCache._key
defect(TEXTS, "features learn from the corpus", rows_follow_from_their_text)(
    put(words.HashingWords, "transform", by_frequency)
)
defect(TEXTS, "padding to the longest of a call", rows_follow_from_their_text)(
    put(encoders, "encoded", of_one_length)
)
defect(TEXTS, "a cache key of the first characters", rows_follow_from_their_text)(
    put(VectorCache, "_key", lambda self, text: key(self, text[:256]))
)
LOCAL = "a model file names nothing of this machine"
defect(LOCAL, "a state with the cache folder", states_name_nothing_of_this_machine)(
    put(encoders.MiniLM, "state", lambda self: {"kind": self.kind, **self.model_dump()})
)
defect(LOCAL, "a hub is asked because a model says so", states_name_nothing_of_this_machine)(
    put(encoders, "_OFFLINE", {})
)
