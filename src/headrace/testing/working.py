"""The worker of a test: it lets its jobs end, but does not outlive a test that was cancelled or failed."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

from headrace.app import App

#: Seconds. Somebody may have enqueued just as the worker was about to stop: that job is not cut off.
GRACE = 3600.0


@asynccontextmanager
async def working(app: App, *, queues: Sequence[str], concurrency: int) -> AsyncIterator[None]:
    """Work on these queues meanwhile, on this event loop."""
    worker = app.worker(queues=queues, concurrency=concurrency, grace=GRACE)
    worker._fires = False  # nothing but what the test enqueued
    async with worker:
        try:
            yield
        except BaseException:
            worker._hurry.set()
            raise
