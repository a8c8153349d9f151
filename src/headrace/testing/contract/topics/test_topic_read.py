"""Reading a log: where a reader begins, how much it gets, and how it waits."""

from __future__ import annotations

import asyncio

import pytest

from headrace.core.errors import UnknownEvent
from headrace.core.messages.message import Stream
from headrace.core.runtime.clock import SECOND
from headrace.core.topics.position import Position, TopicReading
from headrace.core.topics.topic import BEGINNING, NEW, Start
from headrace.testing.contract.kit.orders import Orders
from headrace.testing.contract.kit.waits import LONG, soon, started


@pytest.mark.whole("parts have no order among each other")
async def test_events_are_read_in_their_order(orders: Orders) -> None:
    await orders.publish("a", "b", "c")
    reading = await orders.read(BEGINNING)
    assert _ids(reading) == ["a", "b", "c"]
    assert reading.position.total == 3


@pytest.mark.whole("parts have no order among each other")
async def test_a_reader_goes_on_where_it_was(orders: Orders) -> None:
    await orders.publish("a", "b", "c")
    first = await orders.read(limit=2)
    assert (_ids(first), first.position.total) == (["a", "b"], 2)
    second = await orders.read(first.position, limit=2)
    assert (_ids(second), second.position.total) == (["c"], 3)


@pytest.mark.whole("numbers count within a part")
async def test_a_reader_that_has_everything_keeps_its_position(orders: Orders) -> None:
    await orders.publish("a", "b")
    assert _nothing_behind(await orders.read(2)) == 2


async def test_a_reader_is_told_the_time_of_the_store(orders: Orders) -> None:
    await orders.stand.advance(1000)
    await orders.publish("a")
    for after in (0, 1):
        reading = await orders.read(after)
        assert abs(reading.now_us - orders.stand.now_us()) < 5 * SECOND


async def test_nothing_is_read_of_a_topic_that_was_never_made(orders: Orders) -> None:
    reading = await orders.backend.read(
        Stream("topic", "nowhere"), BEGINNING, consumer="reader", limit=10, wait=0
    )
    assert _nothing_behind(reading) == 0


async def test_a_reader_of_what_is_new_gets_nothing_from_before(orders: Orders) -> None:
    await orders.publish("a", "b")
    reading = await orders.read(NEW)
    assert _nothing_behind(reading) == 2
    await orders.publish("c")
    assert _ids(await orders.read(reading.position)) == ["c"]


@pytest.mark.whole("for the other parts an event is a time, and these are of the same moment")
async def test_a_reader_may_begin_with_an_event(orders: Orders) -> None:
    await orders.publish("a", "b", "c")
    assert _ids(await orders.read(Start("event", event="b"))) == ["b", "c"]


async def test_a_reader_cannot_begin_with_an_event_that_is_not_there(orders: Orders) -> None:
    await orders.publish("a")
    with pytest.raises(UnknownEvent, match="nobody"):
        await orders.read(Start("event", event="nobody"))


async def test_a_reader_may_begin_at_a_time(orders: Orders) -> None:
    for id in ("a", "b", "c"):
        await orders.publish(id)
        await orders.stand.advance(10)
    at_us = [entry.at_us for entry in (await orders.read()).entries]
    assert _ids(await orders.read(Start("time", time_us=at_us[1]))) == ["b", "c"]
    assert _ids(await orders.read(Start("time", time_us=at_us[1] + 5 * SECOND))) == ["c"]
    assert _ids(await orders.read(Start("time", time_us=at_us[0] - 5 * SECOND))) == ["a", "b", "c"]
    assert _nothing_behind(await orders.read(Start("time", time_us=at_us[2] + 5 * SECOND))) == 3


async def test_many_times_are_told_apart(orders: Orders) -> None:
    for number in range(20):
        await orders.publish(f"event-{number}")
        await orders.stand.advance(10)
    for number, entry in enumerate((await orders.read()).entries):
        reading = await orders.read(Start("time", time_us=entry.at_us), limit=1)
        assert _ids(reading) == [f"event-{number}"]


