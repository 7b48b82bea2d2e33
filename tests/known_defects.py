"""Known defects, each of which some version of this field's code had or nearly had.

A defect is a patch of one name, beside the property that it breaks and the check that must
notice it: an audit, a test of the suite, or a check that is written here.
``tests/test_known_defects.py`` runs every check on the code as it is, where it must pass, and
with every defect planted, where it must fail.
"""

import sys
import tempfile
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple

import numpy as np
import pytest

from privgcn.config import make_settings
from privgcn.data import Corpus, documents
from privgcn.data import corpus as corpora
from privgcn.errors import PrivGCNError
from privgcn.features import bert, encoders, make_featurizer, words
from privgcn.features import choose as _choose  # noqa: F401  (imports the module)
from privgcn.features.cache import VectorCache
from privgcn.graph import DocumentGraph, partition
from privgcn.mechanism import (
    RandomSource,
    Session,
    SoftmaxGradient,
    fixed_point,
    groups,
    module_gradient,
)
from privgcn.mechanism import session as door
from privgcn.privacy import ledger, verify
from privgcn.privacy import plan as plans
from privgcn.privacy.accounting import GaussianEvent
from privgcn.privacy.ledger import Ledger
from privgcn.privacy.plan import PrivacyPlan, Schedule
from privgcn.privacy.selection import RunCount, Selection
from privgcn.privacy.statement import PrivacyStatement
from privgcn.runs import folder as folders
from privgcn.runs import prepare as preparing
from privgcn.runs import train as training
from privgcn_paper import bags

choosing = sys.modules["privgcn.features.choose"]
TESTS = Path(__file__).parent


class Defect(NamedTuple):
    """A name, what notices it, and the patch: what ``owner.attribute`` is instead."""

    name: str
    caught_by: Callable[[], None]
    owner: Any
    attribute: str
    value: Any

    def plant(self, patch):
        """Puts the defect into the code."""
        for owner in self.owner if isinstance(self.owner, tuple) else (self.owner,):
            patch.setattr(owner, self.attribute, self.value)


# -- checks -----------------------------------------------------------------------------------


def audited(recipe="auto", *, count=500, units=100, **changes):
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


def suite(*names):
    """These tests of the suite pass."""

    def check():
        ids = [str(TESTS / name) for name in names]
        code = pytest.main([*ids, "-x", "-q", "-p", "no:cacheprovider"])
        if code not in (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED):
            raise ValueError(f"not all of {names} are tests")
        assert code == pytest.ExitCode.OK

    check.of_suite = True
    return check


the_door_closes = suite(
    "mechanism/test_session.py::test_the_door_closes_when_the_plan_is_used_up",
    "mechanism/test_session.py::test_an_answer_that_was_stopped_is_paid_for_and_not_made_again",
)
claims_are_right = suite("privacy/test_plan.py")
searches_are_paid = suite(
    "privacy/test_selection.py::test_the_number_of_runs_has_the_stated_law",
    "privacy/test_selection.py::test_the_plan_costs_what_the_search_costs",
)
releases_add_up = suite(
    "privacy/test_ledger.py::test_releases_add_up_like_one_longer_run",
    "privacy/test_ledger.py::test_what_may_not_be_released",
)
secrets_come_from_the_system = suite(
    "mechanism/test_noise.py::"
    "test_secret_sources_never_repeat_and_seeded_ones_may_not_be_released",
    "mechanism/test_noise.py::test_a_secret_key_is_what_the_system_gives",
    "mechanism/test_noise.py::test_nothing_is_drawn_after_a_fork",
)
content_moves_nothing = suite(
    "data/test_documents.py::test_content_moves_no_split_and_no_owner_number",
    "data/test_documents.py::test_how_often_a_class_occurs_does_not_order_the_classes",
)
others_do_not_move = suite(
    "mechanism/test_questions.py::test_how_much_somebody_writes_moves_nobody_else"
)
statements_say_what_ran = suite(
    "runs/test_statement_facts.py::test_classes_that_were_taken_from_the_labels_are_named",
    "runs/test_statement_facts.py::"
    "test_features_that_learn_are_named_and_learn_from_training_documents_only",
)
statements_notice_edits = suite("privacy/test_statement.py::test_every_single_edit_is_noticed")
edits_are_noticed = suite("runs/test_verify.py")
a_run_is_for_its_owner = suite(
    "runs/test_folder.py::test_a_run_is_for_its_owner_alone_whatever_the_umask"
)
hashing_learns_nothing = suite(
    "features/test_words.py::test_hashing_is_as_wide_and_as_deep_whatever_others_write",
    "features/test_words.py::test_a_row_depends_on_its_own_text_to_the_bit",
)
rows_are_exact = suite(
    "mechanism/test_questions.py::test_a_hostile_row_adds_what_its_definition_says"
)
bad_gradients_are_zero = suite(
    "mechanism/test_module_gradient.py::"
    "test_a_vector_is_clipped_as_a_whole_and_lies_on_the_grid"
)
samples_are_independent = suite(
    "mechanism/test_session.py::test_poisson_samples_come_at_the_accounted_rate"
)
models_follow_answers = suite(
    "runs/test_neighbours.py::test_what_leaves_training_follows_from_its_answers"
)
files_follow_answers = suite(
    "runs/test_neighbours.py::test_saved_models_and_releases_of_neighbours_tell_the_same"
)
vectors_are_their_own = suite(
    "features/test_encoders.py::test_a_vector_has_the_same_bits_in_any_company"
)
keys_are_whole_texts = suite(
    "features/test_cache.py::test_a_key_is_the_whole_text_and_the_encoder"
)

