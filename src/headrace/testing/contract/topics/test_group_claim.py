"""Claiming for groups: each group gets every event, its members share them, and a group has a start."""

from __future__ import annotations

import asyncio

import pytest

from headrace.core.errors import UnknownEvent
from headrace.core.messages.message import FRESH, NORMAL, group_stream
from headrace.core.messages.outcome import Released
from headrace.core.runtime.clock import SECOND, microseconds
from headrace.core.topics.topic import NEW, Start
from headrace.testing.contract.kit.orders import Orders
from headrace.testing.contract.kit.waits import claimed


async def test_a_claim_of_an_event_holds_all_that_its_worker_needs(orders: Orders) -> None:
    group = await orders.join()
    await orders.append(orders.event("a", key="customer-7", body=b"to do"))
    claim = await orders.claim_one(group)
    assert (claim.whole, claim.id, claim.body) == (group, "a", b"to do")
    assert (claim.state, claim.priority, claim.suspect, claim.expires_us) == (FRESH, NORMAL, False, 0)
    assert abs(claim.claimed_us - orders.stand.now_us()) < 5 * SECOND


@pytest.mark.whole("parts have no order among each other")
async def test_events_are_handed_out_in_the_order_of_the_log(orders: Orders) -> None:
    group = await orders.join()
    ids = [f"event-{number}" for number in range(30)]
    await orders.publish(*ids[:17])
    await orders.publish(*ids[17:])
    claimed: list[str] = []
    while more := await orders.claim_ids(group, 4):
        claimed += more
    assert claimed == ids


async def test_every_group_gets_every_event(orders: Orders) -> None:
    billing, mail = await orders.join("billing"), await orders.join("mail")
    await orders.publish("a", "b")
    assert await orders.claim_ids(billing) == ["a", "b"]
    assert await orders.claim_ids(mail) == ["a", "b"]


async def test_the_members_of_a_group_share(orders: Orders) -> None:
    group = await orders.join()
    await orders.publish("a", "b", "c")
    first = await orders.claim(group, 1, consumer="worker-1")
    second = await orders.claim(group, 5, consumer="worker-2", by=await orders.stand.other())
    assert len(first) == 1
    assert sorted(claim.id for claim in first + second) == ["a", "b", "c"]


async def test_a_claim_from_two_groups_of_a_topic_gets_each_event_for_each(orders: Orders) -> None:
    billing, mail = await orders.join("billing"), await orders.join("mail")
    await orders.publish("a", "b")
    claims = await orders.stand.claim(sources=[billing, mail])
    assert sorted((claim.whole.group, claim.id) for claim in claims) == [
        ("billing", "a"),
        ("billing", "b"),
        ("mail", "a"),
        ("mail", "b"),
    ]


async def test_a_queue_and_a_group_are_claimed_from_together(orders: Orders) -> None:
    group = await orders.join()
    await orders.publish("event")
    await orders.stand.add("job")
    claims = await orders.stand.claim(sources=[orders.stand.source, group])
    assert {claim.id for claim in claims} == {"event", "job"}


@pytest.mark.whole("parts have no order among each other")
async def test_what_is_handed_back_comes_before_what_is_new(orders: Orders) -> None:
    group = await orders.join()
    await orders.publish("a", "b")
    await orders.stand.settle(await orders.claim_one(group, "a"), Released())
    assert await orders.claim_ids(group) == ["a", "b"]


async def test_groups_of_other_topics_get_nothing(orders: Orders) -> None:
    elsewhere = group_stream("returns", "billing")
    await orders.backend.join(elsewhere, NEW)
    await orders.publish("a")
    assert await orders.claim(elsewhere) == []


async def test_a_claim_of_another_process_sees_the_position(orders: Orders) -> None:
    group = await orders.join()
    await orders.publish("a", "b")
    await orders.done(await orders.claim(group))
    assert await orders.claim(group, by=await orders.stand.other()) == []


# --- where a group begins ---------------------------------------------------------------------------------


async def test_a_group_that_begins_with_what_is_new_gets_nothing_from_before(orders: Orders) -> None:
    await orders.publish("a")
    group = await orders.join(start=NEW)
    assert await orders.claim_ids(group) == []
    await orders.publish("b")
    assert await orders.claim_ids(group) == ["b"]


async def test_a_group_that_begins_at_the_beginning_gets_everything(orders: Orders) -> None:
    await orders.publish("a", "b")
    group = await orders.join()
    assert await orders.claim_ids(group) == ["a", "b"]


@pytest.mark.whole("a length holds for each part")
async def test_a_group_that_begins_at_the_beginning_gets_what_is_left(orders: Orders) -> None:
    first = await orders.join("first")
    await orders.publish("a", "b", "c")
    await orders.finish(first)
    await orders.declare_topic(max_length=1)
    await orders.keep_topics(first)
    assert await orders.claim_ids(await orders.join("second")) == ["c"]


@pytest.mark.whole("for the other parts an event is a time, and these are of the same moment")
async def test_a_group_may_begin_with_an_event(orders: Orders) -> None:
    await orders.publish("a", "b", "c")
    assert await orders.claim_ids(await orders.join(start=Start("event", event="b"))) == ["b", "c"]


