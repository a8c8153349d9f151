"""A topic with parts, as several processes use it: it is one topic, and nothing is missed or comes twice."""

from __future__ import annotations

import asyncio

import pytest

from headrace.core.errors import UnknownEvent
from headrace.core.messages.message import UniqueKey, group_stream
from headrace.core.messages.outcome import Retry, Verdict
from headrace.core.records.answers import Renewal
from headrace.core.rules.layout import WHOLE, parts_of
from headrace.core.runtime.clock import SECOND, microseconds
from headrace.core.topics.topic import BEGINNING, NEW, KeptTopics, Start, TopicRules
from tests.unit.engine.streams.parted_orders import TOPIC, PartedOrders, ids_of


@pytest.fixture
def orders() -> PartedOrders:
    return PartedOrders()


# --- the number of parts -----------------------------------------------------------------------------------


async def test_the_first_use_decides_for_all(orders: PartedOrders) -> None:
    orders.processes[1].declare(TOPIC, 5)
    await orders.publish("a")
    await orders.publish("b", by=1)
    assert (await orders.record()).parts == (await orders.record(by=1)).parts == 3


async def test_a_topic_that_was_made_whole_stays_so() -> None:
    orders = PartedOrders(3)
    whole = orders.processes[1]
    whole.declare(TOPIC, 1)
    await orders.publish("a", by=1)
    await orders.publish("b")
    assert (await orders.record()).parts == 1
    assert await orders.read_all() == ["a", "b"]
    assert await whole.layout(TOPIC) == WHOLE


async def test_a_process_that_takes_it_for_whole_finds_its_parts(orders: PartedOrders) -> None:
    """It has looked before another process made the topic, and writes, declares and joins after that."""
    late = orders.processes[1]
    late.declare(TOPIC, 1)
    assert await late.layout(TOPIC) == WHOLE
    assert await orders.read_all() == []
    await late._layouts.plan(TOPIC)  # a first use, which decides nothing yet
    await orders.publish("a")
    await late.declare_topic(TOPIC, TopicRules(0, 7))
    group = await orders.join(by=1)
    await orders.publish(*ids_of(9), by=1)
    assert sorted(await orders.finish(group, by=1)) == ["a", *ids_of(9)]
    assert (await orders.record()).rules == TopicRules(0, 7)


async def test_one_of_those_who_join_at_once_makes_the_group(orders: PartedOrders) -> None:
    """Each of them is the first in some part."""
    group = group_stream("orders", "billing")
    await orders.publish("a")
    last = parts_of(TOPIC, (await orders.backend.layout(TOPIC)).current)[-1]
    await orders.processes[1].store.join(group_stream(last.name, "billing"), NEW)
    assert await orders.backend.join(group, NEW)
    assert not await orders.processes[1].join(group, NEW)


@pytest.mark.parametrize("reached", [0, 1])
async def test_a_pause_that_was_interrupted_between_the_parts_is_seen(
    orders: PartedOrders, reached: int
) -> None:
    group = await orders.join()
    parts = parts_of(group, (await orders.backend.layout(TOPIC)).current)
    await orders.backend.store.pause([group, parts[1]][reached], paused=True)
    [record] = (await orders.record()).groups
    assert record.counts.paused


async def test_a_layout_that_the_store_has_lost_comes_back(orders: PartedOrders) -> None:
    group = await orders.join()
    orders.state.layouts.clear()
    orders.state.stream_states.clear()
    await orders.backend.layout(TOPIC)
    await orders.publish(*ids_of(9), by=1)
    assert sorted(await orders.finish(group)) == ids_of(9)
    assert (await orders.record(by=1)).parts == 3


async def test_a_topic_that_was_lost_and_made_whole_is_whole(orders: PartedOrders) -> None:
    await orders.publish("lost")
    orders.state.layouts.clear()
    orders.state.stream_states.clear()
    orders.processes[1].declare(TOPIC, 1)
    await orders.publish("a", by=1)
    await orders.backend.layout(TOPIC)
    await orders.publish("b")
    assert (await orders.record()).parts == 1
    assert await orders.read_all() == ["a", "b"]


# --- publishing --------------------------------------------------------------------------------------------


