"""Each group has its own retries, crashes, dead letters and replays."""

from __future__ import annotations

import pytest

from headrace.core.messages.message import FRESH
from headrace.core.messages.outcome import (
    DeadReason,
    Snoozed,
)
from headrace.core.records.answers import CancelAnswer, DeadFilter, Renewal, ReplayAnswer
from headrace.core.records.record import JobStatus
from headrace.core.runtime.clock import SECOND
from headrace.core.store import CRASH_LIMIT
from headrace.testing.contract.kit.orders import Orders
from headrace.testing.contract.kit.stand import HOUR_US, kept


async def test_what_is_done_is_gone_from_the_group_and_stays_in_the_log(orders: Orders) -> None:
    group = await orders.join()
    await orders.publish("a")
    await orders.done(await orders.claim(group))
    assert await orders.status(group, "a") is JobStatus.UNKNOWN
    assert await orders.ids() == ["a"]
    counts = await orders.backend.counts(group)
    assert (counts.queued, counts.running) == (0, 0)


async def test_a_kept_result_is_found_in_the_group(orders: Orders) -> None:
    billing, mail = await orders.join("billing"), await orders.join("mail")
    await orders.publish("a")
    await orders.stand.settle(await orders.claim_one(billing), kept(b"7"))
    assert (await orders.stand.look("a", source=billing)).result == b"7"
    assert await orders.status(mail, "a") is not JobStatus.SUCCEEDED


async def test_a_retry_comes_back_to_its_group_alone(orders: Orders) -> None:
    billing, mail = await orders.join("billing"), await orders.join("mail")
    await orders.publish("a")
    await orders.finish(mail)
    await orders.stand.retry(await orders.claim_one(billing), delay=10)
    assert await orders.status(billing, "a") is JobStatus.RETRYING
    await orders.stand.advance(11)
    assert (await orders.stand.promote(sources=[billing, mail])).count == 1
    assert await orders.claim(mail) == []
    claim = await orders.claim_one(billing, "a")
    assert claim.state.failures == 1


@pytest.mark.whole("parts have no order among each other")
async def test_a_retry_holds_up_no_other_event(orders: Orders) -> None:
    group = await orders.join()
    await orders.publish("a", "b")
    await orders.stand.retry(await orders.claim_one(group, "a"))
    assert await orders.claim_ids(group) == ["b"]


async def test_a_snoozed_event_is_scheduled_in_its_group(orders: Orders) -> None:
    group = await orders.join()
    await orders.publish("a")
    await orders.stand.settle(await orders.claim_one(group), Snoozed(FRESH, 10 * SECOND))
    assert await orders.status(group, "a") is JobStatus.SCHEDULED
    assert (await orders.backend.counts(group)).scheduled == 1
    assert (await orders.record()).scheduled == 0


async def test_a_retry_can_be_run_now_and_rewritten(orders: Orders) -> None:
    group = await orders.join()
    await orders.publish("a")
    await orders.stand.retry(await orders.claim_one(group))
    assert await orders.backend.rewrite(group, "a", b"better")
    assert await orders.backend.run_now(group, "a")
    assert (await orders.claim_one(group, "a")).body == b"better"
    assert [entry.body for entry in (await orders.read()).entries] == [b"hello"]


async def test_a_crash_is_counted_in_its_group_alone(orders: Orders) -> None:
    billing, mail = await orders.join("billing"), await orders.join("mail")
    await orders.publish("a")
    await orders.claim(billing)
    (recovery,) = await orders.lose(billing)
    assert (recovery.stream, recovery.id, recovery.task, recovery.crashes) == (billing, "a", "placed", 1)
    assert (await orders.claim_one(billing)).state.crashes == 1
    assert (await orders.claim_one(mail)).state.crashes == 0


async def test_an_event_that_crashes_too_often_is_dead_in_its_group(orders: Orders) -> None:
    billing, mail = await orders.join("billing"), await orders.join("mail")
    await orders.publish("a")
    for _ in range(CRASH_LIMIT):
        await orders.claim_one(billing, "a")
        await orders.lose(billing)
    (letter,) = await orders.backend.dead_letters(billing, only=DeadFilter())
    assert letter.reason == DeadReason.CRASHED
    assert await orders.claim_ids(mail) == ["a"]


