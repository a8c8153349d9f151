"""The steps of splitting a queue, for tests in which the process that splits it dies in between."""

from __future__ import annotations

from headrace.core.messages.message import Stream
from headrace.core.rules.layout import Layout
from headrace.core.store import Store
from headrace.engine.streams.layouts import StoredLayouts


async def propose(store: Store, queue: Stream, parts: int) -> Layout:
    """Store the number that is wanted, unless a change is under way; gives what stands then."""
    layouts = StoredLayouts(store)
    stored = await layouts.read(queue)
    return await layouts.swap(queue, stored, stored.with_proposal(parts))


async def adopt(store: Store, queue: Stream) -> Layout:
    """Finish the change that is under way."""
    layouts = StoredLayouts(store)
    stored = await layouts.read(queue)
    now_us = (await store.schedules([queue])).now_us
    return await layouts.swap(queue, stored, stored.with_adoption(now_us))


async def seal(store: Store, stream: Stream) -> None:
    """Let nothing be appended to a part, or to the queue itself, from now on."""
    await StoredLayouts(store).seal(stream)
