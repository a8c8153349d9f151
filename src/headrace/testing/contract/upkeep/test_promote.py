"""Promoting: a message that is due becomes ready. The earliest is first, and none is early."""

from __future__ import annotations

import asyncio

import pytest

from headrace.core.messages.message import FRESH
from headrace.core.messages.outcome import Released, Snoozed
from headrace.core.records.answers import Promoted
from headrace.core.records.control import ControlMessage, DueNotice
from headrace.core.records.record import JobStatus
from headrace.core.runtime.clock import SECOND, microseconds
from headrace.testing.contract.kit.stand import Stand
from headrace.testing.waiting import wait_until


async def test_with_nothing_scheduled_nothing_is_promoted(stand: Stand) -> None:
    await stand.add()
    assert await stand.promote() == Promoted(0, None)


async def test_nothing_is_promoted_before_it_is_due(stand: Stand) -> None:
    id = await stand.add(delay=10)
    await stand.advance(5)
    assert (await stand.promote()).count == 0
    assert await stand.status(id) is JobStatus.SCHEDULED


async def test_beside_one_that_is_due_none_is_promoted_before_its_time(stand: Stand) -> None:
    due, early = await stand.add(delay=10), await stand.add(delay=40)
    await stand.advance(11)
    assert (await stand.promote()).count == 1
    assert [await stand.status(id) for id in (due, early)] == [JobStatus.QUEUED, JobStatus.SCHEDULED]


async def test_what_is_due_is_queued(stand: Stand) -> None:
    id = await stand.add(delay=10)
    await stand.advance(11)
    assert await stand.promote() == Promoted(1, None)
    assert await stand.status(id) is JobStatus.QUEUED
    assert await stand.claim_ids() == [id]


async def test_promoted_messages_keep_body_and_task(stand: Stand) -> None:
    id = await stand.add(delay=10, body=b"later", task="mail.send")
    await stand.advance(11)
    await stand.promote()
    record = await stand.look(id)
    assert (record.body, record.task) == (b"later", "mail.send")
    assert (await stand.claim_one(id)).body == b"later"


async def test_a_promotion_says_when_the_next_is_due(stand: Stand) -> None:
    await stand.add(delay=10)
    await stand.add(delay=30)
    await stand.advance(15)
    promoted = await stand.promote()
    assert promoted.count == 1
    assert promoted.next_in_us is not None
    assert 5 * SECOND < promoted.next_in_us <= 15 * SECOND


@pytest.mark.whole("parts have no common order")
async def test_the_earliest_due_is_queued_first(stand: Stand) -> None:
    late, early, middle = [await stand.add(delay=delay) for delay in (30, 10, 20)]
    await stand.advance(31)
    await stand.promote()
    assert await stand.claim_ids() == [early, middle, late]


async def test_those_due_at_the_same_moment_are_all_promoted(stand: Stand) -> None:
    due_us = stand.now_us() + 10 * SECOND
    messages = [stand.message(due_us=due_us) for _ in range(50)]
    await stand.append(*messages)
    await stand.advance(11)
    assert (await stand.promote()).count == 50
    assert set(await stand.claim_ids()) == {message.id for message in messages}


@pytest.mark.whole("parts have no common order")
async def test_a_promotion_takes_no_more_than_its_limit(stand: Stand) -> None:
    ids = [await stand.add(delay=delay) for delay in range(1, 6)]
    await stand.advance(10)
    promoted = await stand.promote(limit=2)
    assert promoted == Promoted(2, 0)
    assert await stand.claim_ids() == ids[:2]
    assert await stand.promote(limit=2) == Promoted(2, 0)
    assert await stand.promote(limit=2) == Promoted(1, None)


async def test_a_message_is_promoted_once(stand: Stand) -> None:
    await stand.add(delay=10)
    await stand.advance(11)
    await stand.promote()
    assert await stand.promote() == Promoted(0, None)
    assert (await stand.counts()).queued == 1


async def test_two_processes_promote_a_message_once(stand: Stand) -> None:
    await stand.append(*[stand.message(delay=10) for _ in range(50)])
    await stand.advance(11)
    backends = [stand.backend, await stand.other()]
    promoted = await asyncio.gather(*[backend.promote([stand.source], limit=100) for backend in backends])
    assert sum(each.count for each in promoted) == 50
    assert len(await stand.claim()) == 50


