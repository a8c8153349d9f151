"""How far an ordered group has come over the changes of its topic.

A key leads to another part after a change. So that its events are handled in their order, an ordered group
takes nothing from a generation before it is done with the ones before: nothing is left there that it has not
drawn, that waits, runs or is to run again. Dead letters hold up nothing.

A sealed generation that a group is done with stays so, unless somebody sets the group back. So nobody looks
while a group that has come through waits for events. When some have come, the last look must not be older
than `OPEN_FOR`; else there is another, and what came too early is handed back. `reset` waits for longer than
that before it goes on to the next generation: a look that counts for an event there has seen the one before.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from typing import Final

import msgspec

from headrace.core.backend import Backend
from headrace.core.layout import whole_stream
from headrace.core.message import Stream, group_stream

from .topic_places import Ranks

#: Seconds for which a look counts for events that are claimed.
OPEN_FOR: Final = 1.0

#: Seconds after which a claim that waits looks again because a generation is held up; longer each time until
#: something happens, and at most so long.
CLOSED_FOR: Final = 0.2
CLOSED_FOR_MOST: Final = 1.0

#: Seconds between two looks whether there is an event left to go back to.
LOG_EVERY: Final = 60.0


class Look(msgspec.Struct, frozen=True):
    """How many of these generations were open, the oldest first, when somebody looked. `held_up` says in
    which part something was left, and how long to wait before the next look."""

    ranks: Ranks
    open: int
    at: float
    held_up: tuple[str, float] | None = None

    @property
    def counts(self) -> bool:
        return time.monotonic() < self.at + OPEN_FOR


class Gate:
    def __init__(self, inner: Backend) -> None:
        self._inner = inner
        self._looks: dict[Stream, Look] = {}
        #: Groups of parts that can hold up nothing any more: there is no event left to go back to.
        self._over: set[Stream] = set()
        self._log_seen_at: dict[Stream, float] = {}

    async def open_ranks(self, group: Stream, ranks: Ranks) -> tuple[int, float | None]:
        """How many generations the group may claim from, the oldest first, and for how many seconds that
        holds; None: until the layout changes. Of what is claimed, ask for `closed_parts`."""
        look = self._looks.get(group)
        if look is None or look.held_up or look.ranks != ranks:
            look = await self._look(group, ranks)
        return look.open, look.held_up[1] if look.held_up else None

    async def closed_parts(self, group: Stream, ranks: Ranks, claimed: set[str]) -> set[str]:
        """Those of the parts in which was claimed that must wait for an older one, by a look that counts."""
        if claimed.issubset(ranks[0]):
            return set()
        look = self._looks.get(group)
        if look is None or look.ranks != ranks or not look.counts:
            look = await self._look(group, ranks)
        return claimed.intersection(part for rank in ranks[look.open :] for part in rank)

    def close(self, group: Stream) -> None:
        """Look again before the next claim."""
        self._looks.pop(group, None)
        self._over = {stream for stream in self._over if whole_stream(stream) != group}

    async def _look(self, group: Stream, ranks: Ranks) -> Look:
        before = self._looks.get(group)
        at = time.monotonic()
        for number, rank in enumerate(ranks[:-1], 1):
            part = await self.left_in(group, rank, before.held_up[0] if before and before.held_up else "")
            if part is not None:
                look = Look(ranks, number, at, (part, _next_wait(before)))
                break
        else:
            look = Look(ranks, len(ranks), at)
        latest = self._looks.get(group)
        if latest is None or latest.at <= at:
            self._looks[group] = look
        return look

    async def left_in(self, group: Stream, rank: Sequence[str], likely: str = "") -> str | None:
        """One of these parts in which something is left for the group; the likely one is asked first."""
        if likely in rank and await self._has_left(group, likely):
            return likely
        parts = [part for part in rank if group_stream(part, group.group) not in self._over]
        found = await asyncio.gather(*(self._has_left(group, part) for part in parts))
        return next((part for part, left in zip(parts, found, strict=True) if left), None)

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


def _next_wait(before: Look | None) -> float:
    if before is None or before.held_up is None:
        return CLOSED_FOR
    return min(2 * before.held_up[1], CLOSED_FOR_MOST)
