"""Draws events for the groups that one consumer claims from, ahead of its claims."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

from headrace.core.messages.message import Stream
from headrace.stores.redis.client import ReplyError
from headrace.stores.redis.client.connection import Link
from headrace.stores.redis.scripts import DRAW
from headrace.stores.redis.server.faults import is_out_of_memory
from headrace.stores.redis.server.server import RedisServer
from headrace.stores.redis.stream_scripts import ScriptCall, StreamScripts

#: The script's answer for a group that the server had lost.
CAME_BACK = 2

#: AWAITED: milliseconds for which publishers wake a group that has nothing. LOOK: seconds after which its
#: members look again once their read has ended; it must be shorter. MEND: seconds between two looks for keys
#: that no message holds any more.
AWAITED, LOOK, MEND = 12000, 3.5, 3.0


class EventDrawer:
    """A publish hands events to groups that have drawn the whole log. All other events are drawn here: those
    behind a full lane, after a reset, and for a group that was lost."""

    def __init__(self, store: RedisServer, link: Link) -> None:
        self._store = store
        self._link = link
        self._looked = self._mended = 0.0
        #: Groups that were removed.
        self.gone: set[StreamScripts] = set()

    def calls(self, queues: Sequence[StreamScripts], limit: int, *, waits: bool) -> list[ScriptCall]:
        self._looked = now = time.monotonic()
        mends = now > self._mended + MEND
        if mends:
            self._mended = now
        awaited = AWAITED if waits else 0
        return [
            queue.call(DRAW, limit, self._store.wants_order(queue.stream), awaited, int(mends))
            for queue in _groups(queues)
        ]

    @property
    def is_due(self) -> bool:
        """Whether to draw during a wait. This is rarely needed, because a publish ends the wait by itself.
        A new join of a removed group does not."""
        return bool(self.gone) or time.monotonic() > self._looked + LOOK

    async def draw_again(self, queues: Sequence[StreamScripts], limit: int) -> bool:
        return self.is_due and await self.draw(queues, limit)

    async def draw(self, queues: Sequence[StreamScripts], limit: int) -> bool:
        """Draw; answers whether events were drawn, more can be drawn, or a group came or went."""
        calls = self.calls(queues, limit, waits=True)
        if not calls:
            return False
        return await self.note(
            queues, await self._store.run_all(calls, self._link, tolerates=is_out_of_memory)
        )

    async def note(self, queues: Sequence[StreamScripts], replies: Sequence[Any]) -> bool:
        """Note the answers. A server that is out of memory draws nothing; what is in the lanes still runs."""
        changed = False
        for queue, reply in zip(_groups(queues), replies, strict=True):
            if isinstance(reply, ReplyError):
                continue
            presence, drawn, more = reply
            changed = changed or drawn > 0 or more > 0 or (queue in self.gone) == bool(presence)
            (self.gone.discard if presence else self.gone.add)(queue)
            if presence == CAME_BACK:
                # A server that lost the group may have lost the list of streams too.
                await self._store.list_streams(queue.stream, Stream("topic", queue.stream.topic))
        return changed


def _groups(queues: Sequence[StreamScripts]) -> list[StreamScripts]:
    return [queue for queue in queues if queue.stream.kind == "group"]
