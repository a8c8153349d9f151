"""When a burst worker may end: nothing is queued, running, retrying or due any more."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from headrace.core.backend import Backend
from headrace.core.errors import BackendUnavailable
from headrace.core.message import Source

from .holdings import Holdings
from .settler import Settler
from .slots import Slots

#: Seconds between looks at the queues of a worker that has nothing in hand.
LOOK = 0.02

#: Seconds: long enough to mean "until it is so".
UNTIL_SO = 3600.0


async def until_drained(
    backend: Backend, sources: Sequence[Source], *, slots: Slots, settler: Settler, holdings: Holdings
) -> None:
    """Wait until there is nothing left that this worker could do, or that others do and may fail at."""
    while True:
        await slots.until_quiet(UNTIL_SO)
        await settler.flushed(UNTIL_SO)
        try:
            if not len(holdings) and await _nothing_left(backend, sources):
                return
        except BackendUnavailable:
            pass  # the services announce it; look again when the store is back
        await asyncio.sleep(LOOK)


async def _nothing_left(backend: Backend, sources: Sequence[Source]) -> bool:
    for source in sources:
        counts = await backend.counts(source.stream)
        waiting = 0 if counts.paused else counts.queued + counts.retrying + counts.due
        if counts.running or waiting:
            return False
    return True
