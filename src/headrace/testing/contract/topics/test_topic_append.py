"""Publishing: how events are numbered, delayed, and recognised when they are published again."""

from __future__ import annotations

import asyncio

import pytest

from headrace.core.messages.message import HIGH, LOW, NORMAL, Message, Stream, UniqueKey
from headrace.core.records.answers import Answer, CancelAnswer
from headrace.core.records.record import JobStatus
from headrace.core.runtime.clock import SECOND, microseconds
from headrace.core.topics.topic import TopicRules
from headrace.testing.contract.kit.orders import Orders
from headrace.testing.contract.kit.stand import HOUR_US
from headrace.testing.contract.kit.waits import claimed

ONCE = UniqueKey("order-4711", "elapsed", microseconds(60))


@pytest.mark.whole("numbers count within a part")
async def test_events_are_numbered_from_one_without_a_gap(orders: Orders) -> None:
    await orders.publish("a", "b")
    await orders.publish("c")
    entries = (await orders.read()).entries
    assert [(entry.number, entry.id) for entry in entries] == [(1, "a"), (2, "b"), (3, "c")]


@pytest.mark.whole("numbers count within a part")
async def test_processes_number_their_events_together(orders: Orders) -> None:
    await orders.publish("a")
    await orders.publish("b", by=await orders.stand.other())
    await orders.publish("c")
    assert [(entry.number, entry.id) for entry in (await orders.read()).entries] == [
        (1, "a"),
        (2, "b"),
        (3, "c"),
    ]


@pytest.mark.whole("numbers count within a part")
async def test_numbers_go_on_after_everything_was_trimmed(orders: Orders) -> None:
    group = await orders.join()
    await orders.declare_topic(retention=60)
    await orders.publish("a", "b")
    await orders.finish(group)
    await orders.stand.advance(61)
    await orders.keep_topics(group)
    assert await orders.ids() == []
    await orders.publish("c")
    assert [(entry.number, entry.id) for entry in (await orders.read()).entries] == [(3, "c")]


@pytest.mark.whole("numbers count within a part")
async def test_a_duplicate_takes_no_number(orders: Orders) -> None:
    await orders.append(orders.event("a", unique=ONCE), orders.event("b", unique=ONCE), orders.event("c"))
    assert [(entry.number, entry.id) for entry in (await orders.read()).entries] == [(1, "a"), (2, "c")]


async def test_an_event_lies_in_the_log_as_it_was_published(orders: Orders) -> None:
    await orders.append(orders.event("a", key="customer-7", body=bytes(range(256))))
    (entry,) = (await orders.read()).entries
    assert (entry.id, entry.task, entry.key, entry.body) == ("a", "placed", "customer-7", bytes(range(256)))
    assert abs(entry.at_us - orders.stand.now_us()) < 5 * SECOND
    assert entry.expires_us == 0


async def test_an_empty_batch_has_no_answers(orders: Orders) -> None:
    assert await orders.append() == []


@pytest.mark.whole("a claim need not take everything from several parts at once")
async def test_five_hundred_events_are_one_batch(orders: Orders) -> None:
    group = await orders.join()
    ids = [f"event-{number:03}" for number in range(500)]
    await orders.publish(*ids)
    assert await orders.claim_ids(group, 500) == ids


async def test_a_topic_that_was_not_declared_takes_events(orders: Orders) -> None:
    await orders.publish("a")
    assert orders.stream in await orders.backend.streams()
    assert (await orders.record()).rules == TopicRules()


@pytest.mark.whole("parts have no order among each other")
async def test_priorities_are_not_for_topics(orders: Orders) -> None:
    group = await orders.join()
    await orders.append(Message("a", "placed", b"", LOW), Message("b", "placed", b"", HIGH))
    claims = await orders.claim(group)
    assert [(claim.id, claim.priority) for claim in claims] == [("a", NORMAL), ("b", NORMAL)]
    for claim in claims:
        await orders.stand.retry(claim, delay=0)
    assert await orders.claim_ids(group) == ["a", "b"]


async def test_an_id_that_was_handled_may_be_published_again(orders: Orders) -> None:
    group = await orders.join()
    await orders.publish("a")
    await orders.finish(group)
    await orders.publish("a")
    assert await orders.claim_ids(group) == ["a"]


async def test_counts_of_a_topic_are_of_its_log(orders: Orders) -> None:
    group = await orders.join()
    await orders.publish("a", "b")
    await orders.publish("c", delay=10)
    await orders.finish(group)
    counts = await orders.backend.counts(orders.stream)
    assert (counts.queued, counts.scheduled, counts.running, counts.dead) == (2, 1, 0, 0)


