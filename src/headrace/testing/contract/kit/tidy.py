"""Checks what a store must have deleted when all messages are over."""

from __future__ import annotations

from typing import Final

from headrace.core.history.recording import Recording, RingLimits
from headrace.core.messages.message import Stream, group_stream
from headrace.core.records.answers import DeadFilter
from headrace.core.records.record import JobStatus
from headrace.core.store import Store
from headrace.core.topics.topic import TopicRules
from headrace.engine.streams import StreamRouter

from .stand import HOUR_US, Stand

#: Seconds after which every lease of a test has run out, and every end record and key has passed.
LATER: Final = 1e6


async def check_that_nothing_is_left(stand: Stand) -> None:
    """End every message that a test left, and look for what must have been deleted with them."""
    backend = await stand.other()
    streams = await backend.streams()
    await stand.advance(LATER)
    for stream in streams:
        await (_empty_topic if stream.kind == "topic" else _end_all)(backend, stream)
    for stream in await backend.store.streams():
        await _forget_history(backend.store, stream)
    await _forget(stand, backend)
    for stream in streams:
        counts = await backend.counts(stream)
        left = counts.queued, counts.running, counts.scheduled, counts.retrying, counts.dead
        assert left == (0, 0, 0, 0, 0), f"{stream.name}: {counts}"
    await stand.under_test.check_forgotten(backend.store)


async def _end_all(backend: StreamRouter, stream: Stream) -> None:
    for record in await backend.messages(stream, status=JobStatus.RUNNING, limit=10_000):
        await backend.cancel(stream, record.id, ttl_us=HOUR_US)
    while (await backend.reclaim([stream], limit=100)).more:
        pass
    while await backend.purge(stream, ttl_us=HOUR_US, limit=100):
        pass
    while letters := list(await backend.dead_letters(stream, only=DeadFilter())):
        await backend.discard(stream, [letter.id for letter in letters])


async def _forget_history(store: Store, stream: Stream) -> None:
    while isinstance(store, Recording) and (await store.history(stream)).items:
        await store.record_history(stream, [], RingLimits(entries=0))


async def _empty_topic(backend: StreamRouter, topic: Stream) -> None:
    """Remove its groups, and let everything in its log be too old."""
    while (await backend.promote([topic], limit=100)).count:
        pass
    await backend.declare_topic(topic, TopicRules(retention_us=1, strict=False))
    while (await backend.keep_topics([group_stream(topic.name, "tidy")], limit=1000)).more:
        pass
    for record in (await backend.topics([topic.name]))[0].groups:
        assert await backend.remove_stream(record.stream)


async def _forget(stand: Stand, backend: StreamRouter) -> None:
    await stand.advance(LATER)
    while await backend.prune(limit=1000):
        pass
