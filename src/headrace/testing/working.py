"""The worker of a test: its jobs may end, but it stops when the test is cancelled or fails."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

from headrace.app import App
from headrace.engine.worker.worker import Worker

#: Seconds for a job that was enqueued just when the worker was about to stop: it may end.
GRACE = 3600.0


@asynccontextmanager
async def working(
    app: App, *, queues: Sequence[str], concurrency: int, events: bool = False
) -> AsyncIterator[Worker]:
    """Run a worker for these queues during this block, on this event loop, with all events or none."""
    topics: list[str] | None = None if events else []
    worker = app.worker(queues=queues, topics=topics, concurrency=concurrency, grace=GRACE)
    worker._fires = False  # only messages of the test run, no schedules
    async with worker:
        try:
            yield worker
        except BaseException:
            worker._hurry.set()
            raise