auto = audited
exchanged = partial(audited, privacy__relation="replace", count=20)
sampled = partial(
    audited,
    privacy__sampling="poisson",
    privacy__sampling_probability=0.25,
    training__epochs=16,
)
people = partial(audited, privacy__unit="person", count=20)
network = partial(
    audited, "paper-split", count=10, training__epochs=1, privacy__sampling="epoch"
)


def letters(each):
    """Twenty people who wrote as many letters each."""
    rows = range(20 * each)
    return Corpus.from_frame(
        {
            "id": [str(row) for row in rows],
            "text": ["a letter" for _ in rows],
            "label": ["u" if row % 3 else "v" for row in rows],
            "owner": [f"p{row % 20}" for row in rows],
        }
    )


def content_chooses_nothing():
    """How much is written, by whom, does not choose features."""
    settings = make_settings(epsilon=4.0, changes={"privacy.unit": "person"})
    texts = [Corpus.from_texts([t] * 20, labels=["u", "v"] * 10) for t in ("a", "b " * 3000)]
    with pytest.MonkeyPatch.context() as patch:
        # Sixteen tokens of forty units.
        patch.setattr(choosing, "tokens_a_second", lambda: 16 * 40 / choosing.BUDGET)
        for made in (
            *(choosing.make_featurizer(None, None, corpus) for corpus in texts),
            *(preparing.make_features(letters(each), settings) for each in (2, 5)),
        ):
            assert made.state().get("max_length") == 32


def states_name_nothing_of_this_machine():
    """No path leaves with a model, and no name that came with one is asked of a hub."""
    corpus, asked = Corpus.from_texts(["a", "b"], labels=["u", "v"]), []

    def snapshot(model, **options):
        asked.append(options)
        raise OSError(model)

    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        made = make_featurizer("minilm", {"cache_dir": folder}, corpus).fit(corpus)
        assert folder not in str(made.state())
        patch.setattr("huggingface_hub.snapshot_download", snapshot)
        with pytest.raises(PrivGCNError):
            encoders.stored_model("someone/else")
    assert all(options.get("local_files_only") for options in asked)


# -- the code as it is, for patches that change its results -----------------------------------

exactly, query, fit = door.noisy, Session.query, training.fit
fresh, sample = RandomSource.gaussian_steps, RandomSource.sample
clipped_sum, clipped = SoftmaxGradient.clipped_sum, module_gradient.clipped
subgraphs, directions = DocumentGraph.subgraphs, groups.directions
drawn_sample, draw = Schedule.sample, RunCount.draw
calibrate_event, not_covered = plans.calibrate_event, training.not_covered
owner_codes, labels_of = documents.owner_codes, documents._labels
random_split, make = corpora.random_split, choosing.make_featurizer
hashed, key, write = words.HashingWords.transform, VectorCache._key, folders.write_synced

# -- patches that take more than a line -------------------------------------------------------


def of_floats(t, g, s):
    return (
        t / g.unit + np.random.default_rng().normal(size=t.shape) * 2.0**g.noise_bits / g.unit
    )


def uniform(t, g, s):
    drawn = s.words(t.size).astype(float).reshape(t.shape) * 2.0**-64
    return t / g.unit + np.rint((4 * drawn - 2) * 2**g.noise_bits) / g.unit


def remembering(pick):
    def again(self, count, bits):
        drawn = self.__dict__.setdefault("before", {}).setdefault(count, [])
        drawn.append(fresh(self, count, bits))
        return pick(drawn).copy()

    return again


def tensor_by_tensor(vector, clip_norm, grid):
    import torch

    return torch.cat([clipped(half, clip_norm, grid) for half in vector.tensor_split(2)])


