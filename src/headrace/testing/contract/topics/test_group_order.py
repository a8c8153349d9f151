"""Ordered groups: of each key they run one event at a time, in the order of the log."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from functools import partial

import pytest

from headrace.core.messages.claim import Claim
from headrace.core.messages.message import Stream
from headrace.core.messages.outcome import (
    Cancelled,
    Done,
    Expired,
    Outcome,
    Released,
    Settlement,
    Snoozed,
    Verdict,
)
from headrace.core.records.answers import CancelAnswer, ReplayAnswer
from headrace.core.records.record import JobStatus
from headrace.core.store import CRASH_LIMIT
from headrace.core.topics.topic import NEW, ORDER_HELD_FOR
from headrace.engine.app_loop.retrying import with_retries
from headrace.testing.contract.kit.orders import Orders
from headrace.testing.contract.kit.stand import HOUR_US, dead, kept, retry
from headrace.testing.contract.kit.waits import claimed


@pytest.fixture
async def group(orders: Orders) -> Stream:
    return await orders.join(ordered=True)


async def test_of_a_key_one_event_is_handed_out_at_a_time(orders: Orders, group: Stream) -> None:
    await orders.publish("a1", "a2", "a3", key="a")
    for id in ("a1", "a2", "a3"):
        (claim,) = await orders.claim(group)
        assert claim.id == id
        assert await orders.claim(group, consumer="worker-2") == []
        await orders.done([claim])
    assert await orders.claim(group) == []


async def test_different_keys_run_side_by_side(orders: Orders, group: Stream) -> None:
    await orders.publish_keys(a1="a", b1="b", a2="a", b2="b", c1="c")
    assert await orders.claim_ids(group) == ["a1", "b1", "c1"]


async def test_events_without_a_key_know_no_order(orders: Orders, group: Stream) -> None:
    await orders.publish("x", "y", "z")
    assert await orders.claim_ids(group) == ["x", "y", "z"]


async def test_a_key_holds_up_no_event_without_one(orders: Orders, group: Stream) -> None:
    await orders.publish_keys(a1="a", a2="a", x="")
    assert await orders.claim_ids(group) == ["a1", "x"]


async def test_a_group_that_is_not_ordered_knows_no_keys(orders: Orders) -> None:
    group = await orders.join()
    await orders.publish("a1", "a2", key="a")
    assert await orders.claim_ids(group) == ["a1", "a2"]


async def test_order_belongs_to_the_group(orders: Orders, group: Stream) -> None:
    other = await orders.join("mail")
    await orders.publish("a1", "a2", key="a")
    assert await orders.claim_ids(other) == ["a1", "a2"]
    assert await orders.claim_ids(group) == ["a1"]


async def test_two_ordered_groups_hold_their_keys_apart(orders: Orders, group: Stream) -> None:
    other = await orders.join("mail", ordered=True)
    await orders.publish("a1", "a2", key="a")
    await orders.done([await orders.claim_one(group, "a1")])
    assert await orders.claim_ids(group) == ["a2"]
    assert await orders.claim_ids(other) == ["a1"]


async def test_parked_events_count_as_queued(orders: Orders, group: Stream) -> None:
    await orders.publish("a1", "a2", "a3", key="a")
    await orders.claim(group)
    counts = await orders.backend.counts(group)
    assert (counts.queued, counts.running) == (2, 1)
    assert counts.oldest_us > 0
    record = await orders.group_record(group)
    assert record.counts.queued + record.lag == 2


async def test_an_event_that_comes_later_waits_for_its_key(orders: Orders, group: Stream) -> None:
    await orders.publish("a1", key="a")
    claim = await orders.claim_one(group, "a1")
    await orders.publish("a2", key="a")
    assert await orders.claim(group) == []
    await orders.done([claim])
    assert await orders.claim_ids(group) == ["a2"]


async def test_a_key_is_free_again_when_no_event_waits_for_it(orders: Orders, group: Stream) -> None:
    await orders.publish("a1", key="a")
    await orders.done(await orders.claim(group))
    await orders.publish("a2", key="a")
    assert await orders.claim_ids(group) == ["a2"]


@pytest.mark.parametrize("outcome", [Done(), kept(b"7"), dead(), Cancelled(HOUR_US), Expired(HOUR_US)])
async def test_whatever_ends_an_event_hands_its_key_on(
    orders: Orders, group: Stream, outcome: Outcome
) -> None:
    await orders.publish("a1", "a2", "a3", key="a")
    assert await orders.stand.settle(await orders.claim_one(group, "a1"), outcome) is Verdict.KEPT
    assert await orders.claim_ids(group) == ["a2"]


@pytest.mark.parametrize("outcome", [retry(delay=10), Snoozed(retry().state, 10_000_000)])
async def test_an_event_that_waits_to_run_again_keeps_its_key(
    orders: Orders, group: Stream, outcome: Outcome
) -> None:
    await orders.publish("a1", "a2", key="a")
    await orders.stand.settle(await orders.claim_one(group, "a1"), outcome)
    assert await orders.claim(group) == []
    await orders.stand.advance(11)
    assert (await orders.stand.promote(sources=[group])).count == 1
    claim = await orders.claim_one(group, "a1")
    assert await orders.claim(group) == []
    await orders.done([claim])
    assert await orders.claim_ids(group) == ["a2"]


async def test_an_event_that_is_retried_at_once_comes_before_the_next_of_its_key(
    orders: Orders, group: Stream
) -> None:
    await orders.publish("a1", "a2", key="a")
    await orders.stand.retry(await orders.claim_one(group, "a1"), delay=0)
    assert await orders.claim_ids(group) == ["a1"]


async def test_an_event_that_is_handed_back_keeps_its_key(orders: Orders, group: Stream) -> None:
    await orders.publish("a1", "a2", key="a")
    await orders.stand.settle(await orders.claim_one(group, "a1"), Released())
    assert await orders.claim_ids(group) == ["a1"]


async def test_an_event_whose_worker_crashed_keeps_its_key(orders: Orders, group: Stream) -> None:
    await orders.publish("a1", "a2", key="a")
    await orders.claim_one(group, "a1")
    assert [recovery.id for recovery in await orders.lose(group)] == ["a1"]
    claim = await orders.claim_one(group, "a1")
    assert await orders.claim(group) == []
    await orders.done([claim])
    assert await orders.claim_ids(group) == ["a2"]


async def test_an_event_that_crashes_too_often_hands_its_key_on(orders: Orders, group: Stream) -> None:
    await orders.publish("a1", "a2", key="a")
    for _ in range(CRASH_LIMIT):
        await orders.claim_one(group, "a1")
        await orders.lose(group)
    assert await orders.status(group, "a1") is JobStatus.DEAD
    assert await orders.claim_ids(group) == ["a2"]


async def test_a_late_success_hands_the_key_on_once(orders: Orders, group: Stream) -> None:
    await orders.publish("a1", "a2", "a3", key="a")
    late = await orders.claim_one(group, "a1")
    await orders.lose(group)
    assert await orders.stand.settle(late, Done()) is Verdict.KEPT
    assert await orders.claim_ids(group) == ["a2"]
    assert await orders.stand.settle(late, Done()) is Verdict.GONE
    assert await orders.claim(group) == []


async def test_a_fenced_outcome_leaves_the_key_where_it_is(orders: Orders, group: Stream) -> None:
    await orders.publish("a1", "a2", key="a")
    late = await orders.claim_one(group, "a1")
    await orders.lose(group)
    holder = await orders.claim_one(group, "a1")
    assert await orders.stand.settle(late, dead()) is Verdict.LOST
    assert await orders.claim(group) == []
    await orders.done([holder])
    assert await orders.claim_ids(group) == ["a2"]


async def test_a_replayed_event_takes_its_free_key(orders: Orders, group: Stream) -> None:
    await orders.publish("a1", key="a")
    await orders.stand.die(await orders.claim_one(group, "a1"))
    assert await orders.backend.replay(group, ["a1"]) == [ReplayAnswer.REPLAYED]
    await orders.publish("a2", key="a")
    assert await orders.claim_ids(group) == ["a1"]


async def test_a_replayed_event_is_parked_behind_those_that_wait(orders: Orders, group: Stream) -> None:
    await orders.publish("a1", "a2", "a3", key="a")
    await orders.stand.die(await orders.claim_one(group, "a1"))
    running = await orders.claim_one(group, "a2")
    assert await orders.claim(group) == []  # but now the third is drawn for certain
    assert await orders.backend.replay(group, ["a1"]) == [ReplayAnswer.REPLAYED]
    assert await orders.status(group, "a1") is JobStatus.QUEUED
    assert await orders.claim(group) == []
    await orders.done([running])
    assert await orders.finish(group) == ["a3", "a1"]


async def test_a_late_success_ends_an_event_that_is_parked(orders: Orders, group: Stream) -> None:
    await orders.publish("a1", "a2", "a3", key="a")
    late = await orders.claim_one(group, "a1")
    await orders.lose(group)
    await orders.stand.die(await orders.claim_one(group, "a1"))
    running = await orders.claim_one(group, "a2")
    await orders.backend.replay(group, ["a1"])
    assert await orders.stand.settle(late, Done()) is Verdict.KEPT
    assert await orders.claim(group) == []
    await orders.done([running])
    assert await orders.finish(group) == ["a3"]


async def test_a_parked_event_can_be_cancelled(orders: Orders, group: Stream) -> None:
    await orders.publish("a1", "a2", "a3", key="a")
    running = await orders.claim_one(group, "a1")
    await orders.claim(group)
    assert await orders.backend.cancel(group, "a2", ttl_us=HOUR_US) is CancelAnswer.REMOVED
    assert await orders.claim(group) == []
    await orders.done([running])
    assert await orders.finish(group) == ["a3"]


async def test_the_key_of_a_cancelled_event_is_handed_on(orders: Orders, group: Stream) -> None:
    await orders.publish("a1", "a2", key="a")
    await orders.stand.retry(await orders.claim_one(group, "a1"))
    await orders.claim(group)
    assert await orders.backend.cancel(group, "a1", ttl_us=HOUR_US) is CancelAnswer.REMOVED
    assert await orders.claim_ids(group) == ["a2"]


async def test_a_handed_on_key_wakes_a_claim(orders: Orders, group: Stream) -> None:
    await orders.publish("a1", "a2", key="a")
    running = await orders.claim_one(group, "a1")
    claiming = await orders.start_claiming(group, by=await orders.stand.other())
    await orders.done([running])
    assert await claimed(claiming) == ["a2"]


async def test_a_parked_event_lies_in_the_group_as_queued(orders: Orders, group: Stream) -> None:
    await orders.publish("a1", "a2", key="a")
    await orders.claim(group)
    assert await orders.status(group, "a2") is JobStatus.QUEUED


async def test_a_group_may_become_ordered(orders: Orders) -> None:
    group = await orders.join(ordered=False)
    await orders.publish("a1", key="a")
    await orders.done(await orders.claim(group))
    await orders.join(ordered=True)
    assert (await orders.group_record(group)).ordered
    await orders.publish("a2", "a3", key="a")
    assert await orders.claim_ids(group) == ["a2"]


async def test_order_holds_while_a_live_member_asks_for_it(orders: Orders, group: Stream) -> None:
    other = await orders.stand.other()
    await other.join(group, NEW, ordered=False)
    for _ in range(3):
        await orders.stand.advance(ORDER_HELD_FOR / 1e6 - 10)
        await orders.keep_topics(group)
        await other.keep_topics([group], limit=1)
        await other.join(group, NEW, ordered=False)
    assert (await orders.group_record(group)).ordered
    await orders.publish("a1", "a2", key="a")
    assert await orders.claim_ids(group) == ["a1"]


async def test_when_the_last_member_that_wants_order_is_gone_the_others_rule(
    orders: Orders, group: Stream
) -> None:
    other = await orders.stand.other()
    await other.join(group, NEW, ordered=False)
    await orders.stand.advance(ORDER_HELD_FOR / 1e6 + 1)
    assert (await orders.group_record(group)).ordered  # until one that does not want it says so
    await other.keep_topics([group], limit=1)
    assert not (await orders.group_record(group)).ordered
    await orders.publish("a1", "a2", key="a")
    assert await orders.claim_ids(group) == ["a1", "a2"]


async def test_a_member_that_was_away_brings_its_order_back(orders: Orders, group: Stream) -> None:
    other = await orders.stand.other()
    await orders.stand.advance(ORDER_HELD_FOR / 1e6 + 1)
    await other.join(group, NEW, ordered=False)
    await orders.keep_topics(group)
    assert (await orders.group_record(group)).ordered


async def test_members_that_disagree_about_order_are_both_told(orders: Orders, group: Stream) -> None:
    other = await orders.stand.other()
    assert (await orders.keep_topics(group)).disputed == ()
    await other.join(group, NEW, ordered=False)
    assert (await other.keep_topics([group], limit=1)).disputed == (group,)
    assert (await orders.keep_topics(group)).disputed == (group,)
    await orders.stand.advance(ORDER_HELD_FOR / 1e6 + 1)
    assert (await orders.keep_topics(group)).disputed == ()


async def test_a_member_that_does_not_say_what_it_wants_changes_no_order(
    orders: Orders, group: Stream
) -> None:
    other = await orders.stand.other()
    await orders.stand.advance(ORDER_HELD_FOR / 1e6 + 1)
    assert (await other.keep_topics([group], limit=1)).disputed == ()
    assert (await orders.group_record(group)).ordered


async def test_a_group_may_cease_to_be_ordered(orders: Orders, group: Stream) -> None:
    await orders.publish("a1", "a2", key="a")
    running = await orders.claim_one(group, "a1")
    await orders.claim(group)
    await orders.stand.advance(ORDER_HELD_FOR / 1e6 + 1)
    await orders.join(ordered=False)
    await orders.publish("a3", "a4", key="a")
    assert await orders.claim_ids(group) == ["a3", "a4"]
    await orders.done([running])
    assert await orders.claim_ids(group) == ["a2"]


async def test_members_in_several_processes_keep_the_order_of_every_key(
    orders: Orders, group: Stream
) -> None:
    backends = [orders.backend, *[await orders.stand.other() for _ in range(3)]]
    keys = {f"{key}-{number}": key for number in range(12) for key in "abcde"}
    await orders.publish_keys(**keys)
    seen: defaultdict[str, list[str]] = defaultdict(list)
    held: set[str] = set()

    async def work(number: int) -> None:
        consumer = f"worker-{number}"
        by = backends[number]
        for _ in range(10_000):
            # As workers do: a store may be so busy that it refuses to write, and then is asked again.
            claims = await with_retries(lambda: orders.claim(group, 3, consumer=consumer, wait=0.05, by=by))
            for claim in claims:
                _begin(claim, keys[claim.id], held, seen)
            await asyncio.sleep(0)
            held.difference_update(keys[claim.id] for claim in claims)
            await with_retries(partial(by.settle, [Settlement(claim, Done()) for claim in claims]))
            if sum(map(len, seen.values())) == len(keys):
                return
        raise AssertionError("not all came")

    await asyncio.gather(*[work(number) for number in range(4)])
    assert seen == {key: [f"{key}-{number}" for number in range(12)] for key in "abcde"}


def _begin(claim: Claim, key: str, held: set[str], seen: defaultdict[str, list[str]]) -> None:
    assert key not in held, f"{claim.id} beside another of its key"
    held.add(key)
    seen[key].append(claim.id)
