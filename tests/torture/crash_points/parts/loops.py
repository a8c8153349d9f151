"""Event loops that end without closing the app, plain code, and a worker that ends by itself."""

from __future__ import annotations

import asyncio

from tests.torture.crash_points.script import (
    LEASE,
    app,
    in_thread,
    note_groups,
    orders,
    plan,
    published,
    sent,
    sent_many,
    survived,
    work,
)


async def act() -> None:
    note_groups()
    for _ in range(2):
        await survived(asyncio.to_thread(asyncio.run, _shortly()))
    await survived(app.worker(lease=LEASE, grace=0.2).run(burst=True))
    await survived(app.close())
    await survived(asyncio.to_thread(asyncio.run, _shortly()))


async def _shortly() -> None:
    job = await sent(plan(), work)
    await sent_many(plan(), in_thread, 3)
    await published(orders)
    if job is not None:
        await survived(job.status())
