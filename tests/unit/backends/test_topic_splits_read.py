"""Reading, trimming and listing a topic whose parts change."""

from __future__ import annotations

import asyncio

import pytest

from headrace.backends.partitioned import topic_reader
from headrace.backends.partitioned import topics as partitioned_topics
from headrace.core.clock import microseconds
from headrace.core.topics import NEW, Places, Tended, TopicRules, total
from tests.unit.backends.split_orders import TOPIC, SplitOrders, ids_of
from tests.waiting import wait_until


@pytest.fixture
def orders() -> SplitOrders:
    return SplitOrders()


# --- retention --------------------------------------------------------------------------------------------


async def test_every_part_is_trimmed_by_the_rules_of_the_topic(orders: SplitOrders) -> None:
    group = await orders.join()
    await orders.backend.arrange(TOPIC, TopicRules(microseconds(60)))
    await orders.publish("before")
    await orders.split(3)
    await orders.publish(*ids_of(12))
    assert await orders.backend.tend([group], limit=100) == Tended()
    orders.clock.advance(61)
    tended = await orders.backend.tend([group], limit=100)
    assert (tended.trimmed, tended.holding) == (0, (group,))
    await orders.finish(group)
    assert (await orders.backend.tend([group], limit=100)).trimmed == 13
    assert (await orders.record()).length == 0


async def test_a_length_holds_for_each_part(orders: SplitOrders) -> None:
    group = await orders.join()
    await orders.split(3)
    await orders.backend.arrange(TOPIC, TopicRules(0, 2))
    await orders.publish(*ids_of(30))
    await orders.finish(group)
    await orders.backend.tend([group], limit=100)
    assert (await orders.record()).length == 6
    assert (await orders.record()).rules == TopicRules(0, 2)


async def test_parts_that_are_made_later_have_the_rules_of_the_topic(orders: SplitOrders) -> None:
    await orders.backend.arrange(TOPIC, TopicRules(0, 2, strict=False))
    await orders.split(2)
    await orders.publish(*ids_of(30))
    assert (await orders.record()).rules == TopicRules(0, 2, strict=False)
    assert (await orders.record()).length <= 4


# --- reading ----------------------------------------------------------------------------------------------


async def test_a_reader_goes_on_over_changes(orders: SplitOrders) -> None:
    await orders.publish("a", "b")
    position = (await orders.read(limit=1)).position
    await orders.split(3)
    await orders.publish(*ids_of(9, "c"))
    await orders.split(2)
    await orders.publish(*ids_of(9, "d"))
    read = await orders.read_all(position, limit=4)
    assert read[0] == "b"
    assert (sorted(read[1:10]), sorted(read[10:])) == (ids_of(9, "c"), ids_of(9, "d"))


async def test_a_page_goes_on_in_the_next_generation(orders: SplitOrders) -> None:
    """A page that is not full says that there is no more."""
    await orders.publish("a", "b")
    await orders.split(3)
    await orders.publish(*ids_of(9, "c"))
    await orders.split(2)
    await orders.publish(*ids_of(9, "d"))
    reading = await orders.read(limit=15)
    assert [entry.id[0] for entry in reading.entries] == ["a", "b", *"c" * 9, *"d" * 4]
    assert len((await orders.read(reading.position, limit=15)).entries) == 5


