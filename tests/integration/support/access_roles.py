"""What a producer, a worker and the reader of a dashboard do: each verb of each, in one namespace."""

from __future__ import annotations

import asyncio
from itertools import count

from headrace.core.messages.claim import Claim, Report
from headrace.core.messages.ids import new_id
from headrace.core.messages.message import FRESH, Batch, Message, Stream, TrailEntry, UniqueKey, group_stream
from headrace.core.messages.outcome import (
    DONE,
    Cancelled,
    Dead,
    DeadReason,
    Done,
    Expired,
    Failure,
    Kept,
    Outcome,
    Released,
    Retry,
    Settlement,
    Snoozed,
    Verdict,
)
from headrace.core.records.answers import CancelAnswer, DeadFilter, Renewal, Wanted
from headrace.core.records.record import JobStatus, WorkerInfo
from headrace.core.records.traffic import TrafficCount
from headrace.core.runtime.clock import SECOND
from headrace.core.schedules.schedule_record import advance, establish
from headrace.core.topics.topic import BEGINNING, NEW, Start, TopicRules
from headrace.engine.streams import StreamRouter
from headrace.testing.contract.kit.heartbeats import beat, leave
from tests.support.redis_leases import age_leases

HOUR = 3600 * SECOND

#: Seconds that a wait would take if nothing came.
LONG = 50.0

QUEUE, TOPIC = Stream("queue", "work"), Stream("topic", "orders")
ORDERED, PLAIN = group_stream("orders", "billing"), group_stream("orders", "mails")
JOBS, BILLS, MAILS = QUEUE, ORDERED, PLAIN
WORKER = WorkerInfo("worker", "host", 1, 1, ("work",), 10, groups=("orders/billing", "orders/mails"))

_numbers = count(1)


async def produce(backend: StreamRouter, url: str) -> None:
    """As a web application does: jobs and events of every kind, and what a job's handle can."""
    await backend.declare_topic(TOPIC, TopicRules(max_length=1000))
    plain = [Message(new_id(), "greet", b"", fresh=True) for _ in range(3)]
    await backend.append(_batch(QUEUE, *plain))
    cancelled = Message(new_id(), "greet", b"", unique=UniqueKey("key"))
    options = [
        cancelled,
        Message(new_id(), "greet", b"", unique=UniqueKey("other", "elapsed", HOUR)),
        Message(new_id(), "greet", b"", unique=UniqueKey("third", "started")),
        Message(new_id(), "greet", b"", unique=UniqueKey("third", "started")),
        *(Message(new_id(), "greet", b"", priority=priority, lifetime_us=HOUR) for priority in (0, 1, 2)),
        Message(new_id(), "greet", b"", delay_us=1),
        Message(new_id(), "greet", b"", delay_us=HOUR),
        plain[0],
    ]
    await backend.append(Batch(QUEUE, new_id(), next(_numbers), options, 1000))
    events = [Message(new_id(), "Placed", b"", key="customer") for _ in range(4)]
    once = Message(new_id(), "Placed", b"", unique=UniqueKey("once", "elapsed", HOUR))
    await backend.append(_batch(TOPIC, *events, once, Message(new_id(), "Placed", b"", delay_us=1)))
    await backend.append(_batch(TOPIC, once))
    assert (await backend.get(QUEUE, cancelled.id)).status is JobStatus.QUEUED  # type: ignore[union-attr]
    assert await backend.wait_for_end(QUEUE, cancelled.id, 0.01) is None
    ended = asyncio.create_task(backend.wait_for_end(QUEUE, cancelled.id, LONG))
    assert await backend.cancel(QUEUE, cancelled.id, ttl_us=HOUR) is CancelAnswer.REMOVED
    assert (await ended).status is JobStatus.CANCELLED  # type: ignore[union-attr]
    assert await backend.wait_for_end(QUEUE, cancelled.id, LONG)
    assert QUEUE in await backend.streams()


async def work(backend: StreamRouter, url: str) -> None:
    """As a worker does; `produce` has gone before. Every outcome, recovery, schedules, upkeep."""
    await backend.declare_stream(JOBS, 20 * SECOND)
    await backend.declare_stream(JOBS, 15 * SECOND)
    await backend.join(ORDERED, BEGINNING, ordered=True)
    await backend.join(PLAIN, NEW)
    await backend.join(PLAIN, BEGINNING)
    await backend.swap_schedules([establish(QUEUE, "daily")])
    [schedule] = (await backend.schedules([QUEUE])).records
    firing = advance(schedule, schedule.last_us + 1, [Message(new_id(), "greet", b"")])
    assert [answer.done for answer in await backend.swap_schedules([firing])] == [True]
    await backend.promote([JOBS, TOPIC], limit=10)
    await _work_off(backend, JOBS)
    await _work_off(backend, BILLS)
    await _work_off(backend, MAILS)
    await _recover(backend, url)
    assert (await backend.read(TOPIC, BEGINNING, consumer="worker", limit=10, wait=0)).entries
    assert not (await backend.read(TOPIC, NEW, consumer="worker", limit=10, wait=0.01)).entries
    await backend.keep_topics([ORDERED, PLAIN], limit=10)
    await backend.count_traffic([TrafficCount(QUEUE, 1, 1, 1)])
    await beat(backend, WORKER)
    await backend.prune(limit=100)
    await leave(backend, "worker", JOBS)


