"""Counts and lists of topics and groups."""

from __future__ import annotations

import pytest

from headrace.core.messages.message import Stream
from headrace.core.runtime.clock import SECOND
from headrace.core.topics.topic import TopicRules
from headrace.testing.contract.kit.orders import Orders


async def test_what_a_group_has_not_drawn_counts_as_queued(orders: Orders) -> None:
    group = await orders.join()
    await orders.publish("a", "b", "c")
    counts = await orders.backend.counts(group)
    assert (counts.queued, counts.running) == (3, 0)
    assert abs(counts.oldest_us - orders.stand.now_us()) < 10 * SECOND
    await orders.claim(group, 2)
    counts = await orders.backend.counts(group)
    assert (counts.queued, counts.running) == (1, 2)


async def test_counts_of_a_group_tell_every_state(orders: Orders) -> None:
    group = await orders.join()
    await orders.publish("a", "b", "c", "d", "e")
    claims = await orders.claim(group, 4)
    await orders.stand.retry(claims[0])
    await orders.stand.die(claims[1])
    await orders.done([claims[2]])
    counts = await orders.backend.counts(group)
    assert (counts.queued, counts.running, counts.retrying, counts.dead) == (1, 1, 1, 1)


async def test_topics_are_listed_by_name_with_their_groups(orders: Orders) -> None:
    await orders.backend.declare_topic(Stream("topic", "returns"), TopicRules(max_length=7, strict=False))
    await orders.join("mail")
    await orders.join("billing", ordered=True)
    found, returns = await orders.backend.topics()
    assert (found.stream, returns.stream) == (orders.stream, Stream("topic", "returns"))
    assert [group.stream.group for group in found.groups] == ["billing", "mail"]
    assert [group.ordered for group in found.groups] == [True, False]
    assert (returns.rules, returns.groups, returns.length) == (TopicRules(max_length=7, strict=False), (), 0)


async def test_topics_are_listed_that_were_asked_for_and_exist(orders: Orders) -> None:
    for name in ("a", "b", "c"):
        await orders.backend.declare_topic(Stream("topic", name), TopicRules())
    found = await orders.backend.topics(["c", "a", "nowhere"])
    assert [topic.stream.name for topic in found] == ["a", "c"]
    assert await orders.backend.topics([]) == []


@pytest.mark.whole("a length holds for each part")
async def test_what_is_known_of_a_topic(orders: Orders) -> None:
    group = await orders.join()
    await orders.publish("a", "b")
    await orders.stand.advance(10)
    await orders.publish("c")
    await orders.publish("later", delay=10)
    await orders.finish(group)
    await orders.declare_topic(max_length=2)
    await orders.keep_topics(group)
    record = await orders.record()
    assert (record.first, record.last, record.length, record.scheduled) == (2, 3, 2, 1)
    assert [record.first_us, record.last_us] == [entry.at_us for entry in (await orders.read()).entries]


async def test_what_is_known_of_an_empty_topic(orders: Orders) -> None:
    await orders.declare_topic()
    record = await orders.record()
    assert (record.first, record.last, record.length, record.scheduled) == (1, 0, 0, 0)


@pytest.mark.whole("parts have no order among each other")
async def test_what_is_known_of_a_group(orders: Orders) -> None:
    group = await orders.join()
    await orders.publish("a")
    await orders.stand.advance(10)
    await orders.publish("b", "c")
    written = [entry.at_us for entry in (await orders.read()).entries]
    record = await orders.group_record(group)
    assert (record.lag + record.counts.queued, record.oldest_us) == (3, written[0])
    assert abs(record.seen_us - orders.stand.now_us()) < 20 * SECOND
    await orders.claim(group, 1)
    record = await orders.group_record(group)
    assert (record.lag + record.counts.queued, record.counts.running) == (2, 1)
    assert record.oldest_us == written[1]
    await orders.claim(group)
    record = await orders.group_record(group)
    assert (record.position, record.lag, record.counts.queued, record.oldest_us) == (3, 0, 0, 0)


async def test_the_age_of_a_parked_event_is_known(orders: Orders) -> None:
    group = await orders.join(ordered=True)
    await orders.publish("a1", "a2", key="a")
    await orders.claim(group)
    written = [entry.at_us for entry in (await orders.read()).entries]
    assert (await orders.group_record(group)).oldest_us == written[1]


async def test_streams_of_every_kind_are_listed(orders: Orders) -> None:
    group = await orders.join()
    assert {orders.stand.stream, orders.stream, group} <= set(await orders.backend.streams())


async def test_a_topic_exists_when_a_group_has_joined(orders: Orders) -> None:
    group = await orders.join()
    assert [each.stream for each in (await orders.record()).groups] == [group]
    assert (await orders.record()).rules == TopicRules()


async def test_declaring_a_topic_keeps_its_events(orders: Orders) -> None:
    group = await orders.join()
    await orders.publish("a")
    await orders.declare_topic(retention=60)
    await orders.declare_topic(retention=60)
    assert await orders.claim_ids(group) == ["a"]