async def test_events_spread_over_the_parts_and_those_of_a_key_stay_together(orders: PartedOrders) -> None:
    await orders.publish(*ids_of(40))
    await orders.publish("k1", "k2", "k3", key="customer-7")
    reading = await orders.read()
    assert len(set(reading.parts)) == 3
    keyed = {part for part, entry in zip(reading.parts, reading.entries, strict=True) if entry.key}
    assert len(keyed) == 1


async def test_an_idempotency_key_holds_for_all_processes(orders: PartedOrders) -> None:
    once = UniqueKey("order-4711", "elapsed", microseconds(60))
    await orders.publish("first", unique=once)
    [answer] = await orders.publish("again", unique=once, by=1)
    assert (answer.verdict, answer.id) == ("duplicate", "first")
    assert await orders.read_all() == ["first"]


async def test_events_that_are_due_later_reach_every_group(orders: PartedOrders) -> None:
    before = await orders.join("before")
    await orders.publish("late", delay=10)
    after = await orders.join("after", NEW)
    assert (await orders.record()).scheduled == 1
    orders.clock.advance(11)
    assert await orders.promote() == 1
    assert await orders.claim_ids(before) == await orders.claim_ids(after) == ["late"]


# --- groups ------------------------------------------------------------------------------------------------


async def test_a_group_that_begins_with_what_is_new_gets_nothing_from_before(orders: PartedOrders) -> None:
    await orders.publish(*ids_of(10, "a"))
    group = await orders.join(start=NEW, by=1)
    assert await orders.claim(group, by=1) == []
    await orders.publish(*ids_of(10, "b"))
    assert sorted(await orders.finish(group, by=1)) == ids_of(10, "b")


async def test_a_group_may_begin_with_any_event(orders: PartedOrders) -> None:
    published = ids_of(18)
    for id in published:
        await orders.publish(id)
        orders.clock.advance(1)
    for place in (0, 3, 7, 14):
        group = await orders.join(f"from-{place}", Start("event", event=published[place]))
        assert sorted(await orders.finish(group)) == published[place:]


async def test_nobody_begins_with_an_event_that_no_part_has(orders: PartedOrders) -> None:
    await orders.publish("a")
    with pytest.raises(UnknownEvent, match="nobody"):
        await orders.join(start=Start("event", event="nobody"))
    assert (await orders.record()).groups == ()
    with pytest.raises(UnknownEvent, match="nobody"):
        await orders.read(Start("event", event="nobody"))


async def test_a_group_that_joins_again_keeps_its_positions(orders: PartedOrders) -> None:
    group = await orders.join()
    await orders.publish(*ids_of(5, "a"))
    await orders.finish(group)
    await orders.publish(*ids_of(9, "b"))
    assert not await orders.processes[1].join(group, NEW)
    assert sorted(await orders.finish(group, by=1)) == ids_of(9, "b")


async def test_a_join_that_was_broken_off_is_made_good(orders: PartedOrders) -> None:
    """The process that joined died after the first part. The group begins at the given start, in the other
    parts too."""
    await orders.publish(*ids_of(12, "old"))
    await orders.backend.store.join(group_stream("orders#1.2", "billing"), NEW)
    group = await orders.join(start=NEW)
    await orders.publish(*ids_of(12, "new"))
    assert sorted(await orders.finish(group)) == ids_of(12, "new")


async def test_a_group_that_is_removed_is_gone_from_every_part(orders: PartedOrders) -> None:
    group = await orders.join()
    await orders.publish(*ids_of(12))
    [claim, *_] = await orders.claim(group)
    assert await orders.backend.remove_stream(group)
    assert not await orders.backend.remove_stream(group)
    assert await orders.settle(claim, Retry(claim.state, 0)) is Verdict.LOST
    assert await orders.claim(group) == await orders.claim(group, by=1) == []
    await orders.processes[1].keep_topics([group], limit=100)
    assert (await orders.record()).groups == ()
    assert await orders.backend.join(group, BEGINNING)
    assert sorted(await orders.finish(group)) == ids_of(12)


