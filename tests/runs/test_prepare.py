"""What is decided before any text is encoded: once, and by public facts alone."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

from builders import small_corpus, small_settings, two_class_corpus
from privgcn.config import MODES
from privgcn.errors import ConfigError, DataError, PrivacyContractError
from privgcn.features import words
from privgcn.mechanism import Ranks
from privgcn.privacy import accounting
from privgcn.privacy.plan import PrivacyPlan
from privgcn.runs.prepare import check_owners, graph_of, make_features, prepare, public_size
from privgcn.runs.train import _encoded, _gather, score_table, train

GIVEN = {"features__kind": "given", "features__options": {}}


def owned(**changes: Any) -> Any:
    """Vectors of forty owners, each on one side of the split."""
    fields = {
        "owners": np.arange(120) // 3,
        "owner_names": tuple(f"o{i}" for i in range(40)),
        "split": np.repeat([0, 1, 2], [72, 24, 24]).astype(np.int8),
    }
    return two_class_corpus(**{"worded": False, **fields, **changes})


@pytest.mark.parametrize(
    ("changes", "words_of_refusal"),
    [
        ({"privacy__unit": "person"}, "has no owners"),
        ({"privacy__parts": 41}, "between 1 and 40"),
        ({"privacy__delta": 0.2}, "at most one over the number of units"),
        ({"privacy__parts": "column:year"}, "not in the corpus"),
        ({"privacy__noise_multiplier": 2.0}, "either 'epsilon' or 'noise_multiplier'"),
        ({"training__patience": 5}, "must not stop early"),
        ({"training__device": "cuda"}, "needs a GPU"),
        ({"features__kind": "elsewhere"}, "must be one of"),
        ({"features__options": {"wings": 2}}, "no option 'wings'"),
        ({}, "'label' for training documents"),
    ],
)
def test_what_cannot_be_promised_is_refused_before_any_text_is_encoded(
    changes: dict[str, Any], words_of_refusal: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(words.HashingWords, "transform", None)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    corpus = small_corpus()
    if not changes:
        corpus = replace(corpus, labels=np.full(60, -1))
    with pytest.raises((ConfigError, DataError, PrivacyContractError), match=words_of_refusal):
        prepare(corpus, small_settings(**changes))


# hazard 24
def test_an_owner_on_both_sides_is_found_behind_a_view() -> None:
    corpus = small_corpus(owners=20)
    check_owners(corpus, "person")
    check_owners(corpus.train, "person")
    mixed = replace(corpus, owners=np.arange(60) % 20)
    for view in (mixed, mixed.train, mixed.select(mixed.split == 0).with_split(0)):
        with pytest.raises(PrivacyContractError, match="split by owner"):
            check_owners(view, "person")
        check_owners(view, "document")


def test_a_run_has_one_plan_and_its_epsilon_is_computed_while_calibrating_only(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    plans: list[PrivacyPlan] = []
    made = PrivacyPlan.__post_init__

    def plan(self: PrivacyPlan) -> None:
        plans.append(self)
        made(self)

    accounting._epsilon.cache_clear()
    monkeypatch.setattr(PrivacyPlan, "__post_init__", plan)
    prepared = prepare(small_corpus(), small_settings())
    calibrated = accounting._epsilon.cache_info().misses
    assert calibrated <= 20
    made_before = set(plans)
    run = train(prepared)
    score_table(run)
    assert set(plans) == made_before
    assert prepared.plan == run.model.statement.plan
    assert accounting._epsilon.cache_info().misses == calibrated


# hazard 21
def test_default_features_follow_owners_where_only_they_are_public() -> None:
    assert public_size(owned(), small_settings(privacy__unit="person")) == 40
    assert public_size(owned(), small_settings()) == 120


# hazard 21
def test_how_many_documents_people_have_does_not_choose_memory() -> None:
    bound = 30 * 6 * 4 / 2**30  # what forty owners could have, and more than they have
    settings = small_settings(privacy__unit="person", training__memory=bound, **GIVEN)
    for owners in (np.arange(120) % 40, np.zeros(120, dtype=np.int64)):
        corpus = owned(owners=owners)
        graph = graph_of(corpus, make_features(corpus, settings), settings)
        assert isinstance(graph.features, np.memmap)


@pytest.mark.parametrize(
    ("texts", "recipe", "changes"),
    [
        (True, None, {}),
        (False, None, {"privacy__unit": "person"}),
        (False, "paper-split", {"privacy__parts": 4, "training__epochs": 3}),
    ],
)
def test_rows_on_disk_train_the_same_model_to_the_bit(
    texts: bool, recipe: str | None, changes: dict[str, Any]
) -> None:
    corpus = owned(worded=texts)
    kind = {**GIVEN, "features__kind": "static" if texts else "given"}
    settings = small_settings(recipe, privacy__reproducible=True, **kind, **changes)
    near = train(prepare(corpus, settings))
    far = train(prepare(corpus, settings.changed({"training.memory": 0.0})))
    assert isinstance(far.graph.features, np.memmap)
    assert not isinstance(near.graph.features, np.memmap)
    assert near.model.released.serialised() == far.model.released.serialised()
    for mode in MODES:
        assert np.array_equal(near.predictions(mode), far.predictions(mode))


# --- ranks encode their own texts, each by the one that holds its group; one of them scores ---


def test_without_privacy_there_is_one_process() -> None:
    settings = small_settings("plain", epsilon=None)
    with pytest.raises(ConfigError, match="one process"):
        prepare(small_corpus(), settings, ranks=Ranks(0, 2))


def test_each_rank_encodes_whole_groups_and_the_first_gets_all() -> None:
    corpus = small_corpus(owners=20)
    settings = small_settings(
        privacy__unit="person", features__kind="static", features__options={}
    )
    train, graphs = corpus.split == 0, []
    for number in range(3):
        graphs.append(_encoded(prepare(corpus, settings, ranks=Ranks(number, 3))))
        own = graphs[-1].features.any(axis=1)
        owners = np.unique(corpus.owners[train & own])
        assert len(owners)
        assert np.array_equal(train & own, train & np.isin(corpus.owners, owners))
        assert own[~train].any()
    assert (np.sum([graph.features.any(axis=1) for graph in graphs], axis=0) == 1).all()

    class Summed:
        leads = True

        def sum(self, block: Any) -> Any:
            return sum(graph.features[: len(block)].astype(float) for graph in graphs)

    ranks: Any = Summed()
    _gather(graphs[0], ranks)
    alone = _encoded(prepare(corpus, settings))
    assert np.array_equal(graphs[0].features, alone.features)