async def test_a_process_that_hears_of_no_changes_looks_by_itself(
    orders: SplitOrders, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(partitioned_topics, "LATELY", 0.0)
    await orders.publish("a")
    position = (await orders.read(by=1)).position
    await orders.split(3)
    await orders.publish(*ids_of(9))
    reading = await orders.read(position, by=1)
    assert sorted(entry.id for entry in reading.entries) == ids_of(9)
    assert (await orders.record(by=1)).length == 10


async def test_a_reader_of_what_is_new_sees_only_that(orders: SplitOrders) -> None:
    await orders.publish("a")
    await orders.split(3)
    await orders.publish(*ids_of(9, "b"))
    position = (await orders.read(NEW)).position
    await orders.publish(*ids_of(9, "c"), by=1)
    assert sorted(await orders.read_all(position)) == ids_of(9, "c")


async def test_events_are_read_by_time(orders: SplitOrders) -> None:
    await orders.split(3)
    for id in ids_of(20):
        await orders.publish(id)
        orders.clock.advance(1)
    assert await orders.read_all(limit=3) == ids_of(20)


async def test_a_reader_that_waits_is_woken_by_an_event_in_any_part(
    orders: SplitOrders, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(topic_reader, "BLOCK", 50.0)  # so that nothing but the event ends the wait
    await orders.publish("before")
    await orders.split(3)
    position = (await orders.read(NEW)).position
    for id in ids_of(6):
        reading = asyncio.ensure_future(orders.read(position, wait=50))
        await asyncio.sleep(0)
        await orders.publish(id, by=1)
        read = await asyncio.wait_for(reading, 10)
        assert [entry.id for entry in read.entries] == [id]
        position = read.position


async def test_a_reader_that_waits_sees_what_comes_to_new_parts(orders: SplitOrders) -> None:
    await orders.publish("before")
    stop = orders.backend.listen(lambda order: None)
    position = (await orders.read(NEW)).position
    reading = asyncio.ensure_future(orders.read(position, wait=50))
    await asyncio.sleep(0)
    await orders.split(3, by=1)
    await orders.publish("after", by=1)
    read = await asyncio.wait_for(reading, 10)
    if not read.entries:  # it was woken by the change
        read = await asyncio.wait_for(orders.read(read.position, wait=50), 10)
    assert [entry.id for entry in read.entries] == ["after"]
    stop()


async def test_wake_ends_the_wait_of_a_reader(orders: SplitOrders) -> None:
    await orders.split(3)
    position = (await orders.read(NEW)).position
    reading = asyncio.ensure_future(orders.read(position, wait=50))
    await asyncio.sleep(0)
    orders.backend.wake("reader")
    assert (await asyncio.wait_for(reading, 10)).entries == ()
    orders.backend.wake("reader")
    assert (await asyncio.wait_for(orders.read(position, wait=50), 10)).entries == ()


async def test_a_sealed_part_is_waited_for_as_long_as_something_is_due_there(orders: SplitOrders) -> None:
    await orders.publish("late", delay=10)
    await orders.split(3)
    position = (await orders.read(NEW)).position
    for _ in range(3):
        await orders.read(position, wait=0.001)
    reading = asyncio.ensure_future(orders.read(position, wait=50))
    await asyncio.sleep(0.01)
    orders.clock.advance(11)
    assert await orders.promote() == 1
    read = await asyncio.wait_for(reading, 10)
    assert [entry.id for entry in read.entries] == ["late"]
    await wait_until(lambda: _at_rest(orders, read.position))


async def _at_rest(orders: SplitOrders, position: object) -> bool:
    """Whether the sealed part is left out of the wait."""
    await orders.read(position, wait=0.001)  # type: ignore[arg-type]
    return "orders" in orders.backend._reader._ends


async def test_a_reader_whose_wait_is_cancelled_leaves_nothing_behind(orders: SplitOrders) -> None:
    await orders.split(3)
    reading = asyncio.ensure_future(orders.read(NEW, wait=50))
    await asyncio.sleep(0.01)
    reading.cancel()
    await asyncio.wait([reading])
    assert orders.backend._reader._waiting == {}
    await orders.publish("a")
    assert await orders.read_all() == ["a"]


# --- later ------------------------------------------------------------------------------------------------


async def test_events_that_are_due_after_a_change_reach_every_group(orders: SplitOrders) -> None:
    before = await orders.join("before")
    await orders.publish("late", delay=10)
    await orders.split(3)
    after = await orders.join("after", NEW)
    assert (await orders.record()).scheduled == 1
    orders.clock.advance(11)
    assert await orders.promote() == 1
    assert await orders.claim_ids(before) == await orders.claim_ids(after) == ["late"]


async def test_an_event_that_is_due_later_holds_up_no_ordered_group(orders: SplitOrders) -> None:
    group = await orders.join(ordered=True)
    await orders.publish("late", key="a", delay=10)
    await orders.split(3)
    await orders.publish("now", key="a")
    assert await orders.finish(group) == ["now"]
    orders.clock.advance(11)
    await orders.promote()
    assert await orders.finish(group) == ["late"]


# --- listing ----------------------------------------------------------------------------------------------


async def test_a_split_topic_is_listed_as_one(orders: SplitOrders) -> None:
    group = await orders.join()
    await orders.publish("a")
    await orders.split(3)
    await orders.publish(*ids_of(9))
    await orders.publish("late", delay=10)
    await orders.claim(group, 4)
    [record] = await orders.backend.topics()
    assert (record.stream, record.length, record.scheduled) == (TOPIC, 10, 1)
    [listed] = record.groups
    assert (listed.stream, listed.counts.running) == (group, 4)
    assert listed.lag + listed.counts.queued == 6
    assert total(listed.position) == 4
    assert [each.name for each in await orders.backend.streams()].count("orders") == 1
    assert (await orders.backend.counts(group)).queued == 6
    assert (await orders.backend.counts(TOPIC)).queued == 10


async def test_a_reader_may_go_on_where_a_group_is(orders: SplitOrders) -> None:
    group = await orders.join()
    await orders.split(3)
    await orders.publish(*ids_of(9))
    await orders.finish(group)
    await orders.publish(*ids_of(9, "new"))
    position = (await orders.group_record(group)).position
    assert isinstance(position, Places)
    assert sorted(await orders.read_all(position)) == ids_of(9, "new")


async def test_a_generation_in_which_nothing_is_left_is_given_up_with_its_groups(orders: SplitOrders) -> None:
    group = await orders.join()
    await orders.backend.arrange(TOPIC, TopicRules(microseconds(60)))
    await orders.split(2)
    await orders.publish(*ids_of(9))
    await orders.split(3)
    orders.clock.advance(8 * 24 * 3600)
    await orders.backend.tend([group], limit=100)
    await orders.backend.prune(limit=100)
    assert len((await orders.backend.layout(TOPIC)).generations) == 3  # something lies there for the group
    await orders.finish(group)
    await orders.backend.tend([group], limit=100)
    orders.backend._keeper._looked_at = None
    await orders.backend.prune(limit=100)
    assert [each.number for each in (await orders.backend.layout(TOPIC)).generations] == [0, 2]
    await orders.publish("after")
    assert await orders.finish(group) == ["after"]
    assert [each.stream for each in (await orders.record()).groups] == [group]
