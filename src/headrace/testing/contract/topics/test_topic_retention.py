"""Retention: how age and length remove events, and which groups hold them."""

from __future__ import annotations

import pytest

from headrace.core.messages.message import Stream, group_stream
from headrace.core.runtime.clock import microseconds
from headrace.core.topics.topic import BEGINNING, TRIMMED_BESIDE, KeptTopics, TopicRules
from headrace.testing.contract.kit.orders import DAY, Orders


async def test_an_event_goes_when_it_is_too_old(orders: Orders) -> None:
    group = await orders.join()
    await orders.declare_topic(retention=60)
    await orders.publish("a")
    await orders.finish(group)
    await orders.stand.advance(40)
    await orders.publish("b")
    await orders.finish(group)
    await orders.stand.advance(21)
    assert await orders.keep_topics(group) == KeptTopics(trimmed=1)
    assert await orders.ids() == ["b"]


async def test_a_topic_without_groups_is_trimmed_when_it_is_named(orders: Orders) -> None:
    await orders.declare_topic(retention=60)
    await orders.publish("a")
    await orders.stand.advance(40)
    await orders.publish("b")
    await orders.stand.advance(21)
    assert await orders.backend.keep_topics([orders.stream], limit=100) == KeptTopics(trimmed=1)
    assert await orders.ids() == ["b"]
    assert (await orders.record()).groups == ()


async def test_an_event_that_is_young_stays(orders: Orders) -> None:
    group = await orders.join()
    await orders.declare_topic(retention=60)
    await orders.publish("a")
    await orders.finish(group)
    await orders.stand.advance(50)
    assert await orders.keep_topics(group) == KeptTopics()
    assert await orders.ids() == ["a"]


@pytest.mark.whole("a length holds for each part")
async def test_events_go_when_there_are_too_many(orders: Orders) -> None:
    group = await orders.join()
    await orders.publish("a", "b", "c", "d")
    await orders.finish(group)
    await orders.declare_topic(max_length=2)
    assert await orders.keep_topics(group) == KeptTopics(trimmed=2)
    assert await orders.ids() == ["c", "d"]


async def test_without_bounds_everything_stays(orders: Orders) -> None:
    group = await orders.join()
    await orders.declare_topic(retention=0, max_length=None)
    await orders.publish("a", "b")
    await orders.finish(group)
    await orders.stand.advance(365 * DAY)
    assert await orders.keep_topics(group) == KeptTopics()
    assert await orders.ids() == ["a", "b"]


async def test_a_topic_that_was_not_declared_keeps_its_events_for_a_week(orders: Orders) -> None:
    group = await orders.join()
    await orders.publish("a")
    await orders.finish(group)
    await orders.stand.advance(6.9 * DAY)
    assert (await orders.keep_topics(group)).trimmed == 0
    await orders.stand.advance(0.2 * DAY)
    assert (await orders.keep_topics(group)).trimmed == 1


@pytest.mark.whole("a length holds for each part")
async def test_the_rules_given_last_count(orders: Orders) -> None:
    group = await orders.join()
    await orders.publish("a", "b", "c")
    await orders.finish(group)
    await orders.declare_topic(max_length=1)
    await orders.declare_topic(max_length=2)
    await orders.keep_topics(group)
    assert await orders.ids() == ["b", "c"]
    assert (await orders.record()).rules == TopicRules(0, 2)


@pytest.mark.whole("a length holds for each part")
async def test_a_live_group_holds_what_it_has_not_drawn(orders: Orders) -> None:
    group = await orders.join()
    await orders.declare_topic(max_length=1)
    await orders.publish("a", "b", "c")
    assert await orders.keep_topics(group) == KeptTopics(holding=(group,))
    assert await orders.finish(group) == ["a", "b", "c"]
    assert await orders.keep_topics(group) == KeptTopics(trimmed=2)


async def test_a_live_group_holds_what_is_too_old(orders: Orders) -> None:
    group = await orders.join()
    await orders.declare_topic(retention=60)
    await orders.publish("a")
    await orders.stand.advance(61)
    assert await orders.keep_topics(group) == KeptTopics(holding=(group,))
    assert await orders.finish(group) == ["a"]


@pytest.mark.whole("parts have no order among each other")
async def test_the_slowest_of_the_live_groups_counts(orders: Orders) -> None:
    fast, slow = await orders.join("fast"), await orders.join("slow")
    await orders.declare_topic(retention=60)
    await orders.publish("a", "b")
    await orders.finish(fast)
    await orders.stand.advance(61)
    assert await orders.keep_topics(fast, slow) == KeptTopics(holding=(slow,))
    assert await orders.finish(slow) == ["a", "b"]
    assert (await orders.keep_topics(fast)).trimmed == 2


@pytest.mark.whole("a length holds for each part")
async def test_what_a_group_has_drawn_holds_up_nothing(orders: Orders) -> None:
    group = await orders.join()
    await orders.declare_topic(max_length=1)
    await orders.publish("a", "b", "c")
    claims = await orders.claim(group)
    assert await orders.keep_topics(group) == KeptTopics(trimmed=2)
    await orders.stand.retry(claims[0], delay=0)
    assert (await orders.claim_one(group, "a")).body == b"hello"


async def test_what_is_parked_holds_up_nothing_and_is_not_lost(orders: Orders) -> None:
    group = await orders.join(ordered=True)
    await orders.declare_topic(retention=60)
    await orders.publish("a1", "a2", "a3", key="a")
    claims = await orders.claim(group)
    await orders.claim(group)
    await orders.stand.advance(61)
    assert (await orders.keep_topics(group)).trimmed == 3
    await orders.done(claims)
    assert await orders.finish(group) == ["a2", "a3"]


