"""The door: what a session answers, how often, with which noise, and to whom it stays shut."""

import copy
import pickle
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import numpy as np
import pytest
from scipy.sparse import coo_array, csc_array
from scipy.stats import chi2

from brute_force import plan_of, random_graph
from privgcn.errors import PrivacyContractError
from privgcn.mechanism import Groups, RandomSource, Session, SoftmaxGradient, Statistics
from privgcn.mechanism import session as session_module
from privgcn.mechanism.fixed_point import Grid
from privgcn.mechanism.questions import Access
from privgcn.privacy.plan import PrivacyPlan, Schedule

pytestmark = pytest.mark.quick

GRAPH = random_graph(60, 8, 3, owners=15)
ZERO = SoftmaxGradient(np.zeros((8, 3)), np.zeros(3))


class Spy:
    """A question that records what it is lent, and answers with a known sum."""

    draws = True

    def __init__(self, total=None):
        self.lent = []
        self.total = np.zeros(5) if total is None else total

    def check(self, groups):
        pass

    def clipped_sum(self, access):
        self.lent.append(access)
        return np.array(self.total, np.float64)


def known_sum(session, question, sample=None):
    """What the groups of a session add up to, without noise, in clip norms."""
    sample = np.ones(60, bool) if sample is None else sample
    grid = Grid.of(session.plan.noise_multiplier, 60)
    access = Access(session._groups, None, 1.0, grid, sample, np.empty(0, int))
    return question.clipped_sum(access) / grid.unit


def session_of(graph=GRAPH, source=None, **fields):
    plan = plan_of(graph, **fields)
    return Session(plan, Groups.of_plan(plan, graph), source or RandomSource.secret())


def test_the_door_closes_when_the_plan_is_used_up():
    session = session_of(steps=2)
    assert (session.remaining, session.width, session.classes, session.dense) == (2, 8, 3, True)
    assert session.releasable
    assert not session_of(source=RandomSource.seeded(0, "t")).releasable
    assert session.query(Statistics()).shape == (11,)
    assert session.query(ZERO).shape == (8, 3)
    assert session.remaining == 0
    for _ in range(2):
        with pytest.raises(RuntimeError, match="All 2 releases of the plan"):
            session.query(ZERO)


# hazard 16
@pytest.mark.parametrize("error", [ValueError, MemoryError, KeyboardInterrupt])
@pytest.mark.parametrize("at", ["sample", "clipped_sum", "noisy"])
def test_an_answer_that_was_stopped_is_paid_for_and_not_made_again(at, error, monkeypatch):
    owner = {"sample": Schedule, "clipped_sum": Spy, "noisy": session_module}[at]
    made, original = [], getattr(owner, at)

    def stopped(*arguments):
        made.append(original(*arguments))
        raise error

    session = session_of(steps=2, probability=0.5, source=RandomSource.seeded(0, "t"))
    with monkeypatch.context() as patch:
        patch.setattr(owner, at, stopped)
        with pytest.raises(error):
            session.query(Spy())
    assert session.remaining == 1
    monkeypatch.setattr(owner, at, lambda *a: made.append(original(*a)) or made[-1])
    session.query(Spy())
    assert at == "clipped_sum" or not np.array_equal(*made), "as random as the first"
    with pytest.raises(RuntimeError, match="All 2 releases"):
        session.query(Spy())


def wrong_forms(*shape):
    """What is no array of finite real numbers of this shape, or large enough to overflow."""
    right = np.zeros(shape)
    numbers = [right + np.nan, right - np.inf, right + 1.7e308, right.astype(complex)]
    shapes = [right[:-1], right[..., :-1], right[None], right[..., None], right.sum()]
    # Its mask would hide a number that is none.
    masked = np.ma.masked_invalid(np.where(np.arange(right.size).reshape(shape), 0, np.nan))
    return [*numbers, *shapes, np.zeros(60), right.astype(str), masked, right.tolist()]


# hazard 33
def test_released_numbers_that_do_not_fit_are_refused_before_any_document_is_read():
    """Else one document, its label or their number would decide what happens."""
    session = session_of(steps=1)
    for wrong in wrong_forms(8, 3):
        with pytest.raises(ValueError, match=r"^weights must be a real array \[8, 3\]"):
            session.query(SoftmaxGradient(wrong, np.zeros(3)))
    for wrong in wrong_forms(3):
        with pytest.raises(ValueError, match=r"^bias must be a real array \[3\]"):
            session.query(SoftmaxGradient(np.zeros((8, 3)), wrong))
    assert session.remaining == 1, "nothing was read"
    session.query(SoftmaxGradient(np.full((8, 3), -1e100), np.full(3, 1e100)))


