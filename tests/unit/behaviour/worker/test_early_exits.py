"""However a worker is made to leave, leases end or are handed back, and closing the app returns."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from headrace import App, Job, JobStatus, RetryPolicy, signals
from headrace.engine.worker.worker import Worker
from tests.support.intercepted_store import InterceptedStore
from tests.support.waiting import wait_until
from tests.unit.behaviour.work import of


class Waiting:
    """A job that runs until it is cancelled."""

    def __init__(self, app: App) -> None:
        self.inside = asyncio.Event()

        @app.task(name="wait", retry=RetryPolicy.fixed(3, 60))
        async def wait() -> None:
            self.inside.set()
            await asyncio.Event().wait()

        self.task = wait

    async def running(self) -> Job[None]:
        job = await self.task.enqueue()
        await self.inside.wait()
        return job


async def cut_short(app: App) -> tuple[Worker, Job[None]]:
    """A worker whose stop was given up while a job ran, and that job."""
    waiting = Waiting(app)
    worker = app.worker()
    await worker.__aenter__()
    job = await waiting.running()
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(worker.stop(), 0.01)
    return worker, job


async def test_a_stop_that_is_cut_short_is_completed(app: App, heard: list[signals.Signal]) -> None:
    worker, job = await cut_short(app)
    await asyncio.wait_for(worker.stop(), 10)
    assert await job.status() is JobStatus.QUEUED
    assert len(of(signals.WorkerStopped, heard)) == 1
    await asyncio.wait_for(app.close(), 10)


async def test_closing_the_app_after_a_stop_that_was_cut_short(app: App) -> None:
    _, job = await cut_short(app)
    await asyncio.wait_for(app.close(), 10)
    assert await job.status() is JobStatus.QUEUED


async def test_a_second_stop_takes_the_grace_away(app: App) -> None:
    waiting = Waiting(app)
    async with app.worker() as worker:
        job = await waiting.running()
        first = asyncio.create_task(worker.stop())
        await asyncio.sleep(0)
        await asyncio.wait_for(worker.stop(), 10)
        await first
    assert await job.status() is JobStatus.QUEUED


async def test_a_stop_that_is_cancelled_before_its_first_step_is_begun_anew(
    app: App, heard: list[signals.Signal]
) -> None:
    worker = app.worker()
    await worker.__aenter__()
    others = asyncio.all_tasks()
    stopping = asyncio.create_task(worker.stop())
    await asyncio.sleep(0)  # it has made a task of its own, which has not begun
    for task in asyncio.all_tasks() - others:
        task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await stopping
    await asyncio.wait_for(worker.stop(), 10)
    assert len(of(signals.WorkerStopped, heard)) == 1
    await asyncio.wait_for(app.close(), 10)


def _interrupt() -> None:
    raise KeyboardInterrupt


async def interrupted(worker: Worker, inside: asyncio.Event) -> None:
    """As by a second Ctrl-C in a program that has a worker in it."""
    async with worker:
        await inside.wait()
        asyncio.get_running_loop().call_soon(_interrupt)
        await asyncio.Event().wait()


async def returned(worker: Worker, inside: asyncio.Event) -> None:
    """The worker is a task, and the main function does not wait for it."""
    working = asyncio.create_task(worker.run())
    await inside.wait()
    assert not working.done()


async def returned_while_it_stops(worker: Worker, inside: asyncio.Event) -> None:
    await worker.__aenter__()
    await inside.wait()
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(worker.stop(), 0.01)


@pytest.mark.parametrize("main", [interrupted, returned, returned_while_it_stops])
def test_jobs_are_handed_back_when_the_event_loop_ends(
    main: Callable[[Worker, asyncio.Event], Coroutine[Any, Any, None]],
) -> None:
    app = App("memory://")
    jobs: list[Job[None]] = []

    async def program() -> None:
        waiting = Waiting(app)
        jobs.append(await waiting.task.enqueue())
        await main(app.worker(), waiting.inside)

    with contextlib.suppress(KeyboardInterrupt):
        asyncio.run(program())
    info = app.sync.info(jobs[0])
    assert info.status in (JobStatus.QUEUED, JobStatus.SCHEDULED)  # it may be ready only after a second
    assert info.attempts == 0
    app.sync.close()


@pytest.mark.parametrize("error", [asyncio.CancelledError, KeyboardInterrupt, SystemExit, ValueError])
@pytest.mark.parametrize("in_a_task", [False, True])
async def test_whatever_a_listener_raises_the_worker_goes_on(
    app: App, error: type[BaseException], in_a_task: bool
) -> None:
    @app.task(name="double")
    async def double(n: int) -> int:
        return 2 * n

    def plain(signal: signals.Signal) -> None:
        raise error

    async def asynchronous(signal: signals.Signal) -> None:
        raise error

    app.on(signals.Signal)(asynchronous if in_a_task else plain)
    async with app.worker():
        for n in range(3):
            assert await (await double.enqueue(n)).result(timeout=10) == 2 * n
    await asyncio.wait_for(app.close(), 10)


async def test_a_service_that_somebody_cancels_goes_on(app: App) -> None:
    @app.task(name="double")
    async def double(n: int) -> int:
        return 2 * n

    async with app.worker():
        for task in asyncio.all_tasks():
            if task is not asyncio.current_task() and task.get_name().startswith("headrace"):
                task.cancel()
        assert await (await double.enqueue(4)).result(timeout=10) == 8


async def test_a_second_signal_ends_a_worker_whose_store_hangs(
    app: App, store: InterceptedStore, heard: list[signals.Signal]
) -> None:
    waiting = Waiting(app)
    worker = app.worker()
    running = asyncio.create_task(worker.run())
    await waiting.running()
    hanging: list[str] = []

    def hangs(verb: str) -> Any:
        def hang(*args: Any, **kwargs: Any) -> Coroutine[Any, Any, None]:
            hanging.append(verb)
            return asyncio.sleep(3600)

        return hang

    for verb in (
        "claim",
        "settle",
        "heartbeat",
        "promote",
        "reclaim",
        "prune",
        "report_progress",
        "count_traffic",
    ):
        store.intercept(verb, hangs(verb))
    store.wake(worker.id)
    await wait_until(lambda: "claim" in hanging)
    os.kill(os.getpid(), signal.SIGTERM)
    await wait_until(lambda: of(signals.WorkerStopping, heard))
    os.kill(os.getpid(), signal.SIGTERM)
    await asyncio.wait_for(running, 10)
    assert "settle" in hanging
