"""A job that waits is removed; one that runs is told."""

from __future__ import annotations

import asyncio

import pytest

from headrace import App, JobCancelled, JobStatus, current_job


async def test_a_waiting_job_is_removed() -> None:
    app = App("memory://")

    @app.task
    async def send(to: str) -> int:
        return 1

    async with app:
        job = await send.with_(delay=60).enqueue("ada")
        assert await job.cancel()
        assert await job.status() is JobStatus.CANCELLED
        with pytest.raises(JobCancelled):
            await job.result()


async def test_a_running_coroutine_is_cancelled() -> None:
    app = App("memory://")
    started = asyncio.Event()
    log: list[str] = []

    @app.task
    async def watch() -> int:
        started.set()
        try:
            await asyncio.Event().wait()
        finally:
            log.append("cleaned up")
        return 1

    async with app, app.worker():
        job = await watch.enqueue()
        await started.wait()
        await job.cancel()
        assert await job.wait(timeout=10) is JobStatus.CANCELLED
    assert log == ["cleaned up"]


async def test_a_thread_has_to_ask() -> None:
    app = App("memory://")
    started = asyncio.Event()

    @app.task
    def crunch() -> int:
        loop.call_soon_threadsafe(started.set)
        total = 0
        while not current_job().cancelled:
            total += sum(range(1000))
        return total

    loop = asyncio.get_running_loop()
    async with app, app.worker():
        job = await crunch.enqueue()
        await started.wait()
        await job.cancel()
        assert await job.wait(timeout=10) is JobStatus.CANCELLED
