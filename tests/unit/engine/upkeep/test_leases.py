"""A worker uses the shortest lease of its queues, whichever worker set it."""

from __future__ import annotations

import pytest

from headrace.core.messages.message import Stream
from headrace.engine.intake.served_streams import ServedStreams
from headrace.engine.upkeep.leases import Leases

FIRST, SECOND, OTHER = (Stream("queue", name) for name in ("first", "second", "other"))


@pytest.fixture
def followed() -> list[float]:
    return []


@pytest.fixture
def leases(followed: list[float]) -> Leases:
    leases = Leases(ServedStreams(["first", "second"]), 15)
    leases.on_change(lambda: followed.append(leases.shortest))
    return leases


def test_the_same_leases_say_nothing_new(leases: Leases, followed: list[float]) -> None:
    leases.changed({FIRST: 15_000_000, SECOND: 15_000_000})
    leases.changed({})
    assert followed == []


def test_a_shorter_one_is_followed_once(leases: Leases, followed: list[float]) -> None:
    leases.changed({SECOND: 1_000_000})
    leases.changed({FIRST: 15_000_000, SECOND: 1_000_000})
    assert followed == [1.0]


def test_a_longer_one_is_followed_when_it_is_the_shortest(leases: Leases, followed: list[float]) -> None:
    leases.changed({FIRST: 60_000_000})
    assert followed == []
    leases.changed({SECOND: 30_000_000})
    assert followed == [30.0]


def test_queues_of_others_are_none_of_its_business(leases: Leases, followed: list[float]) -> None:
    leases.changed({OTHER: 1})
    assert followed == []


def test_without_queues_there_is_nothing_to_follow(followed: list[float]) -> None:
    leases = Leases(ServedStreams([]), 15)
    leases.on_change(lambda: followed.append(leases.shortest))
    leases.changed({OTHER: 1})
    assert followed == []


@pytest.mark.parametrize(("stored_us", "seconds"), [(0, 0.01), (-(2**62), 0.01), (1, 0.01), (2**62, 1e9)])
def test_one_that_nobody_could_keep_up_with_is_followed_as_far_as_can_be(
    leases: Leases, followed: list[float], stored_us: int, seconds: float
) -> None:
    leases.changed({FIRST: stored_us, SECOND: stored_us})
    assert followed == [seconds]
