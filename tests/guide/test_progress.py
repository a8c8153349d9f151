"""A job reports its progress, and its handle shows it."""

from __future__ import annotations

import asyncio
import threading

from headrace import App, Job, JobProgress, current_job
from tests.support.waiting import wait_until


async def seen(job: Job[int]) -> JobProgress:
    """What `info()` tells of it, once there is something."""

    async def there() -> bool:
        return (await job.info()).progress is not None

    await wait_until(there)
    progress = (await job.info()).progress
    assert progress is not None
    return progress


async def test_a_coroutine_says_how_far_it_is() -> None:
    app = App("memory://")
    read_on = asyncio.Event()

    @app.task
    async def read_all(lines: int) -> int:
        for line in range(lines):
            await current_job().progress(line / lines, f"line {line}")  # as often as you like
            if line == 4:
                await read_on.wait()
        return lines

    async with app, app.worker():
        job = await read_all.enqueue(10)
        progress = await seen(job)
        assert (progress.fraction, progress.text) == (0.4, "line 4")
        assert progress.at is not None
        read_on.set()
        assert await job.result(timeout=10) == 10
        assert (await job.info()).progress is None  # it is over


async def test_a_plain_function_says_it_too() -> None:
    app = App("memory://")
    go_on = threading.Event()

    @app.task
    def crunch() -> int:  # the same with run_in="process"
        current_job().progress_sync(0.5, "half of it")
        go_on.wait(10)
        return 1

    async with app, app.worker():
        job = await crunch.enqueue()
        assert (await seen(job)).text == "half of it"
        go_on.set()
        assert await job.result(timeout=10) == 1