def mixed_first(self, group, count):
    return subgraphs(replace(self, features=self.propagation @ self.features), group, count)


def by_the_longest(rows, mean=None):
    with np.errstate(all="ignore"):
        return np.nan_to_num(rows / np.sqrt(fixed_point.row_squares(rows)).max())


def of_fixed_size(self, step, source):
    return np.argsort(source.words(self.groups)) < round(self.expected_groups)


def by_realised(self, question):
    held = []

    def counted(schedule, step, source):
        drawn = drawn_sample(schedule, step, source)
        held.append(int(drawn.sum()))
        return drawn

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Schedule, "sample", counted)
        made = query(self, question)
    return made * self.plan.schedule.expected_groups / max(1, held[0])


def never_closing(self, question):
    self._answered = min(self._answered, self.plan.steps - 1)
    return query(self, question)


def free_if_it_fails(self, question):
    before = self._answered
    try:
        return query(self, question)
    except ValueError:
        self._answered = before
        raise


def too_little(*args, **kwargs):
    right = calibrate_event(*args, **kwargs)
    return replace(right, noise_multiplier=0.99 * right.noise_multiplier)


def by_appearance(table, problems):
    codes, names = owner_codes(table, problems)
    if codes is None:
        return codes, names
    order = np.argsort(np.unique(codes, return_index=True)[1])
    sorted_names = table.frame["owner"].unique().sort()
    return np.argsort(order)[codes], corpora.Strings.of([sorted_names[order]])


def by_size(facts, count, owners, columns):
    own = partition(facts, count, owners, columns)
    return own if owners is None else (own + np.bincount(owners)[owners]) % facts.groups


def most_first(table, classes, problems):
    names, labels = labels_of(table, classes, problems)
    order = np.argsort(-np.bincount(labels[labels >= 0], minlength=len(names)))
    return tuple(names[at] for at in order), np.argsort(order)[labels]


def uneven(count, seed, owners=None):
    own = random_split(count, seed, owners)
    return own if owners is None else np.roll(own, int(np.bincount(owners).argmax()))


def by_length(kind, options, corpus, **more):
    long = kind is None and corpus.texts is not None and max(map(len, corpus.texts)) > 1000
    return make(("static" if long else kind), options, corpus, **more)


def class_means(prepared):
    train = prepared.corpus.train
    rows = np.asarray(prepared.featurizer.transform(train).todense(), np.float32)
    classes = range(len(prepared.classes))
    return np.stack([rows[train.labels == c].sum(0) + 0.1 for c in classes])


def with_tensor(name, value):
    def leaking(prepared, graph):
        made = fit(prepared, graph)
        tensor = np.asarray(value(graph.induced(np.flatnonzero(graph.split == 0))), "f4")
        return replace(made, tensors={**made.tensors, name: tensor})

    return leaking


def telling(code, value):
    return lambda corpus, featurizer: [training.Fact(code, detail=value(corpus))]


def as_if_declared(corpus, featurizer):
    facts = replace(corpus.facts, classes_declared=True)
    return not_covered(replace(corpus, facts=facts), featurizer)


def of_weights_alone(weights, record, settings):
    return verify.hashlib.sha256(verify._split_weights(weights)[0].encode()).hexdigest()


def by_frequency(self, corpus):
    rows = hashed(self, corpus)
    held = np.bincount(rows.indices, minlength=rows.shape[1])
    return rows.multiply(1 / np.maximum(held, 1)).tocsr()


def of_one_length(tokens, forward, **more):
    import torch

    with torch.inference_mode():
        shape = len(tokens), max(map(len, tokens))
        return bert.mean_layer(tokens, shape, forward, 0).numpy()


same_hash = SimpleNamespace(sha256=lambda data: SimpleNamespace(hexdigest=lambda: "0" * 64))

# -- the defects ------------------------------------------------------------------------------

_NOISY = {
    "noise forgotten": lambda t, g, s: t / g.unit,
    "noise a tenth too small": lambda t, g, s: exactly(np.rint(t / 0.9), g, s) * 0.9,
    "noise where nothing is, none where data are": lambda t, g, s: np.where(
        t == 0, exactly(t, g, s), t / g.unit
    ),
    "an empty sum gets no noise": lambda t, g, s: exactly(t, g, s) if t.any() else t,
    "every sum released twice": lambda t, g, s: (exactly(t, g, s) + exactly(t, g, s)) / 2,
    "noise in float32": lambda t, g, s: t / g.unit + exactly(t * 0, g, s).astype("f4") * 1.0,
    "noise of a generator of floats": of_floats,
    "noise of another shape": uniform,
}
_REMEMBERED = {
    "one noise for all steps": lambda drawn: drawn[0],
    "noise of two steps ago": lambda drawn: drawn[-3] if len(drawn) > 2 else drawn[-1],
    "noise comes back with the other sign": lambda drawn: (
        -drawn[-2] if len(drawn) % 2 == 0 else drawn[-1]
    ),
    "one noise for all classes": lambda drawn: np.full_like(drawn[-1], drawn[-1][0]),
}