async def test_reading_changes_the_position_of_no_group(orders: Orders) -> None:
    group = await orders.join()
    await orders.publish("a", "b")
    await orders.read()
    assert _ids(await orders.read(consumer="another")) == ["a", "b"]
    assert (await orders.group_record(group)).lag == 2
    assert await orders.claim_ids(group) == ["a", "b"]


async def test_a_reader_sees_what_a_group_has_handled(orders: Orders) -> None:
    group = await orders.join()
    await orders.publish("a", "b")
    await orders.finish(group)
    assert await orders.ids() == ["a", "b"]


@pytest.mark.whole("a length holds for each part")
async def test_a_reader_behind_what_was_trimmed_goes_on_with_the_first_left(orders: Orders) -> None:
    group = await orders.join()
    await orders.publish("a", "b", "c", "d")
    await orders.finish(group)
    await orders.declare_topic(max_length=2)
    await orders.keep_topics(group)
    reading = await orders.read(1)
    assert (_ids(reading), reading.position.total) == (["c", "d"], 4)


async def test_a_waiting_reader_is_woken_by_an_event(orders: Orders) -> None:
    reading = await _start_reading(orders, 0)
    await orders.publish("a")
    assert await _soon(reading) == ["a"]


async def test_a_waiting_reader_is_woken_by_an_event_of_another_process(orders: Orders) -> None:
    other = await orders.stand.other()
    reading = await _start_reading(orders, 0)
    await orders.publish("a", by=other)
    assert await _soon(reading) == ["a"]


async def test_several_readers_all_get_the_event(orders: Orders) -> None:
    first = await _start_reading(orders, 0, consumer="first")
    second = await _start_reading(orders, 0, consumer="second")
    await orders.publish("a")
    assert await _soon(first) == await _soon(second) == ["a"]


async def test_a_reader_that_waits_for_what_is_new_gets_the_next_event(orders: Orders) -> None:
    await orders.publish("a")
    position = (await orders.read(NEW)).position
    reading = await _start_reading(orders, position)
    await orders.publish("b")
    assert await _soon(reading) == ["b"]


async def test_a_waiting_reader_is_woken_by_a_promotion(orders: Orders) -> None:
    await orders.publish("a", delay=10)
    reading = await _start_reading(orders, 0)
    await orders.stand.advance(11)
    await orders.promote()
    assert await _soon(reading) == ["a"]


@pytest.mark.whole("numbers count within a part")
async def test_wake_ends_the_wait_of_a_reader(orders: Orders) -> None:
    await orders.publish("a")
    reading = await _start_reading(orders, 1)
    orders.backend.wake("reader")
    assert _nothing_behind(await soon(reading)) == 1


async def test_wake_ends_the_next_wait_of_a_reader_that_does_not_wait_yet(orders: Orders) -> None:
    orders.backend.wake("reader")
    assert _nothing_behind(await soon(await started(orders.read(wait=LONG)))) == 0


async def test_a_reader_that_nothing_wakes_comes_back_after_its_wait(orders: Orders) -> None:
    assert _nothing_behind(await soon(await started(orders.read(wait=0.01)))) == 0


async def test_the_start_of_a_reader_that_waits_is_where_it_began(orders: Orders) -> None:
    await orders.publish("a")
    reading = await _start_reading(orders, BEGINNING)
    assert await _soon(reading) == ["a"]


def _nothing_behind(reading: TopicReading) -> int:
    """The position of a reader that got nothing."""
    assert reading.entries == ()
    return reading.position.total


def _ids(reading: TopicReading) -> list[str]:
    return [entry.id for entry in reading.entries]


async def _start_reading(
    orders: Orders, after: int | Position | Start, *, consumer: str = "reader"
) -> asyncio.Task[TopicReading]:
    return await started(orders.read(after, wait=LONG, consumer=consumer))


async def _soon(reading: asyncio.Task[TopicReading]) -> list[str]:
    return _ids(await soon(reading))
