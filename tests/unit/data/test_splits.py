from __future__ import annotations

import numpy as np
import pytest

from privgcn.data.splits import random_split


def test_shares_and_seed() -> None:
    split = random_split(1000, seed=3)
    assert np.bincount(split).tolist() == [800, 100, 100]
    assert (split == random_split(1000, seed=3)).all()
    assert (split != random_split(1000, seed=4)).any()


@pytest.mark.parametrize(
    ("count", "sizes"), [(1, [1]), (2, [2]), (3, [1, 1, 1]), (7, [5, 1, 1])]
)
def test_small_corpora(count: int, sizes: list[int]) -> None:
    assert np.bincount(random_split(count, 0)).tolist() == sizes


def test_owners_stay_together_and_their_sizes_do_not_matter() -> None:
    few = np.arange(50).repeat(2)
    many = np.arange(50).repeat(np.arange(1, 51))
    split = random_split(len(many), 1, many)
    of_owner = {int(owner): set(split[many == owner]) for owner in range(50)}
    assert all(len(parts) == 1 for parts in of_owner.values())
    small = random_split(len(few), 1, few)
    assert [min(parts) for parts in of_owner.values()] == small[::2].tolist()
