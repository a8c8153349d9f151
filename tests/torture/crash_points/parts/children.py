"""Jobs in child processes: more than there are children, one that is cancelled while it runs, one that waits
for a child, and one that runs when the worker stops."""

from __future__ import annotations

import asyncio

from tests.torture.crash_points.script import (
    LEASE,
    app,
    cancelled,
    in_process,
    plan,
    sent,
    stopped,
    survived,
)
from tests.torture.program import RESULT_TIMEOUT


async def act() -> None:
    async with app.worker(lease=LEASE, grace=0.2, children=1, queues=["cpu"], topics=[]) as worker:
        first = await sent(plan(), in_process)
        second = await sent(plan(), in_process)
        for job in (first, second):
            if job is not None:
                await survived(job.wait(timeout=RESULT_TIMEOUT))
        running = await sent(plan(), in_process, 5.0)
        if running is not None:
            await _until_running(running.id)
            await cancelled(running)
        last = await sent(plan(), in_process, 5.0)
        if last is not None:
            await _until_running(last.id)
        await stopped(worker)


async def _until_running(id: str) -> None:
    while True:
        status = await survived(app.job(id, queue="cpu").status())
        if status not in ("queued", "scheduled"):
            return
        await asyncio.sleep(0.02)