async def test_a_group_has_one_lease_and_one_pause(orders: PartedOrders) -> None:
    group = await orders.join()
    await orders.publish(*ids_of(12))
    await orders.backend.pause(group, paused=True)
    assert await orders.claim(group) == await orders.claim(group, by=1) == []
    assert (await orders.group_record(group)).counts.paused
    await orders.backend.pause(group, paused=False)
    assert len(await orders.claim(group)) == 12
    orders.clock.advance(25)
    assert (await orders.backend.reclaim([group], limit=100)).recovered == ()
    orders.clock.advance(6)
    recovered = (await orders.backend.reclaim([group], limit=100)).recovered
    assert {each.stream for each in recovered} == {group}
    assert len(recovered) == 12


async def test_a_claim_of_a_part_is_one_of_the_group(orders: PartedOrders) -> None:
    group = await orders.join()
    await orders.publish("a")
    [claim] = await orders.claim(group)
    assert (claim.whole, claim.id) == (group, "a")
    assert await orders.backend.lease_keeper().renew([claim]) == [Renewal.KEPT]
    await orders.done([claim])
    assert await orders.backend.lease_keeper().renew([claim]) == [Renewal.LOST]


@pytest.mark.parametrize("ordered", [False, True])
async def test_a_claim_that_waits_is_woken_by_an_event_in_any_part(
    orders: PartedOrders, ordered: bool
) -> None:
    group = await orders.join(ordered=ordered)
    for id in ids_of(6):
        claiming = asyncio.ensure_future(orders.claim(group, wait=50))
        await asyncio.sleep(0)
        await orders.publish(id, by=1)
        claims = await asyncio.wait_for(claiming, 10)
        assert [claim.id for claim in claims] == [id]
        await orders.done(claims)


async def test_wake_ends_the_wait_of_a_claim(orders: PartedOrders) -> None:
    group = await orders.join(ordered=True)
    claiming = asyncio.ensure_future(orders.claim(group, wait=50, consumer="waiter"))
    await asyncio.sleep(0)
    orders.backend.wake("waiter")
    assert await asyncio.wait_for(claiming, 10) == []


async def test_a_group_may_be_set_back_to_an_event_or_a_time(orders: PartedOrders) -> None:
    group = await orders.join()
    for id in ("a", "b", "c", "d"):
        await orders.publish(id)
        orders.clock.advance(10)
    await orders.finish(group)
    assert await orders.backend.reset(group, BEGINNING)
    assert sorted(await orders.finish(group)) == ["a", "b", "c", "d"]
    assert await orders.backend.reset(group, Start("event", event="b"))
    assert sorted(await orders.finish(group)) == ["b", "c", "d"]
    assert await orders.backend.reset(group, Start("time", time_us=orders.clock.now_us() - 25 * SECOND))
    assert sorted(await orders.finish(group)) == ["c", "d"]
    assert await orders.backend.reset(group, NEW)
    assert await orders.finish(group) == []


async def test_an_ordered_group_handles_each_key_in_its_order_again(orders: PartedOrders) -> None:
    group = await orders.join(ordered=True)
    await orders.publish("a1", "a2", "a3", key="a")
    await orders.publish("b1", "b2", key="b")
    for _ in range(2):
        finished = await orders.finish(group)
        assert [id for id in finished if id.startswith("a")] == ["a1", "a2", "a3"]
        assert [id for id in finished if id.startswith("b")] == ["b1", "b2"]
        assert await orders.backend.reset(group, BEGINNING)


async def test_a_group_that_no_part_knows_is_not_reset(orders: PartedOrders) -> None:
    await orders.publish("a")
    assert not await orders.backend.reset(group_stream("orders", "nobody"), BEGINNING)


# --- retention ---------------------------------------------------------------------------------------------


async def test_every_part_is_trimmed_by_the_rules_of_the_topic(orders: PartedOrders) -> None:
    group = await orders.join()
    await orders.backend.declare_topic(TOPIC, TopicRules(microseconds(60)))
    await orders.publish(*ids_of(12))
    assert await orders.backend.keep_topics([group], limit=100) == KeptTopics()
    orders.clock.advance(61)
    tended = await orders.backend.keep_topics([group], limit=100)
    assert (tended.trimmed, tended.holding) == (0, (group,))
    await orders.finish(group)
    assert (await orders.backend.keep_topics([group], limit=100)).trimmed == 12
    assert (await orders.record()).length == 0