# hazard 33
@pytest.mark.parametrize("sparse", [False, True])
def test_largest_numbers_overflow_for_no_row(sparse):
    session = session_of(random_graph(60, 8, 3, sparse=sparse))
    weights = np.full((8, 3), 1e100) * [1, -1, 1]
    if session.dense:
        session.center(np.full(8, 1e100))
    with np.errstate(all="raise"):  # the caller's
        assert np.isfinite(session.query(SoftmaxGradient(weights, np.full(3, 1e100)))).all()


# hazard 16
def test_nobody_sets_or_copies_what_is_left():
    session = session_of(steps=2)
    with pytest.raises(AttributeError):
        session.remaining = 99
    with pytest.raises(AttributeError):
        session.plan = replace(session.plan, steps=99)
    for copied in (copy.copy, copy.deepcopy, pickle.dumps):
        with pytest.raises(TypeError, match="not copied"):
            copied(session)
    assert session.remaining == 2


# hazard 11, 16
def test_threads_share_a_plan_and_no_step_is_answered_twice():
    class Slow(Spy):
        @property
        def draws(self):
            time.sleep(0.002)
            return False

    session, spy = session_of(groups=20, sampling="epoch", steps=20), Slow()

    def ask(_):
        try:
            session.query(spy)
        except RuntimeError as error:
            return str(error)

    with ThreadPoolExecutor(25) as pool:
        errors = [error for error in pool.map(ask, range(25)) if error]
    visits = np.sum([access.sample for access in spy.lent], axis=0)
    assert (visits == 1).all(), "as an epoch is accounted"
    assert len(errors) == 5
    assert all("All 20 releases" in error for error in errors)


def test_groups_of_another_plan_are_refused():
    plan, parts = plan_of(GRAPH), plan_of(GRAPH, groups=4)
    # The last has as many groups of fewer documents: a delta may be small enough for them.
    fewer = plan_of(random_graph(40, 8, 3), groups=4)
    owners, seeded = plan_of(GRAPH, by="owner"), plan_of(GRAPH, groups=4, seed=1)
    for own, other in ((plan, parts), (plan, owners), (parts, seeded), (fewer, parts)):
        with pytest.raises(PrivacyContractError, match="groups of a session"):
            Session(own, Groups.of_plan(other, GRAPH), RandomSource.secret())


def test_a_plan_for_other_documents_is_refused():
    each, owners, parts = (plan_of(GRAPH, **f) for f in ({}, {"by": "owner"}, {"groups": 4}))
    for plan, graph, rows, match in (
        (each, GRAPH, np.arange(59), "60 groups"),
        (owners, replace(GRAPH, owners=np.arange(60)), None, "15"),
        (owners, replace(GRAPH, owners=None), None, "owners"),
        (parts, GRAPH, np.arange(40), "60 units"),
    ):
        with pytest.raises(PrivacyContractError, match=match):
            Groups.of_plan(plan, graph, rows=rows)


# hazard 12
@pytest.mark.parametrize("form", [csc_array, coo_array, np.ma.masked_array, str])
def test_rows_in_another_form_are_refused(form):
    """A square matrix in columns would be read as its transpose."""
    features = GRAPH.features.astype(str) if form is str else form(GRAPH.features)
    with pytest.raises(ValueError, match="Feature rows must be"):
        Groups.of_plan(plan_of(GRAPH), replace(GRAPH, features=features))


# hazard 12
@pytest.mark.parametrize(
    "rows",
    [
        np.array([3] * 10 + [*range(50)]),
        np.array([-1, *range(59)]),
        np.array([60, *range(59)]),
        np.arange(60.0),
        np.ones(60, bool),
        np.arange(60)[:, None],
    ],
    ids=["repeated", "negative", "beyond", "floats", "a mask", "a table"],
)
def test_chosen_rows_are_different_documents(rows):
    """A document that is chosen twice would count in two groups."""
    with pytest.raises(ValueError, match="Chosen rows must"):
        Groups.of_plan(plan_of(GRAPH), GRAPH, rows=rows)


def test_something_looser_than_a_plan_is_refused():
    class Cheaper(PrivacyPlan):
        @property
        def epsilon(self):
            return 0.1

    plan = plan_of(GRAPH)
    fields = {name: getattr(plan, name) for name in plan.__dataclass_fields__}
    with pytest.raises(PrivacyContractError, match="needs a PrivacyPlan"):
        Session(Cheaper(**fields), Groups.of_plan(plan, GRAPH), RandomSource.secret())


