"""The worker of a test: it lets its jobs end, but does not outlive a test that was cancelled or failed."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

from headrace.app import App
from headrace.engine.worker import Worker

#: Seconds. Somebody may have enqueued just as the worker was about to stop: that job is not cut off.
GRACE = 3600.0


@asynccontextmanager
async def working(
    app: App, *, queues: Sequence[str], concurrency: int, events: bool = False
) -> AsyncIterator[Worker]:
    """Work on these queues meanwhile, on this event loop, and on all events or none."""
    topics: list[str] | None = None if events else []
    worker = app.worker(queues=queues, topics=topics, concurrency=concurrency, grace=GRACE)
    worker._fires = False  # nothing but what the test enqueued
    async with worker:
        try:
            yield worker
        except BaseException:
            worker._hurry.set()
            raise
