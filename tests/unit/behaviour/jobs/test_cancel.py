"""Cancelling: what waits is removed, what runs is told, and it stays cancelled whatever happens next."""

from __future__ import annotations

import asyncio
import threading
from functools import partial

import pytest

from headrace import (
    App,
    JobCancelled,
    JobStatus,
    RetryLater,
    RetryPolicy,
    Run,
    Snooze,
    Worker,
    current_job,
    signals,
)
from headrace.core.runtime.clock import MovableClock
from headrace.engine.declared.registry import CallNext
from headrace.store import Stream
from tests.support.intercepted_store import InterceptedStore
from tests.support.waiting import wait_until, wait_until_sync
from tests.unit.behaviour.work import LONG, drain, of, until


async def test_a_waiting_job_is_removed_at_once(app: App) -> None:
    ran: list[int] = []

    @app.task(name="see")
    async def see() -> int:
        ran.append(1)
        return 1

    job = await see.enqueue()
    assert await job.cancel()
    assert await job.status() is JobStatus.CANCELLED
    with pytest.raises(JobCancelled, match=f"job {job.id} was cancelled"):
        await job.result()
    await drain(app)
    assert ran == []
    assert not await job.cancel()


async def test_a_scheduled_job_is_removed_at_once(app: App, clock: MovableClock) -> None:
    ran: list[int] = []

    @app.task(name="see")
    async def see() -> int:
        ran.append(1)
        return 1

    job = await see.with_(delay=60).enqueue()
    assert await job.cancel()
    clock.advance(61)
    await drain(app)
    assert ran == []
    assert await job.status() is JobStatus.CANCELLED


async def test_whoever_waits_for_it_is_woken(app: App) -> None:
    @app.task(name="see")
    async def see() -> int:
        return 1

    job = await see.enqueue()
    waiting = asyncio.create_task(job.result(timeout=10))
    await asyncio.sleep(0)
    await job.cancel()
    with pytest.raises(JobCancelled):
        await waiting


async def test_the_end_record_of_a_cancelled_job_is_kept_for_the_apps_result_ttl(clock: MovableClock) -> None:
    async with App("memory://", clock=clock, result_ttl=60) as app:

        @app.task(name="see")
        async def see() -> int:
            return 1

        job = await see.enqueue()
        await job.cancel()
        clock.advance(50)
        assert await job.status() is JobStatus.CANCELLED
        clock.advance(11)
        assert await job.status() is JobStatus.UNKNOWN


async def test_a_running_coroutine_is_cancelled_where_it_waits(app: App, heard: list[signals.Signal]) -> None:
    cleaned: list[bool] = []
    inside = asyncio.Event()

    @app.task(name="hang")
    async def hang() -> int:
        inside.set()
        try:
            await asyncio.Event().wait()
        finally:
            cleaned.append(current_job().cancelled)
        return 1

    job = await hang.enqueue()
    async with app.worker():
        await inside.wait()
        assert await job.cancel()
        with pytest.raises(JobCancelled):
            await job.result(timeout=10)
        await wait_until(lambda: of(signals.JobCancelled, heard))
    assert cleaned == [True]
    assert of(signals.JobCancelled, heard) == [signals.JobCancelled(job.id, "hang", "default")]
    assert of(signals.JobFailed, heard) == []


async def test_a_coroutine_that_cleans_up_slowly_is_not_cancelled_again(
    app: App, store: InterceptedStore
) -> None:
    inside, cleaning, gate = asyncio.Event(), asyncio.Event(), asyncio.Event()
    cleaned: list[str] = []

    @app.task(name="hang")
    async def hang() -> int:
        inside.set()
        try:
            await asyncio.Event().wait()
        finally:
            cleaning.set()
            await gate.wait()
            cleaned.append("done")
        return 1

    job = await hang.enqueue()
    async with app.worker(lease=LONG) as worker:
        await inside.wait()
        await job.cancel()
        await cleaning.wait()
        for again in (1, 2, 3):  # each renewal says it again
            store.change_lease(Stream("queue", "default"), LONG / 2**again)
            await wait_until(partial(_has_renewed, worker, again))
        gate.set()
        await job.wait(timeout=10)
    assert cleaned == ["done"]
    assert await job.status() is JobStatus.CANCELLED


async def test_a_coroutine_that_swallows_the_cancellation_is_cancelled_all_the_same(app: App) -> None:
    inside = asyncio.Event()

    @app.task(name="hang")
    async def hang() -> int:
        inside.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            pass
        await asyncio.sleep(0)
        return 1

    job = await hang.enqueue()
    async with app.worker(concurrency=1):
        await inside.wait()
        await job.cancel()
        with pytest.raises(JobCancelled):
            await job.result(timeout=10)