async def test_retrying_messages_are_promoted_too(stand: Stand) -> None:
    claim = await stand.running()
    await stand.retry(claim, delay=10)
    await stand.advance(11)
    assert (await stand.promote()).count == 1
    counts = await stand.counts()
    assert (counts.queued, counts.retrying) == (1, 0)


@pytest.mark.whole("parts have no common order")
async def test_snoozed_and_handed_back_messages_are_promoted_too(stand: Stand) -> None:
    snoozed, released = await stand.running(), await stand.running()
    await stand.settle(snoozed, Snoozed(FRESH, microseconds(10)))
    await stand.settle(released, Released(FRESH, microseconds(20)))
    await stand.advance(21)
    assert (await stand.promote()).count == 2
    assert await stand.claim_ids() == [snoozed.id, released.id]


async def test_promotion_looks_at_the_sources_it_is_given(stand: Stand) -> None:
    elsewhere = await stand.queue("elsewhere")
    await stand.add(delay=10)
    await stand.add(delay=10, source=elsewhere)
    await stand.advance(11)
    assert await stand.promote(sources=[elsewhere]) == Promoted(1, None)
    assert (await stand.counts()).due == 1


async def test_the_next_due_time_is_that_of_all_sources(stand: Stand) -> None:
    elsewhere = await stand.queue("elsewhere")
    await stand.add(delay=100)
    await stand.add(delay=10, source=elsewhere)
    promoted = await stand.promote(sources=[stand.source, elsewhere])
    assert promoted.next_in_us is not None
    assert 0 < promoted.next_in_us <= 10 * SECOND


async def test_the_limit_of_a_promotion_holds_over_all_sources(stand: Stand) -> None:
    sources = [stand.source, await stand.queue("elsewhere")]
    for source in sources:
        await stand.append(*[stand.message(delay=10) for _ in range(3)], source=source)
    await stand.advance(11)
    assert await stand.promote(sources=sources, limit=4) == Promoted(4, 0)
    assert await stand.promote(sources=sources, limit=4) == Promoted(2, None)


async def test_the_limit_of_a_promotion_holds_over_scheduled_and_retrying_messages(stand: Stand) -> None:
    for _ in range(3):
        await stand.retry(await stand.running(), delay=10)
    await stand.append(*[stand.message(delay=10) for _ in range(3)])
    await stand.advance(11)
    assert await stand.promote(limit=4) == Promoted(4, 0)
    assert await stand.promote(limit=4) == Promoted(2, None)


async def test_a_cancelled_message_is_not_promoted(stand: Stand) -> None:
    id = await stand.add(delay=10)
    await stand.backend.cancel(stand.stream, id, ttl_us=0)
    await stand.advance(11)
    assert await stand.promote() == Promoted(0, None)


async def test_a_full_queue_does_not_hold_up_promotion(stand: Stand) -> None:
    await stand.append(stand.message(), stand.message(delay=10), limit=2)
    await stand.advance(11)
    assert (await stand.promote()).count == 1


async def test_a_paused_stream_is_promoted_but_not_handed_out(stand: Stand) -> None:
    await stand.add(delay=10)
    await stand.backend.pause(stand.stream, paused=True)
    await stand.advance(11)
    assert (await stand.promote()).count == 1
    assert await stand.claim() == []


async def test_something_due_sooner_than_all_before_is_announced(stand: Stand) -> None:
    heard: list[ControlMessage] = []
    stop = stand.backend.listen(heard.append)
    await stand.add(delay=100)
    await wait_until(lambda: heard == [DueNotice(stand.stream)])
    await stand.add(delay=50)
    await wait_until(lambda: len(heard) == 2)
    stop()


async def test_something_due_later_is_not_announced(stand: Stand) -> None:
    heard: list[ControlMessage] = []
    stop = stand.backend.listen(heard.append)
    await stand.add(delay=10)
    await stand.add(delay=100)
    await stand.add(delay=5)
    await wait_until(lambda: len(heard) >= 2)
    assert heard == [DueNotice(stand.stream)] * 2
    stop()


async def test_a_retry_that_is_due_sooner_is_announced_to_other_processes(stand: Stand) -> None:
    heard: list[ControlMessage] = []
    stop = (await stand.other()).listen(heard.append)
    await stand.retry(await stand.running(), delay=10)
    await wait_until(lambda: heard == [DueNotice(stand.stream)])
    stop()