@pytest.mark.whole("a length holds for each part")
async def test_where_age_wins_no_group_holds_anything(orders: Orders) -> None:
    group = await orders.join()
    await orders.declare_topic(max_length=1, strict=False)
    await orders.publish("a", "b")
    await orders.publish("c")
    await orders.keep_topics(group)
    assert await orders.ids() == ["c"]
    assert await orders.finish(group) == ["c"]


async def test_a_group_whose_position_was_trimmed_goes_on_with_the_first_left(orders: Orders) -> None:
    group = await orders.join()
    await orders.publish("a", "b")
    await orders.finish(group)
    await orders.publish("c", "d", "e")
    await orders.declare_topic(max_length=1, strict=False)
    await orders.keep_topics(group)
    record = await orders.group_record(group)
    assert record.lag == 1
    assert await orders.claim_ids(group) == ["e"]


async def test_a_group_without_a_member_for_a_day_holds_nothing_any_more(orders: Orders) -> None:
    gone, here = await orders.join("gone"), await orders.join("here")
    await orders.declare_topic(retention=60)
    await orders.publish("a")
    await orders.finish(here)
    await orders.stand.advance(0.9 * DAY)
    assert await orders.keep_topics(here) == KeptTopics(holding=(gone,))
    await orders.stand.advance(0.2 * DAY)
    tended = await orders.keep_topics(here)
    assert (tended.trimmed, tended.holding, tended.passed) == (1, (), (gone,))
    await orders.publish("b")
    assert await orders.claim_ids(gone) == ["b"]


async def test_a_group_that_is_tended_stays_alive(orders: Orders) -> None:
    slow, here = await orders.join("slow"), await orders.join("here")
    await orders.declare_topic(retention=60)
    await orders.publish("a")
    await orders.finish(here)
    for _ in range(3):
        await orders.stand.advance(0.9 * DAY)
        assert (await orders.keep_topics(slow)).holding == (slow,)
    assert await orders.finish(slow) == ["a"]


async def test_a_member_is_noted_when_it_tends(orders: Orders) -> None:
    group = await orders.join()
    await orders.stand.advance(100)
    await orders.keep_topics(group)
    seen_us = (await orders.group_record(group)).seen_us
    assert abs(seen_us - orders.stand.now_us()) < microseconds(10)


async def test_a_removed_group_holds_nothing(orders: Orders) -> None:
    gone, here = await orders.join("gone"), await orders.join("here")
    await orders.declare_topic(retention=60)
    await orders.publish("a", "b")
    await orders.finish(here)
    await orders.stand.advance(61)
    await orders.backend.remove_stream(gone)
    assert await orders.keep_topics(here) == KeptTopics(trimmed=2)


@pytest.mark.whole("a length holds for each part")
async def test_no_more_is_trimmed_than_asked_for(orders: Orders) -> None:
    group = await orders.join()
    await orders.publish(*[f"event-{number}" for number in range(10)])
    await orders.finish(group)
    await orders.declare_topic(max_length=2)
    assert await orders.keep_topics(group, limit=5) == KeptTopics(trimmed=5, more=True)
    assert await orders.keep_topics(group, limit=5) == KeptTopics(trimmed=3)
    assert await orders.ids() == ["event-8", "event-9"]


async def test_topics_are_trimmed_each_by_its_own_rules(orders: Orders) -> None:
    group, elsewhere = await orders.join(), group_stream("returns", "billing")
    await orders.backend.join(elsewhere, BEGINNING)
    returns = Stream("topic", "returns")
    await orders.backend.declare_topic(returns, TopicRules(0, 1))
    await orders.publish("a", "b")
    await orders.backend.append(
        orders.stand.batch(orders.event("r"), orders.event("s"), orders.event("t"), source=returns)
    )
    await orders.finish(group)
    await orders.finish(elsewhere)
    assert await orders.keep_topics(group, elsewhere) == KeptTopics(trimmed=2)
    assert await orders.ids() == ["a", "b"]


@pytest.mark.whole("an append trims the part that it goes to")
@pytest.mark.parametrize("rules", [TopicRules(max_length=10), TopicRules(microseconds(60))])
async def test_an_append_trims_a_little_by_itself(orders: Orders, rules: TopicRules) -> None:
    await orders.backend.declare_topic(orders.stream, rules)
    await orders.publish(*[f"old-{number}" for number in range(50)])
    await orders.stand.advance(61)
    await orders.publish("new")
    assert len(await orders.ids()) <= 10


async def test_a_topic_without_readers_does_not_grow_for_ever(orders: Orders) -> None:
    await orders.declare_topic(max_length=10)
    for number in range(5):
        await orders.publish(*[f"{number}-{each}" for each in range(TRIMMED_BESIDE)])
    await orders.publish("last")
    assert len(await orders.ids()) <= TRIMMED_BESIDE
    assert (await orders.record()).last == 5 * TRIMMED_BESIDE + 1


@pytest.mark.whole("parts have no order among each other")
async def test_an_append_trims_nothing_that_is_held(orders: Orders) -> None:
    group = await orders.join()
    await orders.declare_topic(max_length=1)
    for id in ("a", "b", "c"):
        await orders.publish(id)
    assert await orders.finish(group) == ["a", "b", "c"]


async def test_delayed_events_are_not_trimmed(orders: Orders) -> None:
    group = await orders.join()
    await orders.declare_topic(retention=60)
    await orders.publish("a", delay=100)
    await orders.stand.advance(101)
    await orders.keep_topics(group)
    await orders.promote()
    assert await orders.keep_topics(group) == KeptTopics()
    assert await orders.claim_ids(group) == ["a"]
