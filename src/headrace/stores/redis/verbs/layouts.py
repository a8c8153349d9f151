"""Stores which parts a stream has, in a field of the stream's own hash. A swap changes the field only if it
is still as it was read."""

from __future__ import annotations

from headrace.core.messages.message import Stream
from headrace.core.rules.layout import WHOLE, Layout, decode_layout, encode_layout
from headrace.stores.redis.scripts import SWAP_LAYOUT
from headrace.stores.redis.server.faults import DamagedReply
from headrace.stores.redis.server.server import RedisServer


class RedisLayouts:
    _store: RedisServer

    async def layout(self, stream: Stream) -> Layout:
        try:
            stored = await self._store.command("HGET", self._store.queue(stream).keys.meta, "layout")
        except DamagedReply:
            stored = None  # as a layout that cannot be read: requests about other streams also ask for it
        return decode_layout(stored)

    async def swap_layout(self, stream: Stream, expected: Layout, new: Layout) -> Layout:
        before = b"" if expected == WHOLE else encode_layout(expected)
        found = await self._swap(stream, before, new)
        if found != encode_layout(new) and found != before and decode_layout(found) == expected:
            # A layout that cannot be read counts as a whole stream, and is replaced.
            found = await self._swap(stream, found, new)
        return decode_layout(found)

    async def _swap(self, stream: Stream, expected: bytes, new: Layout) -> bytes:
        call = self._store.queue(stream).call(SWAP_LAYOUT, expected, encode_layout(new), int(new.sealed))
        found: bytes = await self._store.run(call)
        return found
