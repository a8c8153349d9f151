"""The steps of splitting a queue one by one, for tests in which whoever splits it dies in between."""

from __future__ import annotations

from headrace.backends.partitioned.layouts import seal
from headrace.core.backend import Backend
from headrace.core.layout import Layout
from headrace.core.message import Stream

__all__ = ["propose", "seal"]


async def propose(store: Backend, queue: Stream, parts: int) -> Layout:
    """Store the number that is wanted, unless a change is under way; gives what stands then."""
    stored = await store.layout(queue)
    return await store.swap_layout(queue, stored, stored.with_proposal(parts))
