"""What a store must have forgotten once all messages are over, whatever a test did to it before."""

from __future__ import annotations

from typing import Any, Final

import apsw

from headrace.backends.redis.backend import RedisBackend
from headrace.backends.redis.connection import pack
from headrace.backends.redis.keys import GROUP, LANES, is_permanent
from headrace.backends.sqlite.backend import SqliteBackend
from headrace.core.backend import DeadFilter
from headrace.core.message import Stream, group_stream
from headrace.core.record import JobStatus
from headrace.core.topics import TopicRules
from headrace.engine.streams import StreamRouter
from tests.contract.stand import HOUR_US, Stand, inner_of
from tests.heartbeats import leave

#: Seconds after which every lease of a test has run out, and every mark and key has passed.
LATER: Final = 1e6

#: The tables of messages and of what belongs to one.
SQLITE_TABLES: Final = ("messages", "unique_keys", "producers", "progress")


async def check_that_nothing_is_left(stand: Stand) -> None:
    """End every message that a test left, and look for what should have gone with them."""
    backend = await stand.other()
    streams = await backend.streams()
    await stand.advance(LATER)
    for stream in streams:
        await (_empty_topic if stream.kind == "topic" else _end_all)(backend, stream)
    await _forget(stand, backend)
    for stream in streams:
        counts = await backend.counts(stream)
        left = counts.queued, counts.running, counts.scheduled, counts.retrying, counts.dead
        assert left == (0, 0, 0, 0, 0), f"{stream.name}: {counts}"
    inner = inner_of(backend)
    if isinstance(inner, RedisBackend):
        await _check_redis(inner, await inner.streams())
    elif isinstance(inner, SqliteBackend):
        _check_sqlite(inner)


async def _end_all(backend: StreamRouter, stream: Stream) -> None:
    for record in await backend.records(stream, status=JobStatus.RUNNING, limit=10_000):
        await backend.cancel(stream, record.id, mark_us=HOUR_US)
    while (await backend.reclaim([stream], limit=100)).more:
        pass
    while await backend.purge(stream, mark_us=HOUR_US, limit=100):
        pass
    while letters := list(await backend.dead(stream, only=DeadFilter())):
        await backend.discard(stream, [letter.id for letter in letters])


async def _empty_topic(backend: StreamRouter, topic: Stream) -> None:
    """Remove its groups, and let everything in its log be too old."""
    while (await backend.promote([topic], limit=100)).count:
        pass
    await backend.arrange(topic, TopicRules(retention_us=1, strict=False))
    while (await backend.tend([group_stream(topic.name, "tidy")], limit=1000)).more:
        pass
    for record in (await backend.topics([topic.name]))[0].groups:
        assert await backend.remove_stream(record.stream)


async def _forget(stand: Stand, backend: StreamRouter) -> None:
    await stand.advance(LATER)
    while await backend.prune(limit=1000):
        pass


def _check_sqlite(backend: SqliteBackend) -> None:
    connection = apsw.Connection(str(backend._path), flags=apsw.SQLITE_OPEN_READONLY)
    try:
        for table in SQLITE_TABLES:
            assert connection.execute(f"SELECT * FROM headrace_{table}").fetchall() == [], f"in {table}"
    finally:
        connection.close()


# --- Redis -----------------------------------------------------------------------------------------------


async def _check_redis(backend: RedisBackend, streams: list[Stream]) -> None:
    store = backend._store
    for stream in streams:
        await _check_consumers(backend, stream)
    keys = await _keys(backend)
    times = await store.commands(*[("PTTL", key) for key in keys]) if keys else []
    lasting = [key.decode() for key, time in zip(keys, times, strict=True) if time == -1]
    assert [key for key in lasting if not is_permanent(key)] == []
    if keys:
        # So that the server stays small over many tests.
        await store.commands(*[("UNLINK", key) for key in keys])


async def _keys(backend: RedisBackend) -> list[bytes]:
    """Of the namespace, on every server that has some."""
    keys: list[bytes] = []
    for link in await backend._store.servers():
        [found] = await link.ask(pack(("KEYS", f"*{backend._store.namespace}*")))
        keys += found
    return keys


async def _check_consumers(backend: RedisBackend, stream: Stream) -> None:
    """Nothing waits or is held in any lane; and whoever leaves, leaves no name."""
    keys = backend._store.queue(stream).keys
    for name, key in zip(LANES, keys.lanes, strict=True):
        entries, pending = await _inside(backend, key)
        assert (entries, pending) == (0, 0), f"left in the lane {name} of {stream.name}"
    for consumer in await _consumers(backend, stream):
        await leave(backend, consumer, stream)
    assert await _consumers(backend, stream) == set()


async def _inside(backend: RedisBackend, key: bytes) -> tuple[int, int]:
    length = await backend._store.command("XLEN", key)
    return length, sum(group[b"pending"] for group in await _rows(backend, "GROUPS", key))


async def _consumers(backend: RedisBackend, stream: Stream) -> set[str]:
    return {
        row[b"name"].decode()
        for key in backend._store.queue(stream).keys.lanes
        if await _rows(backend, "GROUPS", key)
        for row in await _rows(backend, "CONSUMERS", key, GROUP)
    }


async def _rows(backend: RedisBackend, *words: Any) -> list[dict[bytes, Any]]:
    """An answer of XINFO; nothing of a stream that was never made."""
    if not await backend._store.command("EXISTS", words[1]):
        return []
    rows = await backend._store.command("XINFO", *words)
    return [dict(zip(row[::2], row[1::2], strict=True)) for row in rows]
