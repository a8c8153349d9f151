"""Jobs on the event loop and in threads: alone and many at once, in two parts of a queue, with delays, unique
keys, retries, timeouts, progress, results, cancellations and a schedule. The worker stops while a job
runs."""

from __future__ import annotations

import asyncio

from tests.torture.crash_points.script import (
    LEASE,
    OFTEN,
    app,
    cancelled,
    in_thread,
    messages,
    overrun,
    plan,
    program,
    sent,
    sent_many,
    stopped,
    survived,
    work,
    work_in_parts,
)
from tests.torture.program import RESULT_TIMEOUT


async def act() -> None:
    async with app.worker(lease=LEASE, grace=0.2, concurrency=10, topics=[]) as worker:
        await asyncio.gather(*(_one_after_the_other(), _side_by_side(), _for_a_while()))
        last = await sent(plan(), work, 5.0)
        if last is not None:
            await _until_running(last.id)
        await stopped(worker)


async def _one_after_the_other() -> None:
    quick = await sent(plan(), work)
    if quick is not None:
        await survived(program.read_result(messages[quick.id], quick))
    for fails in (1, 3):
        job = await sent(plan(fails=fails), work, 0.0, fails)
        if job is not None:
            await survived(job.wait(timeout=RESULT_TIMEOUT))
            await survived(job.status())
            await survived(app.job(job.id).info())


async def _side_by_side() -> None:
    await sent_many(plan(), work, 20)
    await sent_many(plan(), work_in_parts, 20)
    await asyncio.gather(*(sent(plan(), in_thread, 0.05) for _ in range(3)))
    parted = await asyncio.gather(*(sent(plan(), work_in_parts) for _ in range(3)))
    for job in parted:
        if job is not None:
            await survived(program.read_result(messages[job.id], job))
    keys = [sent(plan(unique="default/one"), work, 0.1, unique_key="one") for _ in range(2)]
    await asyncio.gather(*keys)


async def _for_a_while() -> None:
    """What takes time: a delay, a timeout, progress, cancellations before and while a job runs, and two times
    of the schedule."""
    delayed = await sent(plan(delay=0.2), work, delay=0.2)
    await sent(plan(), overrun)
    reporting = await sent(plan(), work, 1.0)  # long enough for its lease to be renewed
    waiting = await sent(plan(delay=4.0), work, delay=4.0)
    running = await sent(plan(), work, 30.0)
    if running is not None:
        await _until_running(running.id)
    for job in (waiting, running):
        if job is not None:
            await cancelled(job)
    for job in (delayed, reporting):
        if job is not None:
            await survived(app.job(job.id).wait(timeout=RESULT_TIMEOUT))
    await asyncio.sleep(OFTEN)


async def _until_running(id: str) -> None:
    """Until a job is taken, or over."""
    while True:
        status = await survived(app.job(id, queue="default").status())
        if status not in ("queued", "scheduled"):
            return
        await asyncio.sleep(0.02)
