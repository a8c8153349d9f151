"""Reads the log of a topic for one consumer. Reads and waits use a connection of their own."""

from __future__ import annotations

import asyncio
from time import monotonic
from typing import Any

from headrace.core.encoding.decoding import text_of
from headrace.core.messages.message import Stream
from headrace.core.runtime.clock import SECOND
from headrace.core.topics.topic import LogEntry, Reading, Start
from headrace.stores.redis.client import ReplyError
from headrace.stores.redis.client.connection import Link, pack
from headrace.stores.redis.entries import message_of, read_score
from headrace.stores.redis.intake.blocking_read import BlockingRead
from headrace.stores.redis.keys import TopicKeys
from headrace.stores.redis.server.faults import can_heal
from headrace.stores.redis.server.server import RedisServer

from .log_position import position_of

#: Seconds that a read blocks at most.
BLOCK = 2.0

#: Limits of one request: events, and bytes, estimated from the size of earlier events.
ITEMS, BYTES = 500, 1 << 20

#: Assumed bytes of a body before the first event was read.
BODY_SIZE = 10_000.0


class LogReader:
    """A read changes nothing on the server. So a read whose caller was cancelled can just be ended."""

    def __init__(self, store: RedisServer) -> None:
        self._store = store
        self._links: dict[int, Link] = {}  # by `RedisServer.share`
        self._turns = asyncio.Lock()
        self._blocking = BlockingRead(store)
        self._wake_asked = False
        self._body_size = BODY_SIZE
        self._used_at = monotonic()

    @property
    def idle_for(self) -> float:
        """Seconds since the last read."""
        return 0.0 if self._turns.locked() else monotonic() - self._used_at

    async def read(self, topic: Stream, after: int | Start, limit: int, wait: float) -> Reading:
        loop = asyncio.get_running_loop()
        until = loop.time() + wait
        async with self._turns:
            if isinstance(after, Start):
                after = await position_of(self._store, self._store.queue(topic), after)
            while True:
                reading = await self._after(topic, after, limit)
                left = until - loop.time()
                self._used_at = monotonic()
                if self._was_woken() or reading.entries or left <= 0:
                    return reading
                after = reading.position
                await self._block(topic, after, min(left, BLOCK))

    def wake(self) -> None:
        self._wake_asked = True
        self._blocking.unblock()

    async def stop(self) -> None:
        self.wake()
        async with self._turns:
            self.drop()

    def drop(self) -> None:
        """Close the connections; the next read makes new ones."""
        for link in self._links.values():
            link.drop()

    def _link(self, topic: Stream) -> Link:
        queue = self._store.queue(topic)
        share = self._store.share(queue)
        if share not in self._links:
            self._links[share] = self._store.new_link(queue=queue)
        return self._links[share]

    def _was_woken(self) -> bool:
        woken, self._wake_asked = self._wake_asked, False
        return woken

    async def _after(self, topic: Stream, after: int, limit: int) -> Reading:
        """The events after a position. A log that was deleted by hand is read from its beginning."""
        keys = TopicKeys(self._store.namespace, topic.name)
        count = max(1, min(limit, ITEMS, int(BYTES / self._body_size)))
        (seconds, microseconds), last, rows = await self._store.commands(
            ("TIME",),
            ("HGET", keys.meta, "last"),
            ("XRANGE", keys.log, after + 1, "+", "COUNT", count),
            queue=self._store.queue(topic),
        )
        now_us = int(seconds) * SECOND + int(microseconds) + self._store.offset_us()
        is_readable = not last or last.isdigit()
        known = int(last) if last and is_readable else 0
        if is_readable and after > known and not rows:
            return await self._after(topic, 0, limit) if last else Reading((), 0, now_us)
        # Entries after the last known event were written by another program, and were not published.
        entries = tuple(entry for entry in map(_entry, rows) if not known or entry.number <= known)
        if entries:
            self._body_size = max(1.0, (self._body_size + len(entries[-1].body)) / 2)
        return Reading(entries, entries[-1].number if entries else after, now_us)

    async def _block(self, topic: Stream, after: int, seconds: float) -> None:
        """Wait until an event comes after the position, `wake` is called, or the time is up."""
        log = TopicKeys(self._store.namespace, topic.name).log
        head = ("XREAD", "COUNT", 1, "BLOCK", max(1, round(seconds * 1000)))
        link = self._link(topic)
        wire = await link.connected()
        if self._wake_asked:
            return
        try:
            reply = await self._blocking.ask(wire, pack((*head, "STREAMS", log, after)), seconds)
        except asyncio.CancelledError:
            self._blocking.unblock()  # otherwise the next read would wait behind this one
            raise
        if isinstance(reply, ReplyError) and not can_heal(reply):
            self._store.check([reply], link)


def _entry(row: Any) -> LogEntry:
    """The event in a row, as lua/shared/topics/topic.lua describes it."""
    entry, fields = row
    event, number = message_of(fields), int(entry.partition(b"-")[0])
    return LogEntry(
        number,
        text_of(event.get(b"i", b"")) or f"unreadable-{number}",
        text_of(event.get(b"t", b"")),
        event.get(b"m", b""),
        read_score(event.get(b"a", b"0")),
        expires_us=read_score(event.get(b"e", b"0")),
        key=text_of(event.get(b"k", b"")),
    )