# fmt: off
_TABLE = {
    "noise is what the plan says": [
        # Under sampling an adversary, and this audit, sees sums of nobody.
        *(
            (name, sampled if "empty" in name else auto, door, "noisy", wrong)
            for name, wrong in _NOISY.items()
        ),
        *(
            (name, auto, RandomSource, "gaussian_steps", remembering(pick))
            for name, pick in _REMEMBERED.items()
        ),
    ],
    "one unit moves a sum by no more than is accounted": [
        ("the clip norm is half of what is summed", auto, SoftmaxGradient, "clipped_sum",
         lambda self, access: 2 * clipped_sum(self, access)),
        ("rows are not scaled to length one", auto, groups, "directions",
         lambda rows, mean=None: directions(rows, mean) * 1.5),
        ("a network's gradient is not clipped", network, module_gradient, "clipped",
         lambda v, c, g: (v.double() * 50 * g.unit).trunc()),
        ("clipping tensor by tensor", network, module_gradient, "clipped", tensor_by_tensor),
        ("edges between groups are kept", network, DocumentGraph, "subgraphs", mixed_first),
        ("every document of a person is clipped by itself", people, groups.Documents,
         "_fractions", lambda self, counted: counted * 1.0),
        ("two clip norms accounted as one", exchanged, PrivacyPlan, "sensitivity",
         property(lambda self: 1)),
    ],
    "sums are exact, and a bad row is a row of zeros": [
        ("sums in float32", rows_are_exact, SoftmaxGradient, "clipped_sum",
         lambda self, access: clipped_sum(self, access).astype("f4").astype(float)),
        ("rows divided by the longest", rows_are_exact, groups, "directions", by_the_longest),
        ("a row that is not finite is imputed", rows_are_exact, groups, "directions",
         lambda rows, mean=None: directions(np.nan_to_num(rows), mean)),
        ("a gradient that is not finite is imputed", bad_gradients_are_zero, module_gradient,
         "clipped", lambda v, c, g: clipped(v.nan_to_num(), c, g)),
    ],
    "samples are what is accounted, and the divisor is expected": [
        ("samples a tenth too often", sampled, RandomSource, "sample",
         lambda self, n, p: sample(self, n, min(1.0, 1.1 * p))),
        ("samples of a fixed size", samples_are_independent, Schedule, "sample", of_fixed_size),
        ("one group after the other, accounted as Poisson", samples_are_independent, Schedule,
         "sample", lambda self, step, s: np.arange(self.groups) % 5 == step % 5),
        ("samples seeded by the step", samples_are_independent, Schedule, "sample",
         lambda self, step, s: np.random.default_rng(step).random(self.groups) < self.rate),
        ("the divisor is the realised sample", sampled, Session, "query", by_realised),
    ],
    "a session answers as often as its plan pays for": [
        ("the door stays open", the_door_closes, Session, "query", never_closing),
        ("a question that fails is free", the_door_closes, Session, "query", free_if_it_fails),
    ],
    "noise and samples are secret": [
        ("a constant key", auto, RandomSource, "secret",
         classmethod(lambda cls: cls(bytes(32)))),
        ("a key of 32 bits of the clock", secrets_come_from_the_system, RandomSource, "secret",
         classmethod(lambda cls: cls(hash(cls).to_bytes(32, "little")))),
        ("seeded noise calls itself releasable", secrets_come_from_the_system, RandomSource,
         "seeded", classmethod(lambda cls, seed, purpose: cls())),
        ("draws after a fork", secrets_come_from_the_system, RandomSource, "words",
         lambda self, n: np.frombuffer(self._stream.update(bytes(8 * n)), np.uint64)),
    ],
    "epsilon is that of everything released": [
        ("the table says one clip norm", claims_are_right, PrivacyPlan, "sensitivity",
         property(lambda self: 1)),
        ("the accountant forgets the sensitivity", claims_are_right, plans, "GaussianEvent",
         lambda noise, count, rate, _: GaussianEvent(noise, count, rate)),
        ("one step", claims_are_right, Schedule, "releases", lambda s, n: min(n, 1)),
        ("an epoch that was begun is free", claims_are_right, Schedule, "releases",
         lambda s, n: n // s.groups if s.name == "epoch" else n),
        ("half of the sampling rate", claims_are_right, Schedule, "rate",
         property(lambda s: (s.sampling_probability or 2.0) / 2)),
        ("calibration on the wrong side", claims_are_right, plans, "calibrate_event",
         too_little),
        ("a truncated law of runs", searches_are_paid, RunCount, "draw",
         lambda self, source: min(draw(self, source), 12)),
        ("a fixed number of runs", searches_are_paid, RunCount, "draw",
         lambda self, source: 10),
        ("the first candidate counts for all", searches_are_paid, Selection, "alternatives",
         property(lambda s: s.candidates[:1])),
        ("scores of a search are free", searches_are_paid, Selection, "alternatives",
         property(lambda s: s.candidates)),
        ("a search costs what its winner costs", searches_are_paid, RunCount, "bound",
         lambda self, curve, deltas: curve),
        ("the ledger keeps the dearest release only", releases_add_up, Ledger, "_composed",
         lambda self, plans, delta: max(plan.epsilon for plan in plans)),
        ("the ledger takes what is not releasable", releases_add_up, ledger,
         "check_releasable", lambda statement, not_chosen: None),
    ],
    "content decides nothing public": [
        ("owners numbered as they appear", content_moves_nothing, documents, "owner_codes",
         by_appearance),
        ("a partition by how much owners write", others_do_not_move, groups, "partition",
         by_size),
        ("classes in the order of their size", content_moves_nothing, documents, "_labels",
         most_first),
        ("a split that follows how much owners write", content_moves_nothing, documents,
         "random_split", uneven),
        ("long texts choose another encoder", content_chooses_nothing, choosing,
         "make_featurizer", by_length),
        ("how much persons write chooses the encoder", content_chooses_nothing, preparing,
         "public_size", lambda corpus, settings: len(corpus)),
    ],
    "only answers leave the training documents": [
        ("name vectors from training rows", models_follow_answers, training, "_label_vectors",
         class_means),
        ("class bias from all labels", models_follow_answers, training, "fit",
         with_tensor("class_bias", lambda own: np.bincount(own.labels, minlength=3))),
        ("the true mean of rows", models_follow_answers, training, "fit",
         with_tensor("weight", lambda own: own.features.mean(0))),
        ("a statement that tells the number of edges", files_follow_answers, training,
         "not_covered", telling("other", lambda corpus: f"{corpus.edges.shape[1]} edges")),
        ("a statement bound to a hash of private texts", files_follow_answers, training,
         "assumed_public", telling("own_module", lambda c: str(hash(tuple(c.texts))))),
    ],
    "a statement says what ran": [
        ("what is not covered is left out", statements_say_what_ran, training, "not_covered",
         lambda corpus, featurizer: []),
        ("a vocabulary counts as nothing learned", statements_say_what_ran, bags.BagOfWords,
         "learned", None),
        ("classes of data count as declared", statements_say_what_ran, training, "not_covered",
         as_if_declared),
    ],
    "an edit is noticed": [
        ("a statement is not computed again", statements_notice_edits,
         PrivacyStatement, "verify", lambda self: None),
        ("the digest covers the plan alone", statements_notice_edits,
         PrivacyStatement, "computed_digest", lambda self: f"{abs(hash(self.plan)):064x}"),
        ("a model's record and settings are not bound", edits_are_noticed, (verify, training),
         "model_sha256", of_weights_alone),
        ("a manifest that is never compared", edits_are_noticed, folders, "hashlib", same_hash),
        ("a run that others can read", a_run_is_for_its_owner, folders, "write_synced",
         lambda path, data, mode: write(path, data, mode=0o666)),
    ],
    "features that learn nothing follow from their own text": [
        ("features learn from the corpus", hashing_learns_nothing, words.HashingWords,
         "transform", by_frequency),
        ("padding to the longest of a call", vectors_are_their_own, encoders, "encoded",
         of_one_length),
        ("a cache key of the first characters", keys_are_whole_texts, VectorCache,
         "_key", lambda self, text: key(self, text[:256])),
    ],
    "a model file names nothing of this machine": [
        ("a state with the cache folder", states_name_nothing_of_this_machine, encoders.MiniLM,
         "state", lambda self: vars(self)),
        ("a hub is asked because a model says so", states_name_nothing_of_this_machine,
         encoders, "_OFFLINE", {}),
    ],
}
# fmt: on
PROPERTIES = {broken: [Defect(*row) for row in rows] for broken, rows in _TABLE.items()}