def test_a_mean_is_finite_and_for_dense_rows():
    with pytest.raises(ValueError, match="dense"):
        session_of(random_graph(9, sparse=True)).center(np.zeros(12))
    for mean in (np.full(8, np.nan), np.full(8, 1e101), np.zeros((60, 8)), np.zeros((1, 8))):
        with pytest.raises(ValueError, match=r"mean must be a real array \[8\]"):
            session_of().center(mean)


# hazard 9
def test_a_mean_counts_from_now_on_as_it_was_given():
    made = []
    for own, later in ((0.2, -1.0), (0.2, 0.2), (0.0, 0.0)):
        session, mean = session_of(source=RandomSource.seeded(0, "t")), np.full(8, own)
        session.query(ZERO)  # of rows without a mean, which are kept
        session.center(mean)
        mean[:] = later
        made.append(session.query(ZERO))
    assert np.array_equal(made[0], made[1])
    assert not np.array_equal(made[0], made[2])


def test_groups_may_serve_several_sessions():
    """What one session took off the rows, or its grid, is not there in the next."""
    plans = [plan_of(GRAPH, noise=noise) for noise in (1.0, 700.0)]
    shared = Groups.of_plan(plans[0], GRAPH)
    for plan in (*plans, plans[0]):
        made = []
        for groups in (shared, Groups.of_plan(plan, GRAPH)):
            session = Session(plan, groups, RandomSource.seeded(0, "t"))
            made.append([session.query(Statistics())])
            session.center(np.full(8, 0.2))
            made[-1].append(session.query(ZERO))
        assert all(map(np.array_equal, *made))


# hazard 8, 9
def test_sessions_of_one_groups_that_answer_at_once_share_no_rows():
    """Rows of another grid would be up to 2^6 clip norms long."""
    plans = [plan_of(GRAPH, noise=noise) for noise in (1e9, 1.0)]
    groups = Groups.of_plan(plans[0], GRAPH)
    first, other = (Session(plan, groups, RandomSource.seeded(0, "t")) for plan in plans)

    class Interrupted(type(groups.private)):
        def __setattr__(self, name, value):
            super().__setattr__(name, value)
            if name == "_whole" and other.remaining == 3:
                other.query(ZERO)

    groups.private.__class__ = Interrupted
    made = first.query(ZERO)
    alone = Session(plans[0], Groups.of_plan(plans[0], GRAPH), RandomSource.seeded(0, "t"))
    assert other.remaining == 2
    assert np.array_equal(made, alone.query(ZERO))


# -- noise as the caller receives it -----------------------------------------------------------


def answers(total, times, **fields):
    """What a session makes of a known sum, times the expected number of groups."""
    session = session_of(steps=times, source=RandomSource.seeded(0, "answers"), **fields)
    spy = Spy(total)
    made = np.stack([session.query(spy) for _ in range(times)])
    return made * session.plan.schedule.expected_groups


# hazard 2
@pytest.mark.parametrize("noise", [0.3, 5.0])
def test_noise_is_the_plans_in_every_coordinate_whatever_the_sum_is(noise):
    """On features that everybody uses as on those that nobody does, by chi-square."""
    grid, times = Grid.of(noise, 60), 3000
    total = np.trunc(np.concatenate([np.zeros(6), np.linspace(-60, 60, 6)]) * grid.unit)
    left = answers(total, times, noise=noise) - total / grid.unit
    for coordinate in left.T / noise:
        squares = (coordinate**2).sum()
        assert chi2.isf(1 - 1e-5, times) < squares < chi2.isf(1e-5, times)
        assert abs(coordinate.mean()) < 4.5 / np.sqrt(times)


# hazard 2
def test_real_sums_leave_with_full_noise():
    """The production path: the sum of real documents is known, and is subtracted."""
    times, words = 2000, np.array([0, 1])
    features = GRAPH.features.copy()
    features[:, words] = 0.0
    graph = replace(GRAPH, features=features)
    session = session_of(graph, RandomSource.seeded(0, "t"), steps=times, noise=2.0)
    known = known_sum(session, ZERO)
    assert not known[words].any()
    assert known[2:].any()
    left = np.stack([session.query(ZERO) * 60 - known for _ in range(times)]) / 2.0
    squares = (left**2).sum(0).ravel()
    assert (squares > chi2.isf(1 - 1e-6, times)).all()
    assert (squares < chi2.isf(1e-6, times)).all()


