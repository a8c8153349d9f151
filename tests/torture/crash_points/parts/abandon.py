"""A process that is killed in the middle of its work, in every round. It leaves jobs and events that no
worker holds any more."""

from __future__ import annotations

import asyncio
import os
import signal

from tests.torture.crash_points.script import (
    LEASE,
    app,
    in_thread,
    note_groups,
    orders,
    plan,
    program,
    published,
    sent,
    sent_many,
    wide,
    work,
    work_in_parts,
)
from tests.torture.fleet import wait_until


async def act() -> None:
    note_groups()
    async with app.worker(lease=LEASE, concurrency=10) as worker:
        await published(orders, 3, key="a")
        await published(wide, 3, key="a")
        await asyncio.gather(*(sent(plan(), work, 5.0) for _ in range(3)))
        await asyncio.gather(*(sent(plan(), in_thread, 5.0) for _ in range(2)))
        await sent_many(plan(), work_in_parts, 10)
        await sent_many(plan(), work, 10)
        await wait_until(lambda: worker.running >= 5, timeout=30)
        recorder = program.recorder
        recorder.write("fault_begun", value="abandoned", run="abandoned", targets=(recorder.process,))
        os.kill(os.getpid(), signal.SIGKILL)
