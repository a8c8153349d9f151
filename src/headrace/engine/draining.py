"""Decides when a burst worker may end: nothing is queued, running, retrying or due any more."""

from __future__ import annotations

import asyncio

from headrace.core.errors import BackendUnavailable

from .build import WorkerParts

#: Seconds between two checks of the queues, while the worker itself has no work.
LOOK = 0.02

#: Seconds. In practice a wait without a limit.
NO_LIMIT = 3600.0


async def until_drained(parts: WorkerParts) -> None:
    """Wait until no work is left for this worker. A job that runs elsewhere may fail and come back, so it
    counts too."""
    held, slots, subscriptions = parts.claims.held, parts.running.slots, parts.intake.subscriptions
    while True:
        await slots.until_quiet(NO_LIMIT)
        await parts.claims.in_flight.flushed(NO_LIMIT)
        try:
            looked = not len(held) and await subscriptions.have_nothing() and await _nothing_left(parts)
            if looked and slots.quiet and not len(held):
                return
        except BackendUnavailable:
            pass  # the services announce the outage; check again when the store is back
        await asyncio.sleep(LOOK)


async def _nothing_left(parts: WorkerParts) -> bool:
    for topic in tuple(parts.claims.served.topics):
        if (await parts.store.counts(topic)).due:
            return False
    for stream in tuple(parts.claims.served.claimed):
        counts = await parts.store.counts(stream)
        waiting = 0 if counts.paused else counts.queued + counts.retrying + counts.due
        if counts.running or waiting:
            return False
    return True
