"""Fills a store with everything that a move must bring to another store, and describes what a store holds."""

from __future__ import annotations

from itertools import count
from typing import Any

from headrace.core.messages.claim import Claim
from headrace.core.messages.message import Batch, Message, State, Stream, TrailEntry, UniqueKey, group_stream
from headrace.core.messages.outcome import (
    Cancelled,
    Dead,
    DeadReason,
    Done,
    Failure,
    Kept,
    Outcome,
    Released,
    Retry,
    Settlement,
)
from headrace.core.records.answers import Wanted
from headrace.core.records.record import JobStatus
from headrace.core.schedules import schedule_record
from headrace.core.store import Store
from headrace.core.topics.topic import BEGINNING, TopicRules

HOUR = 3600 * 1_000_000
WORK, PAUSED = Stream("queue", "work"), Stream("queue", "paused")
ORDERS = Stream("topic", "orders")
BILLING, STRICT = group_stream("orders", "billing"), group_stream("orders", "strict")
STREAMS = (WORK, PAUSED, ORDERS, BILLING, STRICT)

_numbers = count(1)


async def append(store: Store, stream: Stream, *messages: Message) -> None:
    answers = await store.append(Batch(stream, "filler", next(_numbers), list(messages)))
    assert all(answer.verdict == "accepted" for answer in answers)


async def claim(store: Store, *streams: Stream, limit: int = 1) -> list[Claim]:
    return await store.claim(streams, consumer="filler", limit=limit, suspects=limit, wait=0)


async def settle(store: Store, claim: Claim, outcome: Outcome) -> None:
    await store.settle([Settlement(claim, outcome)])


def unique(key: str, until: Any = "finished") -> UniqueKey:
    return UniqueKey(key, until, HOUR if until == "elapsed" else 0)


async def fill(store: Store) -> None:
    for stream in (WORK, PAUSED, BILLING, STRICT):
        if stream.kind == "group":
            await store.declare_topic(ORDERS, TopicRules(retention_us=5 * 24 * HOUR, max_length=5000))
            await store.join(stream, BEGINNING, ordered=stream == STRICT)
        await store.declare_stream(stream, 40_000_000)
    await _fill_queue(store)
    await _fill_topic(store)
    await append(store, PAUSED, Message("waits", "greet", b"in a paused queue"))
    await store.pause(PAUSED, paused=True)
    swaps = [
        schedule_record.add(WORK, "hourly", b"a definition"),
        schedule_record.establish(WORK, "declared"),
    ]
    await store.swap_schedules(swaps)


async def _fill_queue(store: Store) -> None:
    # What is claimed comes first, each alone, so that the order of claims does not matter.
    await append(store, WORK, Message("retried", "fail", b"again", unique=unique("kept while it retries")))
    (retried,) = await claim(store, WORK)
    failed = TrailEntry(5, "failed", "filler", "no such row")
    await settle(store, retried, Retry(retried.state.failed(failed), HOUR))
    await append(store, WORK, Message("dead", "fail", b"dead", unique=unique("given up by the dead")))
    (died,) = await claim(store, WORK)
    failure = Failure("ValueError", "no such row", "Traceback")
    await settle(store, died, Dead(died.state.failed(failed), DeadReason.EXHAUSTED, failure))
    await append(store, WORK, Message("succeeded", "sum", b"2+2", unique=unique("for an hour", "elapsed")))
    (succeeded,) = await claim(store, WORK)
    await settle(store, succeeded, Done(Kept(b"4", HOUR, "a note")))
    await append(store, WORK, Message("cancelled", "sum", b"2+3"))
    (cancelled,) = await claim(store, WORK)
    await settle(store, cancelled, Cancelled(HOUR))
    await append(store, WORK, Message("returned", "sum", b"back"))
    (returned,) = await claim(store, WORK)
    await settle(store, returned, Released(State(releases=1)))
    await append(
        store,
        WORK,
        Message("low", "greet", b"", priority=2),
        Message("normal 1", "greet", b"\x00\xff" * 3, unique=unique("held")),
        Message("high", "greet", b"x" * 5000, priority=0),
        Message("child", "greet", b"c", child=True),
        Message("normal 2", "greet", b"y", lifetime_us=HOUR, unique=unique("until it starts", "started")),
        Message("scheduled", "greet", b"later", delay_us=HOUR, priority=2, lifetime_us=HOUR),
    )


async def _fill_topic(store: Store) -> None:
    events = [
        Message(f"event-{number}", "placed", b"%d" % number, key=f"k{number % 2}") for number in range(6)
    ]
    await append(store, ORDERS, *events)
    first, second = await claim(store, BILLING, limit=2)
    await settle(store, first, Done())
    failed = TrailEntry(5, "failed", "filler", "no such row")
    dead = Dead(second.state.failed(failed), DeadReason.UNRECOVERABLE, Failure("KeyError", "k"))
    await settle(store, second, dead)
    strict = await claim(store, STRICT, limit=10)
    assert len(strict) == 2
    await settle(store, strict[0], Retry(State().failed(failed), 10 * HOUR))
    await settle(store, strict[1], Done())
    later = Message("later", "placed", b"later", delay_us=HOUR, key="k1")
    once = Message("once", "placed", b"once", unique=unique("published once", "elapsed"))
    await append(store, ORDERS, later, once)


async def describe(store: Store) -> dict[str, Any]:
    """What a store holds, as far as users can see it."""
    found: dict[str, Any] = {"streams": sorted(await store.streams(), key=str)}
    for stream in STREAMS:
        counts = await store.counts(stream)
        found[f"counts of {stream.name}"] = (
            *(counts.queued, counts.running, counts.scheduled, counts.retrying, counts.dead, counts.paused),
        )
        if stream.kind != "topic":
            found[f"messages of {stream.name}"] = await _messages(store, stream)
    found["scheduled events"] = await _messages(store, ORDERS, JobStatus.SCHEDULED)
    (topic,) = await store.topics(["orders"])
    found["topic"] = (topic.rules, topic.first, topic.last, topic.last_us, topic.scheduled)
    found["groups"] = [(each.stream, each.position, each.lag, each.ordered) for each in topic.groups]
    reading = await store.read(ORDERS, 0, consumer="describe", limit=100, wait=0)
    found["log"] = [(each.number, each.id, each.body, each.key, each.at_us) for each in reading.entries]
    found["schedules"] = sorted((await store.schedules([WORK])).records, key=str)
    keys = ("kept while it retries", "given up by the dead", "for an hour", "held", "until it starts")
    found["keys"] = await store.holders(WORK, [Wanted(key=key) for key in keys])
    found["event keys"] = await store.holders(ORDERS, [Wanted(key="published once")])
    return found


async def _messages(store: Store, stream: Stream, status: JobStatus | None = None) -> list[Any]:
    items: list[Any] = []
    cursor: str | None = None
    while True:
        page = await store.messages(stream, status=status, cursor=cursor)
        items += page.items
        cursor = page.cursor
        if cursor is None:
            return sorted(
                (
                    *(each.id, each.status.value, each.task, each.body, each.priority, each.due_us),
                    *(each.state, each.ended_us, each.result, each.note, each.reason, each.failure),
                    *(each.unique_key, each.takes_key),
                )
                for each in items
            )


async def run_all(store: Store, *streams: Stream) -> list[str]:
    """Claim and settle one after another, and give the ids in their order."""
    ids: list[str] = []
    while claims := await claim(store, *streams):
        ids.append(claims[0].id)
        await settle(store, claims[0], Done())
    return ids