async def test_a_dead_letter_names_its_topic_and_its_group(orders: Orders) -> None:
    group = await orders.join()
    await orders.append(orders.event("a", body=b"bad"))
    await orders.stand.die(await orders.claim_one(group), DeadReason.UNRECOVERABLE)
    (letter,) = await orders.backend.dead_letters(group, only=DeadFilter())
    assert (letter.id, letter.task, letter.payload, letter.reason) == ("a", "placed", b"bad", "unrecoverable")
    assert (letter.queue, letter.topic, letter.group) == (None, "orders", "billing")


async def test_a_dead_letter_belongs_to_its_group_alone(orders: Orders) -> None:
    billing, mail = await orders.join("billing"), await orders.join("mail")
    await orders.publish("a")
    await orders.stand.die(await orders.claim_one(billing))
    assert (await orders.backend.counts(billing)).dead == 1
    assert (await orders.backend.counts(mail)).dead == 0
    assert (await orders.backend.counts(orders.stream)).dead == 0
    assert await orders.claim_ids(mail) == ["a"]


async def test_a_dead_letter_is_replayed_to_its_group(orders: Orders) -> None:
    billing, mail = await orders.join("billing"), await orders.join("mail")
    await orders.publish("a")
    await orders.finish(mail)
    await orders.stand.die(await orders.claim_one(billing))
    assert await orders.backend.replay(mail, ["a"]) == [ReplayAnswer.GONE]
    assert await orders.backend.replay(billing, ["a", "b"]) == [
        ReplayAnswer.REPLAYED,
        ReplayAnswer.GONE,
    ]
    assert await orders.claim(mail) == []
    claim = await orders.claim_one(billing, "a")
    assert claim.state == FRESH


async def test_a_dead_letter_outlives_its_event(orders: Orders) -> None:
    group = await orders.join()
    await orders.publish("a")
    await orders.stand.die(await orders.claim_one(group))
    await orders.declare_topic(retention=60)
    await orders.stand.advance(61)
    await orders.keep_topics(group)
    assert await orders.ids() == []
    await orders.backend.replay(group, ["a"])
    assert (await orders.claim_one(group, "a")).body == b"hello"


async def test_a_claim_of_one_group_settles_nothing_in_another(orders: Orders) -> None:
    billing, mail = await orders.join("billing"), await orders.join("mail")
    await orders.publish("a")
    claim = await orders.claim_one(billing)
    await orders.claim_one(mail)
    await orders.done([claim])
    assert await orders.status(mail, "a") is JobStatus.RUNNING


async def test_a_running_event_is_cancelled_in_one_group(orders: Orders) -> None:
    billing, mail = await orders.join("billing"), await orders.join("mail")
    await orders.publish("a")
    first, second = await orders.claim_one(billing), await orders.claim_one(mail)
    assert await orders.backend.cancel(billing, "a", ttl_us=HOUR_US) is CancelAnswer.REQUESTED
    assert await orders.stand.renew(first, second) == [Renewal.CANCELLED, Renewal.KEPT]
    await orders.stand.retry(first)
    assert await orders.status(billing, "a") is JobStatus.CANCELLED


async def test_records_are_of_what_the_group_has(orders: Orders) -> None:
    group = await orders.join()
    await orders.publish("a", "b", "c", "d")
    claims = sorted(await orders.claim(group, 4), key=lambda claim: claim.id)
    await orders.stand.retry(claims[1])
    await orders.stand.die(claims[2])
    await orders.done([claims[3]])
    page = await orders.backend.messages(group)
    assert {(record.id, record.status) for record in page} == {
        ("a", JobStatus.RUNNING),
        ("b", JobStatus.RETRYING),
        ("c", JobStatus.DEAD),
    }
    assert {record.stream for record in page} == {group}
