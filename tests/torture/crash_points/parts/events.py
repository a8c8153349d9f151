"""Events to topics with one and with two parts: ordered, in batches, settled by hand, fed to jobs, to every
process; with delays, and one group that reads everything again."""

from __future__ import annotations

import asyncio

from tests.torture.campaign import left_over
from tests.torture.crash_points.script import (
    LEASE,
    app,
    note_groups,
    note_replay,
    orders,
    published,
    sales,
    survived,
    wide,
)
from tests.torture.fleet import wait_until


async def act() -> None:
    note_groups()
    async with app.worker(lease=LEASE, grace=0.2, concurrency=10):
        await published(sales)
        await published(orders)
        await published(orders, 10, key="a")
        await published(wide, 10, key="a")
        await published(wide)
        await published(orders, key="a", fails=1)
        await published(orders, delay=0.2)
        await published(wide, delay=0.2)
        await asyncio.gather(*(published(orders, key=f"k{number}") for number in range(3)))
        await survived(wait_until(_handled, timeout=30))
        note_replay("again")
        await survived(wide.replay(group="again", since="beginning"))
        for topic, group in (("orders", "batch"), ("wide", "again")):
            await survived(anext(app.admin.tail(topic, group=group, follow=False), None))


async def _handled() -> bool:
    found = await survived(left_over(app))
    return found is not None and not any("group" in each or "topic" in each for each in found)