async def test_a_length_holds_for_each_part(orders: PartedOrders) -> None:
    group = await orders.join()
    await orders.backend.declare_topic(TOPIC, TopicRules(0, 2))
    await orders.publish(*ids_of(30))
    await orders.finish(group)
    await orders.backend.keep_topics([group], limit=100)
    assert (await orders.record()).length == 6
    assert (await orders.record()).rules == TopicRules(0, 2)


# --- reading -----------------------------------------------------------------------------------------------


async def test_events_are_read_by_time(orders: PartedOrders) -> None:
    for id in ids_of(20):
        await orders.publish(id)
        orders.clock.advance(1)
    assert await orders.read_all(limit=3) == ids_of(20)


async def test_a_reader_of_what_is_new_sees_only_that(orders: PartedOrders) -> None:
    await orders.publish(*ids_of(9, "b"))
    position = (await orders.read(NEW)).position
    await orders.publish(*ids_of(9, "c"), by=1)
    assert sorted(await orders.read_all(position)) == ids_of(9, "c")


async def test_a_reader_that_waits_is_woken_by_an_event_in_any_part(orders: PartedOrders) -> None:
    await orders.publish("before")
    position = (await orders.read(NEW)).position
    for id in ids_of(6):
        reading = asyncio.ensure_future(orders.read(position, wait=50))
        await asyncio.sleep(0)
        await orders.publish(id, by=1)
        read = await asyncio.wait_for(reading, 10)
        assert [entry.id for entry in read.entries] == [id]
        position = read.position


async def test_a_reader_that_waits_hears_that_the_topic_got_its_parts(orders: PartedOrders) -> None:
    stop = orders.backend.listen(lambda order: None)
    position = (await orders.read(NEW)).position
    reading = asyncio.ensure_future(orders.read(position, wait=50))
    await asyncio.sleep(0)
    await orders.publish("first", by=1)
    read = await asyncio.wait_for(reading, 10)
    if not read.entries:  # it was woken by the change
        read = await asyncio.wait_for(orders.read(read.position, wait=50), 10)
    assert [entry.id for entry in read.entries] == ["first"]
    stop()


async def test_wake_ends_the_wait_of_a_reader(orders: PartedOrders) -> None:
    await orders.publish("before")
    position = (await orders.read(NEW)).position
    reading = asyncio.ensure_future(orders.read(position, wait=50))
    await asyncio.sleep(0)
    orders.backend.wake("reader")
    assert (await asyncio.wait_for(reading, 10)).entries == ()
    orders.backend.wake("reader")
    assert (await asyncio.wait_for(orders.read(position, wait=50), 10)).entries == ()


async def test_a_reader_whose_wait_is_cancelled_leaves_nothing_behind(orders: PartedOrders) -> None:
    await orders.publish("before")
    reading = asyncio.ensure_future(orders.read(NEW, wait=50))
    await asyncio.sleep(0.01)  # it waits in every part by now
    reading.cancel()
    await asyncio.wait([reading])
    assert orders.backend._topic_reader._waiting == {}
    assert await orders.read_all() == ["before"]


# --- listing -----------------------------------------------------------------------------------------------


async def test_a_topic_with_parts_is_listed_as_one(orders: PartedOrders) -> None:
    group = await orders.join()
    await orders.publish(*ids_of(10))
    await orders.publish("late", delay=10)
    await orders.claim(group, 4)
    [record] = await orders.backend.topics()
    assert (record.stream, record.length, record.scheduled, record.parts) == (TOPIC, 10, 1, 3)
    [listed] = record.groups
    assert (listed.stream, listed.counts.running) == (group, 4)
    assert listed.lag + listed.counts.queued == 6
    assert listed.position == 4
    assert [each.name for each in await orders.backend.streams()].count("orders") == 1
    assert (await orders.backend.counts(group)).queued == 6
    assert (await orders.backend.counts(TOPIC)).queued == 10


async def test_a_reader_may_go_on_where_a_group_is(orders: PartedOrders) -> None:
    group = await orders.join()
    await orders.publish(*ids_of(9))
    await orders.finish(group)
    await orders.publish(*ids_of(9, "new"))
    position = await orders.backend.position_of(group)
    assert len(position.numbers) == 3
    assert sorted(await orders.read_all(position)) == ids_of(9, "new")
