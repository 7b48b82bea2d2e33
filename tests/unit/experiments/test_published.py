from __future__ import annotations

import pytest

from privgcn.errors import ConfigError
from privgcn.experiments.paper.published import leaves, noise_of, published


def test_every_table_of_the_paper_is_there() -> None:
    facts = published()
    assert set(facts["table1"]) == {"citeseer", "cora", "pubmed", "pokec", "reddit"}
    assert len(facts["noise_to_epsilon"]) == 4
    assert set(facts["pokec_features"]) == {"bow", "fasttext", "bert"}
    assert [row["f1"] for row in facts["mnist"]] == [0.90, 0.84, 0.45, 0.39, 0.10]


def test_a_leaf_is_named_by_its_path() -> None:
    found = leaves()
    assert found["table1.cora.dp_full_eps2.adam"] == 0.52
    assert found["mnist.3.std"] == 0.15
    assert found["dataset_sizes.pubmed.train"] == 18217
    assert found["text_claims.data_fractions_experiment_b"] == [0.25, 0.5, 0.75, 1.0]
    assert found["text_claims.hard_cases_cora.dp_any_noise_just_over"] == 0.70


def test_noise_is_found_by_the_round_epsilon() -> None:
    assert noise_of(2, "sgd") == 112
    assert noise_of(137, "adam") == 2
    with pytest.raises(ConfigError, match="noise table"):
        noise_of(3, "sgd")
