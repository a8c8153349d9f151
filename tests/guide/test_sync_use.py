"""Programs without an event loop use `app.sync`: Django, Flask, scripts."""

from __future__ import annotations

import asyncio

from headrace import App, JobStatus


def test_a_plain_program() -> None:
    app = App("memory://")

    @app.task
    async def add(a: int, b: int) -> int:
        return a + b

    job = app.sync.enqueue(add.call(2, 3))
    assert app.sync.status(job) is JobStatus.QUEUED

    asyncio.run(app.worker().run(burst=True))  # a worker, elsewhere in real life

    assert app.sync.result(job, timeout=10) == 5
    app.sync.close()


async def test_inside_a_job_that_is_a_plain_function() -> None:
    app = App("memory://")

    @app.task
    async def add(a: int, b: int) -> int:
        return a + b

    @app.task
    def double(n: int) -> int:
        job = app.sync.enqueue(add.call(n, n))
        return app.sync.result(job, timeout=10)

    async with app, app.worker():
        job = await double.enqueue(21)
        assert await job.result(timeout=10) == 42