async def test_a_topic_is_no_queue_of_the_same_name(orders: Orders) -> None:
    queue = await orders.stand.queue("orders")
    await orders.publish("a")
    await orders.stand.add("b", source=queue)
    assert await orders.ids() == ["a"]
    assert await orders.claim_ids(queue) == ["b"]
    assert {Stream("queue", "orders"), Stream("topic", "orders")} <= set(await orders.backend.streams())


# --- later ------------------------------------------------------------------------------------------------


async def test_a_delayed_event_is_scheduled_and_not_in_the_log(orders: Orders) -> None:
    group = await orders.join()
    await orders.publish("a", delay=10)
    assert await orders.ids() == []
    assert await orders.claim(group) == []
    record = await orders.stand.look("a", source=orders.source)
    assert record.status is JobStatus.SCHEDULED
    assert abs(record.due_us - orders.stand.now_us() - 10 * SECOND) < 5 * SECOND


async def test_an_event_with_a_due_time_ahead_is_scheduled(orders: Orders) -> None:
    due_us = orders.stand.now_us() + 10 * SECOND
    await orders.append(Message("a", "placed", b"", due_us=due_us))
    assert await orders.ids() == []
    assert (await orders.stand.look("a", source=orders.source)).due_us == due_us


async def test_an_event_whose_due_time_has_passed_is_written_at_once(orders: Orders) -> None:
    await orders.append(Message("a", "placed", b"", due_us=orders.stand.now_us() - SECOND))
    assert await orders.ids() == ["a"]


async def test_an_event_that_is_not_due_is_not_promoted(orders: Orders) -> None:
    await orders.publish("a", delay=10)
    promoted = await orders.stand.promote(sources=[orders.source])
    assert promoted.count == 0
    assert promoted.next_in_us is not None
    assert abs(promoted.next_in_us - 10 * SECOND) < 5 * SECOND
    assert await orders.ids() == []


@pytest.mark.whole("numbers count within a part")
async def test_a_promoted_event_is_written_to_the_end_of_the_log(orders: Orders) -> None:
    group = await orders.join()
    await orders.publish("later", delay=10)
    await orders.publish("now")
    await orders.stand.advance(11)
    assert await orders.promote() == 1
    entries = (await orders.read()).entries
    assert [(entry.number, entry.id) for entry in entries] == [(1, "now"), (2, "later")]
    assert abs(entries[1].at_us - orders.stand.now_us()) < 5 * SECOND
    assert await orders.claim_ids(group) == ["now", "later"]
    assert (await orders.record()).scheduled == 0


async def test_delayed_events_are_promoted_the_earliest_first(orders: Orders) -> None:
    for id, delay in (("c", 30), ("a", 10), ("b", 20)):
        await orders.publish(id, delay=delay)
    await orders.stand.advance(31)
    assert await orders.promote() == 3
    assert await orders.ids() == ["a", "b", "c"]


@pytest.mark.whole("parts have no order among each other")
async def test_no_more_events_are_promoted_than_asked_for(orders: Orders) -> None:
    for id, delay in (("a", 10), ("b", 20), ("c", 30)):
        await orders.publish(id, delay=delay)
    await orders.stand.advance(31)
    assert (await orders.stand.promote(sources=[orders.source], limit=2)).count == 2
    assert await orders.ids() == ["a", "b"]


async def test_a_promoted_event_keeps_its_key_and_body(orders: Orders) -> None:
    await orders.append(orders.event("a", key="customer-7", body=b"later", delay=10))
    await orders.stand.advance(11)
    await orders.promote()
    (entry,) = (await orders.read()).entries
    assert (entry.id, entry.task, entry.key, entry.body) == ("a", "placed", "customer-7", b"later")


async def test_a_promotion_wakes_the_groups(orders: Orders) -> None:
    group = await orders.join()
    await orders.publish("a", delay=10)
    claiming = await orders.start_claiming(group)
    await orders.stand.advance(11)
    await orders.promote()
    assert await claimed(claiming) == ["a"]


async def test_a_scheduled_event_can_be_cancelled(orders: Orders) -> None:
    await orders.publish("a", delay=10)
    assert await orders.backend.cancel(orders.stream, "a", ttl_us=HOUR_US) is CancelAnswer.REMOVED
    await orders.stand.advance(11)
    assert await orders.promote() == 0
    assert await orders.ids() == []


async def test_a_scheduled_event_can_be_run_now(orders: Orders) -> None:
    group = await orders.join()
    await orders.publish("a", delay=10)
    assert await orders.backend.run_now(orders.stream, "a")
    assert await orders.claim_ids(group) == ["a"]
    await orders.stand.advance(11)
    assert await orders.promote() == 0