# hazard 3
def test_noise_is_independent_over_steps_and_coordinates():
    left = answers(np.zeros(30), 3000)
    correlations = np.corrcoef(np.concatenate([left[:-1].T, left[1:].T])) - np.eye(60)
    assert np.abs(correlations).max() < 5.5 / np.sqrt(2999)
    assert len(np.unique(np.abs(left))) == left.size


# hazard 10
@pytest.mark.parametrize("question", [Statistics(), ZERO])
@pytest.mark.parametrize("probability", [None, 0.25])
def test_the_divisor_is_the_expected_number_of_groups(question, probability, monkeypatch):
    monkeypatch.setattr(session_module, "noisy", lambda total, grid, _: total / grid.unit)
    session, sample = session_of(probability=probability, noise=1.0), np.arange(60) < 7
    monkeypatch.setattr(Schedule, "sample", lambda *_: sample)
    expected = 60 * (probability or 1.0)
    whole = known_sum(session, question, sample)
    assert np.allclose(session.query(question), whole / expected, rtol=1e-12)
    assert session.deviation == pytest.approx(1.0 / expected)


# hazard 10
@pytest.mark.parametrize("question", [Statistics(), ZERO])
def test_an_empty_sample_still_adds_the_full_noise(question):
    session = session_of(probability=1e-9, noise=3.0, steps=400)
    made = np.stack([session.query(question).ravel() for _ in range(400)])
    made *= session.plan.schedule.expected_groups
    assert made.std() == pytest.approx(3.0, rel=0.05)


# -- samples through the product path ----------------------------------------------------------


# hazard 11
def test_poisson_samples_come_at_the_accounted_rate():
    """100,000 draws of sixty groups each, as questions receive them."""
    session = session_of(probability=0.2, steps=1700, source=RandomSource.seeded(1, "rate"))
    other, spy = session_of(probability=0.2, steps=3), Spy()
    for each in [session] * 1700 + [other] * 3:
        each.query(spy)
    drawn = np.stack([access.sample for access in spy.lent])
    taken, others = drawn[:1700], drawn[1700:]
    assert not (taken[:3] == others).all(), "no two sources share a sample"
    assert taken.size > 100_000
    rate = session.plan.training.sampling_probability
    assert taken.mean() == pytest.approx(rate, rel=0.01)
    assert np.abs(taken.mean(0) - rate).max() < 5 * np.sqrt(rate * (1 - rate) / 1700)
    assert len({access.sample.tobytes() for access in spy.lent}) > 1690
    correlation = np.corrcoef(taken[:-1].ravel(), taken[1:].ravel())[0, 1]
    assert abs(correlation) < 5 / np.sqrt(taken.size)
    assert taken.sum(1).var() == pytest.approx(60 * rate * (1 - rate), rel=0.2)


# hazard 11
def test_an_epoch_visits_each_group_once_whatever_came_before():
    session = session_of(groups=6, sampling="epoch", steps=12)
    spy = Spy()
    session.query(ZERO)
    session.query(Statistics())
    for _ in range(10):
        session.query(spy)
    taken = np.stack([access.sample for access in spy.lent])
    assert (taken.sum(1) == 1).all()
    visited = [0, 1, *taken.argmax(1).tolist()]
    assert visited == [*range(6), *range(6)]
    assert session.plan.training.count == 2


# hazard 15
def test_each_group_gets_a_secret_word_of_its_own():
    session, spy = session_of(probability=0.5, steps=3), Spy()
    for _ in range(3):
        session.query(spy)
    seeds = np.concatenate([access.seeds for access in spy.lent])
    assert len(np.unique(seeds)) == len(seeds) == 180, "also those that do not take part"


# -- what else leaves --------------------------------------------------------------------------


# hazard 33
def test_nothing_is_printed_or_warned_whatever_the_documents_are(capfd, recwarn):
    rows = GRAPH.features.astype(np.float64)
    rows[0], rows[1], rows[2, 3], rows[3] = np.nan, 1e300, np.inf, 1e-300
    labels = GRAPH.labels.copy()
    labels[:3] = 99, -7, 2**40
    session = session_of(replace(GRAPH, features=rows, labels=labels), steps=4)
    assert np.isfinite(session.query(Statistics())).all()
    session.center(np.full(8, 0.1))
    assert np.isfinite(session.query(ZERO)).all()
    assert repr(session._groups).count("nan") == 0
    assert capfd.readouterr() == ("", "")
    assert not recwarn.list
