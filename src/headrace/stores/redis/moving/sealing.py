"""Seals the store: refuses what is new, sets the content aside, and deletes it in the end.

A seal is written for the namespace first, where every process looks before it first uses a stream. Then each
stream is sealed, where every append looks anyway.
"""

from __future__ import annotations

from typing import Final

from headrace.core.messages.message import Stream
from headrace.core.moving.moving import SetAside
from headrace.core.moving.seal import Seal, decode_seal, encode_seal
from headrace.core.rules.layout import whole_stream
from headrace.stores.redis.keys import CHILD_LANES, QueueKeys, label_of, stream_of
from headrace.stores.redis.scripts import RESET, SEAL_STORE, SEAL_STREAM, SET_ASIDE
from headrace.stores.redis.server.labels import labels_of, readable_texts
from headrace.stores.redis.server.server import RedisServer

from .aside_keys import MessageKeys, aside, call_at, unique_prefix

#: Keys that one command deletes.
DELETED: Final = 500

#: The answer of a reset that must be called again.
UNFINISHED: Final = 2


async def read_seal(store: RedisServer) -> Seal | None:
    content = await store.command("GET", store.keys.seal)
    return decode_seal(content) if isinstance(content, bytes) else None


async def sealed_streams(store: RedisServer) -> list[Stream]:
    """The streams that are sealed, topics before their groups."""
    labels = readable_texts(await store.command("SMEMBERS", store.keys.sealed))
    return sorted(map(stream_of, labels), key=lambda stream: (stream.kind == "group", stream.name))


async def write_seal(store: RedisServer, seal: Seal) -> None:
    await store.run(call_at(SEAL_STORE, store.keys.seal, encode_seal(seal)))
    for label in _with_wholes(await labels_of(store)):
        await store.run(call_at(SEAL_STORE, store.keys.sealed, "names", label))
    for stream in await sealed_streams(store):
        await store.run(store.queue(stream).call(SEAL_STREAM, f"{seal.stage} {seal.target}"))


def _with_wholes(labels: list[str]) -> list[str]:
    """The labels, and those of queues and topics of which only the parts are listed: they have the layout."""
    streams = map(stream_of, labels)
    wholes = [label_of(whole_stream(stream)) for stream in streams if stream.kind != "group"]
    return list(dict.fromkeys((*labels, *wholes)))


async def remove_seal(store: RedisServer) -> None:
    for stream in await sealed_streams(store):
        await store.run(store.queue(stream).call(SEAL_STREAM, ""))
    await store.command("DEL", store.keys.sealed)
    await store.command("DEL", store.keys.seal)


async def set_aside(store: RedisServer) -> None:
    for stream in await sealed_streams(store):
        queue = store.queue(stream)
        if stream.kind == "group":
            await _finish_reset(store, stream)
        keys = queue.keys.content
        call = queue.call(SET_ASIDE, *keys, *map(aside, keys))
        while not await store.run(call):
            pass  # lines are left


async def _finish_reset(store: RedisServer, group: Stream) -> None:
    """Carry out the steps of a reset that are left."""
    queue = store.queue(group)
    while await store.command("HEXISTS", queue.keys.meta, "clearing"):
        if await store.run(queue.call(RESET, "further", 0)) != UNFINISHED:
            return


async def list_aside(store: RedisServer) -> list[SetAside]:
    return [await _counts(store, stream) for stream in await sealed_streams(store)]


async def _counts(store: RedisServer, stream: Stream) -> SetAside:
    keys = store.queue(stream).keys
    content = AsideContent(keys)
    lanes = [("XLEN", key) for key in content.lanes]
    queued_sets = [("ZCARD", key) for key in (content.lined, content.parked)]
    sets = [("ZCARD", key) for key in (content.due, content.retry, content.dead)]
    commands = (*lanes, *queued_sets, *sets, ("XLEN", content.log))
    *lengths, due, retrying, dead, events = await store.commands(*commands)
    queued = sum(lengths)
    return SetAside(stream, queued, due, retrying, dead, events if stream.kind == "topic" else 0)


class AsideContent:
    """The keys of a stream that was set aside, by name. `lanes` are by number."""

    def __init__(self, keys: QueueKeys) -> None:
        prefix = keys.meta.removesuffix(b"meta")
        self.lane_numbers = tuple(sorted({*range(1, 6), *CHILD_LANES}))
        self.lanes = tuple(aside(keys.by_lane[lane]) for lane in self.lane_numbers)
        self.messages = aside(prefix + b"msg")
        self.due, self.retry, self.dead = (aside(prefix + name) for name in (b"due", b"retry", b"dead"))
        self.schedules = aside(prefix + b"sched")
        self.lined, self.parked, self.lines, self.deferred = (
            aside(prefix + name) for name in (b"lined", b"parked", b"keys", b"deferred")
        )
        self.log = aside(prefix + b"log")


async def delete(store: RedisServer) -> None:
    """Delete what was set aside. Of each stream its seal stays, with what a worker needs to wait in peace."""
    found = MessageKeys(store)
    for stream in await sealed_streams(store):
        keys = store.queue(stream).keys
        of_messages = await found.of(keys.end_record_prefix) + await found.of(unique_prefix(keys))
        gone = [*map(aside, keys.content), *keys.content, *keys.beside_content, *of_messages]
        for start in range(0, len(gone), DELETED):
            await store.commands(*(("UNLINK", key) for key in gone[start : start + DELETED]))
        fields = (await store.command("HGETALL", keys.meta))[::2]
        if rest := [field for field in fields if field not in (b"paused", b"held", b"lease")]:
            await store.command("HDEL", keys.meta, *rest)
        await store.command("SREM", store.keys.streams, label_of(stream))
