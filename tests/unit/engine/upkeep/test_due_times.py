"""Which worker asks at the due times of a stream, when many serve it."""

from __future__ import annotations

import time
from types import SimpleNamespace

import pytest

from headrace.core.messages.message import Stream
from headrace.core.runtime.clock import SECOND
from headrace.engine.upkeep import due_times
from headrace.engine.upkeep.due_times import LONGEST, MISSED, PATIENCE, DueTimes

QUEUE, OTHER = Stream("queue", "work"), Stream("queue", "other")


@pytest.fixture(autouse=True)
def now(monkeypatch: pytest.MonkeyPatch) -> float:
    """The time stands still: no answer depends on the machine."""
    now = time.monotonic()
    monkeypatch.setattr(due_times, "time", SimpleNamespace(monotonic=lambda: now))
    return now


def ask(times: DueTimes, *, promoted: int, due_in: int = 0, promotions: int | None = None) -> None:
    """Ask for both queues; the first one has a message that is due in so many seconds."""
    asked = times.choose([QUEUE, OTHER])
    times.forget(asked)
    counted = None if promotions is None else {QUEUE: promotions}
    times.note(asked, {QUEUE: due_in * SECOND}, promoted=promoted, promotions=counted)


def yielded() -> DueTimes:
    """Another worker promoted every message that was due."""
    times = DueTimes()
    for _ in range(MISSED + 1):
        ask(times, promoted=0)
    return times


def test_a_worker_asks_at_the_due_time() -> None:
    times = DueTimes()
    ask(times, promoted=0, due_in=3)
    assert times.seconds_left() == pytest.approx(3, abs=0.1)


def test_a_worker_that_finds_nothing_once_keeps_the_turn() -> None:
    times = DueTimes()
    ask(times, promoted=0)
    ask(times, promoted=0, due_in=3)
    assert times.seconds_left() == pytest.approx(3, abs=0.1)


def test_a_worker_asks_later_where_another_is_always_faster() -> None:
    times = yielded()
    ask(times, promoted=0, due_in=3)
    assert 3 + PATIENCE[0] - 0.1 < times.seconds_left() <= 3 + LONGEST


def test_a_worker_asks_less_often_where_others_are_faster_for_long() -> None:
    """Otherwise 300 workers would ask more than 400 times a second while messages become due all the time."""
    times = yielded()
    left: list[float] = []
    for _ in range(60):
        ask(times, promoted=0, due_in=0)
        left.append(times.seconds_left())
    assert min(left) > PATIENCE[0] - 0.1
    assert PATIENCE[1] < max(left) <= LONGEST


def test_a_worker_takes_the_turn_when_it_has_promoted_something() -> None:
    times = yielded()
    ask(times, promoted=1, due_in=3)
    assert times.seconds_left() == pytest.approx(3, abs=0.1)


def test_the_worker_with_the_turn_asks_at_once_for_what_was_announced() -> None:
    times = DueTimes()
    ask(times, promoted=0, due_in=3)
    times.announced(QUEUE)
    assert times.choose([QUEUE, OTHER]) == [QUEUE, OTHER]


def test_a_worker_without_the_turn_asks_later_for_what_was_announced() -> None:
    """Otherwise each announcement would cost a request of every worker of a fleet."""
    times = yielded()
    ask(times, promoted=0, due_in=60)
    times.announced(QUEUE)
    assert times.choose([QUEUE, OTHER]) == []
    assert PATIENCE[0] - 0.1 < times.seconds_left() <= LONGEST


def test_the_next_announcement_does_not_put_off_the_request_for_the_first(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    times = announced_long_ago(monkeypatch)
    times.announced(QUEUE)
    assert times.choose([QUEUE, OTHER]) == [QUEUE, OTHER]


def test_a_worker_takes_the_turn_when_it_has_promoted_what_was_announced(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    times = announced_long_ago(monkeypatch)
    ask(times, promoted=1, due_in=3)
    assert times.seconds_left() == pytest.approx(3, abs=0.1)


def announced_long_ago(monkeypatch: pytest.MonkeyPatch) -> DueTimes:
    """A worker without the turn, so long after an announcement that it asks."""
    times = yielded()
    ask(times, promoted=0, due_in=60)
    times.announced(QUEUE)
    now = time.monotonic() + LONGEST
    monkeypatch.setattr("headrace.engine.upkeep.due_times.time", SimpleNamespace(monotonic=lambda: now))
    return times


def test_messages_that_were_cancelled_take_no_turn_away() -> None:
    """No worker promotes them. Then the only worker of a queue would wait for others."""
    times = DueTimes()
    for _ in range(MISSED + 1):
        ask(times, promoted=0, promotions=7)
    ask(times, promoted=0, due_in=3, promotions=7)
    assert times.seconds_left() == pytest.approx(3, abs=0.1)


def test_a_worker_asks_later_where_the_promotions_are_those_of_another() -> None:
    times = DueTimes()
    for number in range(MISSED + 1):
        ask(times, promoted=0, promotions=number)
    ask(times, promoted=0, due_in=3, promotions=MISSED + 1)
    assert 3 + PATIENCE[0] - 0.1 < times.seconds_left() <= 3 + LONGEST


def test_the_turn_of_one_stream_says_nothing_of_another() -> None:
    times = yielded()
    times.note([OTHER], {OTHER: 3 * SECOND}, promoted=0)
    times.forget([QUEUE])
    assert times.seconds_left() == pytest.approx(3, abs=0.1)