@pytest.mark.parametrize("error", [ValueError("no"), RetryLater(0), Snooze(0)])
async def test_whatever_a_cancelled_handler_raises_it_is_cancelled(app: App, error: Exception) -> None:
    inside = asyncio.Event()

    @app.task(name="hang", retry=RetryPolicy.fixed(5, 0))
    async def hang() -> int:
        inside.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            raise error from None
        return 1

    job = await hang.enqueue()
    async with app.worker():
        await inside.wait()
        await job.cancel()
        assert await job.wait(timeout=10) is JobStatus.CANCELLED


async def test_what_a_thread_was_told_ends_the_middleware_after_it(app: App) -> None:
    @app.use
    async def hang(run: Run, call_next: CallNext) -> object:
        await call_next(run)
        return await asyncio.Event().wait()

    @app.task(name="see")
    def see() -> None:
        wait_until_sync(lambda: current_job().cancelled)

    job = await see.enqueue()
    async with app.worker(grace=0):
        await until(job, JobStatus.RUNNING)
        await job.cancel()
        assert await job.wait(timeout=10) is JobStatus.CANCELLED


async def test_a_thread_is_told_and_its_value_is_discarded(app: App) -> None:
    inside = threading.Event()

    @app.task(name="hang")
    def hang() -> int:
        run = current_job()
        inside.set()
        wait_until_sync(lambda: run.cancelled)
        return 1

    job = await hang.enqueue()
    async with app.worker():
        await wait_until(inside.is_set)
        assert await job.cancel()
        with pytest.raises(JobCancelled):
            await job.result(timeout=10)


async def test_a_missed_announcement_is_made_good_by_the_renewal(app: App, store: InterceptedStore) -> None:
    inside = asyncio.Event()

    @app.task(name="hang")
    async def hang() -> int:
        inside.set()
        await asyncio.Event().wait()
        return 1

    job = await hang.enqueue()
    store.intercept("listen", lambda hear: lambda: None)
    async with app.worker(lease=0.1):
        await inside.wait()
        await job.cancel()
        assert await job.wait(timeout=10) is JobStatus.CANCELLED


async def test_a_retrying_job_is_removed_at_once(app: App, store: InterceptedStore) -> None:
    runs: list[int] = []

    @app.task(name="fail", retry=RetryPolicy.fixed(5, 60))
    async def fail() -> int:
        runs.append(1)
        raise ValueError("no")

    job = await fail.enqueue()
    async with app.worker(lease=LONG):
        await until(job, JobStatus.RETRYING)
        assert await job.cancel()
        assert await job.status() is JobStatus.CANCELLED
        store.pass_time(61)
    assert runs == [1]


async def test_a_job_that_a_worker_has_only_buffered_is_cancelled_before_it_starts(
    app: App, store: InterceptedStore
) -> None:
    gate, ran = asyncio.Event(), list[int]()

    @app.task(name="see")
    async def see(n: int) -> int:
        ran.append(n)
        await gate.wait()
        return n

    jobs = await app.enqueue_many([see.call(n) for n in range(3)])
    store.ahead = 1
    async with app.worker(concurrency=1):
        await wait_until(lambda: ran)
        assert await jobs[1].cancel()
        assert await jobs[1].wait(timeout=10) is JobStatus.CANCELLED
        gate.set()
        assert await jobs[2].result(timeout=10) == 2
    assert ran == [0, 2]


async def test_what_is_over_cannot_be_cancelled(app: App) -> None:
    @app.task(name="see", retry=RetryPolicy.none())
    async def see(fail: bool) -> int:
        if fail:
            raise ValueError("no")
        return 1

    done, dead = await see.enqueue(False), await see.enqueue(True)
    await drain(app)
    assert not await done.cancel()
    assert not await dead.cancel()
    assert await done.result() == 1
    assert await dead.status() is JobStatus.DEAD


async def test_many_are_cancelled_through_the_admin(app: App) -> None:
    @app.task(name="see")
    async def see(n: int) -> int:
        return n

    @app.task(name="hear", queue="sounds")
    async def hear(n: int) -> int:
        return n

    jobs = [await see.enqueue(1), await hear.enqueue(2), await see.enqueue(3)]
    assert await app.admin.cancel([jobs[0].id, jobs[1].id, "no-such-job"]) == 2
    assert [await job.status() for job in jobs] == [
        JobStatus.CANCELLED,
        JobStatus.CANCELLED,
        JobStatus.QUEUED,
    ]
    assert await app.admin.cancel([jobs[2].id], queue="sounds") == 0


async def test_a_job_may_cancel_itself(app: App) -> None:
    @app.task(name="see")
    async def see() -> int:
        await app.job(current_job().id).cancel()
        await asyncio.Event().wait()
        return 1

    job = await see.enqueue()
    async with app.worker():
        assert await job.wait(timeout=10) is JobStatus.CANCELLED


def _has_renewed(worker: Worker, times: int) -> bool:
    return worker.renewals >= times