async def read(backend: StreamRouter, url: str) -> None:
    """As a dashboard does that may change nothing; `produce` and `work` have gone before."""
    streams = await backend.streams()
    assert {QUEUE, TOPIC, ORDERED, PLAIN} <= set(streams)
    for stream in (QUEUE, ORDERED, PLAIN):
        await backend.counts(stream)
        cursor: str | None = None
        while True:
            page = await backend.messages(stream, cursor=cursor, limit=3)
            for record in page:
                await backend.get(stream, record.id)
            cursor = page.cursor
            if cursor is None:
                break
        letters = await backend.dead_letters(stream, only=DeadFilter(), limit=1)
        if letters.cursor:
            await backend.dead_letters(stream, only=DeadFilter(), cursor=letters.cursor, limit=1)
    assert [topic.stream for topic in await backend.topics()] == [TOPIC]
    assert await backend.topics(["orders"])
    reading = await backend.read(TOPIC, BEGINNING, consumer="tail", limit=10, wait=0)
    await backend.read(TOPIC, Start("time", time_us=1), consumer="tail", limit=10, wait=0)
    await backend.read(TOPIC, Start("event", reading.entries[0].id), consumer="tail", limit=10, wait=0)
    await backend.read(TOPIC, NEW, consumer="tail", limit=10, wait=0.01)
    await backend.workers()
    await backend.holders(QUEUE, [Wanted(key="other")])
    await backend.traffic(60)
    await backend.schedules([QUEUE])


async def _work_off(backend: StreamRouter, source: Stream) -> None:
    """Every outcome that is left for what can be claimed from there."""
    entry = TrailEntry(1, "failed", "worker")
    outcomes: list[Outcome] = [
        Done(Kept(b"42", HOUR)),
        DONE,
        Retry(FRESH.failed(entry), 1),
        Retry(FRESH.failed(entry), 0),
        Dead(FRESH, DeadReason.EXHAUSTED, Failure("Error", "no")),
        Dead(FRESH, DeadReason.EXHAUSTED, Failure("Error", "no")),
        Snoozed(FRESH, HOUR),
        Released(FRESH, 0),
        Released(FRESH, HOUR),
        Cancelled(HOUR),
        Expired(HOUR),
    ]
    while outcomes:
        claims = await _claim(backend, source)
        if not claims:
            return
        await _renewed(backend, claims)
        await backend.report_progress([Report(claims[0], 0.5, "half")])
        for claim in claims:
            outcome = outcomes.pop(0) if outcomes else Released(FRESH, HOUR)
            assert await backend.settle([Settlement(claim, outcome)]) == [Verdict.KEPT]
        await backend.promote([source], limit=10)


async def _recover(backend: StreamRouter, url: str) -> None:
    """A worker that is gone held these, and one of them is to be cancelled."""
    await backend.append(_batch(QUEUE, *[Message(new_id(), "greet", b"") for _ in range(3)]))
    for _ in range(3):
        claims = await _claim(backend, JOBS)
        await asyncio.to_thread(age_leases, url, 60)
        await backend.reclaim([JOBS], limit=10)
    await backend.append(_batch(QUEUE, Message(new_id(), "greet", b"")))
    for claim in claims[:1]:
        await backend.cancel(QUEUE, claim.id, ttl_us=HOUR)
    waiting = asyncio.create_task(_claim(backend, JOBS, wait=LONG))
    for claim in await waiting:
        assert await backend.settle([Settlement(claim, DONE)]) == [Verdict.KEPT]


async def _claim(backend: StreamRouter, source: Stream, wait: float = 0) -> list[Claim]:
    return await backend.claim([source], consumer="worker", limit=20, suspects=10, wait=wait)


async def _renewed(backend: StreamRouter, claims: list[Claim]) -> None:
    leases = backend.lease_keeper()
    answers = await leases.renew(claims)
    await leases.close()
    assert set(answers) == {Renewal.KEPT}


def _batch(stream: Stream, *messages: Message) -> Batch:
    return Batch(stream, new_id(), next(_numbers), list(messages))
