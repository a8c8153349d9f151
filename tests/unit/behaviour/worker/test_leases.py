"""Workers of one queue that ask for different leases: one lease holds for all, and no worker loses a job that
it runs."""

from __future__ import annotations

import asyncio

from headrace import App, JobStatus, Limit, current_job, signals
from headrace.core.messages.message import Stream
from headrace.core.runtime.clock import MovableClock, microseconds
from tests.support.intercepted_store import InterceptedStore
from tests.support.waiting import wait_until
from tests.unit.behaviour.work import of, until


async def test_another_workers_lease_is_followed_and_announced_once(
    app: App, heard: list[signals.Signal]
) -> None:
    async with app.worker(lease=15), app.worker(lease=1):
        await wait_until(lambda: of(signals.LeaseChanged, heard))
    assert of(signals.LeaseChanged, heard) == [signals.LeaseChanged("default", 15.0, 1.0)]


async def test_a_worker_that_missed_the_announcement_learns_it_from_its_beat(
    app: App, store: InterceptedStore
) -> None:
    go = asyncio.Event()

    @app.task(name="long")
    async def long() -> None:
        await go.wait()

    job = await long.enqueue()
    store.intercept("listen", lambda hear: lambda: None)
    async with app.worker(lease=3600):
        await until(job, JobStatus.RUNNING)
        async with app.worker(lease=1800):
            await wait_until(lambda: job.id in store.renewed, message="a beat")
        go.set()


async def test_what_a_worker_holds_is_renewed_at_once_when_the_lease_becomes_shorter(
    app: App, store: InterceptedStore
) -> None:
    go = asyncio.Event()

    @app.task(name="long")
    async def long() -> int:
        await go.wait()
        return current_job().attempt

    job = await long.enqueue()
    async with app.worker(lease=3600):
        await until(job, JobStatus.RUNNING)
        assert store.renewed == []
        async with app.worker(lease=1800):
            await wait_until(lambda: store.renewed == [job.id])
            go.set()
            assert await job.result(timeout=10) == 1


async def test_a_job_outlives_a_shorter_lease_and_runs_once(app: App, store: InterceptedStore) -> None:
    runs, go = list[int](), asyncio.Event()

    @app.task(name="long")
    async def long() -> int:
        runs.append(current_job().attempt)
        await go.wait()
        return 1

    job = await long.enqueue()
    async with app.worker(lease=3) as first:
        await until(job, JobStatus.RUNNING)
        async with app.worker(lease=2):
            # For three seconds the longer lease holds beside the shorter one: about eight renewals.
            await wait_until(lambda: first.renewals >= 12, timeout=30)
            go.set()
            assert await job.result(timeout=10) == 1
    assert runs == [1]


async def test_a_slot_comes_back_also_when_no_worker_serves_the_queue_of_its_job_any_more(
    app: App, store: InterceptedStore, clock: MovableClock
) -> None:
    limits = [Limit("shared", max_running=1)]

    @app.task(queue="first", limits=limits)
    async def one() -> None: ...

    @app.task(queue="second", limits=limits)
    async def two() -> None: ...

    first = Stream("queue", "first")
    async with app.worker(queues=["second"], lease=15):
        await store.declare_stream(first, microseconds(15))
        await one.enqueue()
        assert len(await store.claim([first], consumer="gone", limit=1, suspects=1, wait=0)) == 1
        job = await two.enqueue()
        clock.advance(16)
        await until(job, JobStatus.SUCCEEDED)
