"""Whether anything was queued since one looked, for those who do not block: one plain command tells.

Whoever finds a queue empty leaves a mark there, and whatever is queued next takes it away
(`lua/claim/claim.lua`, `lua/shared/queueing.lua`). So a queue has nothing new while it has the mark that the
last look found or left.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from math import inf
from typing import Any

from headrace.stores.redis.client.connection import Link, pack
from headrace.stores.redis.queue import StreamScripts

#: Seconds after which a look is made all the same: a mark says nothing of a group that was destroyed by hand.
#: A mark must stay longer.
LOOK = 60.0


class ChangeMarks:
    """Of the queues that one reader looks at."""

    def __init__(self, link: Link) -> None:
        self._link = link
        self._marks: dict[StreamScripts, bytes] = {}
        self._looked_at = -inf

    def note(self, queues: Sequence[StreamScripts], marks: Sequence[Any]) -> None:
        """A look at these queues has found or left these marks."""
        self._looked_at = time.monotonic()
        self._marks = {queues[source - 1]: mark for source, mark in marks}

    async def are_unchanged(self, queues: Sequence[StreamScripts]) -> bool:
        """Whether nothing was queued in any of them since the last look. Groups have to look: there may be
        events that were not drawn yet."""
        is_recent = time.monotonic() < self._looked_at + LOOK
        if not is_recent or any(queue.stream.kind == "group" or queue not in self._marks for queue in queues):
            return False
        commands = [pack(("GET", queue.keys.awaited)) for queue in queues]
        replies = await self._link.ask(b"".join(commands), len(commands))
        # An error is for the look to tell.
        return replies == [self._marks[queue] for queue in queues]
