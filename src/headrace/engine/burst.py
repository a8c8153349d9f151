"""When a burst worker may end: nothing is queued, running, retrying or due any more."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence

from headrace.core.errors import BackendUnavailable
from headrace.core.message import Source

from .holdings import Holdings
from .settler import Settler
from .slots import Slots
from .streams import StreamRouter

#: Seconds between looks at the queues of a worker that has nothing in hand.
LOOK = 0.02

#: Seconds: long enough to mean "until it is so".
UNTIL_SO = 3600.0


async def until_drained(
    backend: StreamRouter,
    sources: Sequence[Source],
    *,
    topics: Sequence[Source],
    slots: Slots,
    settler: Settler,
    holdings: Holdings,
    nothing_else: Callable[[], Awaitable[bool]],
) -> None:
    """Wait until there is nothing left that this worker could do, or that others do and may fail at.

    `topics` are where events wait for their time; `nothing_else` tells of what the store does not count.
    """
    while True:
        await slots.until_quiet(UNTIL_SO)
        await settler.flushed(UNTIL_SO)
        try:
            looked = (
                not len(holdings) and await nothing_else() and await _nothing_left(backend, sources, topics)
            )
            if looked and slots.quiet and not len(holdings):
                return
        except BackendUnavailable:
            pass  # the services announce it; look again when the store is back
        await asyncio.sleep(LOOK)


async def _nothing_left(backend: StreamRouter, sources: Sequence[Source], topics: Sequence[Source]) -> bool:
    for topic in tuple(topics):
        if (await backend.counts(topic.stream)).due:
            return False
    for source in tuple(sources):
        counts = await backend.counts(source.stream)
        waiting = 0 if counts.paused else counts.queued + counts.retrying + counts.due
        if counts.running or waiting:
            return False
    return True
