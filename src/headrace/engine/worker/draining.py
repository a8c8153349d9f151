"""Decides when a burst worker may end: nothing is queued, running, retrying or due any more."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import TYPE_CHECKING

from headrace.core.errors import BackendUnavailable
from headrace.core.messages.message import Stream

if TYPE_CHECKING:
    from .parts import WorkerParts

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
    """Follow the way of messages: from topics to groups, through outboxes, to queues."""
    served = parts.claims.served
    for topic in tuple(served.topics):
        if (await parts.store.counts(topic)).due:
            return False
    for _ in range(2):  # a job of a queue may have died, and its queue forwards a call to another queue
        if not (
            await _are_idle(parts, tuple(served.groups))
            and await _are_relayed(parts)
            and await _are_idle(parts, tuple(served.queues))
        ):
            return False
        if not parts.upkeep.relays:
            break
    return True


async def _are_idle(parts: WorkerParts, streams: Iterable[Stream]) -> bool:
    for stream in streams:
        counts = await parts.store.counts(stream)
        waiting = 0 if counts.paused else counts.queued + counts.retrying + counts.due
        if counts.running or waiting:
            return False
    return True


async def _are_relayed(parts: WorkerParts) -> bool:
    for relay in parts.upkeep.relays:
        if not await relay.source.is_empty():
            relay.poke()
            return False
    return True
