"""Which process this is, as the environment says."""

from __future__ import annotations

import pytest

from privgcn.errors import ConfigError
from privgcn.training.ranks import TIMEOUT, Ranks, seconds_to_wait

NAMES = ("RANK", "WORLD_SIZE", "MASTER_ADDR")


@pytest.fixture(autouse=True)
def _without_torchrun(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in (*NAMES, TIMEOUT):
        monkeypatch.delenv(name, raising=False)


def say(monkeypatch: pytest.MonkeyPatch, *values: str) -> None:
    for name, value in zip(NAMES, values, strict=False):
        monkeypatch.setenv(name, value)


@pytest.mark.parametrize("values", [(), ("1",), ("1", "2"), ("0", "1", "here")])
def test_without_all_of_torchruns_words_or_with_one_process_nobody_joins(
    monkeypatch: pytest.MonkeyPatch, values: tuple[str, ...]
) -> None:
    say(monkeypatch, *values)
    ranks = Ranks.of_environment()
    assert ranks == Ranks()
    assert ranks.alone
    assert ranks.leads
    with ranks.joined() as team:
        assert team is None


def test_torchruns_words_are_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    say(monkeypatch, "3", "4", "here")
    ranks = Ranks.of_environment()
    assert ranks == Ranks(3, 4)
    assert not ranks.alone
    assert not ranks.leads


@pytest.mark.parametrize("values", [("x", "2"), ("0", "-2"), ("2", "2")])
def test_words_that_make_no_sense_are_refused(
    monkeypatch: pytest.MonkeyPatch, values: tuple[str, str]
) -> None:
    say(monkeypatch, *values, "here")
    with pytest.raises(ConfigError, match=r"RANK|WORLD_SIZE"):
        Ranks.of_environment()


def test_the_time_to_wait_can_be_set(monkeypatch: pytest.MonkeyPatch) -> None:
    usual = seconds_to_wait()
    assert 60 <= usual <= 1800
    monkeypatch.setenv(TIMEOUT, "12.5")
    assert seconds_to_wait() == 12.5
    for text in ("0", "-1", "nan", "inf", "long"):
        monkeypatch.setenv(TIMEOUT, text)
        with pytest.raises(ConfigError, match=TIMEOUT):
            seconds_to_wait()
