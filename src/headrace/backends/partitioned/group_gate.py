"""How far an ordered group has come over the changes of its topic.

A key leads to another part after a change. So that its events are handled in their order, an ordered group
takes nothing from a generation before it is done with the ones before: nothing is left there that it has not
drawn, that waits, runs or is to run again. Dead letters hold up nothing.

A sealed generation that a group is done with stays so, unless somebody sets the group back. That is seen
within `OPEN_FOR`, and `reset` waits for longer than that before it goes on to the next generation.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from typing import Final

from headrace.core.backend import Backend
from headrace.core.message import Stream, group_stream

from .topic_places import Ranks

#: Seconds for which all generations count as open before somebody looks again, and after which a claim that
#: waits looks again because they were not.
OPEN_FOR: Final = 1.0
CLOSED_FOR: Final = 0.2

#: Seconds between two looks whether there is an event left to go back to.
LOG_EVERY: Final = 60.0


class Gate:
    def __init__(self, inner: Backend) -> None:
        self._inner = inner
        #: Groups for which all generations were open, and until when that holds.
        self._open: dict[Stream, tuple[Ranks, float]] = {}
        #: Groups of parts that can hold up nothing any more: there is no event left to go back to.
        self._over: set[Stream] = set()
        self._log_seen_at: dict[Stream, float] = {}

    async def open_ranks(self, group: Stream, ranks: Ranks) -> tuple[int, float | None]:
        """How many generations the group may claim from, the oldest first, and for how many seconds that
        holds; None: until the layout changes."""
        known = self._open.get(group)
        if known is not None and known[0] == ranks and time.monotonic() < known[1]:
            return len(ranks), known[1] - time.monotonic()
        looked_at = time.monotonic()
        for number, rank in enumerate(ranks[:-1], 1):
            if await self.has_left(group, rank):
                self._open.pop(group, None)
                return number, CLOSED_FOR
        if all(group_stream(part, group.group) in self._over for rank in ranks[:-1] for part in rank):
            return len(ranks), None
        self._open[group] = ranks, looked_at + OPEN_FOR
        return len(ranks), OPEN_FOR

    def close(self, group: Stream) -> None:
        """Look again before the next claim."""
        self._open.pop(group, None)
        self._over = {stream for stream in self._over if not _is_of(stream, group)}

    async def has_left(self, group: Stream, rank: Sequence[str]) -> bool:
        """Whether something is left for the group in these parts."""
        parts = [part for part in rank if group_stream(part, group.group) not in self._over]
        return any(await asyncio.gather(*(self._has_left(group, part) for part in parts)))

    async def _has_left(self, group: Stream, part: str) -> bool:
        stream = group_stream(part, group.group)
        own = await self._inner.counts(stream)
        if own.queued or own.running or own.retrying or own.scheduled:
            return True
        if time.monotonic() - self._log_seen_at.get(stream, -LOG_EVERY) >= LOG_EVERY:
            self._log_seen_at[stream] = time.monotonic()
            log = await self._inner.counts(Stream("topic", part))
            if not log.queued and not log.scheduled:
                self._over.add(stream)
        return False


def _is_of(part: Stream, group: Stream) -> bool:
    return part.group == group.group and part.topic.partition("#")[0] == group.topic
