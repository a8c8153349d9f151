"""Finds out with one plain command whether a message was queued since the last look. Readers that do not
block use it.

A claim that finds a queue empty leaves a mark there. The next message that is queued removes the mark
(`lua/claim/claim.lua`, `lua/shared/queueing.lua`). So a queue has nothing new while it still has the mark
that the last look found or left.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from math import inf
from typing import Any

from headrace.stores.redis.client.connection import Link, pack
from headrace.stores.redis.queue import StreamScripts

#: Seconds after which a reader looks even if the marks are unchanged: a mark does not show that a group was
#: destroyed by hand. A mark must live longer than this.
LOOK = 60.0


class ChangeMarks:
    """The marks of the queues that one reader looks at."""

    def __init__(self, link: Link) -> None:
        self._link = link
        self._marks: dict[StreamScripts, bytes] = {}
        self._looked_at = -inf

    def note(self, queues: Sequence[StreamScripts], marks: Sequence[Any]) -> None:
        """Remember the marks that a look at these queues found or left."""
        self._looked_at = time.monotonic()
        self._marks = {queues[source - 1]: mark for source, mark in marks}

    async def are_unchanged(self, queues: Sequence[StreamScripts]) -> bool:
        """Whether nothing was queued in any of the queues since the last look. False for a group: its topic
        may have events that the group has not drawn yet."""
        is_recent = time.monotonic() < self._looked_at + LOOK
        if not is_recent or any(queue.stream.kind == "group" or queue not in self._marks for queue in queues):
            return False
        commands = [pack(("GET", queue.keys.awaited)) for queue in queues]
        replies = await self._link.ask(b"".join(commands), len(commands))
        # An error reply counts as a change. The look that follows raises the error.
        return replies == [self._marks[queue] for queue in queues]
