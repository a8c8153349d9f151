"""The entries with which workers announce themselves: reads and removes them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from headrace.core.encoding.decoding import DECODE_ERRORS
from headrace.core.messages.message import Stream
from headrace.core.records.record import WorkerInfo
from headrace.stores.redis.scripts import LEAVE
from headrace.stores.redis.server.server import RedisServer


class WorkerEntry(msgspec.Struct, frozen=True, array_like=True):
    """A worker, and until when the store lists it."""

    until_us: int
    worker: WorkerInfo


encode_worker = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(WorkerEntry).decode


def read_worker(value: bytes) -> WorkerEntry | None:
    """The entry of a worker; None: it is of another version, or damaged."""
    try:
        return _decode(value)
    except DECODE_ERRORS:
        return None


async def forget_silent_workers(store: RedisServer, limit: int) -> int:
    """Remove workers whose last heartbeat is too old, and entries that cannot be read; answers how many."""
    workers = await store.command("HGETALL", store.keys.workers)
    now_us = store.now_us()
    gone = [
        consumer
        for consumer, value in zip(workers[::2], workers[1::2], strict=True)
        if (seen := read_worker(value)) is None or seen.until_us <= now_us
    ][:limit]
    if gone:
        await store.command("HDEL", store.keys.workers, *gone)
    return len(gone)


async def forget_leaving_worker(
    store: RedisServer, worker: WorkerInfo, readers: Mapping[str, Sequence[Stream]]
) -> None:
    """Remove the worker, and the names of its readers that hold no messages."""
    await store.command("HDEL", store.keys.workers, worker.consumer)
    calls = [
        store.queue(stream).call(LEAVE, consumer)
        for consumer, streams in readers.items()
        for stream in streams
    ]
    if calls:
        await store.run_all(calls)