async def test_a_scheduled_event_can_be_rewritten(orders: Orders) -> None:
    await orders.publish("a", delay=10)
    assert await orders.backend.rewrite(orders.stream, "a", b"better")
    await orders.stand.advance(11)
    await orders.promote()
    assert [entry.body for entry in (await orders.read()).entries] == [b"better"]


async def test_an_event_carries_its_expiry(orders: Orders) -> None:
    group = await orders.join()
    await orders.publish("a", lifetime=60)
    (entry,) = (await orders.read()).entries
    claim = await orders.claim_one(group)
    assert claim.expires_us == entry.expires_us
    assert abs(claim.expires_us - orders.stand.now_us() - 60 * SECOND) < 5 * SECOND


async def test_the_lifetime_of_a_delayed_event_counts_from_its_due_time(orders: Orders) -> None:
    group = await orders.join()
    await orders.publish("a", lifetime=60, delay=10)
    due_us = orders.stand.now_us() + 10 * SECOND
    await orders.stand.advance(20)
    await orders.promote()
    assert abs((await orders.claim_one(group)).expires_us - due_us - 60 * SECOND) < 5 * SECOND


# --- once -------------------------------------------------------------------------------------------------


async def test_an_event_with_a_key_that_is_held_is_a_duplicate_of_the_first(orders: Orders) -> None:
    group = await orders.join()
    await orders.publish("a", unique=ONCE)
    assert await orders.append(orders.event("b", unique=ONCE)) == [Answer("a", "duplicate")]
    assert await orders.claim_ids(group) == ["a"]


async def test_a_key_holds_in_every_process(orders: Orders) -> None:
    await orders.publish("a", unique=ONCE)
    other = await orders.stand.other()
    assert await orders.append(orders.event("b", unique=ONCE), by=other) == [Answer("a", "duplicate")]


async def test_a_key_is_free_when_its_window_has_passed(orders: Orders) -> None:
    await orders.publish("a", unique=ONCE)
    await orders.stand.advance(61)
    await orders.publish("b", unique=ONCE)
    assert await orders.ids() == ["a", "b"]


async def test_a_key_is_held_until_its_window_has_passed_whatever_became_of_the_event(orders: Orders) -> None:
    group = await orders.join()
    await orders.declare_topic(retention=10)
    await orders.publish("a", unique=ONCE)
    await orders.finish(group)
    await orders.stand.advance(30)
    await orders.keep_topics(group)
    assert await orders.ids() == []
    assert await orders.append(orders.event("b", unique=ONCE)) == [Answer("a", "duplicate")]


async def test_a_scheduled_event_holds_its_key(orders: Orders) -> None:
    await orders.publish("a", unique=ONCE, delay=10)
    assert await orders.append(orders.event("b", unique=ONCE)) == [Answer("a", "duplicate")]


async def test_a_batch_that_is_sent_again_is_published_once(orders: Orders) -> None:
    batch = orders.stand.batch(orders.event("a"), orders.event("b"), source=orders.source)
    answers = await orders.backend.append(batch)
    assert await (await orders.stand.other()).append(batch) == answers
    assert await orders.ids() == ["a", "b"]


async def test_a_batch_that_is_sent_again_late_is_published_once(orders: Orders) -> None:
    batch = orders.stand.batch(orders.event("a", unique=ONCE), source=orders.source)
    await orders.backend.append(batch)
    await orders.stand.advance(590)
    assert await orders.backend.append(batch) == [Answer("a")]
    assert await orders.ids() == ["a"]


async def test_a_key_that_several_want_at_once_goes_to_one(orders: Orders) -> None:
    backends = [orders.backend, *[await orders.stand.other() for _ in range(3)]]
    batches = [
        orders.stand.batch(orders.event(unique=ONCE), source=orders.source, producer=f"producer-{number}")
        for number in range(4)
    ]
    answers = await asyncio.gather(
        *[backend.append(batch) for backend, batch in zip(backends, batches, strict=True)]
    )
    (holder,) = await orders.ids()
    assert {answer.id for (answer,) in answers} == {holder}


@pytest.mark.whole("numbers count within a part")
async def test_what_several_publish_at_once_is_numbered_without_a_gap(orders: Orders) -> None:
    backends = [orders.backend, *[await orders.stand.other() for _ in range(3)]]
    batches = [
        orders.stand.batch(
            *[orders.event(f"{number}-{each}") for each in range(20)],
            source=orders.source,
            producer=f"producer-{number}",
        )
        for number in range(4)
    ]
    await asyncio.gather(*[backend.append(batch) for backend, batch in zip(backends, batches, strict=True)])
    entries = (await orders.read()).entries
    assert [entry.number for entry in entries] == list(range(1, 81))
    assert len({entry.id for entry in entries}) == 80