async def test_a_group_may_begin_at_a_time(orders: Orders) -> None:
    for id in ("a", "b", "c"):
        await orders.publish(id)
        await orders.stand.advance(10)
    at_us = (await orders.read()).entries[1].at_us
    exact = await orders.join("exact", Start("time", time_us=at_us))
    between = await orders.join("between", Start("time", time_us=at_us + 5 * SECOND))
    assert await orders.claim_ids(exact) == ["b", "c"]
    assert await orders.claim_ids(between) == ["c"]


async def test_a_group_that_begins_at_a_time_to_come_gets_what_is_new(orders: Orders) -> None:
    await orders.publish("a")
    group = await orders.join(start=Start("time", time_us=orders.stand.now_us() + 3600 * SECOND))
    await orders.publish("b")
    assert await orders.claim_ids(group) == ["b"]


async def test_a_group_cannot_begin_with_an_event_that_is_not_there(orders: Orders) -> None:
    await orders.publish("a")
    with pytest.raises(UnknownEvent, match="nobody"):
        await orders.join(start=Start("event", event="nobody"))
    assert (await orders.record()).groups == ()


@pytest.mark.whole("a length holds for each part")
async def test_a_group_cannot_begin_with_an_event_that_was_trimmed(orders: Orders) -> None:
    first = await orders.join("first")
    await orders.publish("a", "b")
    await orders.finish(first)
    await orders.declare_topic(max_length=1)
    await orders.keep_topics(first)
    with pytest.raises(UnknownEvent):
        await orders.join("second", Start("event", event="a"))


@pytest.mark.whole("parts have no order among each other")
async def test_a_group_that_exists_keeps_its_position(orders: Orders) -> None:
    await orders.publish("a", "b")
    group = await orders.join()
    await orders.done(await orders.claim(group, 1))
    assert not await orders.backend.join(group, NEW)
    assert await orders.claim_ids(group) == ["b"]


async def test_join_says_whether_the_group_is_new(orders: Orders) -> None:
    stream = group_stream("orders", "billing")
    assert await orders.backend.join(stream, NEW) is True
    assert await orders.backend.join(stream, NEW) is False
    assert await (await orders.stand.other()).join(stream, NEW) is False


async def test_a_start_matters_only_to_a_group_that_is_new(orders: Orders) -> None:
    group = await orders.join(start=NEW)
    await orders.publish("a")
    assert not await orders.backend.join(group, Start("beginning"))
    assert await orders.claim_ids(group) == ["a"]


async def test_several_that_join_at_once_make_one_group(orders: Orders) -> None:
    backends = [orders.backend, *[await orders.stand.other() for _ in range(3)]]
    stream = group_stream("orders", "billing")
    answers = await asyncio.gather(*[backend.join(stream, NEW) for backend in backends])
    assert sorted(answers) == [False, False, False, True]


async def test_a_group_that_the_store_has_lost_begins_at_the_beginning(orders: Orders) -> None:
    """For the store, a group without a join is the same as a lost group."""
    await orders.publish("a", "b")
    group = group_stream("orders", "billing")
    assert await orders.claim_ids(group) == ["a", "b"]
    assert (await orders.group_record(group)).lag == 0


async def test_a_group_that_the_store_has_lost_comes_back_with_a_tending_member(orders: Orders) -> None:
    await orders.publish("a", "b")
    group = group_stream("orders", "billing")
    await orders.keep_topics(group)
    assert (await orders.group_record(group)).lag == 2
    assert await orders.claim_ids(group) == ["a", "b"]


async def test_a_lease_that_was_set_before_the_group_was_joined_holds(orders: Orders) -> None:
    group = group_stream("orders", "billing")
    await orders.publish("a")
    await orders.backend.declare_stream(group, microseconds(100))
    assert await orders.backend.join(group, NEW)
    await orders.publish("b")
    assert await orders.claim_ids(group) == ["b"]
    await orders.stand.advance(50)
    assert await orders.stand.reclaim(sources=[group]) == []
    await orders.stand.advance(51)
    assert [recovery.id for recovery in await orders.stand.reclaim(sources=[group])] == ["b"]


# --- waiting ----------------------------------------------------------------------------------------------


async def test_an_event_wakes_the_claims_of_all_groups(orders: Orders) -> None:
    billing, mail = await orders.join("billing"), await orders.join("mail")
    other = await orders.stand.other()
    claims = [await orders.start_claiming(billing), await orders.start_claiming(mail, by=other)]
    await orders.publish("a")
    assert [await claimed(claiming) for claiming in claims] == [["a"], ["a"]]


async def test_a_claim_that_waits_for_a_queue_and_a_group_is_woken_by_either(orders: Orders) -> None:
    group = await orders.join()
    claiming = await orders.start_claiming(orders.stand.source, group)
    await orders.publish("event")
    assert await claimed(claiming) == ["event"]
    claiming = await orders.start_claiming(orders.stand.source, group)
    await orders.stand.add("job")
    assert await claimed(claiming) == ["job"]


async def test_a_claim_that_waits_is_woken_when_its_group_is_set_back(orders: Orders) -> None:
    group = await orders.join()
    await orders.publish("a")
    await orders.finish(group)
    claiming = await orders.start_claiming(group)
    await orders.backend.reset(group, Start("beginning"))
    assert await claimed(claiming) == ["a"]
