from __future__ import annotations

import pytest

from privgcn.errors import ConfigError
from privgcn.experiments.paper.published import OPTIMIZERS, published


def test_every_table_of_the_paper_is_there() -> None:
    facts = published()
    assert set(facts.scores) == {"citeseer", "cora", "pubmed", "pokec", "reddit"}
    assert facts.scores["cora"].full_epsilon_2 == {"sgd": 0.39, "adam": 0.52}
    assert len(facts.noise) == 8
    assert set(facts.features) == {"bow", "fasttext", "bert"}
    assert set(facts.features["bow"].private) == {2, 5, 10, 137}
    assert [row.f1 for row in facts.mnist] == [0.90, 0.84, 0.45, 0.39, 0.10]
    assert facts.sizes["pubmed"].train == 18217
    assert facts.settings["delta"] == 1e-5


def test_noise_is_found_by_the_round_epsilon() -> None:
    assert published().noise_of(2, "sgd").noise_multiplier == 112
    assert published().noise_of(137, "adam").noise_multiplier == 2
    with pytest.raises(ConfigError, match="noise table"):
        published().noise_of(3, "sgd")


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_epsilons_of_the_noise_table_to_the_printed_digits(optimizer: str) -> None:
    from privgcn.privacy.accounting.epsilon import epsilon_of

    for row in published().noise:
        if row.optimizer == optimizer:
            epsilon = epsilon_of(
                noise_multiplier=row.noise_multiplier, steps=row.steps, accountant="moments"
            )
            assert round(epsilon, 2) == row.epsilon
